// csajit_compile_matrix: compiles the kernels of many specs for every target that the NVRTC at hand lists, by the
// library's own compile(), and fails on a spill, a stack frame or a kernel that could not be launched.
//
//   csajit_compile_matrix [--sample N] [--seed S] [--all] [--jobs N] [--arch sm_90] [--log FILE]
//
// Exit status: 0 all good; 1 some kernel is not; 2 usage; 77 no NVRTC here.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "compile/embedded_kernels.hpp"
#include "compile/find_real_nvrtc.hpp"
#include "compile/matrix_jobs.hpp"
#include "compile/nvrtc_program.hpp"

using namespace csajit;

namespace {

constexpr std::uint32_t registers_per_block = 65536;       // on every target of the table
constexpr std::uint32_t max_static_smem_bytes = 48 << 10;  // likewise, without opting in

struct Settings {
  bool all = false;
  std::size_t sample = 60;
  std::uint64_t seed = 1;
  unsigned jobs = 2;
  std::optional<std::string> arch;
  std::string log;  // empty: none
};

[[noreturn]] void usage(const std::string& why) {
  fmt::print(stderr, "csajit_compile_matrix: {}\n", why);
  fmt::print(stderr,
             "usage: csajit_compile_matrix [--sample N] [--seed S] [--all] [--jobs N] [--arch sm_90] [--log FILE]\n");
  std::exit(2);
}

template <class Number>
Number number(const std::string& option, const std::string& text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) usage(option + " needs a number, not \"" + text + "\"");
  return value;
}

Settings read_settings(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--all") {
      settings.all = true;
      continue;
    }
    if (i + 1 == argc) usage("unknown option or missing value: " + option);
    const std::string value = argv[++i];
    if (option == "--sample") {
      settings.sample = number<std::size_t>(option, value);
    } else if (option == "--seed") {
      settings.seed = number<std::uint64_t>(option, value);
    } else if (option == "--jobs") {
      settings.jobs = std::max(1u, number<unsigned>(option, value));
    } else if (option == "--arch") {
      settings.arch = value;
    } else if (option == "--log") {
      settings.log = value;
    } else {
      usage("unknown option: " + option);
    }
  }
  return settings;
}

// The targets to compile for; those that this NVRTC does not know are named.
std::vector<const Architecture*> targets(const NvrtcApi& nvrtc, const Settings& settings) {
  std::vector<const Architecture*> list;
  if (settings.arch) {
    const auto arch = parse_architecture(*settings.arch);
    if (!arch) usage(arch.error().message);
    return {*arch};
  }
  for (const Architecture& arch : architectures()) {
    const auto& known = nvrtc.known_capabilities;
    if (std::find(known.begin(), known.end(), arch.capability) != known.end()) {
      list.push_back(&arch);
    } else {
      fmt::print("left out {}: NVRTC {} does not know it\n", arch.name, nvrtc.version_text());
    }
  }
  return list;
}

Result<KernelImage> compile_job(const NvrtcApi& nvrtc, const MatrixJob& job) {
  CompileRequest request;
  for (const EmbeddedFile& file : embedded_kernels()) {
    if (file.name == job.recipe.source) request.source = file;
  }
  if (request.source.name.empty()) return Error{CSAJIT_E_INTERNAL, "no embedded file " + job.recipe.source};
  request.headers.assign(embedded_kernels().begin(), embedded_kernels().end());
  request.name_expression = job.recipe.name_expression;
  request.arch = job.arch;
  return compile(nvrtc, request);
}

// What is wrong with a kernel that did compile; empty: nothing.
std::string defect(const MatrixJob& job, const ResourceUsage& usage) {
  if (usage.registers == 0) return "the resources could not be read from NVRTC's log";
  if (usage.spill_bytes != 0) return fmt::format("{} bytes of spills", usage.spill_bytes);
  if (usage.stack_bytes != 0) return fmt::format("a stack frame of {} bytes", usage.stack_bytes);
  const std::uint32_t registers = (usage.registers + 7) / 8 * 8;  // as they are allocated
  if (registers * job.recipe.block_threads > registers_per_block) {
    return fmt::format("{} registers x {} threads are more than a block can have", registers, job.recipe.block_threads);
  }
  const std::uint32_t smem_bytes = usage.static_smem_bytes + job.recipe.dynamic_smem_bytes;
  if (usage.static_smem_bytes > max_static_smem_bytes ||
      smem_bytes > static_cast<std::uint32_t>(job.arch->max_smem_bytes)) {
    return fmt::format("{} bytes of shared memory are more than a block can have", smem_bytes);
  }
  return {};
}

