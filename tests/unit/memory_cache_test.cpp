#include "cache/memory_cache.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <stdexcept>
#include <thread>

using namespace csajit;

namespace {

using Cache = MemoryCache<std::string, int>;
using Value = std::shared_ptr<const int>;
using Outcome = Result<Value>;

Outcome value_of(int number) { return Value(std::make_shared<const int>(number)); }

// Counts a latch down when a lookup hashes it.
struct WatchedKey {
  std::string text;
  std::latch* looked_up;

  friend bool operator==(const WatchedKey& a, const WatchedKey& b) { return a.text == b.text; }
  struct Hash {
    std::size_t operator()(const WatchedKey& key) const {
      if (key.looked_up != nullptr && !key.looked_up->try_wait()) key.looked_up->count_down();
      return std::hash<std::string>()(key.text);
    }
  };
};

// Runs `body` on `count` threads that all start together.
template <class Body>
void on_threads(int count, Body body) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      body(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("a value is made once and found from then on") {
  Cache cache;
  int made = 0;
  bool hit = true;
  const auto make = [&] {
    ++made;
    return value_of(7);
  };
  const auto first = cache.get_or_make("k", make, &hit);
  REQUIRE(first.ok());
  CHECK_FALSE(hit);
  const auto second = cache.get_or_make("k", make, &hit);
  REQUIRE(second.ok());
  CHECK(hit);
  CHECK(*first == *second);
  CHECK(**second == 7);
  CHECK(made == 1);
  CHECK(cache.get_or_make("k", make).ok());  // without asking for hit
}

TEST_CASE("second caller waits for the first compile") {
  MemoryCache<WatchedKey, int, WatchedKey::Hash> cache;
  std::latch making(1), asked(1);
  std::atomic<bool> finished{false};
  std::thread first([&] {
    const auto result = cache.get_or_make(WatchedKey{"k", nullptr}, [&] {
      making.count_down();
      // The second caller looks the key up under the lock that this flight needs to end: so it cannot come too late.
      asked.wait();
      finished = true;
      return value_of(1);
    });
    CHECK(result.ok());
  });
  making.wait();
  CHECK(cache.peek(WatchedKey{"k", nullptr}) == nullptr);
  bool hit = false;
  const auto second = cache.get_or_make(
      WatchedKey{"k", &asked},
      []() -> Outcome {
        return Error{CSAJIT_E_INTERNAL, "made twice"};
      },
      &hit);
  CHECK(finished);
  first.join();
  REQUIRE_MESSAGE(second.ok(), second.error().message);
  CHECK(hit);
  CHECK(**second == 1);
}

TEST_CASE("many threads that ask at once make one value, and exactly one missed") {
  constexpr int threads = 8;
  for (int round = 0; round < 50; ++round) {
    Cache cache;
    std::atomic<int> made{0}, misses{0};
    std::vector<Value> got(threads);
    on_threads(threads, [&](int t) {
      bool hit = false;
      auto result = cache.get_or_make(
          "k", [&] { return value_of(made++); }, &hit);
      misses += hit ? 0 : 1;
      if (result.ok()) got[static_cast<std::size_t>(t)] = *result;
    });
    CHECK(made == 1);
    CHECK(misses == 1);
    for (const Value& value : got) {
      REQUIRE(value);
      CHECK(value == got[0]);
    }
  }
}

TEST_CASE("different keys are made at the same time: no lock is held while making") {
  Cache cache;
  std::barrier both(2);  // each make waits for the other: a lock held here would never let it come
  on_threads(2, [&](int t) {
    const auto result = cache.get_or_make(std::to_string(t), [&] {
      both.arrive_and_wait();
      return value_of(t);
    });
    CHECK(result.ok());
  });
  CHECK(*cache.peek("0") == 0);
  CHECK(*cache.peek("1") == 1);
}

TEST_CASE("a failure is reported to whoever asked, is not kept, and can be retried") {
  Cache cache;
  bool hit = true;
  const auto failed = cache.get_or_make(
      "k",
      []() -> Outcome {
        return Error{CSAJIT_E_COMPILE, "the log"};
      },
      &hit);
  REQUIRE_FALSE(failed.ok());
  CHECK_FALSE(hit);
  CHECK(failed.error().status == CSAJIT_E_COMPILE);
  CHECK(failed.error().message == "the log");
  CHECK(cache.peek("k") == nullptr);
  const auto retried = cache.get_or_make(
      "k", [] { return value_of(2); }, &hit);
  REQUIRE(retried.ok());
  CHECK_FALSE(hit);
  CHECK(**retried == 2);
}

TEST_CASE("each thread that waited for a failing flight gets the whole message") {
  constexpr int threads = 6;
  for (int round = 0; round < 50; ++round) {
    Cache cache;
    std::atomic<int> made{0}, told{0};
    on_threads(threads, [&](int) {
      const auto result = cache.get_or_make("k", [&]() -> Outcome {
        ++made;
        return Error{CSAJIT_E_COMPILE, std::string(1000, 'x')};
      });
      told += !result.ok() && result.error().message.size() == 1000 ? 1 : 0;
    });
    CHECK(told == threads);
    CHECK(made >= 1);
    CHECK(cache.peek("k") == nullptr);
  }
}

TEST_CASE("a throwing make becomes an error for all and leaves the key usable") {
  Cache cache;
  const auto thrown = cache.get_or_make("k", []() -> Outcome { throw std::runtime_error("why"); });
  REQUIRE_FALSE(thrown.ok());
  CHECK(thrown.error().status == CSAJIT_E_INTERNAL);
  CHECK(thrown.error().message == "why");
  const auto memory = cache.get_or_make("k", []() -> Outcome { throw std::bad_alloc(); });
  REQUIRE_FALSE(memory.ok());
  CHECK(memory.error().status == CSAJIT_E_OUT_OF_MEMORY);
  const auto odd = cache.get_or_make("k", []() -> Outcome { throw 3; });
  REQUIRE_FALSE(odd.ok());
  CHECK(odd.error().status == CSAJIT_E_INTERNAL);
  CHECK(cache.get_or_make("k", [] { return value_of(1); }).ok());
}

TEST_CASE("a value that is null is an error, not a hit for ever after") {
  Cache cache;
  CHECK_FALSE(cache.get_or_make("k", []() -> Outcome { return Value(); }).ok());
  CHECK(cache.get_or_make("k", [] { return value_of(1); }).ok());
}

TEST_CASE("make may use the cache for other keys") {
  Cache cache;
  const auto outer = cache.get_or_make("outer", [&]() -> Outcome {
    auto inner = cache.get_or_make("inner", [] { return value_of(20); });
    if (!inner) return inner.error();
    return value_of(**inner + 1);
  });
  REQUIRE(outer.ok());
  CHECK(**outer == 21);
}

TEST_CASE("erase forgets a value but not one that someone still holds, and leaves a flight alone") {
  Cache cache;
  const auto held = cache.get_or_make("k", [] { return value_of(1); });
  cache.erase("k");
  cache.erase("never there");
  CHECK(cache.peek("k") == nullptr);
  CHECK(**held == 1);
  const auto flown = cache.get_or_make("k", [&] {
    cache.erase("k");
    CHECK(cache.extract_if([](const std::string&) { return true; }).empty());
    return value_of(2);
  });
  REQUIRE(flown.ok());
  REQUIRE(cache.peek("k") != nullptr);
  CHECK(*cache.peek("k") == 2);
}

TEST_CASE("extract_if takes out what matches and nothing else") {
  Cache cache;
  for (const char* key : {"a1", "a2", "b1"}) REQUIRE(cache.get_or_make(key, [] { return value_of(1); }).ok());
  CHECK(cache.extract_if([](const std::string& key) { return key[0] == 'a'; }).size() == 2);
  CHECK(cache.peek("a1") == nullptr);
  CHECK(cache.peek("a2") == nullptr);
  CHECK(cache.peek("b1") != nullptr);
}

TEST_CASE("a value's destructor may use the cache: it runs outside the lock") {
  struct Owner {
    MemoryCache<int, Owner>* cache;
    ~Owner() { cache->peek(2); }
  };
  MemoryCache<int, Owner> cache;
  REQUIRE(cache
              .get_or_make(1,
                           [&]() -> Result<std::shared_ptr<const Owner>> {
                             return std::shared_ptr<const Owner>(new Owner{&cache});
                           })
              .ok());
  cache.erase(1);  // deadlocks otherwise
  CHECK(cache.peek(1) == nullptr);
}
