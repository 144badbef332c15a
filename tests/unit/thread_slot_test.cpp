#include "base/thread_slot.hpp"

#include <doctest/doctest.h>

#include <thread>

using csajit::ThreadSlot;

namespace {

struct Counted {
  static inline int alive = 0;
  Counted() { ++alive; }
  ~Counted() { --alive; }
  int value = 0;
};

// Asks for the slot while the thread's objects are being destroyed.
struct LateCaller {
  bool* got_none;
  ~LateCaller() { *got_none = ThreadSlot<Counted>::get() == nullptr; }
};

}  // namespace

TEST_CASE("each thread has its own object, which goes with the thread, and later calls get none") {
  bool got_none = false;
  std::thread([&] {
    thread_local LateCaller late{&got_none};  // made first, so destroyed after the slot's object
    static_cast<void>(&late);
    Counted* mine = ThreadSlot<Counted>::get();
    REQUIRE(mine != nullptr);
    mine->value = 7;
    CHECK(ThreadSlot<Counted>::get() == mine);
    CHECK(Counted::alive == 1);
  }).join();
  CHECK(got_none);
  CHECK(Counted::alive == 0);
  CHECK(ThreadSlot<Counted>::get()->value == 0);
}
