// The check before a launch of a service that validates (CSAJIT_VALIDATE=1): pointers by the driver, segment arrays
// by a kernel. Blocks until the stream has run it; launches nothing else.
#pragma once

#include "base/result.hpp"
#include "common/launch_args.h"
#include "device/context.hpp"
#include "dl/driver_api.hpp"
#include "service/prepared_table.hpp"

namespace csajit {

// A validated launch synchronises, so it cannot be captured: CSAJIT_E_UNSUPPORTED. The capture stays valid.
Result<void> refuse_capture(const DriverApi& driver, CUstream stream);

// `launch_args` as planned for the launch to come. Errors: CSAJIT_E_INVALID_ARGUMENT naming the pointer or the entry,
// CSAJIT_E_OUT_OF_MEMORY, CSAJIT_E_DRIVER (also for what failed earlier on the stream).
Result<void> validate_launch(const PreparedSpec& prepared, const LaunchArgs& launch_args, CUstream stream);

}  // namespace csajit
