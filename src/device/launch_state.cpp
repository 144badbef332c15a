// See launch_state.hpp.
#include "device/launch_state.hpp"

#include <fmt/format.h>

#include "device/context.hpp"

namespace csajit {
namespace {

CUlaunchConfig config_of(const LaunchTarget& target) {
  CUlaunchConfig config{};
  config.gridDimX = 1;
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = target.block_threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = target.dynamic_smem_bytes;
  return config;
}

}  // namespace

CUresult launch_kernel(const DriverApi& driver, const LaunchTarget& target, const LaunchArgs& args, std::uint32_t grid,
                       CUstream stream) {
  CUlaunchConfig config = config_of(target);
  config.gridDimX = grid;
  config.hStream = stream;
  LaunchArgs copy = args;  // the driver takes a pointer to non-const
  void* parameters[1] = {&copy};
  return driver.cuLaunchKernelEx(&config, target.function, parameters, nullptr);
}

LaunchState::LaunchState(const DriverApi& driver, std::size_t num_kernels) : driver_(driver), parameters_{&args_} {
  kernels_.reserve(num_kernels);
}

Result<std::unique_ptr<LaunchState>> LaunchState::build(const DriverApi& driver,
                                                        std::span<const LaunchTarget> targets) {
  std::unique_ptr<LaunchState> state(new LaunchState(driver, targets.size()));
  for (const LaunchTarget& target : targets) {
    int max_threads = 0;
    const CUresult code =
        driver.cuFuncGetAttribute(&max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, target.function);
    if (code != CUDA_SUCCESS) return driver_error(driver, "cuFuncGetAttribute", code);
    if (max_threads < static_cast<int>(target.block_threads)) {
      return Error{CSAJIT_E_DRIVER, fmt::format("the driver allows {} threads a block where the schedule has {}",
                                                max_threads, target.block_threads)};
    }
    state->kernels_.push_back({target.function, config_of(target)});
  }
  if (!state->consistent()) return Error{CSAJIT_E_INTERNAL, "the launch state failed its own check"};
  return state;
}

bool LaunchState::consistent() const noexcept {
  if (parameters_[0] != &args_) return false;
  for (const Kernel& kernel : kernels_) {
    if (kernel.function == nullptr || kernel.config.blockDimX == 0) return false;
  }
  return true;
}

CUresult LaunchState::launch(std::uint32_t kernel, std::uint32_t grid, CUstream stream) noexcept {
  Kernel& target = kernels_[kernel];
  target.config.gridDimX = grid;
  target.config.hStream = stream;
  return driver_.cuLaunchKernelEx(&target.config, target.function, parameters_, nullptr);
}

}  // namespace csajit
