// From the arguments of one call to its launches; refuses what the kernels could not bear, by argument name.
#include "compressor/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/tiling.h"
#include "compressor/tensor.hpp"

namespace csajit {

namespace {

// CTAs stride over their work items, so any grid serves; this one is far past what a GPU holds at once.
constexpr std::int64_t max_grid = 1 << 20;

// Long windows, forward: an item keeps APE in registers over this many rows at most, while there are still
// several items for every SM of a large GPU.
constexpr std::int64_t max_forward_rows_per_item = 16;
constexpr std::int64_t wanted_forward_items = 1056;

Error invalid(std::string message) { return {CSAJIT_E_INVALID_ARGUMENT, std::move(message)}; }

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// What both passes share: the counts, the segment arrays and the layout.
struct Shared {
  std::int64_t segments = 1;  // as the tensors count them: 1 for packed ones
  std::int64_t rows = 0;      // tokens of one of them
};

template <class Args>
Result<void> check_counts(const Spec& spec, const Args& args) {
  if (args.num_tokens < 0) return invalid(fmt::format("num_tokens: {} is negative", args.num_tokens));
  if (args.num_segments < 0 || args.num_segments > std::numeric_limits<std::int32_t>::max() - 1) {
    return invalid(fmt::format("num_segments: {} is outside 0..2^31-2", args.num_segments));
  }
  if (args.total_comp < 0) return invalid(fmt::format("total_comp: {} is negative", args.total_comp));
  if (args.total_comp > 0 && args.num_tokens < spec.ratio) {
    return invalid(fmt::format("num_tokens: {} tokens hold no window of ratio {}, but total_comp is {}",
                               args.num_tokens, spec.ratio, args.total_comp));
  }
  const auto check_offsets = [&](const std::int32_t* offsets, const char* name) -> Result<void> {
    if (offsets == nullptr && args.total_comp > 0) return invalid(fmt::format("{} is NULL", name));
    if (address_of(offsets) % 4 != 0)
      return invalid(fmt::format("{}: {:#x} is not aligned to 4 bytes", name, address_of(offsets)));
    return {};
  };
  if (auto checked = check_offsets(args.cu_seqlens, "cu_seqlens"); !checked) return checked;
  return check_offsets(args.cu_seqlens_comp, "cu_seqlens_comp");
}

// Packed or batched, from the segment strides of the (tokens, W) tensors; `tensors` are those that are wanted.
template <class Args>
Result<Shared> check_layout(const Spec& spec, const Args& args,
                            std::initializer_list<std::pair<const char*, const csajit_tensor*>> tensors) {
  const auto& [first_name, first] = *tensors.begin();
  const bool batched = first->segment_stride != 0;
  for (const auto& [name, tensor] : tensors) {
    if ((tensor->segment_stride != 0) != batched) {
      return invalid(fmt::format("{}.segment_stride: {} is {}, but {} is {}", name, tensor->segment_stride,
                                 batched ? "packed" : "batched", first_name, batched ? "batched" : "packed"));
    }
  }
  if (!batched || args.num_segments == 0) return Shared{1, args.num_tokens};
  if (args.num_tokens % args.num_segments != 0) {
    return invalid(fmt::format("num_tokens: {} is no multiple of num_segments {}, as a batched layout has it",
                               args.num_tokens, args.num_segments));
  }
  const std::int64_t length = args.num_tokens / args.num_segments;
  if (args.total_comp > 0 && length < spec.ratio) {
    return invalid(fmt::format("num_tokens: {} tokens a segment hold no window of ratio {}, but total_comp is {}",
                               length, spec.ratio, args.total_comp));
  }
  return Shared{args.num_segments, length};
}

// Memory without rows: an offsets array or the workspace. NULL is an empty one.
Result<TensorRegion> flat_region(const char* name, const void* pointer, std::uint64_t bytes, bool is_output) {
  TensorRegion region;
  region.name = name;
  region.is_output = is_output;
  if (pointer == nullptr) return region;
  region.begin = address_of(pointer);
  if (__builtin_add_overflow(region.begin, bytes, &region.end)) {
    return invalid(fmt::format("{}: {} bytes at {:#x} leave the address space", name, bytes, region.begin));
  }
  region.row_bytes = region.block_bytes = static_cast<std::int64_t>(bytes);
  return region;
}

struct OffsetRegions {
  TensorRegion cu_seqlens;
  TensorRegion cu_seqlens_comp;
};

template <class Args>
Result<OffsetRegions> offset_regions(const Args& args) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(args.num_segments + 1) * sizeof(std::int32_t);
  const auto cu = flat_region("cu_seqlens", args.cu_seqlens, bytes, false);
  if (!cu) return cu.error();
  const auto comp = flat_region("cu_seqlens_comp", args.cu_seqlens_comp, bytes, false);
  if (!comp) return comp.error();
  return OffsetRegions{*cu, *comp};
}

Result<TensorRegion> check_ape(const Spec& spec, const csajit_tensor& ape, const char* name, bool is_output) {
  if (!spec.ape) {
    if (ape.data != nullptr)
      return invalid(fmt::format("{}.data must be NULL: the spec says that APE is absent", name));
    return TensorRegion{};
  }
  csajit_tensor rows = ape;
  rows.segment_stride = 0;
  return check_tensor(rows, {name, 1, spec.ratio, spec.columns(), 4, is_output});
}

template <class Args>
void fill_common(const Args& args, const Shared& shared, const TensorRegion& kv, const TensorRegion& score,
                 const TensorRegion& ape, LaunchArgs& out) {
  out = LaunchArgs{};
  out.kv = kv.begin;
  out.kv_row_stride = kv.row_stride;
  out.kv_segment_stride = kv.segment_stride;
  out.score = score.begin;
  out.score_row_stride = score.row_stride;
  out.score_segment_stride = score.segment_stride;
  out.ape = ape.begin;
  out.ape_row_stride = ape.row_stride;
  out.cu_seqlens = address_of(args.cu_seqlens);
  out.cu_seqlens_comp = address_of(args.cu_seqlens_comp);
  out.num_tokens = args.num_tokens;
  out.num_segments = args.num_segments;
  out.num_rows = args.total_comp;
  out.tokens_per_segment = kv.segment_stride != 0 && args.num_segments > 0 ? shared.rows : 0;
}

std::uint32_t grid_of(std::int64_t items) { return static_cast<std::uint32_t>(std::min(items, max_grid)); }

std::int64_t partials_of(const Spec& spec, std::int64_t num_rows) {
  return max_partials(num_rows, partial_base(spec.is_short()),
                      partial_cap(static_cast<int>(spec.ratio), static_cast<int>(spec.head_dim),
                                  static_cast<int>(spec.coff), spec.is_short()));
}

struct Operand {
  const TensorRegion* region;
  std::int64_t element_bytes;
  bool has_window_rows = true;  // a window takes several of its rows; otherwise their stride is no matter
};

bool is_contiguous(const Spec& spec, const Operand& operand) {
  const TensorRegion& region = *operand.region;
  return region.begin == region.end || !operand.has_window_rows ||
         (region.segment_stride == 0 && region.row_stride == static_cast<std::int64_t>(spec.columns()));
}

// The first kernel of a role whose demands all operands meet: kernels are ordered from the most demanding.
Result<std::uint32_t> pick(const Spec& spec, std::span<const KernelShape> kernels, KernelRole role,
                           std::initializer_list<Operand> operands) {
  for (std::uint32_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].role != role) continue;
    const bool fits = std::all_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return is_vector_aligned(*operand.region, operand.element_bytes, kernels[i].vector) &&
             (!kernels[i].contiguous || is_contiguous(spec, operand));
    });
    if (fits) return i;
  }
  return Error{CSAJIT_E_INTERNAL, "no kernel of the spec fits the call"};
}

