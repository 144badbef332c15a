// Forward of windows up to 16 entries.
//
// Launch: kShortForwardThreads threads (fewer whole warps where head_dim is small), any grid; CTAs stride over
// num_items = column strips * row groups, strips fastest. No shared memory. VEC divides head_dim, and every
// tensor is aligned to VEC elements. Writes each of R rows once.
#pragma once

#include "common/short_window.cuh"

namespace csajit {

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, DType OUT, bool HAS_APE, int VEC, bool CONTIGUOUS>
__global__ void __launch_bounds__(
    kShortForwardThreads,
    resident_ctas(kShortForwardThreads,
                  ShortWindow<RATIO, HEAD_DIM, COFF, KV, SCORE, HAS_APE, VEC, CONTIGUOUS>::kRegisters + 32))
    compressor_forward_short(const __grid_constant__ LaunchArgs args) {
  constexpr int kColumnThreads = short_forward_column_threads(HEAD_DIM, VEC);
  constexpr int kRows = short_forward_rows(HEAD_DIM, VEC);
  constexpr int kStrips = static_cast<int>(ceil_div(HEAD_DIM, kColumnThreads * VEC));
  using Window = ShortWindow<RATIO, HEAD_DIM, COFF, KV, SCORE, HAS_APE, VEC, CONTIGUOUS>;

  for (long long item = blockIdx.x; item < args.num_items; item += gridDim.x) {
    const long long row = item / kStrips * kRows + threadIdx.x / kColumnThreads;
    if (row >= args.num_rows) continue;  // whole warps
    const RowPlace place = place_row<RATIO, COFF>(args, row);
    const int column =
        (static_cast<int>(item % kStrips) * kColumnThreads + static_cast<int>(threadIdx.x) % kColumnThreads) * VEC;
    if (column >= HEAD_DIM) continue;
    float out[VEC];
    if (place.is_inside) {
      Window window;
      window.load(args, place, column);
      window.softmax();
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        out[j] = 0.0f;
#pragma unroll
        for (int k = 0; k < Window::kEntries; ++k) out[j] = add(out[j], mul(window.kv[k].get(j), window.p[k][j]));
      }
    } else {
#pragma unroll
      for (int j = 0; j < VEC; ++j) out[j] = quiet_nan();
    }
    Vector<OUT, VEC>::from(out).store(args.out + static_cast<unsigned long long>(row * args.out_row_stride + column) *
                                                     size_of(OUT));
  }
}

}  // namespace csajit
