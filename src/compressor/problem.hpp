// One call's shapes, pointers and strides, checked, and the launches that serve it. No driver, no allocation.
#pragma once

#include <csajit/csajit.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "common/launch_args.h"
#include "compressor/schedule.hpp"
#include "compressor/spec.hpp"

namespace csajit {

// The facts of a recipe that planning needs; kept apart so that planning touches no strings.
struct KernelShape {
  KernelRole role = KernelRole::forward;
  std::uint32_t block_threads = 0;
  std::uint32_t dynamic_smem_bytes = 0;
  std::uint32_t vector = 1;
  bool contiguous = false;
};
KernelShape shape_of(const KernelRecipe& recipe);

struct KernelLaunch {
  std::uint32_t kernel = 0;  // index into kernels_of(spec)
  std::uint32_t grid = 0;    // CTAs, one-dimensional
};

// Up to two kernels on one stream, sharing one LaunchArgs. Empty: there is nothing to do.
struct LaunchPlan {
  std::uint32_t count = 0;
  std::array<KernelLaunch, 2> launches{};
};

// Check every argument against the contract, then fill `launch_args` and plan. The structs must already be of
// full size. Errors: CSAJIT_E_INVALID_ARGUMENT naming the argument. Nothing is allocated on success.
Result<LaunchPlan> plan_forward(const Spec& spec, const csajit_forward_args& args, std::span<const KernelShape> kernels,
                                LaunchArgs& launch_args);
Result<LaunchPlan> plan_backward(const Spec& spec, const csajit_backward_args& args,
                                 std::span<const KernelShape> kernels, LaunchArgs& launch_args);

// Bytes of workspace for a backward with num_rows rows. Error: num_rows < 0.
Result<std::uint64_t> workspace_bytes(const Spec& spec, std::int64_t num_rows);

}  // namespace csajit
