// The kernels of a spec: every compiled variant, and how each is launched. One readable table; no device.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "compressor/spec.hpp"

namespace csajit {

enum class KernelRole : std::uint8_t { forward, backward, reduce_grad_ape, validate_offsets };

// One kernel to compile: everything but the architecture.
struct KernelRecipe {
  KernelRole role = KernelRole::forward;
  std::string source;           // embedded file that holds the template: "compressor_forward.cuh"
  std::string name_expression;  // "csajit::compressor_forward<...>"
  std::string name;             // short and readable, for tables: "forward r4 d512 c2 bf16 vec4"
  std::vector<std::pair<std::string, std::string>> key_fields;  // every field of the spec, then of the schedule
  std::uint32_t block_threads = 0;
  std::uint32_t dynamic_smem_bytes = 0;
  std::uint32_t vector = 1;  // columns a thread moves at once; needs that alignment of every tensor it touches
  bool contiguous = false;   // needs packed tensors whose rows of W columns follow each other without a gap
};

// What `max_smem_bytes` (opt-in shared memory of a block on the target) allows. The same list, in the same
// order, for every call with equal arguments: kernels are referred to by index.
std::vector<KernelRecipe> kernels_of(const Spec& spec, int max_smem_bytes);

}  // namespace csajit
