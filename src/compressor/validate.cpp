// See validate.hpp.
#include "compressor/validate.hpp"

#include <fmt/format.h>

namespace csajit {
namespace {

// From the first byte of a tensor to the end of its last row. The plan has checked that this fits in 63 bits.
PointerArgument tensor_span(const char* name, std::uint64_t address, std::int64_t segments, std::int64_t segment_stride,
                            std::int64_t rows, std::int64_t row_stride, std::int64_t columns,
                            std::int64_t element_bytes) {
  PointerArgument span{name, address, address};
  if (address == 0 || segments <= 0 || rows <= 0) return span;
  const std::int64_t elements = (segments - 1) * segment_stride + (rows - 1) * row_stride + columns;
  span.end = address + static_cast<std::uint64_t>(elements * element_bytes);
  return span;
}

}  // namespace

PointerArguments pointer_arguments(const Spec& spec, const LaunchArgs& args) {
  PointerArguments out;
  const auto add = [&out](const PointerArgument& span) {
    if (span.begin != span.end) out.list[out.count++] = span;
  };
  const bool batched = args.tokens_per_segment != 0;
  const auto add_tokens = [&](const char* name, unsigned long long address, long long row_stride,
                              long long segment_stride, DType type) {
    add(tensor_span(name, address, batched ? args.num_segments : 1, segment_stride,
                    batched ? args.tokens_per_segment : args.num_tokens, row_stride, spec.columns(), size_of(type)));
  };
  const auto add_rows = [&](const char* name, unsigned long long address, long long rows, long long row_stride,
                            long long columns, long long element_bytes) {
    add(tensor_span(name, address, 1, 0, rows, row_stride, columns, element_bytes));
  };
  add_rows("cu_seqlens", args.cu_seqlens, 1, 0, args.num_segments + 1, 4);
  add_rows("cu_seqlens_comp", args.cu_seqlens_comp, 1, 0, args.num_segments + 1, 4);
  add_tokens("kv", args.kv, args.kv_row_stride, args.kv_segment_stride, spec.kv);
  add_tokens("score", args.score, args.score_row_stride, args.score_segment_stride, spec.score);
  add_rows("ape", args.ape, spec.ratio, args.ape_row_stride, spec.columns(), 4);
  add_rows("out", args.out, args.num_rows, args.out_row_stride, spec.head_dim, size_of(spec.out));
  add_rows("grad_out", args.grad_out, args.num_rows, args.grad_out_row_stride, spec.head_dim, size_of(spec.out));
  add_tokens("grad_kv", args.grad_kv, args.grad_kv_row_stride, args.grad_kv_segment_stride, spec.kv);
  add_tokens("grad_score", args.grad_score, args.grad_score_row_stride, args.grad_score_segment_stride, spec.score);
  add_rows("grad_ape", args.grad_ape, spec.ratio, args.grad_ape_row_stride, spec.columns(), 4);
  if (args.workspace != 0) {
    const auto bytes = workspace_bytes(spec, args.num_rows);
    add({"workspace", args.workspace, args.workspace + (bytes ? *bytes : 0)});
  }
  return out;
}

std::optional<KernelLaunch> plan_offset_check(std::span<const KernelShape> kernels, const LaunchArgs& launch_args,
                                              std::uint64_t verdict, LaunchArgs& check_args) {
  if (launch_args.cu_seqlens == 0 || launch_args.cu_seqlens_comp == 0) return std::nullopt;
  for (std::uint32_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].role != KernelRole::validate_offsets) continue;
    check_args = launch_args;
    check_args.workspace = verdict;
    return KernelLaunch{i, 1};
  }
  return std::nullopt;
}

std::string describe_offset_defect(const Spec& spec, const LaunchArgs& launch_args, unsigned long long verdict,
                                   const OffsetEntries& entries) {
  const long long i = entry_of(verdict);
  switch (defect_of(verdict)) {
    case OffsetDefect::cu_negative:
      return fmt::format("cu_seqlens[0]: {} is negative", entries.cu);
    case OffsetDefect::cu_descends:
      return fmt::format("cu_seqlens[{}]: {} is less than cu_seqlens[{}] = {}", i, entries.cu, i - 1,
                         entries.cu_before);
    case OffsetDefect::cu_past_tokens:
      return fmt::format("cu_seqlens[{}]: {} is past the {} tokens of num_tokens", i, entries.cu,
                         launch_args.num_tokens);
    case OffsetDefect::segment_too_long:
      return fmt::format(
          "cu_seqlens[{}]: {} makes segment {}, from cu_seqlens[{}] = {}, longer than the {} tokens of "
          "a segment of the batched layout",
          i, entries.cu, i - 1, i - 1, entries.cu_before, launch_args.tokens_per_segment);
    case OffsetDefect::comp_negative:
      return fmt::format("cu_seqlens_comp[0]: {} is negative", entries.comp);
    case OffsetDefect::comp_step: {
      const long long rows = (static_cast<long long>(entries.cu) - entries.cu_before) / spec.ratio;
      return fmt::format(
          "cu_seqlens_comp[{}]: {} should be {}: cu_seqlens_comp[{}] = {} and {} rows of segment {}, "
          "whose tokens are cu_seqlens {} to {} at ratio {}",
          i, entries.comp, entries.comp_before + rows, i - 1, entries.comp_before, rows, i - 1, entries.cu_before,
          entries.cu, spec.ratio);
    }
  }
  return fmt::format("the check of cu_seqlens gave the unknown verdict {:#x}", verdict);
}

}  // namespace csajit
