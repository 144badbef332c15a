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

// From global memory that this kernel may also write, or that a kernel beside it does.
template <class T>
__device__ __forceinline__ T load_global(unsigned long long address) {
  return *static_cast<const T*>(__cvta_global_to_generic(address));
}

// From global memory that nobody writes while the kernel runs: the inputs, which no output may overlap.
template <class T>
__device__ __forceinline__ T load_input(unsigned long long address) {
  return __ldg(static_cast<const T*>(__cvta_global_to_generic(address)));
}

// The same where `wanted`, else zeros: a predicate on the load, never a branch around it, so that the loads of a window
// can all be in flight. The address is used only where `wanted`.
__device__ __forceinline__ unsigned short load_input_if(bool wanted, unsigned long long address, unsigned short) {
  unsigned short value;
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\tmov.b16 %0, 0;\n\t@p ld.global.nc.b16 %0, [%1];\n\t}"
      : "=h"(value)
      : "l"(address), "r"(static_cast<int>(wanted)));
  return value;
}
__device__ __forceinline__ unsigned int load_input_if(bool wanted, unsigned long long address, unsigned int) {
  unsigned int value;
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\tmov.b32 %0, 0;\n\t@p ld.global.nc.b32 %0, [%1];\n\t}"
      : "=r"(value)
      : "l"(address), "r"(static_cast<int>(wanted)));
  return value;
}
__device__ __forceinline__ uint2 load_input_if(bool wanted, unsigned long long address, uint2) {
  uint2 value;
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\tmov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\t"
      "@p ld.global.nc.v2.b32 {%0, %1}, [%2];\n\t}"
      : "=r"(value.x), "=r"(value.y)
      : "l"(address), "r"(static_cast<int>(wanted)));
  return value;
}
__device__ __forceinline__ uint4 load_input_if(bool wanted, unsigned long long address, uint4) {
  uint4 value;
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %5, 0;\n\tmov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\t"
      "mov.b32 %2, 0;\n\tmov.b32 %3, 0;\n\t@p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(address), "r"(static_cast<int>(wanted)));
  return value;
}
template <class T>
__device__ __forceinline__ T load_input_if(bool wanted, unsigned long long address) {
  return load_input_if(wanted, address, T{});
}

}  // namespace csajit
