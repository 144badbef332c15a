// The table of compiled variants and the choice of launch shape; refuses nothing.
#include "compressor/schedule.hpp"

#include <fmt/format.h>

#include <array>

#include "common/offset_check.h"
#include "common/tiling.h"

namespace csajit {

namespace {

// Columns a thread moves at once, widest first. A thread keeps its part of the window in registers, so longer
// windows leave room for fewer columns: every row here compiles without a spill on every target of the table.
// A width is compiled where it divides head_dim, once for contiguous tensors and once for any strides; width 1 always
// is, for odd sizes and unaligned tensors.
struct Widths {
  bool is_short;
  std::uint32_t max_window;
  std::uint32_t forward;
  std::uint32_t backward;
};
constexpr std::array<Widths, 4> width_table{{
    {true, 8, 4, 4},
    {true, 16, 4, 2},
    {false, 256, 4, 2},
    {false, 512, 2, 1},
}};

const Widths& widths_of(const Spec& spec) {
  for (const Widths& row : width_table) {
    if (row.is_short == spec.is_short() && spec.window() <= row.max_window) return row;
  }
  return width_table.back();
}

const char* role_name(KernelRole role) {
  switch (role) {
    case KernelRole::forward:
      return "forward";
    case KernelRole::backward:
      return "backward";
    case KernelRole::reduce_grad_ape:
      return "reduce_grad_ape";
    case KernelRole::validate_offsets:
      return "validate_offsets";
  }
  return "?";
}

std::string type_expression(DType type) { return fmt::format("csajit::DType::{}", name_of(type)); }

std::uint32_t block_threads_of(const Spec& spec, KernelRole role, std::uint32_t vector) {
  const int d = static_cast<int>(spec.head_dim);
  const int vec = static_cast<int>(vector);
  if (role == KernelRole::reduce_grad_ape) return kReduceThreads;
  if (role == KernelRole::validate_offsets) return kOffsetCheckThreads;
  if (!spec.is_short()) return static_cast<std::uint32_t>(long_threads(static_cast<int>(spec.window()), vec));
  if (role == KernelRole::backward) return kShortLanes * kWarpThreads;
  return static_cast<std::uint32_t>(short_forward_column_threads(d, vec) * short_forward_rows(d, vec));
}

KernelRecipe make_recipe(const Spec& spec, KernelRole role, std::uint32_t vector, bool contiguous) {
  const char* family = spec.is_short() ? "short" : "long";
  KernelRecipe recipe;
  recipe.role = role;
  recipe.vector = vector;
  recipe.contiguous = contiguous;
  recipe.block_threads = block_threads_of(spec, role, vector);
  recipe.key_fields = {{"ratio", fmt::format("{}", spec.ratio)},
                       {"head_dim", fmt::format("{}", spec.head_dim)},
                       {"coff", fmt::format("{}", spec.coff)},
                       {"kv", name_of(spec.kv)},
                       {"score", name_of(spec.score)},
                       {"out", name_of(spec.out)},
                       {"ape", spec.ape ? "present" : "absent"},
                       {"role", role_name(role)},
                       {"family", family},
                       {"vector", fmt::format("{}", vector)},
                       {"layout", contiguous ? "contiguous" : "strided"}};
  if (role == KernelRole::reduce_grad_ape) {
    recipe.source = "reduce_grad_ape.cuh";
    recipe.name_expression = fmt::format("csajit::compressor_reduce_grad_ape<{}, {}, {}, {}>", spec.ratio,
                                         spec.head_dim, spec.coff, spec.is_short());
  } else if (role == KernelRole::validate_offsets) {
    recipe.source = "validate_offsets.cuh";
    recipe.name_expression = fmt::format("csajit::compressor_validate_offsets<{}>", spec.ratio);
  } else {
    recipe.source = fmt::format("{}_{}.cuh", role_name(role), family);
    recipe.name_expression =
        fmt::format("csajit::compressor_{}_{}<{}, {}, {}, {}, {}, {}, {}, {}, {}>", role_name(role), family, spec.ratio,
                    spec.head_dim, spec.coff, type_expression(spec.kv), type_expression(spec.score),
                    type_expression(spec.out), spec.ape, vector, contiguous);
  }
  const std::string types = spec.kv == spec.score && spec.kv == spec.out
                                ? name_of(spec.kv)
                                : fmt::format("{}:{}:{}", name_of(spec.kv), name_of(spec.score), name_of(spec.out));
  recipe.name = fmt::format("{} {} r{} d{} c{} {}{} vec{}{}", role_name(role), family, spec.ratio, spec.head_dim,
                            spec.coff, types, spec.ape ? "" : " no-ape", vector, contiguous ? " contiguous" : "");
  return recipe;
}

}  // namespace

std::vector<KernelRecipe> kernels_of(const Spec& spec, int /*max_smem_bytes*/) {
  std::vector<KernelRecipe> recipes;
  const Widths& widths = widths_of(spec);
  for (const KernelRole role : {KernelRole::forward, KernelRole::backward}) {
    const std::uint32_t wide = role == KernelRole::forward ? widths.forward : widths.backward;
    if (wide > 1 && spec.head_dim % wide == 0) {
      recipes.push_back(make_recipe(spec, role, wide, true));
      recipes.push_back(make_recipe(spec, role, wide, false));
    }
    recipes.push_back(make_recipe(spec, role, 1, false));
  }
  if (spec.ape) recipes.push_back(make_recipe(spec, KernelRole::reduce_grad_ape, 1, false));
  // Last, and of every spec: a warmed cache must serve a service that validates, too.
  recipes.push_back(make_recipe(spec, KernelRole::validate_offsets, 1, false));
  return recipes;
}

}  // namespace csajit
