// A window of up to 512 entries spread over a CTA: one thread holds one leaf (8 or 16 entries) of VEC columns in
// registers. The maximum is global before anything is weighed; sums are a fixed tree in a leaf, then over leaves.
#pragma once

#include "common/dtype.cuh"
#include "common/math.cuh"
#include "common/token_rows.cuh"

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

  // Entry i of a leaf is one of the row's own block; the others, at coff 2, of the block before. Where leaves do not
  // straddle the two, all entries of a leaf are alike. (The entry may lie past the window.)
  __device__ static bool is_own(int leaf, int i) {
    return COFF == 1 || leaf * kEntries + (RATIO % kEntries == 0 ? 0 : i) >= RATIO;
  }
  // Columns before the strip's.
  __device__ static int column_of(int leaf, int i) { return COFF == 2 && is_own(leaf, i) ? HEAD_DIM : 0; }
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

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, bool HAS_APE, int VEC, bool CONTIGUOUS>
struct LongWindow {
  using Tiling = LongTiling<RATIO, HEAD_DIM, COFF, VEC>;
  static constexpr int kEntries = Tiling::kEntries;
  template <DType TYPE>
  using Rows = TokenRows<TYPE, COFF * HEAD_DIM, CONTIGUOUS>;

  int leaf;
  int column_thread;
  int column;  // first of this thread's columns; may lie past HEAD_DIM
  bool has_previous;
  Vector<KV, VEC> kv[kEntries];
  float p[kEntries][VEC];  // x, then the softmax weights
  Vector<DType::fp32, VEC> ape[HAS_APE ? kEntries : 1];

  // This thread holds columns of the tensors, and a leaf.
  __device__ bool is_active() const { return column < HEAD_DIM && leaf < Tiling::kLeaves; }
  // Entry i of this leaf lies in the window.
  __device__ bool in_window(int i) const {
    return Tiling::kWindow % kEntries == 0 || leaf * kEntries + i < Tiling::kWindow;
  }
  // ... and is a token of this row's segment.
  __device__ bool exists(int i) const { return in_window(i) && (has_previous || Tiling::is_own(leaf, i)); }
  __device__ int column_of(int i) const { return Tiling::column_of(leaf, i); }

  __device__ void place_thread(int strip) {
    leaf = threadIdx.x / Tiling::kColumnThreads;
    column_thread = threadIdx.x % Tiling::kColumnThreads;
    column = (strip * Tiling::kColumnThreads + column_thread) * VEC;
  }

  // This leaf's rows in a tensor of RATIO rows of W columns (APE, or one partial of grad_ape): entry i is row i of the
  // result, or row i - RATIO where it is of the row's own block and the block before stands in front of it.
  __device__ Rows<DType::fp32> ape_rows_of(unsigned long long address, long long row_stride) const {
    return Rows<DType::fp32>(address, row_stride, leaf * kEntries, column);
  }
  __device__ int ape_row_of(int i) const { return COFF == 2 && Tiling::is_own(leaf, i) ? i - RATIO : i; }

  // Kept over all rows of an item.
  __device__ void load_ape(const LaunchArgs& args) {
    if constexpr (HAS_APE) {
      const Rows<DType::fp32> rows = ape_rows_of(args.ape, args.ape_row_stride);
#pragma unroll
      for (int i = 0; i < kEntries; ++i) {
        ape[i] = Vector<DType::fp32, VEC>::load_if(is_active() && in_window(i), rows.at(ape_row_of(i), column_of(i)));
      }
    }
  }

  // This leaf's rows in a (tokens, W) tensor, its entry 0 first.
  template <DType TYPE>
  __device__ Rows<TYPE> rows_of(unsigned long long address, long long row_stride, long long segment_stride,
                                const RowPlace& place) const {
    const long long first_token = (COFF == 2 ? place.token - RATIO : place.token) + leaf * kEntries;
    return Rows<TYPE>(address, row_stride, first_token, place.segment * segment_stride + column);
  }

  // `beside`: vectors that the caller loaded and that are to be in flight together with the window.
  template <class... Beside>
  __device__ void load(const LaunchArgs& args, const RowPlace& place, const Beside&... beside) {
    has_previous = COFF == 1 || !place.is_first;
    const Rows<KV> kv_rows = rows_of<KV>(args.kv, args.kv_row_stride, args.kv_segment_stride, place);
    const Rows<SCORE> score_rows = rows_of<SCORE>(args.score, args.score_row_stride, args.score_segment_stride, place);
    Vector<SCORE, VEC> score[kEntries];
#pragma unroll
    for (int i = 0; i < kEntries; ++i) {
      const bool wanted = is_active() && exists(i);
      score[i] = Vector<SCORE, VEC>::load_if(wanted, score_rows.at(i, column_of(i)));
      kv[i] = Vector<KV, VEC>::load_if(wanted, kv_rows.at(i, column_of(i)));
    }
#pragma unroll
    for (int i = 0; i < kEntries; ++i) {
      score[i].tie(kv[i], args.zero);
      (score[i].tie(beside, args.zero), ...);
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        p[i][j] = !exists(i) ? negative_infinity() : HAS_APE ? add(score[i].get(j), ape[i].get(j)) : score[i].get(j);
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
