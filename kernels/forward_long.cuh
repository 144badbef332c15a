// Forward of windows of 17 to 512 entries (and of head_dim 1, whatever the window).
//
// Launch: LongTiling::kThreads threads, any grid; CTAs stride over num_items = column strips * groups of
// rows_per_item rows, strips fastest. APE stays in registers over the rows of an item. VEC divides head_dim, and
// every tensor is aligned to VEC elements. Writes each of R rows once.
#pragma once

#include "common/long_window.cuh"

namespace csajit {

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, DType OUT, bool HAS_APE, int VEC, bool CONTIGUOUS>
__global__ void __launch_bounds__(LongTiling<RATIO, HEAD_DIM, COFF, VEC>::kThreads, 1)
    compressor_forward_long(const __grid_constant__ LaunchArgs args) {
  using Window = LongWindow<RATIO, HEAD_DIM, COFF, KV, SCORE, HAS_APE, VEC, CONTIGUOUS>;
  using Tiling = typename Window::Tiling;
  __shared__ LeafSums<Tiling> shared;

  for (long long item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const int strip = static_cast<int>(item % Tiling::kStrips);
    const long long first_row = item / Tiling::kStrips * args.rows_per_item;
    Window window;
    window.place_thread(strip);
    window.load_ape(args);
    for (unsigned int n = 0; n < args.rows_per_item && first_row + n < args.num_rows; ++n) {
      const long long row = first_row + n;
      const RowPlace place = place_row<RATIO, COFF>(args, row);
      float sum[VEC];
      if (place.is_inside) {
        window.load(args, place);
        window.softmax(shared);
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          sum[j] = pairwise_sum<0, Window::kEntries>(
              [&](int i) { return window.in_window(i) ? mul(window.kv[i].get(j), window.p[i][j]) : 0.0f; });
        }
      } else {
#pragma unroll
        for (int j = 0; j < VEC; ++j) sum[j] = quiet_nan();
      }
      publish_leaf(shared, window.leaf, window.column_thread, sum);
      for (int c = threadIdx.x; c < Tiling::kStripColumns; c += Tiling::kThreads) {
        const int column = strip * Tiling::kStripColumns + c;
        if (column < HEAD_DIM) {
          const float out[1] = {combine_leaves<Sum>(shared, c)};
          Vector<OUT, 1>::from(out).store(
              args.out + static_cast<unsigned long long>(row * args.out_row_stride + column) * size_of(OUT));
        }
      }
      __syncthreads();
    }
  }
}

}  // namespace csajit
