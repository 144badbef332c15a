// The order of every sum, to the bit, in every layout and on every grid.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "emulator/bit_comparison.hpp"
#include "emulator/emulated_device.hpp"
#include "emulator/packed_case.hpp"

namespace csajit::emulator {
namespace {

void expect_bits(EmulatedDevice& device, const tool::CheckCase& check) {
  const Tally tally = compare_bits(device, check);
  CHECK_MESSAGE(tally.misses == 0,
                fmt::format("{}, {}: {} of {}", check.name, tool::describe_spec(check), tally.misses, tally.elements));
}

const EmulatedSpec& spec_of(std::int64_t ratio, std::int64_t head_dim, std::int64_t coff) {
  for (const EmulatedSpec& spec : emulated_specs()) {
    if (spec.ratio == ratio && spec.head_dim == head_dim && spec.coff == coff) return spec;
  }
  FAIL("not among the emulated specs");
  return emulated_specs().front();
}

}  // namespace

TEST_CASE("every sum has its fixed order, on few CTAs and many, scalar and wide, packed and strided") {
  for_each_spec([](const EmulatedSpec& spec) {
    const std::int64_t r = spec.ratio;
    // Two partials and more for each lane of the reduction, and rows before the first.
    const std::int64_t rows = spec.coff * r <= 16 ? 75 : 19;
    tool::CheckCase check = packed(spec, "packed", {2 * r, r - 1, rows * r + r / 2, 0, r});
    for (auto& offset : check.comp) ++offset;
    ++check.num_rows;
    EmulatedDevice device;
    expect_bits(device, check);
    check.name = "strided, few CTAs";
    check.row_gap = 8;
    check.accumulate = check.wants_grad_ape();
    device.limit_grid(3);
    expect_bits(device, check);
    check.name = "scalar, one CTA";
    check.row_gap = 3;
    device.limit_grid(1);
    device.only_scalar(true);
    expect_bits(device, check);
  });
}

TEST_CASE("packs that need more than one row an item and a partial keep the order") {
  EmulatedDevice device;
  expect_bits(device, packed(spec_of(2, 4, 2), "short, runs of four rows", {2 * 3099, 2}));
  expect_bits(device, packed(spec_of(17, 4, 1), "long, partials of four rows", {17 * 599, 17}));
  expect_bits(device, packed(spec_of(128, 8, 1), "long, items of two rows", {128 * 2112, 128}));
  expect_bits(device, packed(spec_of(9, 65, 2), "long, items of two rows in one strip of three", {9 * 720}));
}

TEST_CASE("grad_ape's order follows the rows that there are, whatever R is") {
  for (const EmulatedSpec& spec : {spec_of(2, 4, 2), spec_of(17, 4, 1)}) {
    EmulatedDevice device;
    const std::int64_t rows = spec.coff * spec.ratio <= 16 ? 1530 : 250;  // just below a doubling
    tool::CheckCase check = packed(spec, "many rows are missing", {rows * spec.ratio});
    check.num_rows += 1000;
    expect_bits(device, check);
    check = packed(spec, "fewer rows than there are", {(rows + 1000) * spec.ratio});
    check.num_rows = rows;
    expect_bits(device, check);
  }
}

}  // namespace csajit::emulator
