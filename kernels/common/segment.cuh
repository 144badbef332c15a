// Which segment owns a row or a token, and where a row's window lies. cu_seqlens and cu_seqlens_comp are read
// through the Offsets below and nowhere else, and are not trusted: every answer is checked against T before it is used.
#pragma once

#include "common/intrinsics.cuh"
#include "common/launch_args.h"
#include "common/tiling.h"

namespace csajit {

__device__ __forceinline__ int lane_id() { return threadIdx.x % kWarpThreads; }

// An int32 array on the device.
struct Offsets {
  unsigned long long address;
  __device__ __forceinline__ int operator[](long long i) const { return load_input<int>(address + i * 4ull); }
};

// Largest s in [0, count) with values[s] <= wanted, for ascending values with values[0] <= wanted; any s in
// [0, count) otherwise. count >= 1. All 32 lanes ask the same. One round of loads up to 32 segments, two up to
// 1024, three up to 32768.
__device__ inline long long find_segment(Offsets values, long long count, long long wanted) {
  long long low = 0;
  long long high = count;
  while (high - low > 1) {
    const long long step = ceil_div(high - low, kWarpThreads);
    const long long probe = low + (lane_id() + 1) * step;
    const bool below = probe < high && values[probe] <= wanted;
    const unsigned int votes = __ballot_sync(kFullWarp, below);
    low += __popc(votes) * step;
    if (low + step < high) high = low + step;
  }
  return low;
}

// Rows of this call that belong to a segment: [first, last). last <= R.
struct TrueRows {
  long long first;
  long long last;
};

__device__ __forceinline__ TrueRows true_rows(const LaunchArgs& args) {
  if (args.num_rows == 0 || args.cu_seqlens_comp == 0) return {0, 0};
  const Offsets comp{args.cu_seqlens_comp};
  const long long first = comp[0];
  const long long last = comp[args.num_segments];
  return {first < 0 ? 0 : first, last < args.num_rows ? (last < 0 ? 0 : last) : args.num_rows};
}

struct RowPlace {
  long long segment;  // 0 for packed tensors: multiplies the segment stride
  long long token;    // first token of the row's own block
  bool is_first;      // no block before it in its segment
  bool is_true;       // belongs to a segment (otherwise a capacity row)
  bool is_inside;     // every token of its window exists
};

// Place of a row in [0, R). All 32 lanes ask the same.
template <int RATIO, int COFF>
__device__ inline RowPlace place_row(const LaunchArgs& args, long long row) {
  const Offsets cu{args.cu_seqlens};
  const Offsets comp{args.cu_seqlens_comp};
  const long long count = args.num_segments;
  long long comp_begin, comp_end, segment, block, start;
  if (count < kWarpThreads) {  // both arrays fit in a warp: one round of loads in all
    const int lane = lane_id();
    const bool held = lane <= count;
    const int comp_lane = held ? comp[lane] : 0;
    const int cu_lane = held ? cu[lane] : 0;
    comp_begin = __shfl_sync(kFullWarp, comp_lane, 0);
    comp_end = __shfl_sync(kFullWarp, comp_lane, static_cast<int>(count));
    const unsigned int votes = __ballot_sync(kFullWarp, lane < count && comp_lane <= row);
    segment = votes == 0 ? 0 : __popc(votes) - 1;
    block = row - __shfl_sync(kFullWarp, comp_lane, static_cast<int>(segment));
    start = __shfl_sync(kFullWarp, cu_lane, static_cast<int>(segment));
  } else {
    comp_begin = comp[0];
    comp_end = comp[count];
    segment = find_segment(comp, count, row);
    block = row - comp[segment];
    start = cu[segment];
  }

  RowPlace place;
  place.is_true = comp_begin <= row && row < comp_end;
  if (!place.is_true) {  // as a first block at token 0; the host has checked that it exists
    place.segment = 0;
    place.token = 0;
    place.is_first = true;
    place.is_inside = true;
    return place;
  }
  const bool batched = args.tokens_per_segment != 0;
  const long long limit = batched ? args.tokens_per_segment : args.num_tokens;
  place.segment = batched ? segment : 0;
  place.token = (batched ? 0 : start) + block * RATIO;
  place.is_first = block == 0;
  const long long window_begin = COFF == 2 && !place.is_first ? place.token - RATIO : place.token;
  place.is_inside = block >= 0 && window_begin >= 0 && place.token + RATIO <= limit;
  return place;
}

}  // namespace csajit
