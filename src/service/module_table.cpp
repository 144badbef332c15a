// See module_table.hpp.
#include "service/module_table.hpp"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cache/memory_cache.hpp"

namespace csajit {
namespace {

struct ModuleKey {
  unsigned long long context_id = 0;
  std::string key_bytes;
  friend bool operator==(const ModuleKey&, const ModuleKey&) = default;
};

struct ModuleKeyHash {
  std::size_t operator()(const ModuleKey& key) const noexcept {
    return std::hash<std::string>{}(key.key_bytes) ^ (std::hash<unsigned long long>{}(key.context_id) * 31);
  }
};

using Modules = MemoryCache<ModuleKey, LoadedKernel, ModuleKeyHash>;
using Made = Result<std::shared_ptr<const LoadedKernel>>;

// Never destroyed, and its modules never unloaded by it: contexts may be gone before the process ends.
Modules& modules() {
  static auto* const table = new Modules;
  return *table;
}

LoadOutcome timed_load(Service& service, const DriverApi& driver, const ContextRef& context, const KernelImage& image,
                       std::uint32_t dynamic_smem_bytes) {
  const ScopedTimer timer(service.statistics().load_ns);
  LoadOutcome outcome = load_kernel(driver, context, image, dynamic_smem_bytes);
  if (std::holds_alternative<LoadedKernel>(outcome)) Statistics::add(service.statistics().module_loads);
  return outcome;
}

Error final_failure(const DriverApi& driver, const KernelRequest& request, const KernelImage& image,
                    const LoadFailure& failure) {
  if (!failure.refused) {
    return Error{failure.error.status, fmt::format("{} for {}, just built: {}", request.recipe->name,
                                                   request.arch->name, failure.error.message)};
  }
  return Error{
      CSAJIT_E_DRIVER_TOO_OLD,
      fmt::format("the driver (CUDA {}.{}) refuses {} for {}, just built by NVRTC {}: {}; update the driver or "
                  "use an NVRTC of its CUDA version",
                  driver.version / 1000, driver.version % 1000 / 10, request.recipe->name, request.arch->name,
                  image.nvrtc_version, failure.error.message)};
}

// A bad image is a miss once: built again, and kept only if the driver takes that one.
Made rebuild(Service& service, const DriverApi& driver, const ContextRef& context, const KernelRequest& request,
             const Key& key, const LoadFailure& first) {
  auto image = service.source().recompile(request, first.error.message);
  if (!image) return std::move(image).error();
  LoadOutcome outcome = timed_load(service, driver, context, **image, request.recipe->dynamic_smem_bytes);
  if (const auto* failure = std::get_if<LoadFailure>(&outcome)) {
    if (!failure->bad_image) return failure->error;
    service.source().give_up(key);
    return final_failure(driver, request, **image, *failure);
  }
  service.source().accept(key, *image);
  return std::make_shared<const LoadedKernel>(std::get<LoadedKernel>(outcome));
}

Made source_and_load(Service& service, const DriverApi& driver, const ContextRef& context, const KernelRequest& request,
                     const Key& key) {
  auto first = service.source().get(request, key);
  if (!first) return std::move(first).error();
  SourcedKernel kernel = std::move(first).value();
  for (;;) {
    LoadOutcome outcome = timed_load(service, driver, context, *kernel.image, request.recipe->dynamic_smem_bytes);
    const auto* failure = std::get_if<LoadFailure>(&outcome);
    if (failure == nullptr) return std::make_shared<const LoadedKernel>(std::get<LoadedKernel>(outcome));
    if (!failure->bad_image) return failure->error;
    auto next = service.source().next_cached(key, kernel, failure->error.message);
    if (!next) return rebuild(service, driver, context, request, key, *failure);
    kernel = *std::move(next);
  }
}

}  // namespace

Result<LoadedKernel> kernel_in_context(Service& service, const DriverApi& driver, const ContextRef& context,
                                       const KernelRequest& request) {
  const Key key = key_of(*request.recipe, *request.arch);
  for (;;) {
    bool made = false;
    auto kernel = modules().get_or_make(ModuleKey{context.id, key.bytes()}, [&] {
      made = true;
      return source_and_load(service, driver, context, request, key);
    });
    if (kernel) {
      if (!made) Statistics::add(service.statistics().memory_hits);
      return **kernel;
    }
    // Another service's settings stopped the flight that this one waited for; fly by one's own.
    if (made || !is_own_affair(kernel.error().status)) return std::move(kernel).error();
  }
}

Result<void> unload_all(const DriverApi& driver, const ContextRef& context) {
  Result<void> result;
  for (const auto& kernel : modules().extract_if([&](const ModuleKey& key) { return key.context_id == context.id; })) {
    auto unloaded = unload_kernel(driver, *kernel);
    if (!unloaded && result) result = std::move(unloaded);
  }
  return result;
}

}  // namespace csajit
