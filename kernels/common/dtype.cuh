// Storage types and vectors of adjacent columns: loads and stores of VEC elements as one access, and their
// exact conversion to and from fp32 (round to nearest even, denormals kept).
#pragma once

#include "common/dtype.h"
#include "common/intrinsics.cuh"

namespace csajit {

template <int BYTES>
struct RawOf;
template <>
struct RawOf<2> {
  using type = unsigned short;
};
template <>
struct RawOf<4> {
  using type = unsigned int;
};
template <>
struct RawOf<8> {
  using type = uint2;
};
template <>
struct RawOf<16> {
  using type = uint4;
};

// VEC adjacent elements as they lie in memory.
template <DType TYPE, int VEC>
struct Vector {
  static constexpr int kBytes = VEC * size_of(TYPE);
  using Raw = typename RawOf<kBytes>::type;
  union {
    Raw raw;
    unsigned short half[kBytes / 2];
    unsigned int word[(kBytes + 3) / 4];
  };

  // Of an input, at 2 or 4 bytes an element, aligned to the whole vector.
  __device__ static Vector load(unsigned long long address) {
    Vector v;
    v.raw = load_input<Raw>(address);
    return v;
  }
  // Zeros where not `wanted`; then the address is not used.
  __device__ static Vector load_if(bool wanted, unsigned long long address) {
    Vector v;
    v.raw = load_input_if<Raw>(wanted, address);
    return v;
  }
  __device__ void store(unsigned long long address) const { store_global<Raw>(address, raw); }

  static constexpr int kWords = (kBytes + 3) / 4;
  __device__ unsigned int bits(int i) const {
    if constexpr (kBytes == 2) {
      return half[0];
    } else {
      return word[i];
    }
  }
  // Changes nothing (zero is 0), but no compiler knows that: no element of this vector can be used before `other` has
  // arrived. Otherwise ptxas sinks the loads whose values are needed last below the arithmetic on the first, and a row
  // pays the memory's latency twice.
  template <class Other>
  __device__ void tie(const Other& other, unsigned int zero) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const unsigned int nothing = other.bits(i % Other::kWords) & zero;
      if constexpr (kBytes == 2) {
        half[0] |= static_cast<unsigned short>(nothing);
      } else {
        word[i] |= nothing;
      }
    }
  }

  __device__ static Vector zero() {
    Vector v;
    if constexpr (kBytes == 2) {
      v.half[0] = 0;
    } else {
#pragma unroll
      for (int i = 0; i < kBytes / 4; ++i) v.word[i] = 0;
    }
    return v;
  }

  __device__ float get(int j) const {
    if constexpr (TYPE == DType::fp32) {
      return bits_to_float(word[j]);
    } else if constexpr (TYPE == DType::bf16) {
      if constexpr (VEC == 1) {
        return bits_to_float(static_cast<unsigned int>(half[0]) << 16);
      } else {
        return bits_to_float(j & 1 ? word[j / 2] & 0xffff0000u : word[j / 2] << 16);
      }
    } else {
      return half_to_float(half[j]);
    }
  }

  __device__ static Vector from(const float (&values)[VEC]) {
    Vector v;
    if constexpr (TYPE == DType::fp32) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) v.word[j] = float_to_bits(values[j]);
    } else if constexpr (VEC == 1) {
      if constexpr (TYPE == DType::bf16) {
        v.half[0] = float_to_bfloat(values[0]);
      } else {
        v.half[0] = float_to_half(values[0]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < VEC; j += 2) {
        if constexpr (TYPE == DType::bf16) {
          v.word[j / 2] = floats_to_bfloats(values[j], values[j + 1]);
        } else {
          v.word[j / 2] = floats_to_halves(values[j], values[j + 1]);
        }
      }
    }
    return v;
  }
};

}  // namespace csajit
