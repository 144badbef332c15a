// What the fake driver keeps: devices, contexts, streams, modules, functions, launches. No entry points.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "common/launch_args.h"
#include "common/offset_check.h"
#include "fake_libcuda/fake_cuda.h"

namespace fake_cuda {

struct Context {
  int device = 0;
  unsigned long long id = 0;
  bool alive = true;
};

struct Stream {
  Context* context = nullptr;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  bool alive = true;
};

struct Module {
  Context* context = nullptr;
  unsigned long long context_id = 0;
  std::string kernel;  // its only one; empty: any name is found
  bool alive = true;
};

struct Function {
  Module* module = nullptr;
  std::string name;
  bool loaded = false;
};

struct Call {
  const char* name = nullptr;
  int count = 0;
  CUresult failure = CUDA_SUCCESS;
  int failures_left = 0;  // -1: for ever
};

// Handles are addresses of deque elements, which never move and are never freed: a stale handle is noticed
// instead of being somebody else's.
struct State {
  std::mutex mutex;
  int version = 13000;
  std::vector<int> capabilities;
  unsigned long long last_context_id = 0;
  std::deque<Context> contexts;
  std::deque<Stream> streams;
  std::deque<Module> modules;
  std::deque<Function> functions;
  std::vector<std::size_t> parameters{sizeof(csajit::LaunchArgs)};
  int max_threads = 1024;
  unsigned long long verdict = csajit::kOffsetsAreGood;  // of the check kernel
  std::array<Call, 96> calls{};
  // Fixed, so that recording a launch allocates nothing: tests count allocations.
  std::array<FakeLaunch, 1024> launches{};
  int num_launches = 0;

  Call& call(const char* name);
  bool is_context(CUcontext handle) const;
  bool is_stream(CUstream handle) const;
  bool is_module(CUmodule handle) const;
  bool is_function(CUfunction handle) const;
  // A load or unload on a thread in this mode; false: it broke a capture.
  bool may_load(CUstreamCaptureMode mode);
};

// Never destroyed: hosts may call the driver while they exit.
State& state();

// The calling thread's stack of contexts and its capture mode. No destructor, no allocation.
struct Thread {
  std::array<Context*, 16> stack{};
  int depth = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

  Context* current() const { return depth == 0 ? nullptr : stack[static_cast<std::size_t>(depth - 1)]; }
};
Thread& this_thread();

}  // namespace fake_cuda
