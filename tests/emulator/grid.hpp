// Runs a kernel's CTAs one after another, each thread as a fiber: barriers, ballots and shuffles meet as on a
// GPU. One host thread; knows nothing of what the kernel does.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>

namespace csajit::emulator {

struct Index {
  unsigned int x;
};

class Grid {
 public:
  // Runs `body` once for each thread of each CTA. Throws std::logic_error where threads wait for each other for
  // ever, or lanes of a warp meet in different operations.
  static void run(unsigned int ctas, unsigned int threads, const std::function<void()>& body);

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
