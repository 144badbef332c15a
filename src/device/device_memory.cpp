// See device_memory.hpp.
#include "device/device_memory.hpp"

#include "base/log.hpp"

namespace csajit {

Result<DeviceMemory> DeviceMemory::allocate(const DriverApi& driver, std::size_t bytes) {
  CUdeviceptr address = 0;
  const CUresult code = driver.cuMemAlloc(&address, bytes);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuMemAlloc", code);
  return DeviceMemory(&driver, address);
}

DeviceMemory::~DeviceMemory() {
  if (driver_ == nullptr) return;
  const CUresult code = driver_->cuMemFree(address_);
  if (code != CUDA_SUCCESS) log::error("cuMemFree failed: {}", driver_->describe(code));
}

}  // namespace csajit
