// Builds many specs for many architectures at once through the C API, and keeps what became of each kernel.
#pragma once

#include <csajit/csajit.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace csajit::tool {

struct BuildJob {
  csajit_spec spec{};
  std::string arch;
};

// csajit_kernel_info, with strings of its own.
struct BuiltKernel {
  std::string name;
  std::string key;
  std::string arch;
  std::string nvrtc;
  std::string error;
  csajit_kernel_origin origin = CSAJIT_ORIGIN_FAILED;
  csajit_status status = CSAJIT_OK;
  std::uint32_t registers = 0;
  std::uint32_t spill_bytes = 0;
  std::uint32_t stack_bytes = 0;
  std::uint32_t static_smem_bytes = 0;
  std::uint32_t dynamic_smem_bytes = 0;
  std::uint64_t cubin_bytes = 0;
  double compile_ms = 0;
  std::uint32_t record_bytes = 0;
  bool published = false;
};

struct BuildPoolOptions {
  unsigned jobs = 1;  // kernels compiled at once, over all specs
  bool rebuild = false;
  // Called one at a time, in the order things happen. Either may be empty.
  std::function<void(const BuiltKernel&)> on_kernel;
  std::function<void(std::size_t done)> on_job;
};

// Runs every job, whatever becomes of the others, and returns its kernels job by job. A job that fails before its
// first kernel is one BuiltKernel named after its spec, FAILED.
std::vector<BuiltKernel> build_all(csajit_service* service, const std::vector<BuildJob>& jobs,
                                   const BuildPoolOptions& options);

std::string describe_job(const BuildJob& job);         // "ratio 4, head_dim 128, coff 2, bf16"
const char* origin_name(csajit_kernel_origin origin);  // "compiled", "disk", "memory", "FAILED"

}  // namespace csajit::tool
