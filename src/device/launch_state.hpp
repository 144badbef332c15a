// The launch state of a spec's kernels in one context, built once and reused: argument storage, pointer array
// and launch configurations. Used by one thread; writes and launches, checks no shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "common/launch_args.h"
#include "dl/driver_api.hpp"

namespace csajit {

// What launching needs of one loaded kernel.
struct LaunchTarget {
  CUfunction function = nullptr;
  std::uint32_t block_threads = 0;
  std::uint32_t dynamic_smem_bytes = 0;
};

// The regular path: everything on the stack, once a launch.
CUresult launch_kernel(const DriverApi& driver, const LaunchTarget& target, const LaunchArgs& args, std::uint32_t grid,
                       CUstream stream);

class LaunchState {
 public:
  // Errors: CSAJIT_E_DRIVER where a function cannot be launched with its block, CSAJIT_E_OUT_OF_MEMORY.
  static Result<std::unique_ptr<LaunchState>> build(const DriverApi& driver, std::span<const LaunchTarget> targets);
  LaunchState(const LaunchState&) = delete;
  LaunchState& operator=(const LaunchState&) = delete;

  // Written in place by each call.
  LaunchArgs& args() noexcept { return args_; }

  // No lock, no allocation, no look-up.
  CUresult launch(std::uint32_t kernel, std::uint32_t grid, CUstream stream) noexcept;

 private:
  LaunchState(const DriverApi& driver, std::size_t num_kernels);
  bool consistent() const noexcept;

  struct Kernel {
    CUfunction function;
    CUlaunchConfig config;
  };

  const DriverApi& driver_;
  LaunchArgs args_{};
  void* parameters_[1];
  std::vector<Kernel> kernels_;
};

}  // namespace csajit
