// What the tests of the shared library share: the fake driver and the fake NVRTC, a service, legal arguments,
// what was logged, and how often memory was asked for.
#pragma once

#include <csajit/csajit.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "common/launch_args.h"
#include "fake_libcuda/fake_cuda.h"
#include "fake_nvrtc/fake_nvrtc.hpp"

// Allocations by operator new of the whole process, the shared library's included.
std::uint64_t allocations();

inline constexpr const char* fake_cuda_path = CSAJIT_FAKE_DIR "/libcuda.so.1";
inline constexpr const char* fake_nvrtc_path = CSAJIT_FAKE_DIR "/libnvrtc.so.99";

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "csajit-launch-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path;
};

// Sets an environment variable for its scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

// A dlopened library whose functions are called by name. Left loaded: csajit's tables point into it.
struct FakeLibrary {
  explicit FakeLibrary(const char* path) : handle(dlopen(path, RTLD_NOW)) { REQUIRE(handle != nullptr); }
  template <class Function>
  Function* function(const char* name) const {
    void* address = dlsym(handle, name);
    REQUIRE(address != nullptr);
    return reinterpret_cast<Function*>(address);
  }
  void* handle;
};

// The fake driver, found by csajit through its soname once it is loaded.
struct FakeCuda : FakeLibrary {
  FakeCuda() : FakeLibrary(fake_cuda_path) { reset(); }
  ~FakeCuda() {
    set_current(nullptr);
    reset();
  }
  FakeCudaReset* reset = function<FakeCudaReset>("fake_cuda_reset");
  FakeCudaCreateContext* create_context = function<FakeCudaCreateContext>("fake_cuda_create_context");
  FakeCudaDestroyContext* destroy_context = function<FakeCudaDestroyContext>("fake_cuda_destroy_context");
  FakeCudaResetContext* reset_context = function<FakeCudaResetContext>("fake_cuda_reset_context");
  FakeCudaCreateStream* create_stream = function<FakeCudaCreateStream>("fake_cuda_create_stream");
  FakeCudaSetCurrent* set_current = function<FakeCudaSetCurrent>("fake_cuda_set_current");
  FakeCudaGetCurrent* get_current = function<FakeCudaGetCurrent>("fake_cuda_get_current");
  FakeCudaBeginCapture* begin_capture = function<FakeCudaBeginCapture>("fake_cuda_begin_capture");
  FakeCudaEndCapture* end_capture = function<FakeCudaEndCapture>("fake_cuda_end_capture");
  FakeCudaFail* fail = function<FakeCudaFail>("fake_cuda_fail");
  FakeCudaSetParameters* set_parameters = function<FakeCudaSetParameters>("fake_cuda_set_parameters");
  FakeCudaSetMaxThreads* set_max_threads = function<FakeCudaSetMaxThreads>("fake_cuda_set_max_threads");
  FakeCudaSetVerdict* set_verdict = function<FakeCudaSetVerdict>("fake_cuda_set_verdict");
  FakeCudaCalls* calls = function<FakeCudaCalls>("fake_cuda_calls");
  FakeCudaNumLaunches* num_launches = function<FakeCudaNumLaunches>("fake_cuda_num_launches");
  FakeCudaLaunchAt* launch_at = function<FakeCudaLaunchAt>("fake_cuda_launch_at");
  FakeCudaLoadedModules* loaded_modules = function<FakeCudaLoadedModules>("fake_cuda_loaded_modules");

  csajit::LaunchArgs args_of(int launch) const;
};

struct FakeNvrtc : FakeLibrary {
  FakeNvrtc() : FakeLibrary(fake_nvrtc_path) { function<FakeNvrtcReset>("fake_nvrtc_reset")(); }
  ~FakeNvrtc() { function<FakeNvrtcReset>("fake_nvrtc_reset")(); }
  FakeNvrtcCount* count = function<FakeNvrtcCount>("fake_nvrtc_count");
  int compiles() const { return count("compile"); }
  void fail(const char* call) const { function<FakeNvrtcSet>("fake_nvrtc_set")("CSAJIT_FAKE_NVRTC_FAIL", call); }
};

// Every message of the library while it lives.
class CapturedLog {
 public:
  CapturedLog();
  ~CapturedLog();
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  int count(const std::string& part) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
};

// A service without cache folders unless one is given, over the fake NVRTC.
struct Service {
  explicit Service(std::uint32_t flags = CSAJIT_SERVICE_MEMORY_ONLY, const char* cache_dir = nullptr,
                   const char* arch = nullptr, std::uint32_t lock_wait_ms = 0);
  ~Service() { csajit_service_destroy(handle); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  csajit_statistics statistics() const;
  csajit_service* handle = nullptr;
};

std::string last_error();
bool last_error_has(const std::string& part);

// ratio 4, coff 2, and a head_dim that no test had before: nothing of it is compiled or loaded yet.
csajit_spec fresh_spec();
inline constexpr int kernels_of_fresh_spec =
    8;  // forward and backward wide (contiguous or not) and scalar, the reduction, the check

// Runs the warm program (see warm.cpp) on `folder`/cache with the fakes on the loader path; its exit status, or -1.
int run_warm(const char* verb, const csajit_spec& spec, const TemporaryFolder& folder);

// Legal arguments: 64 tokens, 16 rows, one segment. Addresses of no memory, since nothing runs.
csajit_forward_args forward_args();
csajit_backward_args backward_args(const csajit_spec& spec);

// The fakes and one context with a stream.
struct Device {
  CapturedLog log;
  FakeCuda cuda;
  FakeNvrtc nvrtc;
  CUcontext context = cuda.create_context(0);
  CUstream stream = cuda.create_stream(context);
};
