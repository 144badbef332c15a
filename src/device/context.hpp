// Which CUDA context a stream belongs to, and the two brackets that module loads need: the context pushed, and
// the thread's stream-capture mode relaxed. Never creates, retains or sets a context for the caller.
#pragma once

#include "base/result.hpp"
#include "dl/driver_api.hpp"

namespace csajit {

// A context and the id that is never used again in this process, not even after a device reset.
struct ContextRef {
  CUcontext handle = nullptr;
  unsigned long long id = 0;
};

// A driver call that failed, as an error: CSAJIT_E_OUT_OF_MEMORY, CSAJIT_E_NO_CONTEXT or CSAJIT_E_DRIVER, with
// the call and the driver's name for the code.
Error driver_error(const DriverApi& driver, const char* call, CUresult code);

// The context of `stream`; for NULL, the legacy and the per-thread stream the current one. Errors:
// CSAJIT_E_NO_CONTEXT, CSAJIT_E_DRIVER.
Result<ContextRef> context_of_stream(const DriverApi& driver, CUstream stream);
Result<ContextRef> current_context(const DriverApi& driver);
// `context` with its id; a destroyed one is CSAJIT_E_DRIVER.
Result<ContextRef> identify_context(const DriverApi& driver, CUcontext context);

// Whether `stream` captures; a legacy stream beside a capture of another stream counts.
Result<bool> is_capturing(const DriverApi& driver, CUstream stream);

// Makes a context current for this scope.
class ScopedContext {
 public:
  static Result<ScopedContext> push(const DriverApi& driver, CUcontext context);
  ScopedContext(ScopedContext&& other) noexcept : driver_(other.driver_) { other.driver_ = nullptr; }
  ScopedContext& operator=(ScopedContext&&) = delete;
  ~ScopedContext();

 private:
  explicit ScopedContext(const DriverApi* driver) : driver_(driver) {}
  const DriverApi* driver_;
};

// Lets this thread make calls that a global-mode capture elsewhere would forbid, for this scope.
class RelaxedCapture {
 public:
  static Result<RelaxedCapture> enter(const DriverApi& driver);
  RelaxedCapture(RelaxedCapture&& other) noexcept : driver_(other.driver_), before_(other.before_) {
    other.driver_ = nullptr;
  }
  RelaxedCapture& operator=(RelaxedCapture&&) = delete;
  ~RelaxedCapture();

 private:
  RelaxedCapture(const DriverApi* driver, CUstreamCaptureMode before) : driver_(driver), before_(before) {}
  const DriverApi* driver_;
  CUstreamCaptureMode before_;
};

}  // namespace csajit
