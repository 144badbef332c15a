// The counters of one service. Relaxed atomics; nothing is derived here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace csajit {

struct Statistics {
  using Counter = std::atomic<std::uint64_t>;
  Counter memory_hits{0};
  Counter disk_hits{0};
  Counter compiles{0};
  Counter compile_failures{0};
  Counter module_loads{0};
  Counter fast_launches{0};
  Counter regular_launches{0};
  Counter compile_ns{0};
  Counter disk_ns{0};
  Counter load_ns{0};

  static void add(Counter& counter, std::uint64_t by = 1) noexcept { counter.fetch_add(by, std::memory_order_relaxed); }
};

// Adds the time of its scope to a counter.
class ScopedTimer {
 public:
  explicit ScopedTimer(Statistics::Counter& counter) : counter_(counter), begin_(std::chrono::steady_clock::now()) {}
  ~ScopedTimer() {
    const auto spent = std::chrono::steady_clock::now() - begin_;
    Statistics::add(counter_, static_cast<std::uint64_t>(std::chrono::nanoseconds(spent).count()));
  }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  Statistics::Counter& counter_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace csajit
