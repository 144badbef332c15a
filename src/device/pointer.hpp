// Whether kernels of a context can reach an address, as the driver knows it. Reads no memory.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "device/context.hpp"
#include "dl/driver_api.hpp"

namespace csajit {

// Fine: memory of `device`, and managed, pinned or peer memory that the driver maps into the current context, which
// must be of `device`. Errors: CSAJIT_E_INVALID_ARGUMENT saying what lies at the address instead; CSAJIT_E_DRIVER.
// Pageable host memory is refused even where the system lets a GPU read it: nobody passes that on purpose.
Result<void> check_device_access(const DriverApi& driver, CUdevice device, std::uint64_t address);

}  // namespace csajit
