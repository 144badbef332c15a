// The second stage of grad_ape by itself, on partials that only a compensated sum of the right order adds up.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/launch_args.h"
#include "common/tiling.h"
#include "emulator/ape_gradient.hpp"
#include "emulator/device_memory.hpp"
#include "emulator/emulated_device.hpp"
#include "emulator/grid.hpp"

namespace csajit::emulator {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float large = 0x1p24F;

constexpr std::size_t elements = 4 * 24;  // of ratio 4, head_dim 12, coff 2: three warps of them

// The device memory of one launch.
class Words {
 public:
  explicit Words(const std::vector<float>& values) : address_(memory().allocate(values.size() * sizeof values[0])) {
    std::vector<std::byte> bytes(values.size() * sizeof values[0]);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    memory().copy_in(address_, bytes);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  ~Words() { memory().release(address_); }

  std::uint64_t address() const { return address_; }
  float at(std::size_t i) const { return memory().load<float>(address_ + i * sizeof(float)); }

 private:
  static DeviceMemory& memory() { return DeviceMemory::instance(); }
  std::uint64_t address_;
};

// grad_ape from these partials of element 0; element e gets them times 2^-e, so that no two are alike.
std::vector<float> reduce(const std::vector<float>& partials, unsigned int ctas) {
  std::vector<float> workspace;
  for (const float partial : partials) {
    for (std::size_t e = 0; e < elements; ++e) workspace.push_back(std::ldexp(partial, -static_cast<int>(e)));
  }
  const Words work(workspace);
  const Words sums(std::vector<float>(elements, std::numeric_limits<float>::quiet_NaN()));
  const auto rows = static_cast<std::int32_t>(partials.size() * 4);
  const Words comp({std::bit_cast<float>(0), std::bit_cast<float>(rows)});
  LaunchArgs args{};
  args.workspace = work.address();
  args.grad_ape = sums.address();
  args.grad_ape_row_stride = 24;
  args.cu_seqlens_comp = comp.address();
  args.num_segments = 1;
  args.num_rows = rows;
  const Kernel& kernel = emulated_kernels().at("csajit::compressor_reduce_grad_ape<4, 12, 2, true>");
  DeviceMemory::instance().begin_kernels();
  Grid::run(ctas, kReduceThreads, [&] { kernel(args); });
  CHECK(DeviceMemory::instance().violation().empty());
  std::vector<float> result;
  for (std::size_t e = 0; e < elements; ++e) result.push_back(sums.at(e));
  return result;
}

// `values` as the partials at every `step`-th place, zeros between them.
std::vector<float> spread(const std::vector<float>& values, std::size_t step) {
  std::vector<float> partials(values.size() * step, 0.0F);
  for (std::size_t i = 0; i < values.size(); ++i) partials[i * step] = values[i];
  return partials;
}

}  // namespace

TEST_CASE("what a sum of partials loses is given back, within a lane and over the lanes") {
  // A lane takes every eighth partial.
  for (const std::size_t step : {1, 8}) {
    CAPTURE(step);
    CHECK(reduce(spread({large, 1, -large}, step), 1)[0] == 1.0F);
    CHECK(reduce(spread({large, 1, 1, 1}, step), 1)[0] == large + 4.0F);  // 2^24 + 3, to nearest even
    CHECK(reduce(spread({1, large, 1, -large}, step), 1)[0] == 2.0F);
    CHECK(reduce(spread({infinity, 1}, step), 1)[0] == infinity);
    CHECK(reduce(spread({1, -infinity, 1}, step), 1)[0] == -infinity);
    CHECK(reduce(spread({3e38F, 3e38F, 1}, step), 1)[0] == infinity);
    CHECK(std::isnan(reduce(spread({infinity, -infinity}, step), 1)[0]));
  }
}

TEST_CASE("partials add up in the same order on every grid") {
  // Each value and its negative, apart: what is left is what rounding made of the order.
  std::vector<float> partials;
  for (int i = 0; i < 50; ++i) {
    const float fraction = static_cast<float>(i * 5741 % 65536) / 65536.0F;
    partials.push_back(std::ldexp(1.0F + fraction, i * 29 % 60));
  }
  for (std::size_t i = 0; i < 50; ++i) partials.push_back(-partials[i * 7 % 50]);
  const float want = sum_partials(partials);
  CHECK(want != 0.0F);
  for (const unsigned int ctas : {1U, 2U, 3U, 7U}) {
    CAPTURE(ctas);
    const std::vector<float> sums = reduce(partials, ctas);
    for (std::size_t e = 0; e < elements; ++e) CHECK(sums[e] == std::ldexp(want, -static_cast<int>(e)));
  }
}

}  // namespace csajit::emulator
