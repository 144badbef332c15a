// See fixture.hpp.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "launch/fixture.hpp"

#include <spawn.h>
#include <sys/wait.h>

#include <cstring>

namespace {
void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }
const std::int32_t* offsets_at(std::uintptr_t address) { return reinterpret_cast<const std::int32_t*>(address); }
}  // namespace

csajit::LaunchArgs FakeCuda::args_of(int launch) const {
  csajit::LaunchArgs args{};
  const FakeLaunch* recorded = launch_at(launch);
  REQUIRE(recorded != nullptr);
  REQUIRE(recorded->num_bytes == sizeof(args));
  std::memcpy(&args, recorded->bytes, sizeof(args));
  return args;
}

CapturedLog::CapturedLog() {
  csajit_set_log_callback(
      [](csajit_log_level, const char* message, void* user) {
        auto* log = static_cast<CapturedLog*>(user);
        const std::lock_guard lock(log->mutex_);
        log->messages_.emplace_back(message);
      },
      this);
}
CapturedLog::~CapturedLog() { csajit_set_log_callback(nullptr, nullptr); }

int CapturedLog::count(const std::string& part) const {
  const std::lock_guard lock(mutex_);
  int found = 0;
  for (const std::string& message : messages_) found += message.find(part) != std::string::npos ? 1 : 0;
  return found;
}

Service::Service(std::uint32_t flags, const char* cache_dir, const char* arch, std::uint32_t lock_wait_ms) {
  csajit_service_options options{};
  options.struct_size = sizeof(options);
  options.flags = flags;
  options.cache_dir = cache_dir;
  options.nvrtc_path = fake_nvrtc_path;
  options.arch = arch;
  options.lock_wait_ms = lock_wait_ms;
  REQUIRE(csajit_service_create(&options, &handle) == CSAJIT_OK);
}

csajit_statistics Service::statistics() const {
  csajit_statistics statistics{};
  statistics.struct_size = sizeof(statistics);
  REQUIRE(csajit_get_statistics(handle, &statistics) == CSAJIT_OK);
  return statistics;
}

std::string last_error() {
  std::string message(csajit_last_error(nullptr, 0), '\0');
  csajit_last_error(message.data(), message.size());
  message.pop_back();
  return message;
}

bool last_error_has(const std::string& part) {
  const bool has = last_error().find(part) != std::string::npos;
  if (!has) MESSAGE("the last error is: ", last_error());
  return has;
}

csajit_spec fresh_spec() {
  static std::uint32_t last_head_dim = 0;
  last_head_dim += 8;
  csajit_spec spec{};
  spec.struct_size = sizeof(spec);
  spec.ratio = 4;
  spec.head_dim = last_head_dim;
  spec.coff = 2;
  return spec;
}

int run_warm(const char* verb, const csajit_spec& spec, const TemporaryFolder& folder) {
  const std::string head_dim = std::to_string(spec.head_dim);
  const std::string cache = folder.path + "/cache";
  const std::string mark = "CSAJIT_FAKE_CUDA_LOAD_FILE=" + folder.path + "/loaded";
  std::string loader = std::string("LD_LIBRARY_PATH=") + CSAJIT_FAKE_DIR;
  std::string level = "CSAJIT_LOG_LEVEL=error";
  std::vector<char*> environment{const_cast<char*>(mark.c_str()), loader.data(), level.data(), nullptr};
  const char* argv[] = {CSAJIT_WARM_PROGRAM, verb, fake_nvrtc_path, cache.c_str(), head_dim.c_str(), nullptr};
  pid_t child = -1;
  if (posix_spawn(&child, argv[0], nullptr, nullptr, const_cast<char**>(argv), environment.data()) != 0) return -1;
  int status = -1;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

csajit_forward_args forward_args() {
  csajit_forward_args args{};
  args.struct_size = sizeof(args);
  args.num_tokens = 64;
  args.num_segments = 1;
  args.total_comp = 16;
  args.cu_seqlens = offsets_at(0x9000'0000);
  args.cu_seqlens_comp = offsets_at(0x9100'0000);
  args.kv.data = at(0x1000'0000);
  args.score.data = at(0x2000'0000);
  args.ape.data = at(0x3000'0000);
  args.out.data = at(0x4000'0000);
  return args;
}

csajit_backward_args backward_args(const csajit_spec& spec) {
  const csajit_forward_args forward = forward_args();
  csajit_backward_args args{};
  args.struct_size = sizeof(args);
  args.num_tokens = forward.num_tokens;
  args.num_segments = forward.num_segments;
  args.total_comp = forward.total_comp;
  args.cu_seqlens = forward.cu_seqlens;
  args.cu_seqlens_comp = forward.cu_seqlens_comp;
  args.kv = forward.kv;
  args.score = forward.score;
  args.ape = forward.ape;
  args.grad_out.data = at(0x4000'0000);
  args.grad_kv.data = at(0x5000'0000);
  args.grad_score.data = at(0x6000'0000);
  args.grad_ape.data = at(0x7000'0000);
  args.workspace = at(0x8000'0000);
  REQUIRE(csajit_workspace_size(&spec, args.total_comp, &args.workspace_bytes) == CSAJIT_OK);
  return args;
}
