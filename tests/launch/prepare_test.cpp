// Sourcing and loading: what is compiled, from where a kernel comes, and what becomes of a bad image.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "launch/fixture.hpp"

namespace {

csajit_build_options build_options() {
  csajit_build_options options{};
  options.struct_size = sizeof(options);
  options.arch = "sm_90";
  return options;
}

struct Reported {
  std::vector<std::uint32_t> origins;
  std::vector<std::string> names;
  std::atomic<int> inside{0};
  bool overlapped = false;
  csajit_status from_callback = CSAJIT_OK;
  int failed = 0;
  int published = 0;
  const FakeNvrtc* wait_for_compiles = nullptr;  // of as many kernels as there are workers

  static void call(const csajit_kernel_info* info, void* user) {
    auto* self = static_cast<Reported*>(user);
    if (self->inside.fetch_add(1) != 0) self->overlapped = true;
    if (self->wait_for_compiles != nullptr) {
      // The other workers are about to report: give them every chance to come in here as well.
      while (self->wait_for_compiles->compiles() < 4) std::this_thread::yield();
      for (int i = 0; i < 2000; ++i) std::this_thread::yield();
    }
    self->origins.push_back(info->origin);
    self->names.emplace_back(info->name);
    self->failed += info->status != 0 ? 1 : 0;
    self->published += static_cast<int>(info->published);
    const csajit_spec spec = fresh_spec();
    std::uint64_t bytes = 0;
    self->from_callback = csajit_workspace_size(&spec, 1, &bytes);
    self->inside.fetch_sub(1);
  }
};

}  // namespace

TEST_CASE("prepare loads every kernel once and is cheap when repeated") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  REQUIRE(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  CHECK(device.nvrtc.compiles() == kernels_of_fresh_spec);
  CHECK(device.cuda.loaded_modules(device.context) == kernels_of_fresh_spec);
  CHECK(device.cuda.calls("cuFuncLoad") == kernels_of_fresh_spec);
  REQUIRE(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  CHECK(device.cuda.calls("cuModuleLoadData") == kernels_of_fresh_spec);
  CHECK(service.statistics().compiles == kernels_of_fresh_spec);
  CHECK(service.statistics().memory_hits == kernels_of_fresh_spec);
}

TEST_CASE("threads that prepare one spec at once share its compiles and its modules") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  std::vector<std::thread> threads;
  std::atomic<int> fine{0};
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] { fine += csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(fine == 6);
  CHECK(device.nvrtc.compiles() == kernels_of_fresh_spec);
  CHECK(device.cuda.loaded_modules(device.context) == kernels_of_fresh_spec);
}

TEST_CASE("a failed compile is reported, is not kept, and succeeds when tried again") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  device.nvrtc.fail("compile");
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_E_COMPILE);
  CHECK(service.statistics().compile_failures == 1);
  device.nvrtc.fail(nullptr);
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
}

TEST_CASE("an image refused after its rebuild means a driver too old, named with both versions, and is not kept") {
  Device device;
  TemporaryFolder folder;
  Service service(0, folder.path.c_str());
  const csajit_spec spec = fresh_spec();
  device.cuda.fail("cuModuleLoadData", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, -1);
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_E_DRIVER_TOO_OLD);
  CHECK(last_error_has("CUDA 13.0"));
  CHECK(last_error_has("NVRTC 13.0"));
  CHECK(service.statistics().compiles == 2);
  const auto records = [&] {
    int found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path)) {
      const bool is_record = entry.is_regular_file() && entry.path().filename() != "lock";
      found += is_record ? 1 : 0;
    }
    return found;
  };
  const auto last_write = [&] {
    std::filesystem::file_time_type last{};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path)) {
      if (entry.path().extension() == ".record") last = std::max(last, entry.last_write_time());
    }
    return last;
  };
  CHECK(records() == 1);  // of the first build, which another driver may take
  const auto written = last_write();
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_E_DRIVER_TOO_OLD);
  CHECK(records() == 1);
  CHECK(last_write() == written);
  Reported reported;
  csajit_build_options options = build_options();
  options.callback = Reported::call;
  options.user = &reported;
  CHECK(csajit_build(service.handle, &spec, &options) == CSAJIT_OK);
  CHECK(reported.published == kernels_of_fresh_spec - 1);
  device.cuda.fail("cuModuleLoadData", CUDA_SUCCESS, 0);
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  CHECK(device.cuda.loaded_modules(device.context) == kernels_of_fresh_spec);
}

TEST_CASE("out of memory while loading blames no image") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  device.cuda.fail("cuModuleLoadData", CUDA_ERROR_OUT_OF_MEMORY, 1);
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_E_OUT_OF_MEMORY);
  CHECK(service.statistics().compiles == 1);
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  CHECK(service.statistics().compiles == kernels_of_fresh_spec);
}

