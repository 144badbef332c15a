// Runs a kernel's CTAs one after another, each thread as a fiber: barriers, ballots and shuffles meet as on a
// GPU. One host thread; knows nothing of what the kernel does.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace csajit::emulator {

struct Index {
  unsigned int x;
};

// In what order the warps of a CTA run between the barriers that they share.
struct Schedule {
  enum class Warps : std::uint8_t {
    together,     // thread after thread, each to its next barrier of any kind
    first_ahead,  // each warp as far as it can before the next one starts
    last_ahead,   // likewise, from the last warp to the first
    random,       // any warp, for a step or as far as it can, its lanes from any one on
  };
  Warps warps = Warps::together;
  std::uint64_t seed = 1;
};

// Schedules in which some warp is always ahead of another one.
std::vector<Schedule> uneven_schedules();
std::string describe(const Schedule& schedule);

class Grid {
 public:
  // Runs `body` once for each thread of each CTA. Throws std::logic_error where threads wait for each other for
  // ever, or lanes of a warp meet in different operations.
  static void run(unsigned int ctas, unsigned int threads, const std::function<void()>& body, Schedule schedule = {});

  static Index thread_index();
  static Index block_index();
  static Index grid_size();

  static void sync_block();
  static void sync_warp();
  static unsigned int ballot(bool predicate);
  template <class T>
  static T shuffle(T value, int lane) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = shuffle_bits(bits, lane);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }

 private:
  static std::uint64_t shuffle_bits(std::uint64_t bits, int lane);
};

}  // namespace csajit::emulator
