// The fp32 arithmetic of the operator, one rounding a call, in the order that PyTorch's kernels use. Nothing
// here may be contracted or flushed: kernels are compiled with -fmad=false -ftz=false.
#pragma once

#include "common/intrinsics.cuh"

namespace csajit {

__device__ __forceinline__ float negative_infinity() { return bits_to_float(0xff800000u); }
__device__ __forceinline__ float quiet_nan() { return bits_to_float(0x7fc00000u); }

// exp(x) for x <= 0 or NaN, equal to CUDA's expf without -ftz on every such float, denormal results included.
// x = (j + f) ln 2 with j an integer and f small; 2^f from the hardware, 2^j put in as an exponent. Spelled out,
// so that the bits do not depend on a compiler's library.
__device__ __forceinline__ float exp_nonpositive(float x) {
  const float unit = fma_saturate(x, bits_to_float(0x3bbb989du), 0.5f);  // x / (252 ln 2) + 0.5, clamped
  const float biased = fma_round_down(unit, 252.0f, 12582913.0f);        // j + 127 in the low bits
  const float j = sub(biased, 12583039.0f);
  float f = fma(x, bits_to_float(0x3fb8aa3bu), -j);  // log2(e), high part
  f = fma(x, bits_to_float(0x32a57060u), f);         // log2(e), low part
  return mul(exp2_approx(f), bits_to_float(float_to_bits(biased) << 23));
}

// e / den, correctly rounded, for den in [1, 512] or NaN and rcp = 1 / den correctly rounded, where e is 0, NaN
// or at least 2^-76: there the remainder of the first guess is exact.
__device__ __forceinline__ float divide_normal(float e, float den, float rcp) {
  const float quotient = mul(e, rcp);
  const float remainder = fma(-quotient, den, e);
  return fma(remainder, rcp, quotient);
}

// Set in a weight e = exp(x - max), which is at most 1, exactly if e is NaN or at least 2^-63: far inside of what
// divide_normal can do.
constexpr unsigned int kFastWeightBit = 0x20000000u;

// The sum of value(BEGIN) to value(BEGIN + COUNT - 1), added in pairs: a fixed tree, whose error grows with the
// logarithm of COUNT.
template <int BEGIN, int COUNT, class Value>
__device__ __forceinline__ float pairwise_sum(const Value& value) {
  if constexpr (COUNT == 1) {
    return value(BEGIN);
  } else {
    constexpr int kHalf = COUNT / 2;
    const float first = pairwise_sum<BEGIN, kHalf>(value);
    return add(first, pairwise_sum<BEGIN + kHalf, COUNT - kHalf>(value));
  }
}

}  // namespace csajit
