// A window of up to 512 entries spread over a CTA: one thread holds one leaf (8 or 16 entries) of VEC columns in
// registers. The maximum is global before anything is weighed; sums are a fixed tree in a leaf, then over leaves.
#pragma once

#include "common/dtype.cuh"
#include "common/math.cuh"
#include "common/segment.cuh"

namespace csajit {

template <int RATIO, int HEAD_DIM, int COFF, int VEC>
struct LongTiling {
  static constexpr int kWindow = COFF * RATIO;
  static constexpr int kEntries = long_leaf_entries(kWindow);  // of a leaf
  static constexpr int kLeaves = long_leaves(kWindow);
  static constexpr int kColumnThreads = long_column_threads(kWindow, VEC);
  static constexpr int kThreads = long_threads(kWindow, VEC);
  static constexpr int kStripColumns = kColumnThreads * VEC;
  static constexpr int kStrips = static_cast<int>(ceil_div(HEAD_DIM, kStripColumns));
  static_assert(HEAD_DIM % VEC == 0, "a vector never crosses the end of a row");

  // Columns before the strip's, of entry k (which may lie past the window).
  __device__ static int column_of(int k) { return COFF == 2 && k >= RATIO ? HEAD_DIM : 0; }
  __device__ static int ape_row_of(int k) { return COFF == 2 && k >= RATIO ? k - RATIO : k; }
};

// Shared memory of the sums over leaves.
template <class Tiling>
struct LeafSums {
  float leaf[Tiling::kLeaves][Tiling::kStripColumns];
  float total[Tiling::kStripColumns];
};

// How the leaves of a column become one value.
struct Largest {
  template <int LEAVES, class Value>
  __device__ static float combine(const Value& value) {
    float result = value(0);
#pragma unroll
    for (int leaf = 1; leaf < LEAVES; ++leaf) result = larger(result, value(leaf));
    return result;
  }
};
struct Sum {
  template <int LEAVES, class Value>
  __device__ static float combine(const Value& value) {
    return pairwise_sum<0, LEAVES>(value);
  }
};

template <class Tiling, int VEC>
__device__ inline void publish_leaf(LeafSums<Tiling>& shared, int leaf, int column_thread, const float (&values)[VEC]) {
  if (leaf < Tiling::kLeaves) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) shared.leaf[leaf][column_thread * VEC + j] = values[j];
  }
  __syncthreads();
}

template <class Operation, class Tiling>
__device__ inline float combine_leaves(const LeafSums<Tiling>& shared, int strip_column) {
  return Operation::template combine<Tiling::kLeaves>([&](int leaf) { return shared.leaf[leaf][strip_column]; });
}

// values: in, this leaf's; out, all leaves' combined. Every thread of the CTA calls it.
template <class Operation, class Tiling, int VEC>
__device__ inline void reduce_leaves(LeafSums<Tiling>& shared, int leaf, int column_thread, float (&values)[VEC]) {
  publish_leaf(shared, leaf, column_thread, values);
  for (int c = threadIdx.x; c < Tiling::kStripColumns; c += Tiling::kThreads) {
    shared.total[c] = combine_leaves<Operation>(shared, c);
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < VEC; ++j) values[j] = shared.total[column_thread * VEC + j];
}

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, bool HAS_APE, int VEC>
struct LongWindow {
  using Tiling = LongTiling<RATIO, HEAD_DIM, COFF, VEC>;
  static constexpr int kEntries = Tiling::kEntries;

  int leaf;
  int column_thread;
  int column;  // first of this thread's columns; may lie past HEAD_DIM
  bool has_previous;
  Vector<KV, VEC> kv[kEntries];
  float p[kEntries][VEC];  // x, then the softmax weights
  float ape[HAS_APE ? kEntries : 1][VEC];

