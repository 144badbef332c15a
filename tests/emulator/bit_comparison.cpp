#include "emulator/bit_comparison.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "check_memory.hpp"
#include "check_number.hpp"
#include "check_run.hpp"
#include "check_window.hpp"
#include "emulator/ape_gradient.hpp"
#include "emulator/serial_window.hpp"
#include "emulator/tree_window.hpp"

namespace csajit::emulator {

namespace {

class BitComparison {
 public:
  BitComparison(const tool::CheckCase& check, const tool::CompareInput& input)
      : check_(check), input_(input), windows_(check), ape_gradient_(check) {}

  Tally run() {
    for (std::int64_t row = 0; row < windows_.num_rows(); ++row) {
      for (std::int64_t j = 0; j < check_.head_dim; ++j) compare(row, j);
    }
    compare_grad_ape();
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
    const float grad_out = capacity ? 0.0F : at(input_.grad_out, row, j);
    const WindowValues want =
        check_.is_short() ? evaluate_serially(kv, x, grad_out, Exp::kernels) : evaluate_by_tree(kv, x, grad_out);
    expect(input_.out, row, j, want.out);
    for (std::size_t k = 0; !capacity && k < window; ++k) {
      const auto entry = static_cast<std::int64_t>(k);
      const std::int64_t token = windows_.token(row, entry);
      if (token == tool::no_token) continue;
      expect(input_.grad_kv, token, windows_.column(entry) + j, want.grad_kv[k]);
      expect(input_.grad_score, token, windows_.column(entry) + j, want.grad_score[k]);
      if (input_.ape) ape_gradient_.add(row, windows_.ape_row(entry), windows_.column(entry) + j, want.grad_score[k]);
    }
  }

  void compare_grad_ape() {
    if (!input_.grad_ape) return;
    for (std::int64_t row = 0; row < check_.ratio; ++row) {
      for (std::int64_t j = 0; j < check_.columns(); ++j) {
        const float before = input_.initial_grad_ape ? at(input_.initial_grad_ape, row, j) : 0.0F;
        expect(input_.grad_ape, row, j, before + ape_gradient_.total(row, j));
      }
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
  ApeGradient ape_gradient_;
  Tally tally_;
};

}  // namespace

Tally compare_bits(EmulatedDevice& device, const tool::CheckCase& check) {
  const csajit_spec spec = tool::spec_of(check);
  const tool::Windows windows(check);
  const auto workspace = device.workspace_bytes(spec, check.num_rows);
  REQUIRE(workspace);
  tool::CaseMemory memory(device, check, &windows, *workspace, 1);
  REQUIRE(memory.arm(0));
  REQUIRE(device.forward(spec, memory.forward_args()));
  REQUIRE(device.backward(spec, memory.backward_args()));
  REQUIRE(memory.fetch());
  CHECK(memory.damage().value_or("") == "");
  return BitComparison(check, memory.compare_input(0)).run();
}

}  // namespace csajit::emulator
