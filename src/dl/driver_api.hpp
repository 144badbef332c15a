// The CUDA driver as a table of functions, resolved by cuGetProcAddress with the version of each one's own
// typedef. dlopened when a device is first needed; never linked; never closed.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <functional>
#include <string>

#include "base/result.hpp"

namespace csajit {

struct DriverApi {
  std::string path;  // of libcuda.so.1
  int version = 0;   // cuDriverGetVersion, 13000 for 13.0

  // X-macro list lives in driver_api.cpp: name, PFN typedef, CUDA version asked for, required or optional.
  PFN_cuInit cuInit = nullptr;
  PFN_cuDriverGetVersion cuDriverGetVersion = nullptr;
  PFN_cuGetErrorName cuGetErrorName = nullptr;
  PFN_cuGetErrorString cuGetErrorString = nullptr;
  PFN_cuDeviceGet cuDeviceGet = nullptr;
  PFN_cuDeviceGetCount cuDeviceGetCount = nullptr;
  PFN_cuDeviceGetName cuDeviceGetName = nullptr;
  PFN_cuDeviceGetAttribute cuDeviceGetAttribute = nullptr;
  PFN_cuDeviceTotalMem_v2 cuDeviceTotalMem = nullptr;
  PFN_cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRetain = nullptr;      // for the csajit tool's own context only
  PFN_cuDevicePrimaryCtxRelease_v11000 cuDevicePrimaryCtxRelease = nullptr;  // likewise
  PFN_cuCtxSetCurrent cuCtxSetCurrent = nullptr;                        // likewise
  PFN_cuCtxGetCurrent cuCtxGetCurrent = nullptr;
  PFN_cuCtxGetDevice cuCtxGetDevice = nullptr;
  PFN_cuCtxGetId_v12000 cuCtxGetId = nullptr;
  PFN_cuCtxPushCurrent_v4000 cuCtxPushCurrent = nullptr;
  PFN_cuCtxPopCurrent_v4000 cuCtxPopCurrent = nullptr;
  PFN_cuCtxSynchronize cuCtxSynchronize = nullptr;
  PFN_cuStreamGetCtx cuStreamGetCtx = nullptr;
  PFN_cuStreamIsCapturing cuStreamIsCapturing = nullptr;
  PFN_cuThreadExchangeStreamCaptureMode cuThreadExchangeStreamCaptureMode = nullptr;
  PFN_cuModuleLoadData cuModuleLoadData = nullptr;
  PFN_cuModuleUnload cuModuleUnload = nullptr;
  PFN_cuModuleGetFunction cuModuleGetFunction = nullptr;
  PFN_cuFuncGetAttribute cuFuncGetAttribute = nullptr;
  PFN_cuFuncSetAttribute cuFuncSetAttribute = nullptr;
  PFN_cuLaunchKernelEx cuLaunchKernelEx = nullptr;
  PFN_cuLaunchKernel cuLaunchKernel = nullptr;
  PFN_cuStreamCreate cuStreamCreate = nullptr;
  PFN_cuStreamDestroy_v4000 cuStreamDestroy = nullptr;
  PFN_cuStreamSynchronize cuStreamSynchronize = nullptr;
  PFN_cuMemAlloc_v3020 cuMemAlloc = nullptr;
  PFN_cuMemFree_v3020 cuMemFree = nullptr;
  PFN_cuMemcpyHtoD_v3020 cuMemcpyHtoD = nullptr;
  PFN_cuMemcpyDtoH_v3020 cuMemcpyDtoH = nullptr;
  PFN_cuMemsetD8_v3020 cuMemsetD8 = nullptr;
  // Optional: nullptr on drivers before 12.4.
  PFN_cuFuncLoad cuFuncLoad = nullptr;
  PFN_cuFuncIsLoaded cuFuncIsLoaded = nullptr;
  PFN_cuFuncGetParamInfo cuFuncGetParamInfo = nullptr;

  // "CUDA_ERROR_INVALID_VALUE: invalid argument"
  std::string describe(CUresult code) const;
};

// The process's driver: opened and cuInit'ed by the first call. Errors: CSAJIT_E_DRIVER_NOT_FOUND (with
// dlerror, or the missing function's name, or a driver older than 12.0 with both versions), CSAJIT_E_DRIVER
// (cuInit's own error), CSAJIT_E_FORKED (the process was forked after the driver was initialised). A failure
// is not kept: the next call tries again.
Result<const DriverApi*> driver_api();

// True if driver_api() has succeeded in this process and it was forked since; costs one load, no system call.
bool forked_since_driver_init();

// For tests: resolves all functions through `get_proc_address`.
Result<DriverApi> resolve_driver(PFN_cuGetProcAddress_v12000 get_proc_address);

}  // namespace csajit
