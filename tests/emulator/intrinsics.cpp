// The 16-bit float conversions of the emulated device: round to nearest even, denormals kept.
#include "common/intrinsics.cuh"

#include <cstddef>
#include <cstring>

#include "check_number.hpp"

namespace csajit {

namespace {

unsigned short encode(csajit_dtype type, float value) {
  const double wide = value;
  unsigned short bits = 0;
  tool::encode_elements(type, &wide, 1, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

}  // namespace

float half_to_float(unsigned short bits) {
  return static_cast<float>(tool::decode_element(CSAJIT_DTYPE_FP16, reinterpret_cast<const std::byte*>(&bits)));
}
unsigned short float_to_half(float value) { return encode(CSAJIT_DTYPE_FP16, value); }
unsigned short float_to_bfloat(float value) { return encode(CSAJIT_DTYPE_BF16, value); }

}  // namespace csajit
