// Short windows to the bit: the real templates on the host give what the serial fp32 order gives, in every element,
// whatever stands in the window.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "check_plant.hpp"
#include "check_run.hpp"
#include "emulator/bit_comparison.hpp"
#include "emulator/emulated_device.hpp"
#include "emulator/packed_case.hpp"

namespace csajit::emulator {
namespace {

// Rows that give every plan a window, in columns dealt in fours: two take any plan, one a finite one (check_plant.hpp).
std::int64_t rows_for(std::size_t any_plans, std::size_t finite_plans, std::int64_t head_dim) {
  const auto any = static_cast<std::int64_t>(any_plans);
  const auto finite = static_cast<std::int64_t>(finite_plans);
  const std::int64_t fours = head_dim / 4;
  if (fours == 0) return std::max(2 * any, 4 * finite) / head_dim;  // the seed decides which parts there are
  const std::int64_t any_columns = 2 * fours + std::max<std::int64_t>(head_dim % 4 - 2, 0);
  return std::max(any / any_columns, finite / fours) + 1;
}

// One long segment of that many rows and some short ones, with capacity rows behind.
tool::CheckCase planted(const EmulatedSpec& spec, tool::Plant plant) {
  const std::int64_t r = spec.ratio;
  const std::int64_t window = spec.coff * r;
  const std::size_t finite = tool::finite_plans(window).size();
  std::int64_t rows = 40;
  if (plant == tool::Plant::non_finite) {
    rows = rows_for(tool::non_finite_plans(window).size(), finite, spec.head_dim);
  } else if (plant == tool::Plant::largest) {
    rows = rows_for(tool::largest_plans(window, spec.kv).size(), finite, spec.head_dim);
  } else if (plant == tool::Plant::tiny) {
    rows = 300 * window;
  }
  tool::CheckCase check = packed(spec, "planted", {r * rows, r, 3 * r + r / 2, 0, 2 * r, r - 1});
  check.num_rows += 2;
  check.plant = plant;
  return check;
}

}  // namespace

TEST_CASE("a short window gives the serial order's bits, non-finite values and the largest floats among them") {
  for_each_spec([](const EmulatedSpec& spec) {
    tool::CheckCase check = planted(spec, tool::Plant::none);
    if (!check.is_short()) return;
    for (const tool::Plant plant :
         {tool::Plant::none, tool::Plant::non_finite, tool::Plant::largest, tool::Plant::ape}) {
      if (plant == tool::Plant::ape && !spec.ape) continue;
      check = planted(spec, plant);
      for (const bool only_scalar : {false, true}) {
        EmulatedDevice device;
        device.only_scalar(only_scalar);
        device.limit_grid(only_scalar ? 3 : 0);
        const Tally tally = compare_bits(device, check);
        const auto what = fmt::format("{}, plant {}", tool::describe_spec(check), static_cast<int>(plant));
        CHECK_MESSAGE(tally.misses == 0, what, ": ", tally.misses, " of ", tally.elements);
        const bool overflows =
            plant == tool::Plant::largest && spec.out == CSAJIT_DTYPE_FP16 && spec.kv != CSAJIT_DTYPE_FP16;
        CHECK_MESSAGE(
            (tally.non_finite > 0) == (plant == tool::Plant::non_finite || plant == tool::Plant::ape || overflows),
            what);
      }
    }
  });
}

TEST_CASE("a short window gives the serial order's bits where weights are too small for the fast division") {
  for_each_spec([](const EmulatedSpec& spec) {
    // Far apart everywhere, and one score alone far below the others. Of weights that are denormals the fast division
    // gets one in twelve wrong.
    tool::CheckCase apart = planted(spec, tool::Plant::none);
    if (!apart.is_short()) return;
    apart.score_sigma = 40;
    std::vector<tool::CheckCase> checks{apart};
    // 16-bit types round the difference away.
    if (spec.kv == CSAJIT_DTYPE_FP32) checks.push_back(planted(spec, tool::Plant::tiny));
    for (const tool::CheckCase& check : checks) {
      for (const bool only_scalar : {false, true}) {
        EmulatedDevice device;
        device.only_scalar(only_scalar);
        const Tally tally = compare_bits(device, check);
        CHECK_MESSAGE(tally.misses == 0, fmt::format("{}, plant {}: {} of {}", tool::describe_spec(check),
                                                     static_cast<int>(check.plant), tally.misses, tally.elements));
      }
    }
  });
}

TEST_CASE("non-finite values and the largest floats meet the oracle, in every window and at every position") {
  for_each_spec([](const EmulatedSpec& spec) {
    for (const tool::Plant plant : {tool::Plant::non_finite, tool::Plant::largest, tool::Plant::ape}) {
      if (plant == tool::Plant::ape && !spec.ape) continue;
      tool::CheckCase check = planted(spec, plant);
      // From seed to seed the columns change their parts; two seeds give each column every plan.
      const std::vector<std::uint64_t> seeds = spec.head_dim < 4  ? std::vector<std::uint64_t>{1, 2, 3, 4}
                                               : check.is_short() ? std::vector<std::uint64_t>{1, 3}
                                                                  : std::vector<std::uint64_t>{1};
      for (const std::uint64_t seed : seeds) {
        EmulatedDevice device;
        device.only_scalar(seed == 3);
        device.limit_grid(seed == 3 ? 3 : 0);
        check.seed = seed;
        const tool::Windows windows(check);
        const bool one_part = spec.head_dim < 4;  // so few columns that not every part has one
        const std::int64_t surplus = tool::plant_windows(check, windows, [](auto&&...) {});
        CHECK((one_part || surplus >= 0));
        const tool::CaseOutcome outcome = tool::run_case(device, check, 1);
        CHECK_MESSAGE(outcome.verdict == tool::Verdict::pass,
                      fmt::format("{}, plant {}, seed {}: {}", tool::describe_spec(check), static_cast<int>(plant),
                                  seed, outcome.message));
      }
    }
  });
}

}  // namespace csajit::emulator
