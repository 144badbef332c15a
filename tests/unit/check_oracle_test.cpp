// The double-precision reference of `csajit check`: index rules and formulas against values worked out by hand.
#include "check_oracle.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check_number.hpp"
#include "check_window.hpp"

namespace csajit::tool {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

CheckCase pack(std::int64_t ratio, std::int64_t coff, std::vector<std::int32_t> cu, std::vector<std::int32_t> comp,
               std::int64_t tokens, std::int64_t rows) {
  CheckCase check;
  check.ratio = ratio;
  check.coff = coff;
  check.head_dim = 8;
  check.cu = std::move(cu);
  check.comp = std::move(comp);
  check.num_tokens = tokens;
  check.num_rows = rows;
  return check;
}

std::vector<std::int64_t> tokens_of(const Windows& windows, std::int64_t row, std::int64_t window) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t k = 0; k < window; ++k) tokens.push_back(windows.token(row, k));
  return tokens;
}

template <class T>
T bits_of(csajit_dtype type, double value) {
  std::array<std::byte, sizeof(T)> bytes{};
  encode_elements(type, &value, 1, bytes.data());
  T bits;
  std::memcpy(&bits, bytes.data(), sizeof bits);
  return bits;
}

}  // namespace

TEST_CASE("check oracle: an own window pools ratio tokens from the segment's start on") {
  // Segments of 7, 0 and 5 tokens: rows 0 and 1 of the first, row 2 of the third, tails 6 and 10, 11.
  const CheckCase check = pack(3, 1, {0, 7, 7, 12}, {0, 2, 2, 3}, 12, 3);
  const Windows windows(check);
  CHECK(tokens_of(windows, 0, 3) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(tokens_of(windows, 1, 3) == std::vector<std::int64_t>{3, 4, 5});
  CHECK(tokens_of(windows, 2, 3) == std::vector<std::int64_t>{7, 8, 9});
  CHECK(windows.row(2).segment == 2);
  for (std::int64_t t = 0; t < 12; ++t) CHECK(windows.consumed(t, 0) == (t != 6 && t != 10 && t != 11));
}

TEST_CASE("check oracle: an overlapping window takes the block before, but not across a segment's start") {
  const CheckCase check = pack(2, 2, {0, 5, 9}, {0, 2, 4}, 9, 4);
  const Windows windows(check);
  CHECK(tokens_of(windows, 0, 4) == std::vector<std::int64_t>{no_token, no_token, 0, 1});
  CHECK(tokens_of(windows, 1, 4) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(tokens_of(windows, 2, 4) == std::vector<std::int64_t>{no_token, no_token, 5, 6});
  CHECK(tokens_of(windows, 3, 4) == std::vector<std::int64_t>{5, 6, 7, 8});
  CHECK(windows.column(1) == 0);
  CHECK(windows.column(2) == 8);
  CHECK(windows.ape_row(1) == 1);
  CHECK(windows.ape_row(3) == 1);
  // First halves go to the next block: those of a segment's last block and of tails go to nobody.
  const std::vector<bool> first_half{true, true, false, false, false, true, true, false, false};
  const std::vector<bool> second_half{true, true, true, true, false, true, true, true, true};
  for (std::int64_t t = 0; t < 9; ++t) {
    CHECK(windows.consumed(t, 0) == first_half[static_cast<std::size_t>(t)]);
    CHECK(windows.consumed(t, 1) == second_half[static_cast<std::size_t>(t)]);
  }
}

TEST_CASE("check oracle: rows that were not asked for consume nothing, capacity rows only read") {
  // One segment of 8 tokens, 4 rows, of which 2 are asked for.
  const Windows fewer(pack(2, 2, {0, 8}, {0, 4}, 8, 2));
  CHECK(fewer.consumed(1, 0));
  CHECK_FALSE(fewer.consumed(2, 0));  // for row 2, which is not computed
  CHECK(fewer.consumed(3, 1));
  CHECK_FALSE(fewer.consumed(4, 1));

  // comp starts at 1 and the pack at token 3: row 0 and row 2 are capacity rows at token 0.
  const Windows offset(pack(2, 2, {3, 5}, {1, 2}, 8, 3));
  CHECK(offset.row(0).capacity);
  CHECK_FALSE(offset.row(1).capacity);
  CHECK(offset.row(2).capacity);
  CHECK(tokens_of(offset, 0, 4) == std::vector<std::int64_t>{no_token, no_token, 0, 1});
  CHECK(tokens_of(offset, 1, 4) == std::vector<std::int64_t>{no_token, no_token, 3, 4});
  CHECK(offset.read(0, 1));
  CHECK_FALSE(offset.consumed(0, 1));
  CHECK_FALSE(offset.read(0, 0));
  CHECK_FALSE(offset.read(2, 1));
  CHECK(offset.consumed(3, 1));
}

TEST_CASE("check oracle: a batched layout counts tokens within each segment's stride") {
  CheckCase check = pack(2, 1, {0, 3, 7}, {0, 1, 3}, 10, 3);
  check.tokens_per_segment = 5;
  const Windows windows(check);
  CHECK(tokens_of(windows, 0, 2) == std::vector<std::int64_t>{0, 1});
  CHECK(tokens_of(windows, 1, 2) == std::vector<std::int64_t>{5, 6});
  CHECK(tokens_of(windows, 2, 2) == std::vector<std::int64_t>{7, 8});
  CHECK_FALSE(windows.consumed(2, 0));
  CHECK_FALSE(windows.consumed(9, 0));
}

TEST_CASE("check oracle: two equal scores halve the values and their gradients") {
  const std::array<double, 2> kv{3, -1};
  const std::array<double, 2> x{1, 1};
  const double g = 4;
  WindowResult result;
  evaluate_window(2, 1, kv.data(), x.data(), &g, result);
  CHECK(result.out[0] == 1.0);        // 3/2 - 1/2
  CHECK(result.out_terms[0] == 2.0);  // 3/2 + 1/2
  CHECK(result.grad_kv[0] == 2.0);    // 4 * 1/2
  CHECK(result.grad_kv_terms[1] == 2.0);
  CHECK(result.grad_score[0] == 4.0);         // 1/2 * (12 - (6 - 2))
  CHECK(result.grad_score[1] == -4.0);        // 1/2 * (-4 - 4)
  CHECK(result.grad_score_terms[0] == 10.0);  // 1/2 * (12 + (6 + 2))
  CHECK(result.grad_score_terms[1] == 6.0);   // 1/2 * (4 + 8)
}

TEST_CASE("check oracle: a softmax of ln 1, ln 3 weighs 1 to 3, column by column") {
  const std::array<double, 4> kv{8, 1, 4, 1};  // (2 entries, 2 columns)
  const std::array<double, 4> x{0, 7, std::log(3.0), 7 + std::log(3.0)};
  WindowResult result;
  evaluate_window(2, 2, kv.data(), x.data(), nullptr, result);
  CHECK(result.p[0] == doctest::Approx(0.25).epsilon(1e-15));
  CHECK(result.p[2] == doctest::Approx(0.75).epsilon(1e-15));
  CHECK(result.out[0] == doctest::Approx(5.0).epsilon(1e-15));
  CHECK(result.out[1] == doctest::Approx(1.0).epsilon(1e-15));
}

TEST_CASE("check oracle: an entry that does not exist changes nothing") {
  const std::array<double, 3> kv{0, 2, 6};
  const std::array<double, 3> x{-infinity, 1, 1};
  const double g = 1;
  WindowResult result;
  evaluate_window(3, 1, kv.data(), x.data(), &g, result);
  CHECK(result.p[0] == 0.0);
  CHECK(result.out[0] == 4.0);
  CHECK(result.grad_kv[0] == 0.0);
  CHECK(result.grad_score[0] == 0.0);
  CHECK(result.grad_score[1] == -1.0);
}

TEST_CASE("check oracle: non-finite scores spread as IEEE arithmetic has it") {
  const std::array<double, 2> kv{1, 1};
  WindowResult result;
  for (const double bad : {nan, infinity}) {
    for (std::size_t at = 0; at < 2; ++at) {
      std::array<double, 2> x{0, 0};
      x[at] = bad;
      evaluate_window(2, 1, kv.data(), x.data(), nullptr, result);
      CHECK(std::isnan(result.out[0]));
    }
  }
  const std::array<double, 2> x{-infinity, -infinity};
  evaluate_window(2, 1, kv.data(), x.data(), nullptr, result);
  CHECK(std::isnan(result.out[0]));
}

TEST_CASE("check oracle: terms count for more where fp32 rounds a large exponent") {
  const std::array<double, 3> kv{1, 1, 1};
  const std::array<double, 3> x{0, -4, -16};
  const std::array<double, 1> grad_out{1};
  WindowResult result;
  evaluate_window(3, 1, kv.data(), x.data(), grad_out.data(), result);
  CHECK(result.grad_kv_terms[0] == result.p[0]);
  CHECK(result.grad_kv_terms[1] == result.p[1]);  // 4 + 0 + 4: the last that counts once
  CHECK(result.grad_kv_terms[2] == doctest::Approx(2.5 * result.p[2]));
  CHECK(result.out_terms[0] == doctest::Approx(result.p[0] + result.p[1] + 2.5 * result.p[2]));
}

TEST_CASE("check oracle: the bound is half an ulp and a part of the absolute terms") {
  CHECK(error_bound(CSAJIT_DTYPE_BF16, 1.0, 0, true) == 0x1p-8);
  CHECK(error_bound(CSAJIT_DTYPE_BF16, 1.0, 1.0, true) == 0x1p-8 + 0x1p-20);
  CHECK(error_bound(CSAJIT_DTYPE_BF16, -3.0, 2.0, false) == 0x1p-7 + 0x1p-17);
  CHECK(error_in_bounds(CSAJIT_DTYPE_FP32, 1.0, 1.0, 1.0, true) == 0);
  CHECK(error_in_bounds(CSAJIT_DTYPE_BF16, 1.0 + 0x1p-8, 1.0, 0, true) == 1.0);
  CHECK(error_in_bounds(CSAJIT_DTYPE_BF16, 1.0 + 0x1p-7, 1.0, 0, true) == 2.0);
  CHECK(error_in_bounds(CSAJIT_DTYPE_BF16, nan, 1.0, 0, true) == infinity);
  CHECK(error_in_bounds(CSAJIT_DTYPE_BF16, infinity, 1.0, 0, true) == infinity);
  CHECK(error_in_bounds(CSAJIT_DTYPE_BF16, nan, nan, 0, true) == 0);
  CHECK(error_in_bounds(CSAJIT_DTYPE_BF16, 1.0, nan, 0, true) == infinity);
  CHECK(error_in_bounds(CSAJIT_DTYPE_BF16, -infinity, infinity, 0, true) == infinity);
}

TEST_CASE("check numbers: ulps go down to the smallest denormal") {
  CHECK(ulp(CSAJIT_DTYPE_BF16, 1.0) == 0x1p-7);
  CHECK(ulp(CSAJIT_DTYPE_BF16, -1.99) == 0x1p-7);
  CHECK(ulp(CSAJIT_DTYPE_BF16, 0) == 0x1p-133);
  CHECK(ulp(CSAJIT_DTYPE_FP16, 0x1p-20) == 0x1p-24);
  CHECK(ulp(CSAJIT_DTYPE_FP16, 2048) == 2.0);
  CHECK(ulp(CSAJIT_DTYPE_FP32, 1.0) == 0x1p-23);
  CHECK(ulp(CSAJIT_DTYPE_FP32, 1e-44) == 0x1p-149);
}

TEST_CASE("check numbers: rounding is to nearest, ties to even, with denormals and overflow") {
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_BF16, 1.0) == 0x3f80);
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_BF16, 1.0 + 0x1p-8) == 0x3f80);            // tie, down to even
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_BF16, 1.0 + 0x1p-7 + 0x1p-8) == 0x3f82);   // tie, up to even
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_BF16, 1.0 + 0x1p-8 + 0x1p-40) == 0x3f81);  // no double rounding
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_BF16, 1e39) == 0x7f80);
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_BF16, -0.0) == 0x8000);
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_BF16, nan) == 0x7fc0);
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_FP16, 1.5) == 0x3e00);
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_FP16, -65504) == 0xfbff);
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_FP16, 65520) == 0x7c00);
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_FP16, 0x1p-24) == 0x0001);
  CHECK(bits_of<std::uint16_t>(CSAJIT_DTYPE_FP16, 0x1p-25) == 0x0000);
  CHECK(bits_of<std::uint32_t>(CSAJIT_DTYPE_FP32, -2.0) == 0xc0000000);
}

