// Backward of windows of 17 to 512 entries (and of head_dim 1): grad_kv, grad_score and this partial's share of
// grad_ape, which a thread keeps in registers over all rows of the partial.
//
// Launch: LongTiling::kThreads threads, any grid; CTAs stride over num_items. The first num_row_items of them
// are column strips of partials (strips fastest), the others zero slots. VEC divides head_dim, and every tensor
// is aligned to VEC elements. Workspace: partial p's sums at p * RATIO * W floats, row-major.
#pragma once

#include "common/long_window.cuh"
#include "common/zero_slots.cuh"

namespace csajit {

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, DType OUT, bool HAS_APE, int VEC, bool CONTIGUOUS>
struct BackwardLong {
  using Window = LongWindow<RATIO, HEAD_DIM, COFF, KV, SCORE, HAS_APE, VEC, CONTIGUOUS>;
  using Tiling = typename Window::Tiling;
  static constexpr int kEntries = Window::kEntries;

  __device__ static void row(const LaunchArgs& args, long long row, const RowPlace& place, Window& window,
                             LeafSums<Tiling>& shared, float (&grad_ape)[HAS_APE ? kEntries : 1][VEC]) {
    const Vector<OUT, VEC> grad_out = Vector<OUT, VEC>::load_if(
        window.is_active(),
        args.grad_out + static_cast<unsigned long long>(row * args.grad_out_row_stride + window.column) * size_of(OUT));
    window.load(args, place, grad_out);
    window.softmax(shared);
    float sum[VEC];
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      sum[j] = pairwise_sum<0, kEntries>([&](int i) {
        return window.in_window(i) ? mul(mul(grad_out.get(j), window.kv[i].get(j)), window.p[i][j]) : 0.0f;
      });
    }
    reduce_leaves<Sum>(shared, window.leaf, window.column_thread, sum);
    if (!window.is_active()) return;
    const auto grad_kv =
        window.template rows_of<KV>(args.grad_kv, args.grad_kv_row_stride, args.grad_kv_segment_stride, place);
    const auto grad_score = window.template rows_of<SCORE>(args.grad_score, args.grad_score_row_stride,
                                                           args.grad_score_segment_stride, place);
#pragma unroll
    for (int i = 0; i < kEntries; ++i) {
      if (!window.exists(i)) continue;
      float dkv[VEC];
      float ds[VEC];
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        const float g = grad_out.get(j);
        const float p = window.p[i][j];
        dkv[j] = mul(g, p);
        ds[j] = fma(p, -sum[j], mul(mul(g, window.kv[i].get(j)), p));
        if constexpr (HAS_APE) grad_ape[i][j] = add(grad_ape[i][j], ds[j]);
      }
      if (args.grad_kv != 0) Vector<KV, VEC>::from(dkv).store(grad_kv.at(i, window.column_of(i)));
      if (args.grad_score != 0) Vector<SCORE, VEC>::from(ds).store(grad_score.at(i, window.column_of(i)));
    }
  }
};

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, DType OUT, bool HAS_APE, int VEC, bool CONTIGUOUS>
__global__ void __launch_bounds__(LongTiling<RATIO, HEAD_DIM, COFF, VEC>::kThreads, 1)
    compressor_backward_long(const __grid_constant__ LaunchArgs args) {
  using Body = BackwardLong<RATIO, HEAD_DIM, COFF, KV, SCORE, OUT, HAS_APE, VEC, CONTIGUOUS>;
  using Tiling = typename Body::Tiling;
  constexpr bool kIsShort = COFF * RATIO <= 16 && HEAD_DIM > 1;
  __shared__ LeafSums<Tiling> shared;

  for (long long item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    if (item >= args.num_row_items) {
      constexpr int kWarps = Tiling::kThreads / kWarpThreads;
      write_zero_slots<RATIO, HEAD_DIM, COFF, KV, SCORE, VEC>(
          args, ((item - args.num_row_items) * kWarps + threadIdx.x / kWarpThreads) * kZeroTokensPerWarp);
      continue;
    }
    const TrueRows rows = true_rows(args);
    const Partition partition =
        partition_rows(rows.last, partial_base(kIsShort), partial_cap(RATIO, HEAD_DIM, COFF, kIsShort));
    const long long partial = item / Tiling::kStrips;
    if (partial >= partition.num_partials) continue;  // R is a capacity: fewer rows than the grid was made for

    typename Body::Window window;
    window.place_thread(static_cast<int>(item % Tiling::kStrips));
    window.load_ape(args);
    float grad_ape[HAS_APE ? Body::kEntries : 1][VEC] = {};
    const long long begin = partial * partition.rows_per_partial;
    const long long end =
        begin + partition.rows_per_partial < rows.last ? begin + partition.rows_per_partial : rows.last;
    for (long long row = begin < rows.first ? rows.first : begin; row < end; ++row) {
      const RowPlace place = place_row<RATIO, COFF>(args, row);
      if (place.is_inside) Body::row(args, row, place, window, shared, grad_ape);
    }
    if constexpr (HAS_APE) {
      if (args.grad_ape != 0 && window.is_active()) {
        constexpr long long kColumns = COFF * HEAD_DIM;
        const auto sums = window.ape_rows_of(
            args.workspace + static_cast<unsigned long long>(partial) * RATIO * kColumns * 4, kColumns);
#pragma unroll
        for (int i = 0; i < Body::kEntries; ++i) {
          if (!window.in_window(i)) continue;
          Vector<DType::fp32, VEC>::from(grad_ape[i]).store(sums.at(window.ape_row_of(i), window.column_of(i)));
        }
      }
    }
    __syncthreads();
  }
}

}  // namespace csajit
