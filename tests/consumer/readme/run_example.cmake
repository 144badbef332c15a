# Runs a program of the README: with a GPU it must be right, without one it must fail with csajit's own words.
#
#   cmake -DPROGRAM=path -P run_example.cmake
execute_process(COMMAND "${PROGRAM}" RESULT_VARIABLE CODE OUTPUT_VARIABLE OUT ERROR_VARIABLE ERR)
message(STATUS "exit ${CODE}\n${OUT}${ERR}")
file(GLOB GPUS /dev/nvidia[0-9]*)
if(GPUS)
  if(NOT CODE EQUAL 0 OR NOT OUT MATCHES ": right\n$")
    message(FATAL_ERROR "there is a GPU, and the program did not say that its results are right")
  endif()
elseif(NOT CODE EQUAL 1 OR NOT ERR MATCHES "CSAJIT_E_(DRIVER_NOT_FOUND|DRIVER|NO_CONTEXT): ")
  message(FATAL_ERROR "there is no GPU, and the program did not end with csajit's error")
endif()
