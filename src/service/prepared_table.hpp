// Specs whose kernels are all loaded in a context: what launches read. Process-wide; loads nothing itself.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "compile/architecture.hpp"
#include "compressor/problem.hpp"
#include "compressor/spec.hpp"
#include "device/context.hpp"
#include "device/launch_state.hpp"
#include "dl/driver_api.hpp"

namespace csajit {

// shapes and targets are indexed alike: by the position in kernels_of.
struct PreparedSpec {
  const DriverApi* driver = nullptr;
  ContextRef context;
  Spec spec;
  const Architecture* arch = nullptr;
  std::vector<KernelShape> shapes;
  std::vector<LaunchTarget> targets;
  mutable std::atomic<bool> dropped{false};         // its modules are unloaded
  mutable std::atomic<bool> no_fast_launch{false};  // a snapshot could not be built; for good
};

using PreparedPtr = std::shared_ptr<const PreparedSpec>;

// nullptr where it is not prepared.
PreparedPtr find_prepared(unsigned long long context_id, const Spec& spec, const Architecture& arch);
// Any entry of the spec, whatever its context: its shapes serve argument checks.
PreparedPtr find_prepared_anywhere(const Spec& spec);
// Keeps the first of two equal entries and returns what is kept.
PreparedPtr keep_prepared(std::shared_ptr<PreparedSpec> prepared);
void drop_prepared(unsigned long long context_id);

}  // namespace csajit
