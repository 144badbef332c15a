// One compiled kernel, as NVRTC made it and as the cache keeps it. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace csajit {

struct ResourceUsage {
  std::uint32_t registers = 0;
  std::uint32_t spill_bytes = 0;  // stores + loads
  std::uint32_t stack_bytes = 0;
  std::uint32_t static_smem_bytes = 0;
};

struct KernelImage {
  std::string arch;           // "sm_90"
  std::string nvrtc_version;  // "13.0"
  std::string lowered_name;   // the symbol inside the cubin
  ResourceUsage usage;
  double compile_ms = 0;
  std::vector<std::byte> cubin;
};

}  // namespace csajit
