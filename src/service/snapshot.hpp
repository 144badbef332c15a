// The launch states that one thread has built, by service, spec and context. Lives and dies with the thread;
// never asks the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compressor/spec.hpp"
#include "device/launch_state.hpp"
#include "service/prepared_table.hpp"

namespace csajit {

struct Snapshot {
  std::uint64_t service_id = 0;
  PreparedPtr prepared;
  std::unique_ptr<LaunchState> state;
};

class SnapshotList {
 public:
  // The most recently used one of a spec, in whatever context; nullptr where there is none.
  Snapshot* find(std::uint64_t service_id, const Spec& spec) noexcept;
  // The one of a context.
  Snapshot* find(std::uint64_t service_id, const Spec& spec, unsigned long long context_id) noexcept;
  // Adds one. Those of destroyed services and unloaded contexts go first.
  Snapshot* add(std::unique_ptr<Snapshot> snapshot);

  std::size_t size() const noexcept { return list_.size(); }

  // The calling thread's list, or nullptr past the thread's end.
  static SnapshotList* of_this_thread() noexcept;

 private:
  std::vector<std::unique_ptr<Snapshot>> list_;  // most recently used ones towards the front
};

}  // namespace csajit
