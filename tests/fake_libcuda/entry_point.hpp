// How the fake driver's functions begin, and the tables that cuGetProcAddress reads.
#pragma once

#include <cuda.h>

#include <mutex>
#include <span>

#include "fake_libcuda/state.hpp"

namespace fake_cuda {

// Counts a call; true where the test wants it to fail.
inline bool fails(const char* name, CUresult* code) {
  const std::lock_guard lock(state().mutex);
  Call& call = state().call(name);
  ++call.count;
  if (call.failures_left == 0) return false;
  if (call.failures_left > 0) --call.failures_left;
  *code = call.failure;
  return true;
}

#define FAKE_ENTER(name)            \
  CUresult injected = CUDA_SUCCESS; \
  if (fails(name, &injected)) return injected

struct EntryPoint {
  const char* name;
  int since;  // CUDA version that brought it
  void* address;
};
#define FAKE_ENTRY(name, since, function) \
  { name, since, reinterpret_cast<void*>(&(function)) }

std::span<const EntryPoint> module_entry_points();

}  // namespace fake_cuda