  __device__ int entry(int i) const { return leaf * kEntries + i; }
  __device__ bool is_active() const { return column < HEAD_DIM; }
  // Entry i of this leaf lies in the window.
  __device__ bool in_window(int i) const { return Tiling::kWindow % kEntries == 0 || entry(i) < Tiling::kWindow; }
  // ... and is a token of this row's segment.
  __device__ bool exists(int i) const { return in_window(i) && (COFF == 1 || has_previous || entry(i) >= RATIO); }

  __device__ void place_thread(int strip) {
    leaf = threadIdx.x / Tiling::kColumnThreads;
    column_thread = threadIdx.x % Tiling::kColumnThreads;
    column = (strip * Tiling::kColumnThreads + column_thread) * VEC;
  }

  // Kept over all rows of an item.
  __device__ void load_ape(const LaunchArgs& args) {
    if constexpr (HAS_APE) {
#pragma unroll
      for (int i = 0; i < kEntries; ++i) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) ape[i][j] = 0.0f;
        if (is_active() && leaf < Tiling::kLeaves && in_window(i)) {
          const int k = entry(i);
          load_floats<VEC>(args.ape + static_cast<unsigned long long>(Tiling::ape_row_of(k) * args.ape_row_stride +
                                                                      Tiling::column_of(k) + column) *
                                          4,
                           ape[i]);
        }
      }
    }
  }

  // Address of entry 0 of this leaf in a (tokens, W) tensor, in its own columns; entries are row_stride apart
  // and shift by HEAD_DIM columns in the second half.
  __device__ unsigned long long address(unsigned long long base, int element_bytes, long long row_stride,
                                        long long segment_stride, const RowPlace& place, int i) const {
    const long long first_token = COFF == 2 ? place.token - RATIO : place.token;
    const int k = entry(i);
    return base + static_cast<unsigned long long>(place.segment * segment_stride + (first_token + k) * row_stride +
                                                  column + Tiling::column_of(k)) *
                      element_bytes;
  }

  __device__ void load(const LaunchArgs& args, const RowPlace& place) {
    has_previous = !place.is_first;
    Vector<SCORE, VEC> score[kEntries];
#pragma unroll
    for (int i = 0; i < kEntries; ++i) {
      score[i] = Vector<SCORE, VEC>::zero();
      kv[i] = Vector<KV, VEC>::zero();
      if (is_active() && leaf < Tiling::kLeaves && exists(i)) {
        score[i] = Vector<SCORE, VEC>::load(
            address(args.score, size_of(SCORE), args.score_row_stride, args.score_segment_stride, place, i));
        kv[i] =
            Vector<KV, VEC>::load(address(args.kv, size_of(KV), args.kv_row_stride, args.kv_segment_stride, place, i));
      }
    }
#pragma unroll
    for (int i = 0; i < kEntries; ++i) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        p[i][j] = !exists(i) ? negative_infinity() : HAS_APE ? add(score[i].get(j), ape[i][j]) : score[i].get(j);
      }
    }
  }

  // x -> p; two reductions over the CTA.
  __device__ void softmax(LeafSums<Tiling>& shared) {
    float largest[VEC];
    float den[VEC];
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      largest[j] = p[0][j];
#pragma unroll
      for (int i = 1; i < kEntries; ++i) largest[j] = larger(largest[j], p[i][j]);
    }
    reduce_leaves<Largest>(shared, leaf, column_thread, largest);
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
#pragma unroll
      for (int i = 0; i < kEntries; ++i) p[i][j] = exp_nonpositive(sub(p[i][j], largest[j]));
      den[j] = pairwise_sum<0, kEntries>([&](int i) { return p[i][j]; });
    }
    reduce_leaves<Sum>(shared, leaf, column_thread, den);
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      const float rcp = reciprocal(den[j]);
#pragma unroll
      for (int i = 0; i < kEntries; ++i) p[i][j] = divide_normal(p[i][j], den[j], rcp);  // below 2^-76 within an ulp
    }
  }
};

}  // namespace csajit
