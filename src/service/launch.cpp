// See launch.hpp.
#include "service/launch.hpp"

#include <fmt/format.h>

#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "compressor/problem.hpp"
#include "device/context.hpp"
#include "service/prepare.hpp"
#include "service/prepared_table.hpp"
#include "service/snapshot.hpp"
#include "service/spec_journal.hpp"
#include "service/target.hpp"
#include "service/validate.hpp"

namespace csajit {
namespace {

Result<LaunchPlan> plan(const Spec& spec, const csajit_forward_args& args, std::span<const KernelShape> shapes,
                        LaunchArgs& out) {
  return plan_forward(spec, args, shapes, out);
}

Result<LaunchPlan> plan(const Spec& spec, const csajit_backward_args& args, std::span<const KernelShape> shapes,
                        LaunchArgs& out) {
  return plan_backward(spec, args, shapes, out);
}

Error launch_error(const PreparedSpec& prepared, CUresult code, std::uint32_t launched) {
  Error error = driver_error(*prepared.driver, "cuLaunchKernelEx", code);
  error.message += fmt::format(" ({}, {})", describe(prepared.spec), prepared.arch->name);
  if (launched != 0) error.message += "; the first kernel of the call was launched already";
  return error;
}

Result<void> launch_fast(Service& service, Snapshot& snapshot, const LaunchPlan& planned, CUstream stream) {
  for (std::uint32_t i = 0; i < planned.count; ++i) {
    const CUresult code = snapshot.state->launch(planned.launches[i].kernel, planned.launches[i].grid, stream);
    if (code != CUDA_SUCCESS) return launch_error(*snapshot.prepared, code, i);
  }
  Statistics::add(service.statistics().fast_launches, planned.count);
  return {};
}

Result<void> launch_regular(Service& service, const PreparedSpec& prepared, const LaunchPlan& planned,
                            const LaunchArgs& args, CUstream stream) {
  for (std::uint32_t i = 0; i < planned.count; ++i) {
    const KernelLaunch& one = planned.launches[i];
    const CUresult code = launch_kernel(*prepared.driver, prepared.targets[one.kernel], args, one.grid, stream);
    if (code != CUDA_SUCCESS) return launch_error(prepared, code, i);
  }
  Statistics::add(service.statistics().regular_launches, planned.count);
  return {};
}

// A snapshot for this thread, or nullptr: then the spec takes the regular path from now on.
Snapshot* take_snapshot(Service& service, const PreparedPtr& prepared) {
  SnapshotList* list = SnapshotList::of_this_thread();
  if (list == nullptr) return nullptr;  // a thread past its end; others are not concerned
  std::string why;
  try {
    auto state = LaunchState::build(*prepared->driver, prepared->targets);
    if (state) {
      return list->add(std::make_unique<Snapshot>(Snapshot{service.id(), prepared, std::move(state).value()}));
    }
    why = std::move(state).error().message;
  } catch (const std::bad_alloc&) {
    // Not worth a word of its own: the empty reason is said below.
  }
  if (!prepared->no_fast_launch.exchange(true, std::memory_order_relaxed)) {
    log::warn("{}: launches take the regular path from now on: {}", describe(prepared->spec),
              why.empty() ? "no memory for a launch state" : why.c_str());
  }
  return nullptr;
}

// Shapes that argument checks can use before the driver is asked which architecture it will be.
Result<std::vector<KernelShape>> likely_shapes(const Service& service, const Spec& spec) {
  const Architecture* arch = service.settings().forced_arch;
  if (arch == nullptr) {
    for (const Architecture& other : architectures()) {
      if (arch == nullptr || other.max_smem_bytes > arch->max_smem_bytes) arch = &other;
    }
  }
  auto recipes = recipes_of(spec, *arch);
  if (!recipes) return std::move(recipes).error();
  std::vector<KernelShape> shapes;
  shapes.reserve(recipes->size());
  for (const KernelRecipe& recipe : *recipes) shapes.push_back(shape_of(recipe));
  return shapes;
}

// The arguments checked and planned without the driver. Which kernels serve them may differ by architecture,
// whether they are legal and whether there is anything to do does not.
template <class Args>
Result<LaunchPlan> plan_early(const Service& service, const Spec& spec, const Args& args, LaunchArgs& out) {
  if (const PreparedPtr known = find_prepared_anywhere(spec)) return plan(spec, args, known->shapes, out);
  auto shapes = likely_shapes(service, spec);
  if (!shapes) return std::move(shapes).error();
  return plan(spec, args, *shapes, out);
}

Result<PreparedPtr> prepare_or_refuse(Service& service, const Spec& spec, const DriverApi& driver,
                                      const ContextRef& context, const Architecture& arch, CUstream stream) {
  auto capturing = is_capturing(driver, stream);
  if (!capturing) return std::move(capturing).error();
  const bool refuse = *capturing || service.settings().require_prepared;
  if (!refuse) return prepare_in_context(service, spec, driver, context);
  const csajit_status status = *capturing ? CSAJIT_E_NOT_PREPARED_IN_CAPTURE : CSAJIT_E_NOT_PREPARED;
  note_spec(service.settings().journal, spec, arch, status);
  return Error{status,
               fmt::format("{} for {} is not prepared in this context{}; call csajit_prepare before, and fill the "
                           "cache by: {}",
                           describe(spec), arch.name,
                           *capturing ? ", and the stream captures: nothing is compiled or loaded inside a capture"
                                      : ", and the service requires it",
                           warmup_command(spec, arch))};
}

template <class Args>
Result<void> launch_without_snapshot(Service& service, const Spec& spec, const Args& args, CUstream stream) {
  LaunchArgs launch_args{};
  auto early = plan_early(service, spec, args, launch_args);
  if (!early) return std::move(early).error();
  if (early->count == 0) return {};

  auto driver = driver_api();
  if (!driver) return std::move(driver).error();
  auto context = context_of_stream(**driver, stream);
  if (!context) return std::move(context).error();
  const bool validate = service.settings().validate;
  if (validate) {
    auto refused = refuse_capture(**driver, stream);
    if (!refused) return refused;
  }
  auto arch = target_in_context(service, **driver, *context);
  if (!arch) return std::move(arch).error();
  PreparedPtr prepared = find_prepared(context->id, spec, **arch);
  if (prepared == nullptr) {
    auto made = prepare_or_refuse(service, spec, **driver, *context, **arch, stream);
    if (!made) return std::move(made).error();
    prepared = std::move(made).value();
  }

  const bool fast =
      service.settings().fast_launch && !validate && !prepared->no_fast_launch.load(std::memory_order_relaxed);
  Snapshot* snapshot = fast ? take_snapshot(service, prepared) : nullptr;
  LaunchArgs& destination = snapshot != nullptr ? snapshot->state->args() : launch_args;
  auto planned = plan(spec, args, prepared->shapes, destination);
  if (!planned) return std::move(planned).error();
  if (snapshot != nullptr) return launch_fast(service, *snapshot, *planned, stream);
  if (validate) {
    auto checked = validate_launch(*prepared, launch_args, stream);
    if (!checked) return checked;
  }
  return launch_regular(service, *prepared, *planned, launch_args, stream);
}

bool is_dropped(const Snapshot& snapshot) { return snapshot.prepared->dropped.load(std::memory_order_acquire); }

template <class Args>
Result<void> launch_any(Service& service, const Spec& spec, const Args& args, CUstream stream) {
  if (forked_since_driver_init()) {
    return Error{CSAJIT_E_FORKED, "the CUDA driver was in use before fork(); csajit cannot launch in the child"};
  }
  SnapshotList* list =
      service.settings().fast_launch && !service.settings().validate ? SnapshotList::of_this_thread() : nullptr;
  Snapshot* snapshot = list != nullptr ? list->find(service.id(), spec) : nullptr;
  if (snapshot == nullptr || is_dropped(*snapshot)) return launch_without_snapshot(service, spec, args, stream);

  auto planned = plan(spec, args, snapshot->prepared->shapes, snapshot->state->args());
  if (!planned) return std::move(planned).error();
  if (planned->count == 0) return {};
  auto context = context_of_stream(*snapshot->prepared->driver, stream);
  if (!context) return std::move(context).error();
  if (snapshot->prepared->context.id != context->id) {
    // The thread's latest launch of the spec was in another context.
    snapshot = list->find(service.id(), spec, context->id);
    if (snapshot == nullptr || is_dropped(*snapshot)) return launch_without_snapshot(service, spec, args, stream);
    planned = plan(spec, args, snapshot->prepared->shapes, snapshot->state->args());
    if (!planned) return std::move(planned).error();
  }
  return launch_fast(service, *snapshot, *planned, stream);
}

}  // namespace

Result<void> launch(Service& service, const Spec& spec, const csajit_forward_args& args, CUstream stream) {
  return launch_any(service, spec, args, stream);
}

Result<void> launch(Service& service, const Spec& spec, const csajit_backward_args& args, CUstream stream) {
  return launch_any(service, spec, args, stream);
}

}  // namespace csajit
