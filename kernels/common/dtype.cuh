// Storage types and vectors of adjacent columns: loads and stores of VEC elements as one access, and their
// exact conversion to and from fp32 (round to nearest even, denormals kept).
#pragma once

namespace csajit {

enum class DType : int { bf16 = 1, fp16 = 2, fp32 = 3 };

__host__ __device__ constexpr int size_of(DType type) { return type == DType::fp32 ? 4 : 2; }

template <int BYTES>
struct RawOf;
template <>
struct RawOf<2> { using type = unsigned short; };
template <>
struct RawOf<4> { using type = unsigned int; };
template <>
struct RawOf<8> { using type = uint2; };
template <>
struct RawOf<16> { using type = uint4; };

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

  // `address` + 2 or 4 bytes an element, aligned to the whole vector.
  __device__ static Vector load(unsigned long long address) {
    Vector v;
    v.raw = *reinterpret_cast<const Raw*>(address);
    return v;
  }
  __device__ void store(unsigned long long address) const { *reinterpret_cast<Raw*>(address) = raw; }

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
      return __uint_as_float(word[j]);
    } else if constexpr (TYPE == DType::bf16) {
      if constexpr (VEC == 1) {
        return __uint_as_float(static_cast<unsigned int>(half[0]) << 16);
      } else {
        return __uint_as_float(j & 1 ? word[j / 2] & 0xffff0000u : word[j / 2] << 16);
      }
    } else {
      float value;
      asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half[j]));
      return value;
    }
  }

  __device__ static Vector from(const float (&values)[VEC]) {
    Vector v;
    if constexpr (TYPE == DType::fp32) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) v.word[j] = __float_as_uint(values[j]);
    } else if constexpr (VEC == 1) {
      if constexpr (TYPE == DType::bf16) {
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v.half[0]) : "f"(values[0]));
      } else {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v.half[0]) : "f"(values[0]));
      }
    } else {
#pragma unroll
      for (int j = 0; j < VEC; j += 2) {
        if constexpr (TYPE == DType::bf16) {
          asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v.word[j / 2]) : "f"(values[j + 1]), "f"(values[j]));
        } else {
          asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v.word[j / 2]) : "f"(values[j + 1]), "f"(values[j]));
        }
      }
    }
    return v;
  }
};

// VEC fp32 values at `address`, which need only be aligned to one of them: APE is read a few times a row.
template <int VEC>
__device__ void load_floats(unsigned long long address, float (&values)[VEC]) {
  const Vector<DType::fp32, VEC> v = Vector<DType::fp32, VEC>::load(address);
#pragma unroll
  for (int j = 0; j < VEC; ++j) values[j] = v.get(j);
}

}  // namespace csajit
