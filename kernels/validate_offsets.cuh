// Finds the first entry of cu_seqlens and cu_seqlens_comp that no well-formed pack has; changes nothing but its
// verdict.
//
// Launch: kOffsetCheckThreads threads, one CTA, which strides over the entries. Both arrays must be there, with
// num_segments + 1 entries each. Of the other arguments it reads num_tokens and tokens_per_segment.
// The verdict (common/offset_check.h) goes to `workspace`: 8 bytes, aligned to 8.
#pragma once

#include "common/offset_check.h"
#include "common/segment.cuh"

namespace csajit {

// The defect of entry i as a verdict.
template <int RATIO>
__device__ inline unsigned long long check_offset(const LaunchArgs& args, long long i) {
  const Offsets cu{args.cu_seqlens};
  const Offsets comp{args.cu_seqlens_comp};
  const long long end = cu[i];
  const long long comp_end = comp[i];
  const long long begin = i == 0 ? 0 : cu[i - 1];
  const long long comp_begin = i == 0 ? 0 : comp[i - 1];
  const long long length = end - begin;
  if (end < begin) return offset_verdict(i, i == 0 ? OffsetDefect::cu_negative : OffsetDefect::cu_descends);
  if (args.tokens_per_segment == 0 && end > args.num_tokens) return offset_verdict(i, OffsetDefect::cu_past_tokens);
  if (i == 0) return comp_end < 0 ? offset_verdict(i, OffsetDefect::comp_negative) : kOffsetsAreGood;
  if (args.tokens_per_segment != 0 && length > args.tokens_per_segment) {
    return offset_verdict(i, OffsetDefect::segment_too_long);
  }
  if (comp_end - comp_begin != length / RATIO) return offset_verdict(i, OffsetDefect::comp_step);
  return kOffsetsAreGood;
}

template <int RATIO>
__global__ void __launch_bounds__(kOffsetCheckThreads)
    compressor_validate_offsets(const __grid_constant__ LaunchArgs args) {
  static_assert(RATIO >= 1, "a window has at least one token");
  __shared__ unsigned long long verdicts[kOffsetCheckThreads];
  const int thread = threadIdx.x;
  unsigned long long verdict = kOffsetsAreGood;
  // Ascending, so that a thread's first is its least.
  for (long long i = thread; i <= args.num_segments && verdict == kOffsetsAreGood; i += kOffsetCheckThreads) {
    verdict = check_offset<RATIO>(args, i);
  }
  verdicts[thread] = verdict;
  __syncthreads();
  for (int half = kOffsetCheckThreads / 2; half > 0; half /= 2) {
    if (thread < half && verdicts[thread + half] < verdicts[thread]) verdicts[thread] = verdicts[thread + half];
    __syncthreads();
  }
  if (thread == 0) store_global(args.workspace, verdicts[0]);
}

}  // namespace csajit
