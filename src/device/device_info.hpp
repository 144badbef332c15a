// Facts of the device behind a context. Asks the driver once a context; decides nothing.
#pragma once

#include "base/result.hpp"
#include "device/context.hpp"
#include "dl/driver_api.hpp"

namespace csajit {

struct DeviceInfo {
  CUdevice device = 0;
  int capability = 0;  // 90 for compute capability 9.0
  int num_sms = 0;
  int max_smem_bytes = 0;  // opt-in shared memory of one block
};

// Remembered by context id, so that a launch can ask each time.
Result<DeviceInfo> device_of_context(const DriverApi& driver, const ContextRef& context);
// Asks the driver.
Result<DeviceInfo> query_device(const DriverApi& driver, CUdevice device);

}  // namespace csajit