TEST_CASE("a kernel with other parameters is unloaded, built again and never launched") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  const std::size_t sizes[][2] = {{8, 8}, {sizeof(csajit::LaunchArgs), 8}};
  for (const auto& pair : sizes) {
    device.cuda.set_parameters(pair, 2);
    CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_E_INTERNAL);
    CHECK(last_error_has("parameter"));
  }
  device.cuda.set_parameters(nullptr, 0);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_E_INTERNAL);
  CHECK(device.nvrtc.compiles() == 6);
  CHECK(device.cuda.num_launches() == 0);
  CHECK(device.cuda.loaded_modules(device.context) == 0);
}

TEST_CASE("unloading a context frees its modules and nothing else, and the next launch loads again") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  CUcontext second = device.cuda.create_context(0);
  CUstream second_stream = device.cuda.create_stream(second);
  REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  REQUIRE(csajit_forward(service.handle, &spec, &args, second_stream) == CSAJIT_OK);
  // A capture elsewhere is not hurt.
  device.cuda.begin_capture(second_stream);
  CHECK(csajit_unload_context(device.context) == CSAJIT_OK);
  CHECK(device.cuda.end_capture(second_stream));
  CHECK(device.cuda.loaded_modules(device.context) == 0);
  CHECK(device.cuda.loaded_modules(second) == kernels_of_fresh_spec);
  CHECK(csajit_forward(service.handle, &spec, &args, second_stream) == CSAJIT_OK);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  CHECK(device.cuda.loaded_modules(device.context) == kernels_of_fresh_spec);
  CHECK(device.cuda.num_launches() == 4);
  CHECK(csajit_unload_context(nullptr) == CSAJIT_E_NO_CONTEXT);
}

TEST_CASE("modules outlive the service that loaded them") {
  Device device;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  {
    Service service;
    REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  }
  CHECK(device.cuda.loaded_modules(device.context) == kernels_of_fresh_spec);
  Service other(CSAJIT_SERVICE_MEMORY_ONLY | CSAJIT_SERVICE_REQUIRE_PREPARED | CSAJIT_SERVICE_NO_JIT);
  CHECK(csajit_forward(other.handle, &spec, &args, device.stream) == CSAJIT_OK);
  CHECK(other.statistics().fast_launches == 1);
}

TEST_CASE("without permission to compile a miss is an error that names spec, architecture and command") {
  Device device;
  TemporaryFolder folder;
  Service service(CSAJIT_SERVICE_NO_JIT, folder.path.c_str());
  const csajit_spec spec = fresh_spec();
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_E_JIT_DISABLED);
  CHECK(last_error_has("sm_90"));
  CHECK(last_error_has("csajit warmup --arch sm_90 --ratio 4 --head-dim " + std::to_string(spec.head_dim)));
  CHECK(device.nvrtc.compiles() == 0);
}

TEST_CASE("a cache that another process filled serves a process that may not compile") {
  Device device;
  TemporaryFolder folder;
  const csajit_spec spec = fresh_spec();
  REQUIRE(run_warm("build", spec, folder) == 0);
  const std::string cache = folder.path + "/cache";
  Service service(CSAJIT_SERVICE_NO_JIT, cache.c_str());
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  CHECK(service.statistics().disk_hits == kernels_of_fresh_spec);
  CHECK(device.nvrtc.compiles() == 0);
}

TEST_CASE("building for a named architecture never loads the driver, and preparing does") {
  TemporaryFolder folder;
  const csajit_spec spec = fresh_spec();
  CHECK(run_warm("build", spec, folder) == 0);
  CHECK_FALSE(std::filesystem::exists(folder.path + "/loaded"));
  CHECK(run_warm("prepare", spec, folder) == 0);
  CHECK(std::filesystem::exists(folder.path + "/loaded"));
}

TEST_CASE("launches while the process ends give work or an error, and neither a crash nor a hang") {
  TemporaryFolder folder;
  CHECK(run_warm("exit", fresh_spec(), folder) == 0);
}

