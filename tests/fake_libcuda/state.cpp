// See state.hpp.
#include "fake_libcuda/state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake_cuda {
namespace {

template <class T, class Handle>
bool holds(const std::deque<T>& objects, Handle handle) {
  for (const T& object : objects) {
    if (reinterpret_cast<const void*>(&object) == reinterpret_cast<const void*>(handle)) return true;
  }
  return false;
}

State* make_state() {
  auto* made = new State;
  if (const char* version = std::getenv("CSAJIT_FAKE_CUDA_VERSION")) made->version = std::atoi(version);
  const char* devices = std::getenv("CSAJIT_FAKE_CUDA_DEVICES");
  std::string list = devices != nullptr ? devices : "90,90";
  for (char* item = std::strtok(list.data(), ","); item != nullptr; item = std::strtok(nullptr, ",")) {
    made->capabilities.push_back(std::atoi(item));
  }
  return made;
}

// One line a process, so that a test can tell that nothing ever loaded the driver.
struct LoadMark {
  LoadMark() {
    const char* path = std::getenv("CSAJIT_FAKE_CUDA_LOAD_FILE");
    if (path == nullptr) return;
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || write(file, "loaded\n", 7) != 7) std::perror(path);
    if (file >= 0) close(file);
  }
} load_mark;

}  // namespace

State& state() {
  static auto* const only = make_state();
  return *only;
}

Thread& this_thread() {
  static thread_local Thread thread;
  return thread;
}

Call& State::call(const char* name) {
  for (Call& known : calls) {
    if (known.name == nullptr) known.name = name;
    if (std::strcmp(known.name, name) == 0) return known;
  }
  std::fputs("fake libcuda: the table of calls is full\n", stderr);
  std::abort();
}

bool State::is_context(CUcontext handle) const {
  return holds(contexts, handle) && reinterpret_cast<const Context*>(handle)->alive;
}
bool State::is_stream(CUstream handle) const {
  return holds(streams, handle) && reinterpret_cast<const Stream*>(handle)->alive;
}
bool State::is_module(CUmodule handle) const {
  if (!holds(modules, handle)) return false;
  const auto* module = reinterpret_cast<const Module*>(handle);
  return module->alive && module->context->alive && module->context->id == module->context_id;
}
bool State::is_function(CUfunction handle) const {
  return holds(functions, handle) &&
         is_module(reinterpret_cast<CUmodule>(reinterpret_cast<const Function*>(handle)->module));
}

bool State::may_load(CUstreamCaptureMode mode) {
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return true;
  bool fine = true;
  for (Stream& stream : streams) {
    if (stream.capture == CU_STREAM_CAPTURE_STATUS_NONE) continue;
    stream.capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    fine = false;
  }
  return fine;
}

}  // namespace fake_cuda

using fake_cuda::Context;
using fake_cuda::state;
using fake_cuda::Stream;
using fake_cuda::this_thread;

extern "C" {

void fake_cuda_reset(void) {
  const std::lock_guard lock(state().mutex);
  state().parameters.assign(1, sizeof(csajit::LaunchArgs));
  state().max_threads = 1024;
  for (auto& call : state().calls) call = {call.name, 0, CUDA_SUCCESS, 0};
  state().verdict = csajit::kOffsetsAreGood;
  state().num_launches = 0;
}

CUcontext fake_cuda_create_context(int device) {
  const std::lock_guard lock(state().mutex);
  state().contexts.push_back({device, ++state().last_context_id, true});
  return reinterpret_cast<CUcontext>(&state().contexts.back());
}

void fake_cuda_destroy_context(CUcontext context) {
  const std::lock_guard lock(state().mutex);
  reinterpret_cast<Context*>(context)->alive = false;
}

void fake_cuda_reset_context(CUcontext context) {
  const std::lock_guard lock(state().mutex);
  reinterpret_cast<Context*>(context)->id = ++state().last_context_id;
}

CUstream fake_cuda_create_stream(CUcontext context) {
  const std::lock_guard lock(state().mutex);
  state().streams.push_back({reinterpret_cast<Context*>(context), CU_STREAM_CAPTURE_STATUS_NONE, true});
  return reinterpret_cast<CUstream>(&state().streams.back());
}

void fake_cuda_set_current(CUcontext context) {
  this_thread().depth = context == nullptr ? 0 : 1;
  this_thread().stack[0] = reinterpret_cast<Context*>(context);
}

CUcontext fake_cuda_get_current(void) { return reinterpret_cast<CUcontext>(this_thread().current()); }

void fake_cuda_begin_capture(CUstream stream) {
  const std::lock_guard lock(state().mutex);
  reinterpret_cast<Stream*>(stream)->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

bool fake_cuda_end_capture(CUstream stream) {
  const std::lock_guard lock(state().mutex);
  auto* capturing = reinterpret_cast<Stream*>(stream);
  const bool valid = capturing->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  capturing->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  return valid;
}

void fake_cuda_fail(const char* function, CUresult code, int times) {
  const std::lock_guard lock(state().mutex);
  auto& call = state().call(function);
  call.failure = code;
  call.failures_left = times;
}

void fake_cuda_set_parameters(const size_t* bytes, int count) {
  const std::lock_guard lock(state().mutex);
  state().parameters.assign(bytes, bytes + count);
}

void fake_cuda_set_max_threads(int threads) {
  const std::lock_guard lock(state().mutex);
  state().max_threads = threads;
}

int fake_cuda_calls(const char* function) {
  const std::lock_guard lock(state().mutex);
  return state().call(function).count;
}

void fake_cuda_set_verdict(unsigned long long verdict) {
  const std::lock_guard lock(state().mutex);
  state().verdict = verdict;
}

int fake_cuda_num_launches(void) {
  const std::lock_guard lock(state().mutex);
  return state().num_launches;
}

const FakeLaunch* fake_cuda_launch_at(int index) {
  const std::lock_guard lock(state().mutex);
  if (index < 0 || index >= state().num_launches || index >= static_cast<int>(state().launches.size())) return nullptr;
  return &state().launches[static_cast<size_t>(index)];
}

int fake_cuda_loaded_modules(CUcontext context) {
  const std::lock_guard lock(state().mutex);
  int count = 0;
  for (const auto& module : state().modules) {
    const bool here = reinterpret_cast<CUcontext>(module.context) == context;
    count += here && module.alive && module.context->alive && module.context->id == module.context_id ? 1 : 0;
  }
  return count;
}
}
