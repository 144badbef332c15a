// Stands in for kernels/common/intrinsics.cuh on the host: CUDA's words, warps and memory imitated by the
// emulator, so that the real templates run in a test. Only 2^x of the special function unit is not to the bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "emulator/device_memory.hpp"
#include "emulator/grid.hpp"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static  // CTAs run one after another

struct uint2 {
  unsigned int x, y;
};
struct uint4 {
  unsigned int x, y, z, w;
};

#define threadIdx (csajit::emulator::Grid::thread_index())
#define blockIdx (csajit::emulator::Grid::block_index())
#define gridDim (csajit::emulator::Grid::grid_size())

inline void __syncthreads() { csajit::emulator::Grid::sync_block(); }
inline void __syncwarp() { csajit::emulator::Grid::sync_warp(); }
inline unsigned int __ballot_sync(unsigned int, bool predicate) { return csajit::emulator::Grid::ballot(predicate); }
template <class T>
T __shfl_sync(unsigned int, T value, int lane) {
  return csajit::emulator::Grid::shuffle(value, lane);
}
inline int __popc(unsigned int bits) { return std::popcount(bits); }
inline int __ffs(unsigned int bits) { return bits == 0 ? 0 : std::countr_zero(bits) + 1; }

namespace csajit {

constexpr unsigned int kFullWarp = 0xffffffffu;

inline float bits_to_float(unsigned int bits) { return std::bit_cast<float>(bits); }
inline unsigned int float_to_bits(float value) { return std::bit_cast<unsigned int>(value); }

inline float add(float a, float b) { return a + b; }
inline float sub(float a, float b) { return a - b; }
inline float mul(float a, float b) { return a * b; }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float reciprocal(float a) { return 1.0f / a; }
inline float divide_ieee(float a, float b) { return a / b; }
inline float larger(float a, float b) { return std::fmax(a, b); }
inline float smaller(float a, float b) { return std::fmin(a, b); }

// c is at least 2^23 here, so one float step is at least 1 and the exact sum fits a double.
inline float fma_round_down(float a, float b, float c) {
  return static_cast<float>(std::floor(static_cast<double>(a) * b + c));
}
inline float fma_saturate(float a, float b, float c) {
  const float value = std::fma(a, b, c);
  return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;  // NaN becomes 0
}
inline float exp2_approx(float a) {
  const float value = static_cast<float>(std::exp2(static_cast<double>(a)));
  return std::fpclassify(value) == FP_SUBNORMAL ? 0.0f : value;
}

float half_to_float(unsigned short bits);
unsigned short float_to_half(float value);
unsigned short float_to_bfloat(float value);
inline unsigned int floats_to_halves(float low, float high) {
  return float_to_half(low) | static_cast<unsigned int>(float_to_half(high)) << 16;
}
inline unsigned int floats_to_bfloats(float low, float high) {
  return float_to_bfloat(low) | static_cast<unsigned int>(float_to_bfloat(high)) << 16;
}

template <class T>
T load_global(unsigned long long address) {
  return emulator::DeviceMemory::instance().load<T>(address);
}
template <class T>
T load_input(unsigned long long address) {
  return load_global<T>(address);
}
template <class T>
T load_input_if(bool wanted, unsigned long long address) {
  return wanted ? load_global<T>(address) : T{};
}
template <class T>
void store_global(unsigned long long address, T value) {
  emulator::DeviceMemory::instance().store(address, value);
}

}  // namespace csajit
