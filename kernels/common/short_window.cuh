// A window of at most 16 entries in the registers of one thread, VEC columns wide, in the serial fp32 order
// that makes gradients bit-equal to PyTorch's.
#pragma once

#include "common/dtype.cuh"
#include "common/math.cuh"
#include "common/token_rows.cuh"

namespace csajit {

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, bool HAS_APE, int VEC, bool CONTIGUOUS>
struct ShortWindow {
  static constexpr int kEntries = COFF * RATIO;
  static constexpr int kColumns = COFF * HEAD_DIM;
  static_assert(kEntries <= 16, "longer windows are split into leaves");
  static_assert(HEAD_DIM % VEC == 0, "a vector never crosses the end of a row");
  // Registers that a window fills, by 4 bytes each: while it is loaded, or else while it is weighed.
  static constexpr int registers_of(int bytes) { return kEntries * static_cast<int>(ceil_div(VEC * bytes, 4)); }
  static constexpr int kLoading =
      registers_of(size_of(KV)) + registers_of(size_of(SCORE)) + (HAS_APE ? registers_of(4) : 0);
  static constexpr int kWeighing = registers_of(size_of(KV)) + registers_of(4) + 16;
  static constexpr int kAddresses = CONTIGUOUS ? 0 : 2 * kEntries;
  static constexpr int kRegisters = (kLoading > kWeighing ? kLoading : kWeighing) + kAddresses;
  template <DType TYPE>
  using Rows = TokenRows<TYPE, kColumns, CONTIGUOUS>;

  // Entry k is token first_token + k (both halves: the block before comes first), at these columns.
  __host__ __device__ static constexpr int column_of(int k) { return COFF == 2 && k >= RATIO ? HEAD_DIM : 0; }

  Vector<KV, VEC> kv[kEntries];
  float p[kEntries][VEC];  // x, then the softmax weights
  bool has_previous;       // coff 2: entries [0, RATIO) exist

  __device__ bool exists(int k) const { return COFF == 1 || k >= RATIO || has_previous; }

  // `beside`: vectors that the caller loaded and that are to be in flight together with the window.
  template <class... Beside>
  __device__ void load(const LaunchArgs& args, const RowPlace& place, int column, const Beside&... beside) {
    has_previous = !place.is_first;
    const Rows<KV> kv_rows = rows_of<KV>(args.kv, args.kv_row_stride, args.kv_segment_stride, place, column);
    const Rows<SCORE> score_rows =
        rows_of<SCORE>(args.score, args.score_row_stride, args.score_segment_stride, place, column);
    const Rows<DType::fp32> ape_rows(args.ape, args.ape_row_stride, 0, column);
    Vector<SCORE, VEC> score[kEntries];
    Vector<DType::fp32, VEC> ape[kEntries];
#pragma unroll
    for (int k = 0; k < kEntries; ++k) {
      const bool certain = COFF == 1 || k >= RATIO;
      score[k] = certain ? Vector<SCORE, VEC>::load(score_rows.at(k, column_of(k)))
                         : Vector<SCORE, VEC>::load_if(has_previous, score_rows.at(k, column_of(k)));
      kv[k] = certain ? Vector<KV, VEC>::load(kv_rows.at(k, column_of(k)))
                      : Vector<KV, VEC>::load_if(has_previous, kv_rows.at(k, column_of(k)));
      if constexpr (HAS_APE) ape[k] = Vector<DType::fp32, VEC>::load(ape_rows.at(k % RATIO, column_of(k)));
    }
#pragma unroll
    for (int k = 0; k < kEntries; ++k) {
      score[k].tie(kv[k], args.zero);
      (score[k].tie(beside, args.zero), ...);
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        p[k][j] = !exists(k) ? negative_infinity() : HAS_APE ? add(score[k].get(j), ape[k].get(j)) : score[k].get(j);
      }
    }
  }

  // The window's rows in a (tokens, W) tensor, entry 0 first.
  template <DType TYPE>
  __device__ static Rows<TYPE> rows_of(unsigned long long address, long long row_stride, long long segment_stride,
                                       const RowPlace& place, int column) {
    const long long first_token = COFF == 2 ? place.token - RATIO : place.token;
    return Rows<TYPE>(address, row_stride, first_token, place.segment * segment_stride + column);
  }

  // x -> p. The way out of the fast division is chosen once a window: it is needed for scores far below the
  // maximum and for non-finite ones.
  __device__ void softmax() {
    float den[VEC];
    unsigned int common = ~0u;           // of the weights' bits: what all of them have
    unsigned int common_previous = ~0u;  // of entries [0, RATIO) at coff 2
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      float largest = p[0][j];
#pragma unroll
      for (int k = 1; k < kEntries; ++k) largest = larger(largest, p[k][j]);
      den[j] = 0.0f;
#pragma unroll
      for (int k = 0; k < kEntries; ++k) {
        p[k][j] = exp_nonpositive(sub(p[k][j], largest));
        den[j] = add(den[j], p[k][j]);
        unsigned int& bits = COFF == 2 && k < RATIO ? common_previous : common;
        bits &= float_to_bits(p[k][j]);
      }
    }
    // Entries that do not exist weigh exactly 0, which the fast division gets right.
    if (has_previous) common &= common_previous;
    if ((common & kFastWeightBit) != 0) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        const float rcp = reciprocal(den[j]);
#pragma unroll
        for (int k = 0; k < kEntries; ++k) p[k][j] = divide_normal(p[k][j], den[j], rcp);
      }
    } else {
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
#pragma unroll
        for (int k = 0; k < kEntries; ++k) p[k][j] = divide_ieee(p[k][j], den[j]);
      }
    }
  }
};

}  // namespace csajit
