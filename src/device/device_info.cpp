// See device_info.hpp.
#include "device/device_info.hpp"

#include <unordered_map>

#include "base/thread_annotations.hpp"

namespace csajit {
namespace {

struct Known {
  Mutex mutex;
  std::unordered_map<unsigned long long, DeviceInfo> by_context_id CSAJIT_GUARDED_BY(mutex);
};

// Never destroyed: a launch from an atexit handler may still ask.
Known& known() {
  static auto* const table = new Known;
  return *table;
}

Result<int> attribute(const DriverApi& driver, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  const CUresult code = driver.cuDeviceGetAttribute(&value, which, device);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuDeviceGetAttribute", code);
  return value;
}

}  // namespace

Result<DeviceInfo> query_device(const DriverApi& driver, CUdevice device) {
  auto major = attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  if (!major) return std::move(major).error();
  auto minor = attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  if (!minor) return std::move(minor).error();
  auto num_sms = attribute(driver, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  if (!num_sms) return std::move(num_sms).error();
  auto smem = attribute(driver, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
  if (!smem) return std::move(smem).error();
  return DeviceInfo{device, *major * 10 + *minor, *num_sms, *smem};
}

Result<DeviceInfo> device_of_context(const DriverApi& driver, const ContextRef& context) {
  Known& table = known();
  {
    const MutexLock lock(table.mutex);
    const auto found = table.by_context_id.find(context.id);
    if (found != table.by_context_id.end()) return found->second;
  }
  CUdevice device = 0;
  {
    auto scope = ScopedContext::push(driver, context.handle);
    if (!scope) return std::move(scope).error();
    const CUresult code = driver.cuCtxGetDevice(&device);
    if (code != CUDA_SUCCESS) return driver_error(driver, "cuCtxGetDevice", code);
  }
  auto info = query_device(driver, device);
  if (!info) return info;
  const MutexLock lock(table.mutex);
  table.by_context_id.emplace(context.id, *info);
  return info;
}

}  // namespace csajit
