// See pointer.hpp.
#include "device/pointer.hpp"

#include <fmt/format.h>

namespace csajit {
namespace {

// Whether the driver answered; it says INVALID_VALUE where the attribute has no value for that address.
Result<bool> ask(const DriverApi& driver, CUpointer_attribute attribute, std::uint64_t address, void* value) {
  const CUresult code = driver.cuPointerGetAttribute(value, attribute, static_cast<CUdeviceptr>(address));
  if (code == CUDA_SUCCESS) return true;
  if (code == CUDA_ERROR_INVALID_VALUE) return false;
  return driver_error(driver, "cuPointerGetAttribute", code);
}

}  // namespace

Result<void> check_device_access(const DriverApi& driver, CUdevice device, std::uint64_t address) {
  unsigned int type = 0;
  const auto known = ask(driver, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address, &type);
  if (!known) return known.error();
  if (!*known) {
    return Error{
        CSAJIT_E_INVALID_ARGUMENT,
        fmt::format("{:#x} is no memory that the CUDA driver knows: pageable host memory, or nothing at all", address)};
  }
  int owner = -1;
  const auto owned = ask(driver, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address, &owner);
  if (!owned) return owned.error();
  if (type == CU_MEMORYTYPE_DEVICE && *owned && owner == device) return {};

  // Another device's, the host's or managed memory: fine where it is mapped here at this very address.
  CUdeviceptr mapped = 0;
  const auto reachable = ask(driver, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address, &mapped);
  if (!reachable) return reachable.error();
  if (*reachable && mapped == static_cast<CUdeviceptr>(address)) return {};
  const char* kind = type == CU_MEMORYTYPE_HOST ? "host memory" : "memory";
  return Error{CSAJIT_E_INVALID_ARGUMENT,
               fmt::format("{:#x} is {} of device {}, which device {} of the stream's context cannot reach", address,
                           kind, owner, device)};
}

}  // namespace csajit
