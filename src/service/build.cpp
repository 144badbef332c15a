// See build.hpp.
#include "service/build.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "cache/record.hpp"
#include "service/kernel_source.hpp"
#include "service/target.hpp"

namespace csajit {
namespace {

// What the workers of one build share.
struct Build {
  Service& service;
  const BuildOrder& order;
  std::string warmup_command;
  std::vector<KernelRecipe> recipes;
  std::vector<std::optional<Error>> errors;  // one a recipe, each written by the worker that took it
  std::atomic<std::size_t> next{0};
  LockPatience patience;
  std::mutex callback_mutex;  // of this build alone: no launch and no other build ever waits for it
};

void report(Build& build, const KernelRecipe& recipe, const Key& key, const Result<SourcedKernel>& kernel) {
  if (build.order.callback == nullptr) return;
  csajit_kernel_info info{};
  info.struct_size = sizeof(info);
  info.name = recipe.name.c_str();
  info.key = key.hex().c_str();
  const std::string arch(build.order.arch->name);
  info.arch = arch.c_str();
  info.nvrtc = "";
  info.error = "";
  info.dynamic_smem_bytes = recipe.dynamic_smem_bytes;
  if (kernel) {
    const KernelImage& image = *kernel->image;
    info.origin = kernel->origin;
    info.nvrtc = image.nvrtc_version.c_str();
    info.registers = image.usage.registers;
    info.spill_bytes = image.usage.spill_bytes;
    info.stack_bytes = image.usage.stack_bytes;
    info.static_smem_bytes = image.usage.static_smem_bytes;
    info.cubin_bytes = image.cubin.size();
    info.compile_ms = image.compile_ms;
    info.published = kernel->published ? 1 : 0;
    info.record_bytes = static_cast<std::uint32_t>(record_bytes(key, image));  // bounded: see max_record_bytes
  } else {
    info.origin = CSAJIT_ORIGIN_FAILED;
    info.status = static_cast<std::uint32_t>(kernel.error().status);
    info.error = kernel.error().message.c_str();
  }
  const std::lock_guard lock(build.callback_mutex);
  const log::CallbackScope scope;
  build.order.callback(&info, build.order.user);
}

Result<void> build_one(Build& build, const KernelRecipe& recipe) {
  KernelRequest request;
  request.recipe = &recipe;
  request.arch = build.order.arch;
  request.warmup_command = build.warmup_command;
  request.patience = &build.patience;
  const Key key = key_of(recipe, *build.order.arch);
  const auto kernel = build.service.source().build(request, key, build.order.rebuild);
  report(build, recipe, key, kernel);
  if (!kernel) return kernel.error();
  return {};
}

// Nothing may leave a worker's thread but by its error.
void work(Build& build) noexcept {
  for (;;) {
    const std::size_t index = build.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= build.recipes.size()) return;
    try {
      auto result = build_one(build, build.recipes[index]);
      if (!result) build.errors[index] = std::move(result).error();
    } catch (const std::bad_alloc&) {
      build.errors[index].emplace(Error{CSAJIT_E_OUT_OF_MEMORY, {}});
    } catch (...) {
      build.errors[index].emplace(Error{CSAJIT_E_INTERNAL, {}});
    }
  }
}

}  // namespace

Result<void> build(Service& service, const Spec& spec, const BuildOrder& order) {
  auto recipes = recipes_of(spec, *order.arch);
  if (!recipes) return std::move(recipes).error();
  Build build{service, order, warmup_command(spec, *order.arch), std::move(recipes).value(), {}, {}, {}, {}};
  build.errors.resize(build.recipes.size());

  const std::size_t jobs = std::min<std::size_t>(std::max<std::uint32_t>(order.jobs, 1), build.recipes.size());
  std::vector<std::thread> workers;
  workers.reserve(jobs);
  for (std::size_t i = 1; i < jobs; ++i) {
    try {
      workers.emplace_back([&build] { work(build); });
    } catch (const std::exception& failure) {  // no thread or no memory for one: the others are joined below
      log::warn("building with {} threads instead of {}: {}", i, jobs, failure.what());
      break;
    }
  }
  work(build);
  for (std::thread& worker : workers) worker.join();

  for (std::optional<Error>& error : build.errors) {
    if (error) return std::move(*error);
  }
  return {};
}

}  // namespace csajit