TEST_CASE("a build reports each kernel once, one at a time, and its callback may not call back") {
  FakeNvrtc nvrtc;
  CapturedLog log;
  TemporaryFolder folder;
  Service service(0, folder.path.c_str());
  const csajit_spec spec = fresh_spec();
  csajit_build_options options = build_options();
  Reported reported;
  options.callback = Reported::call;
  options.user = &reported;
  options.jobs = 4;
  reported.wait_for_compiles = &nvrtc;
  CHECK(csajit_build(service.handle, &spec, &options) == CSAJIT_OK);
  CHECK(reported.origins == std::vector<std::uint32_t>(kernels_of_fresh_spec, CSAJIT_ORIGIN_COMPILED));
  CHECK(reported.published == kernels_of_fresh_spec);
  CHECK_FALSE(reported.overlapped);
  CHECK(reported.from_callback == CSAJIT_E_REENTRANT);

  Reported again;
  options.user = &again;
  CHECK(csajit_build(service.handle, &spec, &options) == CSAJIT_OK);
  CHECK(again.origins == std::vector<std::uint32_t>(kernels_of_fresh_spec, CSAJIT_ORIGIN_MEMORY));
  CHECK(again.published == kernels_of_fresh_spec);

  Reported rebuilt;
  options.user = &rebuilt;
  options.flags = CSAJIT_BUILD_REBUILD;
  CHECK(csajit_build(service.handle, &spec, &options) == CSAJIT_OK);
  CHECK(rebuilt.origins == std::vector<std::uint32_t>(kernels_of_fresh_spec, CSAJIT_ORIGIN_COMPILED));
  CHECK(nvrtc.compiles() == 2 * kernels_of_fresh_spec);
}

TEST_CASE("a build puts what the process has already into its own folder too") {
  FakeNvrtc nvrtc;
  CapturedLog log;
  TemporaryFolder folder;
  const csajit_spec spec = fresh_spec();
  const csajit_build_options options = build_options();
  Service memory_only;
  REQUIRE(csajit_build(memory_only.handle, &spec, &options) == CSAJIT_OK);
  Service service(0, folder.path.c_str());
  Reported reported;
  csajit_build_options reporting = options;
  reporting.callback = Reported::call;
  reporting.user = &reported;
  REQUIRE(csajit_build(service.handle, &spec, &reporting) == CSAJIT_OK);
  CHECK(reported.published == kernels_of_fresh_spec);
  CHECK(nvrtc.compiles() == kernels_of_fresh_spec);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path)) {
    files += entry.is_regular_file() && entry.file_size() > 0 ? 1 : 0;
  }
  CHECK(files == kernels_of_fresh_spec);
}

TEST_CASE("a failing build tries every kernel and returns the first error") {
  FakeNvrtc nvrtc;
  CapturedLog log;
  Service service;
  const csajit_spec spec = fresh_spec();
  csajit_build_options options = build_options();
  Reported reported;
  options.callback = Reported::call;
  options.user = &reported;
  nvrtc.fail("compile");
  CHECK(csajit_build(service.handle, &spec, &options) == CSAJIT_E_COMPILE);
  CHECK(reported.failed == kernels_of_fresh_spec);
}

TEST_CASE("each spec that is prepared or refused is noted once, as one line of JSON") {
  Device device;
  TemporaryFolder folder;
  const ScopedVariable variable("CSAJIT_RECORD", (folder.path + "/specs.%p").c_str());
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  device.cuda.begin_capture(device.stream);
  for (int i = 0; i < 2; ++i) {
    CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_E_NOT_PREPARED_IN_CAPTURE);
  }
  CHECK(device.cuda.end_capture(device.stream));
  for (int i = 0; i < 2; ++i) CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  std::ifstream file(folder.path + "/specs." + std::to_string(getpid()));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto line = [&](const char* outcome) {
    return "{\"ratio\":4,\"head_dim\":" + std::to_string(spec.head_dim) +
           ",\"coff\":2,\"kv\":\"bf16\",\"score\":\"bf16\",\"out\":\"bf16\",\"ape\":true,\"arch\":\"sm_90\","
           "\"outcome\":\"" +
           outcome + "\"}\n";
  };
  CHECK(text == line("CSAJIT_E_NOT_PREPARED_IN_CAPTURE") + line("CSAJIT_OK"));
}

TEST_CASE("a journal that cannot be written is warned of once and costs nothing else") {
  Device device;
  TemporaryFolder folder;
  const ScopedVariable variable("CSAJIT_RECORD", (folder.path + "/no/such/folder").c_str());
  Service service;
  for (int i = 0; i < 2; ++i) {
    const csajit_spec spec = fresh_spec();
    CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  }
  CHECK(device.log.count("CSAJIT_RECORD") == 1);
}

TEST_CASE("a forced architecture of the same major is used, another is refused") {
  Device device;
  const csajit_spec spec = fresh_spec();
  Service foreign(CSAJIT_SERVICE_MEMORY_ONLY, nullptr, "sm_80");
  CHECK(csajit_prepare(foreign.handle, &spec, device.stream) == CSAJIT_E_UNSUPPORTED);
  CHECK(last_error_has("sm_80"));
  device.cuda.set_current(device.context);
  char arch[16] = "";
  Service own(CSAJIT_SERVICE_MEMORY_ONLY, nullptr, "sm_90");
  CHECK(csajit_check_spec(own.handle, &spec, nullptr, arch, sizeof(arch)) == CSAJIT_OK);
  CHECK(std::string(arch) == "sm_90");
  CHECK(csajit_prepare(own.handle, &spec, device.stream) == CSAJIT_OK);
}
