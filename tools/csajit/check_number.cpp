// The three element types as bits: to and from double, and their spacing.
#include "check_number.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

namespace csajit::tool {
namespace {

template <class T>
T load(const std::byte* bits) {
  T value;
  std::memcpy(&value, bits, sizeof value);
  return value;
}

template <class T>
void store(std::byte* bits, T value) {
  std::memcpy(bits, &value, sizeof value);
}

float float_of_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

float float_of_fp16(std::uint16_t bits) {
  // The exponent is rebiased by a multiplication, which is exact and brings denormals along.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  if ((bits & 0x7c00U) == 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | magnitude);
  const float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

struct Format {
  int mantissa_bits;  // stored
  int min_exponent;   // of the smallest normal number
  double max_finite;
};

Format format_of(csajit_dtype type) {
  switch (type) {
    case CSAJIT_DTYPE_FP16:
      return {10, -14, 65504.0};
    case CSAJIT_DTYPE_FP32:
      return {23, -126, static_cast<double>(std::numeric_limits<float>::max())};
    default:
      return {7, -126, 0x1.fep127};
  }
}

// |value| rounded to the format; infinity where it overflows. Exact in double, so there is no double rounding.
double round_to(csajit_dtype type, double value) {
  if (!std::isfinite(value)) return value;
  const double spacing = ulp(type, value);
  const double rounded = std::nearbyint(value / spacing) * spacing;
  if (std::abs(rounded) > format_of(type).max_finite) return std::copysign(HUGE_VAL, value);
  return std::copysign(rounded, value);
}

std::uint16_t bf16_of(double value) {
  if (std::isnan(value)) return 0x7fc0U;
  const auto rounded = static_cast<float>(round_to(CSAJIT_DTYPE_BF16, value));
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16);
}

std::uint16_t fp16_of(double value) {
  if (std::isnan(value)) return 0x7e00U;
  const double rounded = round_to(CSAJIT_DTYPE_FP16, value);
  const auto sign = static_cast<std::uint16_t>(std::signbit(rounded) ? 0x8000U : 0U);
  const double magnitude = std::abs(rounded);
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(magnitude * 0x1p24));
  const int exponent = std::ilogb(magnitude);
  const auto mantissa = static_cast<std::uint16_t>(std::ldexp(magnitude, 10 - exponent)) & 0x3ffU;
  return static_cast<std::uint16_t>(sign | static_cast<unsigned>((exponent + 15) << 10) | mantissa);
}

std::uint64_t mix(std::uint64_t x) {  // the finaliser of splitmix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::size_t element_bytes(csajit_dtype type) { return type == CSAJIT_DTYPE_FP32 ? 4 : 2; }

const char* dtype_name(csajit_dtype type) {
  switch (type) {
    case CSAJIT_DTYPE_FP16:
      return "fp16";
    case CSAJIT_DTYPE_FP32:
      return "fp32";
    default:
      return "bf16";
  }
}

void decode_elements(csajit_dtype type, const std::byte* bits, std::int64_t n, double* values) {
  switch (type) {
    case CSAJIT_DTYPE_FP16:
      for (std::int64_t i = 0; i < n; ++i)
        values[i] = static_cast<double>(float_of_fp16(load<std::uint16_t>(bits + 2 * i)));
      return;
    case CSAJIT_DTYPE_FP32:
      for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(load<float>(bits + 4 * i));
      return;
    default:
      for (std::int64_t i = 0; i < n; ++i)
        values[i] = static_cast<double>(float_of_bf16(load<std::uint16_t>(bits + 2 * i)));
  }
}

double decode_element(csajit_dtype type, const std::byte* bits) {
  double value = 0;
  decode_elements(type, bits, 1, &value);
  return value;
}

void encode_elements(csajit_dtype type, const double* values, std::int64_t n, std::byte* bits) {
  for (std::int64_t i = 0; i < n; ++i) {
    switch (type) {
      case CSAJIT_DTYPE_FP16:
        store(bits + 2 * i, fp16_of(values[i]));
        break;
      case CSAJIT_DTYPE_FP32:
        store(bits + 4 * i, static_cast<float>(values[i]));
        break;
      default:
        store(bits + 2 * i, bf16_of(values[i]));
    }
  }
}

double ulp(csajit_dtype type, double value) {
  const Format format = format_of(type);
  const int exponent = value == 0 ? format.min_exponent : std::max(std::ilogb(value), format.min_exponent);
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

double overflow_threshold(csajit_dtype type) {
  const double most = format_of(type).max_finite;
  return most + 0.5 * ulp(type, most);
}

namespace {
// NaNs with a payload: arithmetic on a GPU gives the canonical NaN, never these.
std::uint16_t unwritten_16(csajit_dtype type, int variant) {
  if (type == CSAJIT_DTYPE_FP16) return variant == 0 ? 0x7da5U : 0xfd5aU;
  return variant == 0 ? 0x7fa5U : 0xffdaU;
}
std::uint32_t unwritten_32(int variant) { return variant == 0 ? 0x7fa5a5a5U : 0xffd5a5a5U; }
}  // namespace

void fill_unwritten(csajit_dtype type, int variant, std::int64_t n, std::byte* bits) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (type == CSAJIT_DTYPE_FP32) {
      store(bits + 4 * i, unwritten_32(variant));
    } else {
      store(bits + 2 * i, unwritten_16(type, variant));
    }
  }
}

bool is_unwritten(csajit_dtype type, int variant, const std::byte* bits) {
  if (type == CSAJIT_DTYPE_FP32) return load<std::uint32_t>(bits) == unwritten_32(variant);
  return load<std::uint16_t>(bits) == unwritten_16(type, variant);
}

double normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t random = mix(mix(seed) ^ index);
  // Box-Muller; the first uniform is never 0, so the logarithm is finite.
  const float u = (static_cast<float>(random >> 40) + 0.5F) * 0x1p-24F;
  const float v = static_cast<float>((random >> 8) & 0xffffffU) * 0x1p-24F;
  return static_cast<double>(std::sqrt(-2.0F * std::log(u)) * std::cos(2.0F * std::numbers::pi_v<float> * v));
}

}  // namespace csajit::tool
