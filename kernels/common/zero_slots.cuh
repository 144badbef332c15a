// Owns every element of grad_kv and grad_score that no row's window consumes, and writes +0 there, once: tails,
// last blocks' first halves, padding, and what rows beyond R would have taken.
#pragma once

#include "common/dtype.cuh"
#include "common/segment.cuh"

namespace csajit {

// Which column halves of one token no row consumes.
struct ZeroSlots {
  bool own;   // the columns that the token's own block pools: [d, 2d) for coff 2, all for coff 1
  bool next;  // coff 2: the columns [0, d) that the block after it pools
};

__device__ inline ZeroSlots zero_slots_of(long long row, long long segment_end_row, long long last_row) {
  const long long end = segment_end_row < last_row ? segment_end_row : last_row;
  return {row >= end, row + 1 >= end};
}

template <DType TYPE, int VEC>
__device__ inline void zero_columns(unsigned long long row_address, int first_column, int last_column) {
  for (int column = first_column + lane_id() * VEC; column < last_column; column += kWarpThreads * VEC) {
    Vector<TYPE, VEC>::zero().store(row_address + static_cast<unsigned long long>(column) * size_of(TYPE));
  }
}

// Tokens [first, first + kZeroTokensPerWarp), by one warp.
template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, int VEC>
__device__ inline void write_zero_slots(const LaunchArgs& args, long long first) {
  const TrueRows rows = true_rows(args);
  const Offsets cu{args.cu_seqlens};
  const Offsets comp{args.cu_seqlens_comp};
  const long long count = args.num_segments;
  const long long last = first + kZeroTokensPerWarp < args.num_tokens ? first + kZeroTokensPerWarp : args.num_tokens;

  ZeroSlots slots{true, true};
  const long long token = first + lane_id();
  const bool active = token < last;
  if (rows.last > 0 && count > 0) {
    if (args.tokens_per_segment != 0) {
      if (active) {
        const long long segment = token / args.tokens_per_segment;
        const long long block = (token % args.tokens_per_segment) / RATIO;
        slots = zero_slots_of(comp[segment] + block, comp[segment + 1], rows.last);
      }
    } else {
      long long low = find_segment(cu, count, first);
      long long high = cu[low + 1] >= last ? low + 1 : find_segment(cu, count, last - 1) + 1;
      while (high - low > 1) {  // this lane's own token among the few segments of the warp's run
        const long long middle = (low + high) / 2;
        if (cu[middle] <= token) {
          low = middle;
        } else {
          high = middle;
        }
      }
      const long long begin = cu[low];
      if (active && begin <= token && token < cu[low + 1]) {
        slots = zero_slots_of(comp[low] + (token - begin) / RATIO, comp[low + 1], rows.last);
      }
    }
  }
  const unsigned int own = __ballot_sync(kFullWarp, active && slots.own);
  const unsigned int next = COFF == 2 ? __ballot_sync(kFullWarp, active && slots.next) : 0;
  for (unsigned int rest = own | next; rest != 0; rest &= rest - 1) {
    const int lane = __ffs(rest) - 1;
    const long long t = first + lane;
    const bool zero_own = own >> lane & 1;
    const bool zero_next = next >> lane & 1;
    const int first_column = COFF == 2 && !zero_next ? HEAD_DIM : 0;
    const int last_column = COFF == 2 && !zero_own ? HEAD_DIM : COFF * HEAD_DIM;
    const long long segment = args.tokens_per_segment != 0 ? t / args.tokens_per_segment : 0;
    const long long local = args.tokens_per_segment != 0 ? t % args.tokens_per_segment : t;
    if (args.grad_kv != 0) {
      zero_columns<KV, VEC>(args.grad_kv + static_cast<unsigned long long>(segment * args.grad_kv_segment_stride +
                                                                           local * args.grad_kv_row_stride) *
                                               size_of(KV),
                            first_column, last_column);
    }
    if (args.grad_score != 0) {
      zero_columns<SCORE, VEC>(
          args.grad_score + static_cast<unsigned long long>(segment * args.grad_score_segment_stride +
                                                            local * args.grad_score_row_stride) *
                                size_of(SCORE),
          first_column, last_column);
    }
  }
}

}  // namespace csajit
