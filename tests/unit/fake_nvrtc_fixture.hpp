// The fake NVRTC opened by its path, reset before and after each test that uses it.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "dl/nvrtc_api.hpp"
#include "fake_nvrtc/fake_nvrtc.hpp"

inline constexpr const char* fake_nvrtc_path = CSAJIT_FAKE_DIR "/libnvrtc.so.99";

struct FakeNvrtc {
  FakeNvrtc() : handle(dlopen(fake_nvrtc_path, RTLD_NOW)) {
    REQUIRE(handle != nullptr);
    call<FakeNvrtcReset>("fake_nvrtc_reset")();
    csajit::log::set_level(CSAJIT_LOG_ERROR);  // it has no builtins, and says so each time
  }
  // Left loaded: tables of earlier tests point into it.
  ~FakeNvrtc() {
    call<FakeNvrtcReset>("fake_nvrtc_reset")();
    csajit::log::set_level(CSAJIT_LOG_WARN);
  }
  FakeNvrtc(const FakeNvrtc&) = delete;
  FakeNvrtc& operator=(const FakeNvrtc&) = delete;

  // name without its CSAJIT_FAKE_NVRTC_ prefix.
  void set(const std::string& name, const char* value) {
    call<FakeNvrtcSet>("fake_nvrtc_set")(("CSAJIT_FAKE_NVRTC_" + name).c_str(), value);
  }
  int count(const char* name) { return call<FakeNvrtcCount>("fake_nvrtc_count")(name); }
  void hold() { call<FakeNvrtcHold>("fake_nvrtc_hold")(); }
  void release() { call<FakeNvrtcRelease>("fake_nvrtc_release")(); }
  void await_inside(int compiles) { call<FakeNvrtcAwait>("fake_nvrtc_await")(compiles); }

  // Not through open_nvrtc's memory: settings differ from test to test.
  csajit::Result<std::shared_ptr<const csajit::NvrtcApi>> open_fake(std::optional<int> max_major = std::nullopt) {
    csajit::NvrtcSearch search;
    search.path = fake_nvrtc_path;
    search.max_major = max_major;
    return csajit::find_nvrtc(search, csajit::SharedLibrary::open);
  }

  template <class Function>
  Function* call(const char* name) {
    void* address = dlsym(handle, name);
    REQUIRE(address != nullptr);
    return reinterpret_cast<Function*>(address);
  }

  void* handle;
};
