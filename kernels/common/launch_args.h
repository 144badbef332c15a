// The one argument of every kernel: plain data, shared by host and device, laid out alike on both sides.
#pragma once

namespace csajit {

// Device addresses travel as integers so that the host needs no device types. A zero address means: absent,
// or not wanted. Strides are in elements.
struct LaunchArgs {
  unsigned long long kv;
  unsigned long long score;
  unsigned long long ape;
  unsigned long long out;
  unsigned long long grad_out;
  unsigned long long grad_kv;
  unsigned long long grad_score;
  unsigned long long grad_ape;
  unsigned long long workspace;
  unsigned long long cu_seqlens;
  unsigned long long cu_seqlens_comp;

  long long kv_row_stride;
  long long kv_segment_stride;
  long long score_row_stride;
  long long score_segment_stride;
  long long grad_kv_row_stride;
  long long grad_kv_segment_stride;
  long long grad_score_row_stride;
  long long grad_score_segment_stride;
  long long ape_row_stride;
  long long grad_ape_row_stride;
  long long out_row_stride;
  long long grad_out_row_stride;

  long long num_tokens;          // T
  long long num_segments;        // B
  long long num_rows;            // R
  long long tokens_per_segment;  // S of a batched layout, 0: packed
  long long num_row_items;       // work items that own rows; in the backward, items past them own zero slots
  long long num_items;           // all work items; CTAs stride over them
  unsigned int rows_per_item;    // forward: rows that one item computes, one after another
  unsigned int accumulate_grad_ape;
  unsigned int zero;  // always 0, which a compiler cannot know (Vector::tie)
  unsigned int reserved;
};

// NVRTC knows neither offsetof nor __builtin_offsetof, only its front end's word for an address as a constant.
#if defined(__CUDACC_RTC__)
#define CSAJIT_OFFSET_OF(member) __INTADDR__(&((LaunchArgs*)0)->member)
#else
#define CSAJIT_OFFSET_OF(member) __builtin_offsetof(LaunchArgs, member)
#endif
static_assert(sizeof(LaunchArgs) == 31 * 8, "LaunchArgs is read by kernels that were compiled elsewhere");
static_assert(CSAJIT_OFFSET_OF(kv_row_stride) == 11 * 8, "LaunchArgs layout");
static_assert(CSAJIT_OFFSET_OF(num_tokens) == 23 * 8, "LaunchArgs layout");
static_assert(CSAJIT_OFFSET_OF(rows_per_item) == 29 * 8, "LaunchArgs layout");
#undef CSAJIT_OFFSET_OF

}  // namespace csajit
