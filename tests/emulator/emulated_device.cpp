#include "emulator/emulated_device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "compressor/problem.hpp"
#include "emulator/device_memory.hpp"
#include "emulator/grid.hpp"

namespace csajit::emulator {

EmulatedDevice::EmulatedDevice() = default;

Result<std::uint64_t> EmulatedDevice::allocate(std::size_t bytes) { return DeviceMemory::instance().allocate(bytes); }
void EmulatedDevice::release(std::uint64_t address) { DeviceMemory::instance().release(address); }

Result<void> EmulatedDevice::upload(std::uint64_t address, const std::vector<std::byte>& bytes) {
  DeviceMemory::instance().copy_in(address, bytes);
  return {};
}

Result<void> EmulatedDevice::download(std::uint64_t address, std::vector<std::byte>& bytes) {
  DeviceMemory::instance().copy_out(address, bytes);
  return {};
}

Result<void> EmulatedDevice::prepare(const csajit_spec& spec) {
  const auto parsed = parse_spec(spec);
  if (!parsed) return parsed.error();
  for (const KernelRecipe& recipe : kernels_of(*parsed, 99 << 10)) {
    if (!emulated_kernels().contains(recipe.name_expression)) {
      return Error{CSAJIT_E_UNSUPPORTED, fmt::format("not instantiated for the host: {}", recipe.name_expression)};
    }
  }
  return {};
}

Result<std::uint64_t> EmulatedDevice::workspace_bytes(const csajit_spec& spec, std::int64_t num_rows) {
  return csajit::workspace_bytes(*parse_spec(spec), num_rows);
}

template <class Args, class Plan>
Result<void> EmulatedDevice::launch(const csajit_spec& spec, const Args& args, Plan plan) {
  const Spec parsed = *parse_spec(spec);
  std::vector<KernelRecipe> recipes = kernels_of(parsed, 99 << 10);
  if (only_scalar_) std::erase_if(recipes, [](const KernelRecipe& recipe) { return recipe.vector > 1; });
  std::vector<KernelShape> shapes;
  for (const KernelRecipe& recipe : recipes) shapes.push_back(shape_of(recipe));
  LaunchArgs launch_args{};
  const Result<LaunchPlan> planned = plan(parsed, args, shapes, launch_args);
  if (!planned) return planned.error();
  if (launch_args.zero != 0) return Error{CSAJIT_E_INTERNAL, "zero is not 0: loads would be tied into values"};
  DeviceMemory& memory = DeviceMemory::instance();
  memory.begin_kernels();
  for (std::uint32_t i = 0; i < planned->count; ++i) {
    const KernelLaunch& launch = planned->launches[i];
    const Kernel& kernel = emulated_kernels().at(recipes[launch.kernel].name_expression);
    const unsigned int ctas = max_ctas_ == 0 ? launch.grid : std::min(launch.grid, max_ctas_);
    Grid::run(ctas, shapes[launch.kernel].block_threads, [&] { kernel(launch_args); });
  }
  if (!memory.violation().empty()) return Error{CSAJIT_E_DRIVER, memory.violation()};
  return {};
}

Result<void> EmulatedDevice::forward(const csajit_spec& spec, const csajit_forward_args& args) {
  return launch(spec, args, plan_forward);
}

Result<void> EmulatedDevice::backward(const csajit_spec& spec, const csajit_backward_args& args) {
  return launch(spec, args, plan_backward);
}

}  // namespace csajit::emulator