// The first lines of a message: one broken header fails every kernel, and the log has the whole.
std::string shortened(const std::string& text) {
  std::size_t end = 0;
  for (int line = 0; line < 6 && end != std::string::npos; ++line) end = text.find('\n', end + 1);
  return text.substr(0, end);
}

// Collects outcomes; every line of the log is complete the moment it is written.
class Report {
 public:
  Report(std::size_t total, bool progress) : total_(total), progress_(progress) {}
  ~Report() {
    if (log_ != nullptr) std::fclose(log_);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  bool open_log(const std::string& file) {
    log_ = std::fopen(file.c_str(), "w");
    return log_ != nullptr &&
           std::fputs("name\tarch\tregisters\tspill\tstack\tsmem\tcubin_bytes\tms\tverdict\n", log_) >= 0;
  }

  void add(const MatrixJob& job, const Result<KernelImage>& image) {
    const std::string why = image ? defect(job, image->usage) : image.error().message;
    const std::lock_guard lock(mutex_);
    ++done_;
    if (image) {
      auto& most = most_registers_[job.recipe.source];
      most = std::max(most, image->usage.registers);
      compile_ms_ += image->compile_ms;
    }
    if (log_ != nullptr) write(job, image, why);
    if (!why.empty()) {
      ++failed_;
      fmt::print("FAILED {} on {}: {}\n", job.recipe.name, job.arch->name, shortened(why));
    }
    if (progress_ && (done_ % 100 == 0 || done_ == total_)) {
      fmt::print("{}/{} compiled, {} failed, {:.0f} s\n", done_, total_, failed_, seconds());
      std::fflush(stdout);
    }
  }

  int finish() {
    const std::lock_guard lock(mutex_);
    for (const auto& [source, registers] : most_registers_) {
      fmt::print("{:<24} at most {} registers\n", source, registers);
    }
    fmt::print("{} kernels, {} failed, {:.1f} s ({:.0f} ms a compile)\n", done_, failed_, seconds(),
               done_ == 0 ? 0.0 : compile_ms_ / static_cast<double>(done_));
    const bool logged = log_ == nullptr || (std::fflush(log_) == 0 && std::ferror(log_) == 0);
    if (!logged) fmt::print("the log could not be written\n");
    return failed_ == 0 && done_ == total_ && logged ? 0 : 1;
  }

 private:
  void write(const MatrixJob& job, const Result<KernelImage>& image, std::string why) {
    std::replace(why.begin(), why.end(), '\n', ' ');
    std::replace(why.begin(), why.end(), '\t', ' ');
    const KernelImage empty;
    const KernelImage& kernel = image ? *image : empty;
    fmt::print(log_, "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{:.1f}\t{}\n", job.recipe.name, job.arch->name,
               kernel.usage.registers, kernel.usage.spill_bytes, kernel.usage.stack_bytes,
               kernel.usage.static_smem_bytes + job.recipe.dynamic_smem_bytes, kernel.cubin.size(), kernel.compile_ms,
               why.empty() ? "ok" : why);
  }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

  const std::size_t total_;
  const bool progress_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::FILE* log_ = nullptr;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  double compile_ms_ = 0;
  std::map<std::string, std::uint32_t> most_registers_;
};

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = read_settings(argc, argv);
  const auto nvrtc = find_real_nvrtc();
  if (nvrtc == nullptr) return exit_skipped;

  const std::vector<const Architecture*> archs = targets(*nvrtc, settings);
  std::vector<MatrixJob> jobs = matrix_jobs(archs);
  const std::size_t whole = jobs.size();
  if (!settings.all) jobs = sample_of(std::move(jobs), settings.sample, settings.seed);
  fmt::print("{} of {} kernels for {} targets, {} at once", jobs.size(), whole, archs.size(), settings.jobs);
  fmt::print("{}\n", settings.all ? "" : fmt::format(", seed {}", settings.seed));
  std::fflush(stdout);

  Report report(jobs.size(), settings.all);
  const std::string log = settings.log.empty() && settings.all ? "compile_matrix.log" : settings.log;
  if (!log.empty() && !report.open_log(log)) usage("cannot write " + log);

  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) report.add(jobs[i], compile_job(*nvrtc, jobs[i]));
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < settings.jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return report.finish();
}
