// The fp32 arithmetic of the operator, one rounding a call, in the order that PyTorch's kernels use. Nothing
// here may be contracted or flushed: kernels are compiled with -fmad=false -ftz=false.
#pragma once

namespace csajit {

__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float negative_infinity() { return __uint_as_float(0xff800000u); }
__device__ __forceinline__ float quiet_nan() { return __uint_as_float(0x7fc00000u); }

// exp(x) for x <= 0 or NaN, equal to CUDA's expf without -ftz on every such float, denormal results included.
// x = (j + f) ln 2 with j an integer and f small; 2^f from the hardware, 2^j put in as an exponent. Spelled out,
// so that the bits do not depend on a compiler's library.
__device__ __forceinline__ float exp_nonpositive(float x) {
  float unit;  // x / (252 ln 2) + 0.5, clamped to [0, 1]
  asm("fma.rn.sat.f32 %0, %1, 0f3BBB989D, 0f3F000000;" : "=f"(unit) : "f"(x));
  const float biased = __fmaf_rd(unit, 252.0f, 12582913.0f);  // j + 127 in the low bits of the significand
  const float j = sub(biased, 12583039.0f);
  float f = fma(x, __uint_as_float(0x3fb8aa3bu), -j);  // log2(e), high part
  f = fma(x, __uint_as_float(0x32a57060u), f);         // log2(e), low part
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(f));
  return mul(power, __uint_as_float(__float_as_uint(biased) << 23));
}

// e / den, correctly rounded, for den in [1, 512] or NaN and rcp = 1 / den correctly rounded, where e is 0, NaN
// or at least 2^-76: there the remainder of the first guess is exact.
__device__ __forceinline__ float divide_normal(float e, float den, float rcp) {
  const float quotient = mul(e, rcp);
  const float remainder = fma(-quotient, den, e);
  return fma(remainder, rcp, quotient);
}

// A difference x - max at or above this has exp(x - max) >= 2^-76 with room to spare.
constexpr float kSmallestFastExponent = -52.0f;

// The same for any e >= 0 or NaN.
__device__ __forceinline__ float divide(float e, float den, float rcp) {
  if (e != 0.0f && e < __uint_as_float(0x19800000u)) return __fdiv_rn(e, den);  // 2^-76
  return divide_normal(e, den, rcp);
}

}  // namespace csajit
