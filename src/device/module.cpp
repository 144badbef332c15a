// See module.hpp.
#include "device/module.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "common/launch_args.h"

namespace csajit {
namespace {

// Shared memory a block may have without asking.
constexpr std::uint32_t default_dynamic_smem_bytes = 48 * 1024;

bool refuses_image(CUresult code) {
  return code == CUDA_ERROR_INVALID_IMAGE || code == CUDA_ERROR_NO_BINARY_FOR_GPU ||
         code == CUDA_ERROR_INVALID_SOURCE || code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

LoadFailure failure(Error error) { return LoadFailure{false, false, std::move(error)}; }

LoadFailure call_failure(const DriverApi& driver, const char* call, CUresult code) {
  const bool refused = refuses_image(code);
  return LoadFailure{refused, refused, driver_error(driver, call, code)};
}

LoadFailure bad_parameters(std::string what) {
  return LoadFailure{true, false, Error{CSAJIT_E_INTERNAL, std::move(what)}};
}

// A record whose kernel takes other parameters would read past them on the device; the driver can tell since
// 12.4. There must be exactly one, and it must be a LaunchArgs.
const LoadFailure* check_parameters(const DriverApi& driver, CUfunction function, LoadFailure& storage) {
  if (driver.cuFuncGetParamInfo == nullptr) return nullptr;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  const CUresult first = driver.cuFuncGetParamInfo(function, 0, &offset, &bytes);
  if (first == CUDA_ERROR_INVALID_VALUE) {
    storage = bad_parameters("the kernel takes no parameter, it should take one LaunchArgs");
    return &storage;
  }
  if (first != CUDA_SUCCESS) {
    storage = call_failure(driver, "cuFuncGetParamInfo", first);
    return &storage;
  }
  if (offset != 0 || bytes != sizeof(LaunchArgs)) {
    storage = bad_parameters(fmt::format("the kernel's first parameter is {} bytes at offset {}, LaunchArgs is {} at 0",
                                         bytes, offset, sizeof(LaunchArgs)));
    return &storage;
  }
  // Past the last one the driver says CUDA_ERROR_INVALID_VALUE.
  const CUresult second = driver.cuFuncGetParamInfo(function, 1, &offset, &bytes);
  if (second == CUDA_SUCCESS) {
    storage = bad_parameters("the kernel takes more than one parameter");
    return &storage;
  }
  if (second != CUDA_ERROR_INVALID_VALUE) {
    storage = call_failure(driver, "cuFuncGetParamInfo", second);
    return &storage;
  }
  return nullptr;
}

// The function of a module that is loaded already, ready for launches.
LoadOutcome ready_function(const DriverApi& driver, const ContextRef& context, CUmodule module,
                           const KernelImage& image, std::uint32_t dynamic_smem_bytes) {
  LoadedKernel kernel{context, module, nullptr};
  const CUresult found = driver.cuModuleGetFunction(&kernel.function, module, image.lowered_name.c_str());
  if (found == CUDA_ERROR_NOT_FOUND) {
    return bad_parameters(fmt::format("the image holds no kernel named {}", image.lowered_name));
  }
  if (found != CUDA_SUCCESS) return call_failure(driver, "cuModuleGetFunction", found);
  // Under lazy loading the code is fetched by the first use of the function, which must not be a launch.
  if (driver.cuFuncLoad != nullptr) {
    const CUresult code = driver.cuFuncLoad(kernel.function);
    if (code != CUDA_SUCCESS) return call_failure(driver, "cuFuncLoad", code);
  }
  LoadFailure storage;
  if (check_parameters(driver, kernel.function, storage) != nullptr) return storage;
  if (dynamic_smem_bytes > default_dynamic_smem_bytes) {
    const CUresult code = driver.cuFuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                    static_cast<int>(dynamic_smem_bytes));
    if (code != CUDA_SUCCESS) return call_failure(driver, "cuFuncSetAttribute", code);
  }
  int local_bytes = 0;
  const CUresult code = driver.cuFuncGetAttribute(&local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel.function);
  if (code != CUDA_SUCCESS) return call_failure(driver, "cuFuncGetAttribute", code);
  // Right, but slow, and never so in a shipped schedule.
  if (local_bytes != 0) log::warn("{} uses {} bytes of local memory a thread", image.lowered_name, local_bytes);
  return kernel;
}

}  // namespace

LoadOutcome load_kernel(const DriverApi& driver, const ContextRef& context, const KernelImage& image,
                        std::uint32_t dynamic_smem_bytes) {
  auto scope = ScopedContext::push(driver, context.handle);
  if (!scope) return failure(std::move(scope).error());
  auto relaxed = RelaxedCapture::enter(driver);
  if (!relaxed) return failure(std::move(relaxed).error());

  CUmodule module = nullptr;
  const CUresult code = driver.cuModuleLoadData(&module, image.cubin.data());
  if (code != CUDA_SUCCESS) return call_failure(driver, "cuModuleLoadData", code);
  LoadOutcome outcome = ready_function(driver, context, module, image, dynamic_smem_bytes);
  if (std::holds_alternative<LoadFailure>(outcome)) {
    const CUresult unloaded = driver.cuModuleUnload(module);
    if (unloaded != CUDA_SUCCESS) log::warn("cuModuleUnload failed: {}", driver.describe(unloaded));
  }
  return outcome;
}

Result<void> unload_kernel(const DriverApi& driver, const LoadedKernel& kernel) {
  auto scope = ScopedContext::push(driver, kernel.context.handle);
  if (!scope) return std::move(scope).error();
  auto relaxed = RelaxedCapture::enter(driver);
  if (!relaxed) return std::move(relaxed).error();
  const CUresult code = driver.cuModuleUnload(kernel.module);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuModuleUnload", code);
  return {};
}

}  // namespace csajit
