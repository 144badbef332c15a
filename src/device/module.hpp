// One kernel image loaded into one context: load, check, unload. Keeps no table and retries nothing.
#pragma once

#include <cstdint>
#include <variant>

#include "base/kernel_image.hpp"
#include "base/result.hpp"
#include "device/context.hpp"
#include "dl/driver_api.hpp"

namespace csajit {

// Plain data: nothing is unloaded behind the caller's back, since captured graphs may hold the function.
struct LoadedKernel {
  ContextRef context;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

// Why an image could not be loaded. A bad image is the image's fault (refused by the driver, no such kernel in
// it, or other parameters than LaunchArgs): another build may cure it. Out of memory and other driver errors
// are never that.
struct LoadFailure {
  bool bad_image = false;
  bool refused = false;  // by the driver itself; implies bad_image
  Error error;
};

using LoadOutcome = std::variant<LoadedKernel, LoadFailure>;

// Blocks. The context is pushed and the thread's capture mode relaxed meanwhile; a rejected module is unloaded
// at once. `dynamic_smem_bytes` beyond 48 KiB are asked for.
LoadOutcome load_kernel(const DriverApi& driver, const ContextRef& context, const KernelImage& image,
                        std::uint32_t dynamic_smem_bytes);

Result<void> unload_kernel(const DriverApi& driver, const LoadedKernel& kernel);

}  // namespace csajit
