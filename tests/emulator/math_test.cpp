// The kernels' exp and division on the host, by themselves. The GPU's own 2^x is tests/gpu/exp_division.py's.
#include "common/math.cuh"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace csajit::emulator {
namespace {

constexpr std::uint32_t exponent_bias = 127;
constexpr std::uint32_t fraction_mask = 0x7fffff;

// A stream of 32 random bits, the same in every run.
class Bits {
 public:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 32);
  }

 private:
  std::uint64_t state_ = 1;
};

float float_of(std::uint32_t exponent, std::uint32_t fraction) {
  return bits_to_float(exponent << 23 | (fraction & fraction_mask));
}

// What a sum of at most 512 terms up to 1 can be, powers of two and their neighbours more often than by chance.
float pick_den(Bits& bits) {
  const std::uint32_t exponent = exponent_bias + bits.next() % 10;
  if (exponent == exponent_bias + 9) return 512.0F;
  const std::uint32_t kind = bits.next() % 8;
  const std::uint32_t fraction = bits.next();
  return float_of(exponent, kind == 0   ? 0
                            : kind == 1 ? fraction % 16
                            : kind == 2 ? fraction_mask - fraction % 16
                                        : fraction);
}

struct Quotients {
  std::int64_t differing = 0, apart = 0;  // from IEEE division, and by more than one float
};

Quotients divide_by_one_exponent(std::uint32_t exponent, int pairs) {
  Bits bits;
  Quotients found;
  for (int i = 0; i < pairs; ++i) {
    std::uint32_t fraction = bits.next() & fraction_mask;
    if (exponent == 0 && i % 2 == 0) fraction >>= bits.next() % 23;  // denormals of every size
    if (exponent == exponent_bias) fraction = 0;                     // 1 is the largest
    const float e = float_of(exponent, fraction);
    const float den = pick_den(bits);
    const float quotient = divide_normal(e, den, reciprocal(den));
    const auto distance = static_cast<std::int64_t>(float_to_bits(quotient)) - float_to_bits(e / den);
    found.differing += distance != 0 ? 1 : 0;
    found.apart += std::abs(distance) > 1 ? 1 : 0;
  }
  return found;
}

}  // namespace

TEST_CASE("the fast division is IEEE division from 2^-76 up, and at most one float from it below") {
  std::int64_t differing_below = 0;
  for (std::uint32_t exponent = 0; exponent <= exponent_bias; ++exponent) {
    const Quotients found = divide_by_one_exponent(exponent, 20000);
    CAPTURE(exponent);
    CHECK(found.apart == 0);
    if (exponent >= exponent_bias - 76) {
      CHECK(found.differing == 0);
    } else {
      differing_below += found.differing;
    }
  }
  CHECK(differing_below > 0);  // or short windows would need no way out
  CHECK(divide_normal(0.0F, 3.0F, reciprocal(3.0F)) == 0.0F);
  CHECK(std::isnan(divide_normal(std::numeric_limits<float>::quiet_NaN(), 3.0F, reciprocal(3.0F))));
}

TEST_CASE("exp stays near the exact one down to its smallest denormal results") {
  double worst = 0;
  double worst_denormal = 0;
  for (std::int32_t i = 0; i <= 104 * 4096; ++i) {
    const float x = -static_cast<float>(i) / 4096.0F * 1.0000001F;
    const double exact = std::exp(static_cast<double>(x));
    const double ulp = std::max(std::ldexp(1.0, std::ilogb(exact) - 23), 0x1p-149);
    const double error = std::abs(static_cast<double>(exp_nonpositive(x)) - exact) / ulp;
    double& of_kind = exact < 0x1p-126 ? worst_denormal : worst;
    of_kind = std::max(of_kind, error);
  }
  CHECK(worst < 1.25);
  CHECK(worst_denormal < 1.0);
  CHECK(exp_nonpositive(-0.0F) == 1.0F);
  CHECK(exp_nonpositive(-std::numeric_limits<float>::infinity()) == 0.0F);
}

}  // namespace csajit::emulator
