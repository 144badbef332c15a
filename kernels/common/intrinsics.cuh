// Every instruction that C++ has no word for, one function each. A host emulation replaces this file and no other.
#pragma once

#include "common/store.cuh"

namespace csajit {

constexpr unsigned int kFullWarp = 0xffffffffu;

__device__ __forceinline__ float bits_to_float(unsigned int bits) { return __uint_as_float(bits); }
__device__ __forceinline__ unsigned int float_to_bits(float value) { return __float_as_uint(value); }

// fp32, one rounding to nearest even each, denormals kept.
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float reciprocal(float a) { return __frcp_rn(a); }
__device__ __forceinline__ float divide_ieee(float a, float b) { return __fdiv_rn(a, b); }
// The larger (smaller) one; of a NaN and a number, the number.
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ float smaller(float a, float b) { return fminf(a, b); }

__device__ __forceinline__ float fma_round_down(float a, float b, float c) { return __fmaf_rd(a, b, c); }
// a * b + c clamped to [0, 1]; NaN becomes 0.
__device__ __forceinline__ float fma_saturate(float a, float b, float c) {
  float value;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(value) : "f"(a), "f"(b), "f"(c));
  return value;
}
// 2^a by the special function unit.
__device__ __forceinline__ float exp2_approx(float a) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(a));
  return value;
}

__device__ __forceinline__ float half_to_float(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ __forceinline__ unsigned short float_to_half(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
// Two at once: `low` in the low 16 bits.
__device__ __forceinline__ unsigned int floats_to_halves(float low, float high) {
  unsigned int bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ unsigned int floats_to_bfloats(float low, float high) {
  unsigned int bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

template <class T>
__device__ __forceinline__ T load_global(unsigned long long address) {
  return *reinterpret_cast<const T*>(address);
}

}  // namespace csajit
