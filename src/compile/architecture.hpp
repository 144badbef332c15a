// The table of targets: one per compute capability, and the fallback among those an NVRTC knows. Static facts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace csajit {

struct Architecture {
  int capability;         // 90 for compute capability 9.0
  std::string_view name;  // "sm_90"
  int max_smem_bytes;     // opt-in shared memory of one block
  int max_threads_per_sm;
  int nvrtc_major;  // the first NVRTC that knows it
  int nvrtc_minor;
};

std::span<const Architecture> architectures();  // ascending: 80 86 87 89 90 100 103 110 120 121
const Architecture* find_architecture(int capability);
// "sm_90" or "90"; anything else, an a or f suffix included, is CSAJIT_E_INVALID_ARGUMENT listing the targets.
Result<const Architecture*> parse_architecture(std::string_view text);
// Highest target of the same major version with a lower minor that is in `known` (capabilities), or nullptr.
const Architecture* lower_target(const Architecture& wanted, std::span<const int> known);

}  // namespace csajit
