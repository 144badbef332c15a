// Builds many specs for many architectures at once through the C API.
#include "build_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "check_number.hpp"
#include "command.hpp"
#include "parallel.hpp"

namespace csajit::tool {
namespace {

constexpr unsigned max_jobs_of_one_build = 256;  // csajit_build_options.jobs

class Pool {
 public:
  Pool(csajit_service* service, const std::vector<BuildJob>& jobs, const BuildPoolOptions& options)
      : service_(service), jobs_(jobs), options_(options), kernels_(jobs.size()) {}

  std::vector<BuiltKernel> run() {
    const unsigned outer = std::max(1U, std::min<unsigned>(options_.jobs, static_cast<unsigned>(jobs_.size())));
    inner_ = std::clamp(options_.jobs / outer, 1U, max_jobs_of_one_build);
    parallel_for(static_cast<std::int64_t>(jobs_.size()), 1, outer,
                 [&](unsigned, std::int64_t begin, std::int64_t) { build(static_cast<std::size_t>(begin)); });
    std::vector<BuiltKernel> all;
    for (auto& kernels : kernels_) std::move(kernels.begin(), kernels.end(), std::back_inserter(all));
    return all;
  }

 private:
  struct Receiver {
    Pool* pool;
    std::size_t job;
  };

  static void receive(const csajit_kernel_info* info, void* user) {
    auto* const receiver = static_cast<Receiver*>(user);
    receiver->pool->take(*info, receiver->job);
  }

  void take(const csajit_kernel_info& info, std::size_t job) {
    BuiltKernel kernel;
    kernel.name = info.name;
    kernel.key = info.key;
    kernel.arch = info.arch;
    kernel.nvrtc = info.nvrtc;
    kernel.error = info.error;
    kernel.origin = static_cast<csajit_kernel_origin>(info.origin);
    kernel.status = static_cast<csajit_status>(info.status);
    kernel.registers = info.registers;
    kernel.spill_bytes = info.spill_bytes;
    kernel.stack_bytes = info.stack_bytes;
    kernel.static_smem_bytes = info.static_smem_bytes;
    kernel.dynamic_smem_bytes = info.dynamic_smem_bytes;
    kernel.cubin_bytes = info.cubin_bytes;
    kernel.compile_ms = info.compile_ms;
    kernel.record_bytes = info.record_bytes;
    kernel.published = info.published != 0;
    add(std::move(kernel), job);
  }

  void add(BuiltKernel kernel, std::size_t job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (options_.on_kernel) options_.on_kernel(kernel);
    kernels_[job].push_back(std::move(kernel));
  }

  void build(std::size_t job) {
    Receiver receiver{this, job};
    csajit_build_options options{};
    options.struct_size = sizeof options;
    if (options_.rebuild) options.flags |= CSAJIT_BUILD_REBUILD;
    options.arch = jobs_[job].arch.c_str();
    options.callback = receive;
    options.user = &receiver;
    options.jobs = inner_;
    const csajit_status status = csajit_build(service_, &jobs_[job].spec, &options);
    // A kernel's own failure came through the callback; this is one that befell the call as a whole.
    const auto& kernels = kernels_[job];
    const bool told = std::any_of(kernels.begin(), kernels.end(),
                                  [](const BuiltKernel& k) { return k.origin == CSAJIT_ORIGIN_FAILED; });
    if (status != CSAJIT_OK && !told) {
      BuiltKernel failed;
      failed.name = describe_job(jobs_[job]);
      failed.arch = jobs_[job].arch;
      failed.status = status;
      failed.error = api_error(status).message;
      add(std::move(failed), job);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++done_;
    if (options_.on_job) options_.on_job(done_);
  }

  csajit_service* service_;
  const std::vector<BuildJob>& jobs_;
  const BuildPoolOptions& options_;
  unsigned inner_ = 1;
  std::mutex mutex_;
  std::size_t done_ = 0;
  std::vector<std::vector<BuiltKernel>> kernels_;
};

}  // namespace

std::vector<BuiltKernel> build_all(csajit_service* service, const std::vector<BuildJob>& jobs,
                                   const BuildPoolOptions& options) {
  return Pool(service, jobs, options).run();
}

std::string describe_job(const BuildJob& job) {
  const csajit_spec& spec = job.spec;
  std::string types = dtype_name(static_cast<csajit_dtype>(spec.kv_dtype));
  if (spec.score_dtype != spec.kv_dtype || spec.out_dtype != spec.kv_dtype) {
    types += fmt::format(":{}:{}", dtype_name(static_cast<csajit_dtype>(spec.score_dtype)),
                         dtype_name(static_cast<csajit_dtype>(spec.out_dtype)));
  }
  return fmt::format("ratio {}, head_dim {}, coff {}, {}{}", spec.ratio, spec.head_dim, spec.coff, types,
                     spec.ape == CSAJIT_APE_ABSENT ? ", no APE" : "");
}

const char* origin_name(csajit_kernel_origin origin) {
  switch (origin) {
    case CSAJIT_ORIGIN_COMPILED:
      return "compiled";
    case CSAJIT_ORIGIN_DISK:
      return "disk";
    case CSAJIT_ORIGIN_MEMORY:
      return "memory";
    default:
      return "FAILED";
  }
}

}  // namespace csajit::tool
