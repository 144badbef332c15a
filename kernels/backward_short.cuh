// Backward of windows up to 16 entries: grad_kv, grad_score and this partial's share of grad_ape.
//
// Launch: kShortLanes warps, any grid; CTAs stride over num_items. The first num_row_items of them are column
// strips of partials (strips fastest), the others zero slots. VEC divides head_dim, and every tensor is aligned
// to VEC elements. Workspace: partial p's sums at p * RATIO * W floats, row-major.
#pragma once

#include "common/short_window.cuh"
#include "common/zero_slots.cuh"

namespace csajit {

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, DType OUT, bool HAS_APE, int VEC, bool CONTIGUOUS>
struct BackwardShort {
  using Window = ShortWindow<RATIO, HEAD_DIM, COFF, KV, SCORE, HAS_APE, VEC, CONTIGUOUS>;
  static constexpr int kEntries = Window::kEntries;
  // The window, the sums of grad_ape, and the rest.
  static constexpr int kRegisters = Window::kRegisters + (HAS_APE ? kEntries * VEC : 0) + 48;
  static constexpr int kStripColumns = kWarpThreads * VEC;
  static constexpr int kStrips = static_cast<int>(ceil_div(HEAD_DIM, kStripColumns));

  // One row of VEC columns. Adds ds to grad_ape.
  __device__ static void row(const LaunchArgs& args, long long row, const RowPlace& place, int column,
                             float (&grad_ape)[kEntries][VEC]) {
    const Vector<OUT, VEC> grad_out = Vector<OUT, VEC>::load(
        args.grad_out + static_cast<unsigned long long>(row * args.grad_out_row_stride + column) * size_of(OUT));
    Window window;
    window.load(args, place, column, grad_out);
    window.softmax();
    float sum[VEC];
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      const float g = grad_out.get(j);
      sum[j] = 0.0f;
#pragma unroll
      for (int k = 0; k < kEntries; ++k) {
        sum[j] = add(sum[j], mul(mul(g, window.kv[k].get(j)), window.p[k][j]));
      }
    }
    const auto grad_kv =
        Window::template rows_of<KV>(args.grad_kv, args.grad_kv_row_stride, args.grad_kv_segment_stride, place, column);
    const auto grad_score = Window::template rows_of<SCORE>(args.grad_score, args.grad_score_row_stride,
                                                            args.grad_score_segment_stride, place, column);
#pragma unroll
    for (int k = 0; k < kEntries; ++k) {
      if (!window.exists(k)) continue;
      float dkv[VEC];
      float ds[VEC];
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        const float g = grad_out.get(j);
        const float p = window.p[k][j];
        dkv[j] = mul(g, p);
        ds[j] = fma(p, -sum[j], mul(mul(g, window.kv[k].get(j)), p));
        if (HAS_APE) grad_ape[k][j] = add(grad_ape[k][j], ds[j]);
      }
      if (args.grad_kv != 0) Vector<KV, VEC>::from(dkv).store(grad_kv.at(k, Window::column_of(k)));
      if (args.grad_score != 0) Vector<SCORE, VEC>::from(ds).store(grad_score.at(k, Window::column_of(k)));
    }
  }
};

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, DType OUT, bool HAS_APE, int VEC, bool CONTIGUOUS>
__global__ void __launch_bounds__(
    kShortLanes* kWarpThreads,
    resident_ctas(kShortLanes* kWarpThreads,
                  BackwardShort<RATIO, HEAD_DIM, COFF, KV, SCORE, OUT, HAS_APE, VEC, CONTIGUOUS>::kRegisters))
    compressor_backward_short(const __grid_constant__ LaunchArgs args) {
  using Body = BackwardShort<RATIO, HEAD_DIM, COFF, KV, SCORE, OUT, HAS_APE, VEC, CONTIGUOUS>;
  constexpr int kEntries = Body::kEntries;
  __shared__ float lane_sums[HAS_APE ? kShortLanes : 1][HAS_APE ? kEntries : 1][HAS_APE ? Body::kStripColumns : 1];
  const int lane = threadIdx.x / kWarpThreads;  // a warp

  for (long long item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    if (item >= args.num_row_items) {
      write_zero_slots<RATIO, HEAD_DIM, COFF, KV, SCORE, VEC>(
          args, ((item - args.num_row_items) * kShortLanes + lane) * kZeroTokensPerWarp);
      continue;
    }
    const TrueRows rows = true_rows(args);
    const Partition partition = partition_rows(rows.last, partial_base(true), partial_cap(RATIO, HEAD_DIM, COFF, true));
    const long long partial = item / Body::kStrips;
    if (partial >= partition.num_partials) continue;  // R is a capacity: fewer rows than the grid was made for
    const int strip = static_cast<int>(item % Body::kStrips);
    const int column = strip * Body::kStripColumns + lane_id() * VEC;

    float grad_ape[kEntries][VEC] = {};
    const long long rows_per_lane = partition.rows_per_partial / kShortLanes;
    const long long begin = partial * partition.rows_per_partial + lane * rows_per_lane;
    const long long end = begin + rows_per_lane < rows.last ? begin + rows_per_lane : rows.last;
    for (long long row = begin < rows.first ? rows.first : begin; row < end; ++row) {
      const RowPlace place = place_row<RATIO, COFF>(args, row);
      if (place.is_inside && column < HEAD_DIM) Body::row(args, row, place, column, grad_ape);
      __syncwarp();
    }
    if constexpr (HAS_APE) {
      if (args.grad_ape == 0) continue;
#pragma unroll
      for (int k = 0; k < kEntries; ++k) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) lane_sums[lane][k][lane_id() * VEC + j] = grad_ape[k][j];
      }
      __syncthreads();
      const unsigned long long sums =
          args.workspace + static_cast<unsigned long long>(partial) * (4ull * RATIO * COFF * HEAD_DIM);
      for (int i = threadIdx.x; i < kEntries * Body::kStripColumns; i += kShortLanes * kWarpThreads) {
        const int k = i / Body::kStripColumns;
        const int c = i % Body::kStripColumns;
        const int strip_column = strip * Body::kStripColumns + c;
        if (strip_column < HEAD_DIM) {
          const unsigned int element = (k % RATIO) * (COFF * HEAD_DIM) + Body::Window::column_of(k) + strip_column;
          store_global(sums + 4ull * element,
                       add(add(lane_sums[0][k][c], lane_sums[1][k][c]), add(lane_sums[2][k][c], lane_sums[3][k][c])));
        }
      }
      __syncthreads();
    }
  }
}

}  // namespace csajit