// Columns that one CTA of a row kernel covers.
std::int64_t strips_of(const Spec& spec, const KernelShape& kernel) {
  const int d = static_cast<int>(spec.head_dim);
  const int vec = static_cast<int>(kernel.vector);
  std::int64_t threads = kWarpThreads;
  if (!spec.is_short()) {
    threads = long_column_threads(static_cast<int>(spec.window()), vec);
  } else if (kernel.role == KernelRole::forward) {
    threads = short_forward_column_threads(d, vec);
  }
  return ceil_div(d, threads * vec);
}

}  // namespace

KernelShape shape_of(const KernelRecipe& recipe) {
  return {recipe.role, recipe.block_threads, recipe.dynamic_smem_bytes, recipe.vector, recipe.contiguous};
}

Result<std::uint64_t> workspace_bytes(const Spec& spec, std::int64_t num_rows) {
  if (num_rows < 0) return invalid(fmt::format("total_comp: {} is negative", num_rows));
  if (!spec.ape) return std::uint64_t{0};
  return static_cast<std::uint64_t>(partials_of(spec, num_rows)) * spec.ratio * spec.columns() * 4;
}

Result<LaunchPlan> plan_forward(const Spec& spec, const csajit_forward_args& args, std::span<const KernelShape> kernels,
                                LaunchArgs& launch_args) {
  if (args.flags != 0) return invalid(fmt::format("flags: {:#x} is not known", args.flags));
  if (auto checked = check_counts(spec, args); !checked) return std::move(checked).error();
  const auto layout = check_layout(spec, args, {{"kv", &args.kv}, {"score", &args.score}});
  if (!layout) return layout.error();

  const std::int64_t kv_bytes = size_of(spec.kv);
  const std::int64_t score_bytes = size_of(spec.score);
  const std::int64_t out_bytes = size_of(spec.out);
  const auto kv = check_tensor(args.kv, {"kv", layout->segments, layout->rows, spec.columns(), kv_bytes, false});
  if (!kv) return kv.error();
  const auto score =
      check_tensor(args.score, {"score", layout->segments, layout->rows, spec.columns(), score_bytes, false});
  if (!score) return score.error();
  const auto ape = check_ape(spec, args.ape, "ape", false);
  if (!ape) return ape.error();
  csajit_tensor rows = args.out;
  rows.segment_stride = 0;
  const auto out = check_tensor(rows, {"out", 1, args.total_comp, spec.head_dim, out_bytes, true});
  if (!out) return out.error();
  const auto offsets = offset_regions(args);
  if (!offsets) return offsets.error();
  const std::array regions{*kv, *score, *ape, *out, offsets->cu_seqlens, offsets->cu_seqlens_comp};
  if (auto checked = check_disjoint(regions); !checked) return std::move(checked).error();

  fill_common(args, *layout, *kv, *score, *ape, launch_args);
  launch_args.out = out->begin;
  launch_args.out_row_stride = out->row_stride;
  LaunchPlan plan;
  if (args.total_comp == 0) return plan;
  const auto picked = pick(spec, kernels, KernelRole::forward,
                           {{&*kv, kv_bytes}, {&*score, score_bytes}, {&*ape, 4}, {&*out, out_bytes, false}});
  if (!picked) return picked.error();
  const std::int64_t strips = strips_of(spec, kernels[*picked]);
  std::int64_t rows_per_item = 1;
  if (spec.is_short()) {
    rows_per_item = short_forward_rows(static_cast<int>(spec.head_dim), static_cast<int>(kernels[*picked].vector));
  } else {
    rows_per_item =
        std::clamp<std::int64_t>(args.total_comp * strips / wanted_forward_items, 1, max_forward_rows_per_item);
  }
  launch_args.rows_per_item = static_cast<unsigned int>(rows_per_item);
  launch_args.num_items = ceil_div(args.total_comp, rows_per_item) * strips;
  launch_args.num_row_items = launch_args.num_items;
  plan.launches[plan.count++] = {*picked, grid_of(launch_args.num_items)};
  return plan;
}

