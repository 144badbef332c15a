// Entry points that concern the whole library: status names, last error, version, log callback.
#include <csajit/csajit.h>

#include "api/entry.hpp"
#include "api/last_error.hpp"
#include "base/log.hpp"

extern "C" {

const char* csajit_status_string(csajit_status status) {
#define CSAJIT_STATUS_NAME(name) \
  case name:                     \
    return #name
  switch (status) {
    CSAJIT_STATUS_NAME(CSAJIT_OK);
    CSAJIT_STATUS_NAME(CSAJIT_E_INVALID_ARGUMENT);
    CSAJIT_STATUS_NAME(CSAJIT_E_STRUCT_SIZE);
    CSAJIT_STATUS_NAME(CSAJIT_E_UNSUPPORTED);
    CSAJIT_STATUS_NAME(CSAJIT_E_REENTRANT);
    CSAJIT_STATUS_NAME(CSAJIT_E_DISABLED);
    CSAJIT_STATUS_NAME(CSAJIT_E_JIT_DISABLED);
    CSAJIT_STATUS_NAME(CSAJIT_E_NOT_PREPARED);
    CSAJIT_STATUS_NAME(CSAJIT_E_NOT_PREPARED_IN_CAPTURE);
    CSAJIT_STATUS_NAME(CSAJIT_E_NVRTC_NOT_FOUND);
    CSAJIT_STATUS_NAME(CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC);
    CSAJIT_STATUS_NAME(CSAJIT_E_COMPILE);
    CSAJIT_STATUS_NAME(CSAJIT_E_DRIVER_NOT_FOUND);
    CSAJIT_STATUS_NAME(CSAJIT_E_DRIVER);
    CSAJIT_STATUS_NAME(CSAJIT_E_DRIVER_TOO_OLD);
    CSAJIT_STATUS_NAME(CSAJIT_E_NO_CONTEXT);
    CSAJIT_STATUS_NAME(CSAJIT_E_OUT_OF_MEMORY);
    CSAJIT_STATUS_NAME(CSAJIT_E_FORKED);
    CSAJIT_STATUS_NAME(CSAJIT_E_INTERNAL);
  }
#undef CSAJIT_STATUS_NAME
  return "CSAJIT_E_?";
}

size_t csajit_last_error(char* buffer, size_t buffer_bytes) { return csajit::copy_last_error(buffer, buffer_bytes); }

uint32_t csajit_version(void) {
  return CSAJIT_VERSION_MAJOR * 10000 + CSAJIT_VERSION_MINOR * 100 + CSAJIT_VERSION_PATCH;
}

csajit_status csajit_set_log_callback(csajit_log_callback callback, void* user) {
  return csajit::enter([&]() -> csajit::Result<void> {
    csajit::log::set_callback(callback, user);
    return {};
  });
}

}  // extern "C"
