// See prepare.hpp.
#include "service/prepare.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"
#include "device/device_info.hpp"
#include "service/module_table.hpp"
#include "service/spec_journal.hpp"
#include "service/target.hpp"

namespace csajit {

Result<const Architecture*> target_in_context(const Service& service, const DriverApi& driver,
                                              const ContextRef& context) {
  auto device = device_of_context(driver, context);
  if (!device) return std::move(device).error();
  return target_of(device->capability, service.settings().forced_arch);
}

namespace {

Result<PreparedPtr> load_all(Service& service, const Spec& spec, const DriverApi& driver, const ContextRef& context,
                             const Architecture& arch) {
  auto recipes = recipes_of(spec, arch);
  if (!recipes) return std::move(recipes).error();
  auto prepared = std::make_shared<PreparedSpec>();
  prepared->driver = &driver;
  prepared->context = context;
  prepared->spec = spec;
  prepared->arch = &arch;
  LockPatience patience;
  for (const KernelRecipe& recipe : *recipes) {
    KernelRequest request;
    request.recipe = &recipe;
    request.arch = &arch;
    request.warmup_command = warmup_command(spec, arch);
    request.patience = &patience;
    request.max_nvrtc_major = driver.version / 1000;
    auto kernel = kernel_in_context(service, driver, context, request);
    if (!kernel) return std::move(kernel).error();
    prepared->shapes.push_back(shape_of(recipe));
    prepared->targets.push_back({kernel->function, recipe.block_threads, recipe.dynamic_smem_bytes});
  }
  return keep_prepared(std::move(prepared));
}

}  // namespace

Result<PreparedPtr> prepare_in_context(Service& service, const Spec& spec, const DriverApi& driver,
                                       const ContextRef& context) {
  auto arch = target_in_context(service, driver, context);
  if (!arch) return std::move(arch).error();
  if (auto known = find_prepared(context.id, spec, **arch)) {
    Statistics::add(service.statistics().memory_hits, known->targets.size());
    return known;
  }
  if (service.settings().forced_arch != nullptr) {
    log::info("{}: compiling for {} because it is forced", describe(spec), (*arch)->name);
  }
  auto prepared = load_all(service, spec, driver, context, **arch);
  note_spec(service.settings().journal, spec, **arch, prepared ? CSAJIT_OK : prepared.error().status);
  return prepared;
}

Result<void> prepare(Service& service, const Spec& spec, CUstream stream) {
  auto driver = driver_api();
  if (!driver) return std::move(driver).error();
  auto context = context_of_stream(**driver, stream);
  if (!context) return std::move(context).error();
  auto prepared = prepare_in_context(service, spec, **driver, *context);
  if (!prepared) return std::move(prepared).error();
  return {};
}

Result<void> unload_context(CUcontext context) {
  auto driver = driver_api();
  if (!driver) return std::move(driver).error();
  auto ref = context == nullptr ? current_context(**driver) : identify_context(**driver, context);
  if (!ref) return std::move(ref).error();
  // Launches must stop finding the functions before these go.
  drop_prepared(ref->id);
  return unload_all(**driver, *ref);
}

Result<const Architecture*> check_spec(const Service& service, const Spec& spec, const Architecture* arch) {
  if (arch == nullptr) {
    auto driver = driver_api();
    if (!driver) return std::move(driver).error();
    auto context = current_context(**driver);
    if (!context) return std::move(context).error();
    auto target = target_in_context(service, **driver, *context);
    if (!target) return target;
    arch = *target;
  }
  auto recipes = recipes_of(spec, *arch);
  if (!recipes) return std::move(recipes).error();
  return arch;
}

}  // namespace csajit
