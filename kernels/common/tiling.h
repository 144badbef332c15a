// How windows and gradients are split: the constants that both the host's plan and the kernels use. Bits
// depend on those marked "order"; they are functions of the spec alone.
#pragma once

#include "common/host_device.h"

namespace csajit {

constexpr int kWarpThreads = 32;

CSAJIT_HOST_DEVICE constexpr long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }

// CTAs an SM holds if a thread takes `registers`: a bound for the compiler, which otherwise takes more than it needs.
CSAJIT_HOST_DEVICE constexpr int resident_ctas(int threads, int registers) {
  const int ctas = (64 << 10) / (threads * ((registers + 7) / 8 * 8));
  return ctas < 1 ? 1 : ctas > 8 ? 8 : ctas;
}

// ---- Short windows: one thread owns a vector of columns of whole windows ----

constexpr int kShortForwardThreads = 128;

// Threads along the columns of one row: whole warps, so that a warp never holds two rows.
CSAJIT_HOST_DEVICE constexpr int short_forward_column_threads(int head_dim, int vec) {
  const long long warps = ceil_div(ceil_div(head_dim, vec), kWarpThreads);
  return static_cast<int>(warps * kWarpThreads < kShortForwardThreads ? warps * kWarpThreads : kShortForwardThreads);
}
CSAJIT_HOST_DEVICE constexpr int short_forward_rows(int head_dim, int vec) {  // side by side in one CTA
  return kShortForwardThreads / short_forward_column_threads(head_dim, vec);
}

// Backward: a CTA is kShortLanes warps; each takes a run of a partial's rows in ascending order. (order)
constexpr int kShortLanes = 4;

// ---- Long windows: the entries of a window are split into leaves; one thread owns one leaf of a vector of
// columns. Sums over a leaf's entries, then over the leaves, are taken in pairs. ----

CSAJIT_HOST_DEVICE constexpr int long_leaf_entries(int window) { return window <= 256 ? 8 : 16; }  // (order)
CSAJIT_HOST_DEVICE constexpr int long_leaves(int window) {
  return static_cast<int>(ceil_div(window, long_leaf_entries(window)));
}
// Threads along the columns. At most 512 threads a CTA, so that a thread may use 128 registers.
CSAJIT_HOST_DEVICE constexpr int long_column_threads(int window, int vec) {
  return vec >= 4 || long_leaves(window) > 16 ? 16 : 32;
}
CSAJIT_HOST_DEVICE constexpr int long_threads(int window, int vec) {
  const int threads = long_leaves(window) * long_column_threads(window, vec);
  return static_cast<int>(ceil_div(threads, kWarpThreads)) * kWarpThreads;
}

// ---- grad_ape: rows are cut into partials, each summed by one CTA (a column strip of it); a second kernel adds
// the partials. Rows per partial: the smallest power of two times `base` that needs at most `cap` partials. (order)

struct Partition {
  long long rows_per_partial;
  long long num_partials;
};

CSAJIT_HOST_DEVICE constexpr Partition partition_rows(long long rows, int base, int cap) {
  long long per = base;
  while (rows > per * cap) per *= 2;
  return {per, rows <= 0 ? 0 : ceil_div(rows, per)};
}

CSAJIT_HOST_DEVICE constexpr int partial_base(bool is_short) { return is_short ? kShortLanes : 1; }

// At most 32 MiB of partials, or one of them; enough to fill a large GPU, few enough to add up quickly.
CSAJIT_HOST_DEVICE constexpr int partial_cap(int ratio, int head_dim, int coff, bool is_short) {
  const long long bytes = 4LL * ratio * coff * head_dim;
  const long long fit = (32LL << 20) / bytes;
  long long want = 384;
  if (!is_short) {
    want = 512 / ceil_div(head_dim, 64);
    want = want < 16 ? 16 : want > 256 ? 256 : want;
  }
  const long long cap = fit < want ? fit : want;
  return static_cast<int>(cap < 1 ? 1 : cap);
}

// Upper bound of num_partials over all row counts up to `rows`: sizes the workspace and the grid.
CSAJIT_HOST_DEVICE constexpr long long max_partials(long long rows, int base, int cap) {
  const long long most = rows <= 0 ? 0 : ceil_div(rows, base);
  return most < cap ? most : cap;
}

// Tokens that one warp looks at for zero slots.
constexpr int kZeroTokensPerWarp = 16;

// Second stage of grad_ape: 32 elements wide, this many partials side by side. (order)
constexpr int kReduceLanes = 8;
constexpr int kReduceThreads = kWarpThreads * kReduceLanes;

}  // namespace csajit
