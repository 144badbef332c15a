// The CUDA driver as a table of functions, resolved by cuGetProcAddress with the version of each one's own
// typedef. dlopened when a device is first needed; never linked; never closed.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "base/result.hpp"

namespace csajit {

// X(function, version): the member `function` has type PFN_<function>_v<version>, and exactly that version is asked
// of the driver, so that the two cannot part. All of them are the legacy-stream variants.

// Without one of these there is no driver. The library synchronises and uses memory in a validated launch only.
#define CSAJIT_DRIVER_REQUIRED(X)             \
  X(cuInit, 2000)                             \
  X(cuDriverGetVersion, 2020)                 \
  X(cuGetErrorName, 6000)                     \
  X(cuGetErrorString, 6000)                   \
  X(cuDeviceGet, 2000)                        \
  X(cuDeviceGetCount, 2000)                   \
  X(cuDeviceGetName, 2000)                    \
  X(cuDeviceGetAttribute, 2000)               \
  X(cuCtxGetCurrent, 4000)                    \
  X(cuCtxGetDevice, 2000)                     \
  X(cuCtxGetId, 12000)                        \
  X(cuCtxPushCurrent, 4000)                   \
  X(cuCtxPopCurrent, 4000)                    \
  X(cuStreamGetCtx, 9020)                     \
  X(cuStreamIsCapturing, 10000)               \
  X(cuThreadExchangeStreamCaptureMode, 10010) \
  X(cuModuleLoadData, 2000)                   \
  X(cuModuleUnload, 2000)                     \
  X(cuModuleGetFunction, 2000)                \
  X(cuFuncGetAttribute, 2020)                 \
  X(cuFuncSetAttribute, 9000)                 \
  X(cuLaunchKernel, 4000)                     \
  X(cuLaunchKernelEx, 11060)                  \
  X(cuPointerGetAttribute, 4000)              \
  X(cuStreamSynchronize, 2000)                \
  X(cuMemAlloc, 3020)                         \
  X(cuMemFree, 3020)                          \
  X(cuMemcpyDtoHAsync, 3020)

// nullptr on drivers before 12.4; every use asks.
#define CSAJIT_DRIVER_OPTIONAL(X) \
  X(cuFuncLoad, 12040)            \
  X(cuFuncIsLoaded, 12040)        \
  X(cuFuncGetParamInfo, 12040)

// Only what owns a context and streams of its own may use these: the csajit tool, never the library.
// Every driver has them; missing_tool_function() is asked once before the first use.
#define CSAJIT_DRIVER_TOOL(X)           \
  X(cuDeviceTotalMem, 3020)             \
  X(cuDevicePrimaryCtxRetain, 7000)     \
  X(cuDevicePrimaryCtxRelease, 11000)   \
  X(cuCtxSetCurrent, 4000)              \
  X(cuCtxSynchronize, 2000)             \
  X(cuStreamCreate, 2000)               \
  X(cuStreamDestroy, 4000)              \
  X(cuStreamBeginCapture, 10010)        \
  X(cuStreamEndCapture, 10000)          \
  X(cuGraphInstantiateWithFlags, 11040) \
  X(cuGraphLaunch, 10000)               \
  X(cuGraphExecDestroy, 10000)          \
  X(cuGraphDestroy, 10000)              \
  X(cuEventCreate, 2000)                \
  X(cuEventRecord, 2000)                \
  X(cuEventSynchronize, 2000)           \
  X(cuEventElapsedTime, 2000)           \
  X(cuEventDestroy, 4000)               \
  X(cuMemGetInfo, 3020)                 \
  X(cuMemcpyHtoD, 3020)                 \
  X(cuMemcpyDtoH, 3020)                 \
  X(cuMemcpyHtoDAsync, 3020)            \
  X(cuMemsetD8, 3020)                   \
  X(cuMemsetD8Async, 3020)

struct DriverApi {
  std::string path;  // of libcuda.so.1
  int version = 0;   // cuDriverGetVersion, 13000 for 13.0

// cuda.h renames some of these by macro (cuMemAlloc to cuMemAlloc_v2). That touches the member and its uses alike,
// and neither the typedef nor the name asked of the driver, since ## and # take the name as it is written.
#define CSAJIT_DRIVER_MEMBER(function, asked) PFN_##function##_v##asked function = nullptr;
  CSAJIT_DRIVER_REQUIRED(CSAJIT_DRIVER_MEMBER)
  CSAJIT_DRIVER_OPTIONAL(CSAJIT_DRIVER_MEMBER)
  CSAJIT_DRIVER_TOOL(CSAJIT_DRIVER_MEMBER)
#undef CSAJIT_DRIVER_MEMBER

  // "CUDA_ERROR_INVALID_VALUE: invalid argument"
  std::string describe(CUresult code) const;
  // Name of a function of the tool group that this driver lacks, or nullptr.
  const char* missing_tool_function() const;
};

// The process's driver: opened and cuInit'ed by the first call. Threads that race here may each open it, which
// is harmless; no lock is held meanwhile. Errors: CSAJIT_E_DRIVER_NOT_FOUND (with dlerror, or the missing
// function's name, or a driver older than 12.0 with both versions), CSAJIT_E_DRIVER (cuInit's own error),
// CSAJIT_E_FORKED (the process was forked after the driver was initialised). A failure is not kept: the next
// call tries again.
Result<const DriverApi*> driver_api();

// True if driver_api() has succeeded in this process and it was forked since; costs one load, no system call.
bool forked_since_driver_init();

inline constexpr int oldest_driver_version = 12000;

// The steps of driver_api(), for tests. resolve_driver fills the table through `get_proc_address` and nothing
// else; start_driver checks the version, resolves and calls cuInit; open_driver does that for a library's file.
Result<DriverApi> resolve_driver(PFN_cuGetProcAddress_v12000 get_proc_address);
Result<DriverApi> start_driver(PFN_cuDriverGetVersion_v2020 get_version, PFN_cuGetProcAddress_v12000 get_proc_address);
Result<DriverApi> open_driver(const std::string& name);

}  // namespace csajit
