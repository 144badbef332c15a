// Fills the cache with every kernel of a spec for a named architecture. Knows no device and no driver.
#pragma once

#include <csajit/csajit.h>

#include <cstdint>

#include "base/result.hpp"
#include "compile/architecture.hpp"
#include "compressor/spec.hpp"
#include "service/service.hpp"

namespace csajit {

struct BuildOrder {
  const Architecture* arch = nullptr;
  bool rebuild = false;
  std::uint32_t jobs = 1;
  csajit_kernel_callback callback = nullptr;
  void* user = nullptr;
};

// Tries every kernel, on `jobs` threads that end with the call; the first kernel's error, in the order of
// kernels_of. The callback is called once a kernel, one at a time.
Result<void> build(Service& service, const Spec& spec, const BuildOrder& order);

}  // namespace csajit
