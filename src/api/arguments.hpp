// The arguments that most entry points share: the service and the spec, checked.
#pragma once

#include <csajit/csajit.h>

#include "base/result.hpp"
#include "compressor/spec.hpp"
#include "service/service.hpp"

namespace csajit {

// Errors: CSAJIT_E_INVALID_ARGUMENT for NULL; enabled_service: CSAJIT_E_DISABLED where the kill switch is on.
Result<Service*> any_service(csajit_service* handle);
Result<Service*> enabled_service(csajit_service* handle);

// Errors: CSAJIT_E_INVALID_ARGUMENT, CSAJIT_E_STRUCT_SIZE, CSAJIT_E_UNSUPPORTED.
Result<Spec> read_spec(const csajit_spec* spec);

}  // namespace csajit
