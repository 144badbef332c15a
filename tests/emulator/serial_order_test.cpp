// Short windows to the bit: the real templates on the host give what the serial fp32 order gives, in every element,
// whatever stands in the window.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "check_memory.hpp"
#include "check_number.hpp"
#include "check_plant.hpp"
#include "check_run.hpp"
#include "emulator/emulated_device.hpp"
#include "emulator/packed_case.hpp"
#include "emulator/serial_window.hpp"

namespace csajit::emulator {
namespace {

struct Tally {
  std::int64_t elements = 0, non_finite = 0, misses = 0;
};

class SerialComparison {
 public:
  SerialComparison(const tool::CheckCase& check, const tool::CompareInput& input)
      : check_(check), input_(input), windows_(check) {}

  Tally run() {
    for (std::int64_t row = 0; row < windows_.num_rows(); ++row) {
      for (std::int64_t j = 0; j < check_.head_dim; ++j) compare(row, j);
    }
    return tally_;
  }

 private:
  static float at(const tool::TensorBytes& tensor, std::int64_t row, std::int64_t column) {
    return static_cast<float>(tool::decode_element(tensor.at.type, tensor.element(row, column)));
  }

  void compare(std::int64_t row, std::int64_t j) {
    const auto window = static_cast<std::size_t>(check_.window());
    std::vector<float> kv(window, 0.0F);
    std::vector<float> x(window, -std::numeric_limits<float>::infinity());
    for (std::size_t k = 0; k < window; ++k) {
      const auto entry = static_cast<std::int64_t>(k);
      const std::int64_t token = windows_.token(row, entry);
      if (token == tool::no_token) continue;
      const std::int64_t column = windows_.column(entry) + j;
      kv[k] = at(input_.kv, token, column);
      x[k] = at(input_.score, token, column);
      if (input_.ape) x[k] = x[k] + at(input_.ape, windows_.ape_row(entry), column);
    }
    const bool capacity = windows_.row(row).capacity;
    const SerialWindow want = evaluate_serially(kv, x, capacity ? 0.0F : at(input_.grad_out, row, j), Exp::kernels);
    expect(input_.out, row, j, want.out);
    for (std::size_t k = 0; !capacity && k < window; ++k) {
      const auto entry = static_cast<std::int64_t>(k);
      const std::int64_t token = windows_.token(row, entry);
      if (token == tool::no_token) continue;
      expect(input_.grad_kv, token, windows_.column(entry) + j, want.grad_kv[k]);
      expect(input_.grad_score, token, windows_.column(entry) + j, want.grad_score[k]);
    }
  }

  void expect(const tool::TensorBytes& tensor, std::int64_t row, std::int64_t column, float exact) {
    std::byte bits[4];
    const double value = static_cast<double>(exact);
    tool::encode_elements(tensor.at.type, &value, 1, bits);
    const double want = tool::decode_element(tensor.at.type, bits);
    const double got = tool::decode_element(tensor.at.type, tensor.element(row, column));
    ++tally_.elements;
    tally_.non_finite += std::isfinite(want) ? 0 : 1;
    tally_.misses += got == want || (std::isnan(got) && std::isnan(want)) ? 0 : 1;
  }

  const tool::CheckCase& check_;
  const tool::CompareInput& input_;
  tool::Windows windows_;
  Tally tally_;
};

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
  }
  tool::CheckCase check = packed(spec, "planted", {r * rows, r, 3 * r + r / 2, 0, 2 * r, r - 1});
  check.num_rows += 2;
  check.plant = plant;
  return check;
}

Tally compare_serially(EmulatedDevice& device, const tool::CheckCase& check) {
  const csajit_spec spec = tool::spec_of(check);
  const tool::Windows windows(check);
  const auto workspace = device.workspace_bytes(spec, check.num_rows);
  REQUIRE(workspace);
  tool::CaseMemory memory(device, check, &windows, *workspace, 1);
  REQUIRE(memory.arm(0));
  REQUIRE(device.forward(spec, memory.forward_args()));
  REQUIRE(device.backward(spec, memory.backward_args()));
  REQUIRE(memory.fetch());
  return SerialComparison(check, memory.compare_input(0)).run();
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
        const Tally tally = compare_serially(device, check);
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