Result<LaunchPlan> plan_backward(const Spec& spec, const csajit_backward_args& args,
                                 std::span<const KernelShape> kernels, LaunchArgs& launch_args) {
  constexpr std::uint32_t known_flags = CSAJIT_ACCUMULATE_GRAD_APE;
  if ((args.flags & ~known_flags) != 0) return invalid(fmt::format("flags: {:#x} is not known", args.flags));
  if (auto checked = check_counts(spec, args); !checked) return std::move(checked).error();
  const bool wants_kv = args.grad_kv.data != nullptr;
  const bool wants_score = args.grad_score.data != nullptr;
  const bool wants_ape = args.grad_ape.data != nullptr;
  csajit_tensor grad_kv_tensor = wants_kv ? args.grad_kv : csajit_tensor{nullptr, 0, args.kv.segment_stride};
  csajit_tensor grad_score_tensor = wants_score ? args.grad_score : csajit_tensor{nullptr, 0, args.kv.segment_stride};
  const auto layout = check_layout(
      spec, args,
      {{"kv", &args.kv}, {"score", &args.score}, {"grad_kv", &grad_kv_tensor}, {"grad_score", &grad_score_tensor}});
  if (!layout) return layout.error();

  const std::int64_t kv_bytes = size_of(spec.kv);
  const std::int64_t score_bytes = size_of(spec.score);
  const std::int64_t out_bytes = size_of(spec.out);
  const TensorShape tokens{"", layout->segments, layout->rows, spec.columns(), 0, false};
  const auto check_tokens = [&](const csajit_tensor& tensor, const char* name, std::int64_t element_bytes,
                                bool is_output, bool is_wanted) {
    TensorShape shape = tokens;
    shape.name = name;
    shape.element_bytes = element_bytes;
    shape.is_output = is_output;
    if (!is_wanted) shape.rows = 0;
    return check_tensor(tensor, shape);
  };
  const auto kv = check_tokens(args.kv, "kv", kv_bytes, false, true);
  if (!kv) return kv.error();
  const auto score = check_tokens(args.score, "score", score_bytes, false, true);
  if (!score) return score.error();
  const auto grad_kv = check_tokens(grad_kv_tensor, "grad_kv", kv_bytes, true, wants_kv);
  if (!grad_kv) return grad_kv.error();
  const auto grad_score = check_tokens(grad_score_tensor, "grad_score", score_bytes, true, wants_score);
  if (!grad_score) return grad_score.error();
  const auto ape = check_ape(spec, args.ape, "ape", false);
  if (!ape) return ape.error();
  TensorRegion grad_ape;
  if (wants_ape) {
    auto checked = check_ape(spec, args.grad_ape, "grad_ape", true);
    if (!checked) return std::move(checked).error();
    grad_ape = *checked;
  }
  csajit_tensor rows = args.grad_out;
  rows.segment_stride = 0;
  const auto grad_out = check_tensor(rows, {"grad_out", 1, args.total_comp, spec.head_dim, out_bytes, false});
  if (!grad_out) return grad_out.error();

  TensorRegion workspace;
  if (wants_ape) {
    const std::uint64_t needed = *workspace_bytes(spec, args.total_comp);
    if (args.workspace_bytes < needed) {
      return invalid(fmt::format("workspace_bytes: {} is less than the {} that csajit_workspace_size gives",
                                 args.workspace_bytes, needed));
    }
    if (needed > 0) {
      if (args.workspace == nullptr) return invalid("workspace is NULL");
      if (address_of(args.workspace) % 16 != 0) {
        return invalid(fmt::format("workspace: {:#x} is not aligned to 16 bytes", address_of(args.workspace)));
      }
      const auto region = flat_region("workspace", args.workspace, needed, true);
      if (!region) return region.error();
      workspace = *region;
    }
  }
  const auto offsets = offset_regions(args);
  if (!offsets) return offsets.error();
  const std::array regions{*kv,         *score,   *ape,      *grad_out,           *grad_kv,
                           *grad_score, grad_ape, workspace, offsets->cu_seqlens, offsets->cu_seqlens_comp};
  if (auto checked = check_disjoint(regions); !checked) return std::move(checked).error();

  fill_common(args, *layout, *kv, *score, *ape, launch_args);
  launch_args.grad_out = grad_out->begin;
  launch_args.grad_out_row_stride = grad_out->row_stride;
  launch_args.grad_kv = grad_kv->begin;
  launch_args.grad_kv_row_stride = grad_kv->row_stride;
  launch_args.grad_kv_segment_stride = grad_kv->segment_stride;
  launch_args.grad_score = grad_score->begin;
  launch_args.grad_score_row_stride = grad_score->row_stride;
  launch_args.grad_score_segment_stride = grad_score->segment_stride;
  launch_args.grad_ape = grad_ape.begin;
  launch_args.grad_ape_row_stride = grad_ape.row_stride;
  launch_args.workspace = workspace.begin;
  launch_args.accumulate_grad_ape = (args.flags & CSAJIT_ACCUMULATE_GRAD_APE) != 0 ? 1 : 0;

  LaunchPlan plan;
  const auto picked = pick(spec, kernels, KernelRole::backward,
                           {{&*kv, kv_bytes},
                            {&*score, score_bytes},
                            {&*ape, 4},
                            {&*grad_out, out_bytes, false},
                            {&*grad_kv, kv_bytes},
                            {&*grad_score, score_bytes}});
  if (!picked) return picked.error();
  const KernelShape& kernel = kernels[*picked];
  const bool wants_tokens = wants_kv || wants_score;
  if (args.total_comp > 0 && (wants_tokens || wants_ape)) {
    launch_args.num_row_items = partials_of(spec, args.total_comp) * strips_of(spec, kernel);
  }
  const std::int64_t zero_tokens = static_cast<std::int64_t>(kernel.block_threads / kWarpThreads) * kZeroTokensPerWarp;
  launch_args.num_items = launch_args.num_row_items + (wants_tokens ? ceil_div(args.num_tokens, zero_tokens) : 0);
  if (launch_args.num_items > 0) plan.launches[plan.count++] = {*picked, grid_of(launch_args.num_items)};
  if (wants_ape && (args.total_comp > 0 || launch_args.accumulate_grad_ape == 0)) {
    const auto reduce = pick(spec, kernels, KernelRole::reduce_grad_ape, {});
    if (!reduce) return reduce.error();
    const std::int64_t elements = static_cast<std::int64_t>(spec.ratio) * spec.columns();
    plan.launches[plan.count++] = {*reduce, grid_of(ceil_div(elements, kWarpThreads))};
  }
  return plan;
}

}  // namespace csajit
