// One forward or backward on a stream: from a thread's snapshot where there is one, by the regular path
// otherwise. Argument checks come before anything touches the driver.
#pragma once

#include <csajit/csajit.h>

#include "base/result.hpp"
#include "compressor/spec.hpp"
#include "dl/driver_api.hpp"
#include "service/service.hpp"

namespace csajit {

// The structs must be of full size. Errors: see csajit_forward.
Result<void> launch(Service& service, const Spec& spec, const csajit_forward_args& args, CUstream stream);
Result<void> launch(Service& service, const Spec& spec, const csajit_backward_args& args, CUstream stream);

}  // namespace csajit
