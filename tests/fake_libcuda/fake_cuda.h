// How tests steer the stand-in for the CUDA driver and read what was asked of it. Reached by dlsym; every
// function here is exported by the fake libcuda.so.1 beside the driver's own entry points.
//
// Environment, read when the library is loaded (for child processes):
//   CSAJIT_FAKE_CUDA_VERSION    cuDriverGetVersion; 13000. Functions newer than that are missing
//   CSAJIT_FAKE_CUDA_DEVICES    compute capabilities of the devices; "90,90"
//   CSAJIT_FAKE_CUDA_LOAD_FILE  a file that gets one line for each process that loads the library
//
// It is as strict as the real driver where csajit depends on it: an image must be "fake cubin\n<arch
// option>\n<lowered name>\n" for a target that runs on the device (or an ELF file); a function launches only on a
// stream of its own context and only while its module is loaded; a module load or unload on a thread whose
// capture mode is not relaxed breaks every capture.
#pragma once

#include <cuda.h>
#include <stddef.h>

struct FakeLaunch {
  CUfunction function;
  const char* kernel;  // lowered name
  CUcontext context;   // of the function
  CUcontext current;   // on the launching thread
  CUstream stream;
  unsigned grid;
  unsigned block;
  unsigned smem_bytes;
  void* params;          // the array that was handed over
  void* argument;        // its first element
  bool function_loaded;  // by cuFuncLoad, before the launch
  bool captured;
  unsigned char bytes[512];  // copied from argument
  size_t num_bytes;
};

extern "C" {
// Forgets settings, counters and launches. Contexts, streams and modules stay.
typedef void FakeCudaReset(void);
typedef CUcontext FakeCudaCreateContext(int device);
typedef void FakeCudaDestroyContext(CUcontext context);
// As a device reset: the handle stays, its id is new and its modules are gone.
typedef void FakeCudaResetContext(CUcontext context);
typedef CUstream FakeCudaCreateStream(CUcontext context);
typedef void FakeCudaSetCurrent(CUcontext context);
typedef CUcontext FakeCudaGetCurrent(void);
typedef void FakeCudaBeginCapture(CUstream stream);
// Whether the capture was still valid.
typedef bool FakeCudaEndCapture(CUstream stream);
// The next `times` calls of a driver function fail (-1: all). One rule a function.
typedef void FakeCudaFail(const char* function, CUresult code, int times);
// What cuFuncGetParamInfo says; reset restores one LaunchArgs.
typedef void FakeCudaSetParameters(const size_t* bytes, int count);
// What CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK says; reset restores 1024.
typedef void FakeCudaSetMaxThreads(int threads);
// What a launched compressor_validate_offsets writes as its verdict; reset restores "all is good".
typedef void FakeCudaSetVerdict(unsigned long long verdict);
typedef int FakeCudaCalls(const char* function);
typedef int FakeCudaNumLaunches(void);
// Valid until reset; nullptr past the end. The first 1024 are kept.
typedef const FakeLaunch* FakeCudaLaunchAt(int index);
typedef int FakeCudaLoadedModules(CUcontext context);

FakeCudaReset fake_cuda_reset;
FakeCudaCreateContext fake_cuda_create_context;
FakeCudaDestroyContext fake_cuda_destroy_context;
FakeCudaResetContext fake_cuda_reset_context;
FakeCudaCreateStream fake_cuda_create_stream;
FakeCudaSetCurrent fake_cuda_set_current;
FakeCudaGetCurrent fake_cuda_get_current;
FakeCudaBeginCapture fake_cuda_begin_capture;
FakeCudaEndCapture fake_cuda_end_capture;
FakeCudaFail fake_cuda_fail;
FakeCudaSetParameters fake_cuda_set_parameters;
FakeCudaSetMaxThreads fake_cuda_set_max_threads;
FakeCudaSetVerdict fake_cuda_set_verdict;
FakeCudaCalls fake_cuda_calls;
FakeCudaNumLaunches fake_cuda_num_launches;
FakeCudaLaunchAt fake_cuda_launch_at;
FakeCudaLoadedModules fake_cuda_loaded_modules;
}
