# Third-party headers. Everything is compiled in and hidden: no target here adds a library to link, except the
# system's own threads and dynamic loader.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_path(CSAJIT_XXHASH_INCLUDE_DIR xxhash.h REQUIRED DOC "Folder of xxhash.h")

# cuda.h, cudaTypedefs.h and nvrtc.h are needed to compile, never to run.
find_path(
  CSAJIT_CUDA_INCLUDE_DIR
  NAMES cudaTypedefs.h
  HINTS ENV CUDA_HOME ENV CUDA_PATH
  # The second is where tools/dev unpacks the wheels, seen from a build tree beside it.
  PATHS /usr/local/cuda "${CMAKE_BINARY_DIR}/../cuda-wheels/nvidia/cu13"
  PATH_SUFFIXES include
  DOC "Folder of cuda.h, cudaTypedefs.h and nvrtc.h")
if(NOT CSAJIT_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "No cudaTypedefs.h found. Set CUDA_HOME, or -DCSAJIT_CUDA_INCLUDE_DIR=<folder of cuda.h and "
                      "nvrtc.h>; `tools/dev setup` fetches the headers where there is no CUDA toolkit.")
endif()
foreach(HEADER cuda.h nvrtc.h)
  if(NOT EXISTS "${CSAJIT_CUDA_INCLUDE_DIR}/${HEADER}")
    message(FATAL_ERROR "${CSAJIT_CUDA_INCLUDE_DIR} has cudaTypedefs.h but no ${HEADER}")
  endif()
endforeach()
# The typedefs of cuFuncLoad and cuFuncGetParamInfo came with 12.4; what runs may be as old as 12.0.
file(STRINGS "${CSAJIT_CUDA_INCLUDE_DIR}/cuda.h" CUDA_VERSION_LINE REGEX "^#define CUDA_VERSION [0-9]+$")
string(REGEX REPLACE "[^0-9]" "" CUDA_VERSION_NUMBER "${CUDA_VERSION_LINE}")
if(CUDA_VERSION_NUMBER LESS 12040)
  message(FATAL_ERROR "${CSAJIT_CUDA_INCLUDE_DIR} holds the headers of CUDA ${CUDA_VERSION_NUMBER}; 12040 or newer is needed")
endif()

add_library(csajit_dependencies INTERFACE)
target_link_libraries(csajit_dependencies INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
# spdlog::spdlog_header_only would bring in the shared libfmt; its headers with this macro do not.
target_compile_definitions(csajit_dependencies INTERFACE SPDLOG_FMT_EXTERNAL)
target_include_directories(
  csajit_dependencies SYSTEM
  INTERFACE "${CSAJIT_CUDA_INCLUDE_DIR}" "${CSAJIT_XXHASH_INCLUDE_DIR}"
            $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>
            $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(csajit_fmt STATIC "${CMAKE_CURRENT_LIST_DIR}/fmt_implementation.cpp")
  set_target_properties(csajit_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                              VISIBILITY_INLINES_HIDDEN ON)
  target_compile_features(csajit_fmt PRIVATE cxx_std_20)
  target_include_directories(csajit_fmt SYSTEM PRIVATE
                             $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(csajit_dependencies INTERFACE csajit_fmt)
else()
  target_link_libraries(csajit_dependencies INTERFACE fmt::fmt-header-only)
endif()

if(CSAJIT_BUILD_TOOL)
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  add_library(csajit_tool_dependencies INTERFACE)
  target_link_libraries(csajit_tool_dependencies INTERFACE CLI11::CLI11 nlohmann_json::nlohmann_json)
endif()
if(CSAJIT_BUILD_TESTS)
  find_package(doctest REQUIRED)
endif()
