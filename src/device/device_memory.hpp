// A block of device memory of the current context, freed at the end of its scope. Copies and fills nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "device/context.hpp"
#include "dl/driver_api.hpp"

namespace csajit {

class DeviceMemory {
 public:
  // Errors: CSAJIT_E_OUT_OF_MEMORY, CSAJIT_E_DRIVER.
  static Result<DeviceMemory> allocate(const DriverApi& driver, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept : driver_(other.driver_), address_(other.address_) {
    other.driver_ = nullptr;
  }
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  // A failure is logged: whoever leaves the scope has its own result already.
  ~DeviceMemory();

  std::uint64_t address() const { return address_; }

 private:
  DeviceMemory(const DriverApi* driver, CUdeviceptr address) : driver_(driver), address_(address) {}
  const DriverApi* driver_;
  CUdeviceptr address_;
};

}  // namespace csajit