TEST_CASE("check numbers: every 16-bit pattern survives decoding and encoding") {
  for (const csajit_dtype type : {CSAJIT_DTYPE_BF16, CSAJIT_DTYPE_FP16}) {
    std::uint32_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto pattern = static_cast<std::uint16_t>(bits);
      std::array<std::byte, 2> bytes{};
      std::memcpy(bytes.data(), &pattern, 2);
      const double value = decode_element(type, bytes.data());
      if (std::isnan(value)) continue;
      wrong += bits_of<std::uint16_t>(type, value) == pattern ? 0U : 1U;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("check numbers: what marks an unwritten element is a NaN and no canonical one") {
  for (const csajit_dtype type : {CSAJIT_DTYPE_BF16, CSAJIT_DTYPE_FP16, CSAJIT_DTYPE_FP32}) {
    for (const int variant : {0, 1}) {
      std::array<std::byte, 4> bytes{};
      fill_unwritten(type, variant, 1, bytes.data());
      CHECK(std::isnan(decode_element(type, bytes.data())));
      CHECK(is_unwritten(type, variant, bytes.data()));
      CHECK_FALSE(is_unwritten(type, 1 - variant, bytes.data()));
      const double quiet = nan;
      encode_elements(type, &quiet, 1, bytes.data());
      CHECK_FALSE(is_unwritten(type, variant, bytes.data()));
    }
  }
}

}  // namespace csajit::tool
