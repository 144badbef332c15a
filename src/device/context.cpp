// See context.hpp.
#include "device/context.hpp"

#include <fmt/format.h>

#include "base/log.hpp"

namespace csajit {

Error driver_error(const DriverApi& driver, const char* call, CUresult code) {
  csajit_status status = CSAJIT_E_DRIVER;
  if (code == CUDA_ERROR_OUT_OF_MEMORY) status = CSAJIT_E_OUT_OF_MEMORY;
  if (code == CUDA_ERROR_INVALID_CONTEXT) status = CSAJIT_E_NO_CONTEXT;
  return Error{status, fmt::format("{} failed: {}", call, driver.describe(code))};
}

Result<ContextRef> identify_context(const DriverApi& driver, CUcontext context) {
  ContextRef ref{context, 0};
  const CUresult code = driver.cuCtxGetId(context, &ref.id);
  // A context that was given by name and is dead is the caller's mistake, not the absence of a context.
  if (code != CUDA_SUCCESS) {
    return Error{CSAJIT_E_DRIVER, fmt::format("cuCtxGetId failed: {}", driver.describe(code))};
  }
  return ref;
}

Result<ContextRef> current_context(const DriverApi& driver) {
  CUcontext context = nullptr;
  const CUresult code = driver.cuCtxGetCurrent(&context);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuCtxGetCurrent", code);
  if (context == nullptr) {
    return Error{CSAJIT_E_NO_CONTEXT, "no CUDA context is current on this thread; make one current or pass a stream"};
  }
  return identify_context(driver, context);
}

Result<ContextRef> context_of_stream(const DriverApi& driver, CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    return current_context(driver);
  }
  CUcontext context = nullptr;
  const CUresult code = driver.cuStreamGetCtx(stream, &context);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuStreamGetCtx", code);
  return identify_context(driver, context);
}

Result<bool> is_capturing(const DriverApi& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult code = driver.cuStreamIsCapturing(stream, &status);
  // The legacy stream while a blocking stream of its context captures: the query itself is refused, and a load
  // would be as wrong there as on the capturing stream.
  if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuStreamIsCapturing", code);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<ScopedContext> ScopedContext::push(const DriverApi& driver, CUcontext context) {
  const CUresult code = driver.cuCtxPushCurrent(context);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuCtxPushCurrent", code);
  return ScopedContext(&driver);
}

ScopedContext::~ScopedContext() {
  if (driver_ == nullptr) return;
  CUcontext popped = nullptr;
  const CUresult code = driver_->cuCtxPopCurrent(&popped);
  if (code != CUDA_SUCCESS) log::error("cuCtxPopCurrent failed: {}", driver_->describe(code));
}

Result<RelaxedCapture> RelaxedCapture::enter(const DriverApi& driver) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const CUresult code = driver.cuThreadExchangeStreamCaptureMode(&mode);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuThreadExchangeStreamCaptureMode", code);
  return RelaxedCapture(&driver, mode);
}

RelaxedCapture::~RelaxedCapture() {
  if (driver_ == nullptr) return;
  const CUresult code = driver_->cuThreadExchangeStreamCaptureMode(&before_);
  if (code != CUDA_SUCCESS) log::error("cuThreadExchangeStreamCaptureMode failed: {}", driver_->describe(code));
}

}  // namespace csajit
