// A window of at most 16 entries in the registers of one thread, VEC columns wide, in the serial fp32 order
// that makes gradients bit-equal to PyTorch's.
#pragma once

#include "common/dtype.cuh"
#include "common/math.cuh"
#include "common/segment.cuh"

namespace csajit {

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, bool HAS_APE, int VEC>
struct ShortWindow {
  static constexpr int kEntries = COFF * RATIO;
  static_assert(kEntries <= 16, "longer windows are split into leaves");
  static_assert(HEAD_DIM % VEC == 0, "a vector never crosses the end of a row");

  // Entry k is token first_token + k (both halves: the block before comes first), at these columns.
  __host__ __device__ static constexpr int column_of(int k) { return COFF == 2 && k >= RATIO ? HEAD_DIM : 0; }

  Vector<KV, VEC> kv[kEntries];
  float p[kEntries][VEC];  // x, then the softmax weights
  bool has_previous;       // coff 2: entries [0, RATIO) exist

  __device__ bool exists(int k) const { return COFF == 1 || k >= RATIO || has_previous; }

  __device__ void load(const LaunchArgs& args, const RowPlace& place, int column) {
    has_previous = !place.is_first;
    const long long first_token = COFF == 2 ? place.token - RATIO : place.token;
    const unsigned long long kv_base =
        args.kv + static_cast<unsigned long long>(place.segment * args.kv_segment_stride +
                                                  first_token * args.kv_row_stride + column) *
                      size_of(KV);
    const unsigned long long score_base =
        args.score + static_cast<unsigned long long>(place.segment * args.score_segment_stride +
                                                     first_token * args.score_row_stride + column) *
                         size_of(SCORE);
    Vector<SCORE, VEC> score[kEntries];
#pragma unroll
    for (int k = 0; k < kEntries; ++k) {
      if (exists(k)) {
        score[k] = Vector<SCORE, VEC>::load(
            score_base + static_cast<unsigned long long>(k * args.score_row_stride + column_of(k)) * size_of(SCORE));
        kv[k] = Vector<KV, VEC>::load(kv_base + static_cast<unsigned long long>(k * args.kv_row_stride + column_of(k)) *
                                                    size_of(KV));
      } else {
        kv[k] = Vector<KV, VEC>::zero();
      }
    }
#pragma unroll
    for (int k = 0; k < kEntries; ++k) {
      float ape[VEC] = {};
      if (HAS_APE && exists(k)) {
        load_floats<VEC>(
            args.ape + static_cast<unsigned long long>((k % RATIO) * args.ape_row_stride + column + column_of(k)) * 4,
            ape);
      }
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        p[k][j] = !exists(k) ? negative_infinity() : HAS_APE ? add(score[k].get(j), ape[j]) : score[k].get(j);
      }
    }
  }

  // x -> p. The way out of the fast division is chosen once a window: it is needed for scores far below the
  // maximum and for non-finite ones.
  __device__ void softmax() {
    float den[VEC];
    bool is_fast = true;
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      float largest = p[0][j];
#pragma unroll
      for (int k = 1; k < kEntries; ++k) largest = larger(largest, p[k][j]);
      float smallest = p[kEntries - 1][j];
#pragma unroll
      for (int k = 0; k < kEntries - 1; ++k) {
        if (COFF == 1 || k >= RATIO) smallest = smaller(smallest, p[k][j]);
      }
      if (COFF == 2) {  // entries that do not exist weigh exactly 0, which the fast division gets right
        float smallest_previous = p[0][j];
#pragma unroll
        for (int k = 1; k < RATIO; ++k) smallest_previous = smaller(smallest_previous, p[k][j]);
        if (has_previous) smallest = smaller(smallest, smallest_previous);
      }
      is_fast = is_fast && sub(smallest, largest) >= kSmallestFastExponent;
      den[j] = 0.0f;
#pragma unroll
      for (int k = 0; k < kEntries; ++k) {
        p[k][j] = exp_nonpositive(sub(p[k][j], largest));
        den[j] = add(den[j], p[k][j]);
      }
    }
    if (is_fast) {
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
