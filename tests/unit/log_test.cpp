#include "base/log.hpp"

#include <doctest/doctest.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace csajit;

namespace {

struct Seen {
  std::vector<std::pair<csajit_log_level, std::string>> messages;
  bool was_inside = false;

  static void receive(csajit_log_level level, const char* message, void* user) {
    auto* seen = static_cast<Seen*>(user);
    seen->messages.emplace_back(level, message);
    seen->was_inside = log::in_callback();
  }
};

// Restores the process-wide settings, whatever a test did.
struct Restore {
  ~Restore() {
    log::set_callback(nullptr, nullptr);
    log::set_level(CSAJIT_LOG_WARN);
  }
};

// What the process writes to stderr while this object lives.
class CapturedStderr {
 public:
  CapturedStderr() : file_(tmpfile()), saved_(dup(STDERR_FILENO)) {
    REQUIRE(file_ != nullptr);
    fflush(stderr);
    REQUIRE(dup2(fileno(file_), STDERR_FILENO) == STDERR_FILENO);
  }
  ~CapturedStderr() { restore(); }
  std::string text() {
    restore();
    std::string result;
    rewind(file_);
    for (int c = fgetc(file_); c != EOF; c = fgetc(file_)) result.push_back(static_cast<char>(c));
    return result;
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    fflush(stderr);
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }
  FILE* file_;
  int saved_;
};

}  // namespace

TEST_CASE("without a callback, warnings and errors go to stderr and lesser messages nowhere") {
  const Restore restore;
  CapturedStderr captured;
  log::info("not {}", "this");
  log::warn("cache folder {} is full", "/x");
  log::error("gone");
  CHECK(captured.text() == "[csajit] warn: cache folder /x is full\n[csajit] error: gone\n");
}

TEST_CASE("a callback replaces stderr, and null restores it") {
  const Restore restore;
  Seen seen;
  CapturedStderr captured;
  log::set_callback(Seen::receive, &seen);
  log::warn("first");
  log::set_callback(nullptr, nullptr);
  log::warn("second {{}}");
  CHECK(captured.text() == "[csajit] warn: second {}\n");
  REQUIRE(seen.messages.size() == 1);
  CHECK(seen.messages[0].first == CSAJIT_LOG_WARN);
  CHECK(seen.messages[0].second == "first");
}

TEST_CASE("a message that is not terminated reaches the callback terminated") {
  const Restore restore;
  Seen seen;
  log::set_callback(Seen::receive, &seen);
  const char text[] = {'a', 'b', 'c'};
  log::write(CSAJIT_LOG_ERROR, std::string_view(text, 2));
  REQUIRE(seen.messages.size() == 1);
  CHECK(seen.messages[0].second == "ab");
}

TEST_CASE("the level decides what is logged, and off silences all") {
  const Restore restore;
  Seen seen;
  log::set_callback(Seen::receive, &seen);
  log::set_level(CSAJIT_LOG_TRACE);
  log::write(CSAJIT_LOG_TRACE, "t");
  log::debug("d");
  CHECK(seen.messages.size() == 2);
  log::set_level(CSAJIT_LOG_ERROR);
  log::warn("w");
  log::write(CSAJIT_LOG_WARN, "w");
  CHECK(seen.messages.size() == 2);
  CHECK(log::enabled(CSAJIT_LOG_ERROR));
  log::set_level(CSAJIT_LOG_OFF);
  log::error("e");
  CHECK(seen.messages.size() == 2);
  CHECK_FALSE(log::enabled(CSAJIT_LOG_ERROR));
  CHECK_FALSE(log::enabled(CSAJIT_LOG_OFF));
}

TEST_CASE("a thread knows that it is inside a callback, and only then") {
  const Restore restore;
  Seen seen;
  log::set_callback(Seen::receive, &seen);
  CHECK_FALSE(log::in_callback());
  log::warn("x");
  CHECK(seen.was_inside);
  CHECK_FALSE(log::in_callback());
  {
    const log::CallbackScope outer;
    { const log::CallbackScope inner; }
    CHECK(log::in_callback());
    bool other_thread = true;
    std::thread([&] { other_thread = log::in_callback(); }).join();
    CHECK_FALSE(other_thread);
  }
  CHECK_FALSE(log::in_callback());
}

TEST_CASE("a callback that logs is not called again from inside itself") {
  const Restore restore;
  int calls = 0;
  log::set_callback(
      [](csajit_log_level, const char*, void* user) {
        ++*static_cast<int*>(user);
        log::error("again");
      },
      &calls);
  log::warn("once");
  CHECK(calls == 1);
}

TEST_CASE("an exception thrown by a callback stops there and leaves the callback state clean") {
  const Restore restore;
  log::set_callback([](csajit_log_level, const char*, void*) { throw std::runtime_error("host"); }, nullptr);
  CHECK_NOTHROW(log::warn("x"));
  CHECK_FALSE(log::in_callback());
}

TEST_CASE("a callback may be set from inside a callback, so no lock is held there") {
  const Restore restore;
  log::set_callback([](csajit_log_level, const char*, void*) { log::set_callback(nullptr, nullptr); }, nullptr);
  log::warn("x");  // deadlocks if the lock is held
  CapturedStderr captured;
  log::warn("y");
  CHECK(captured.text() == "[csajit] warn: y\n");
}

TEST_CASE("callbacks may be exchanged while others log: each call gets its own user pointer") {
  const Restore restore;
  struct Side {
    csajit_log_callback callback;
    std::atomic<int> right{0};
    std::atomic<int> wrong{0};
    char name;
  };
  static Side a, b;
  a.name = 'a';
  b.name = 'b';
  a.callback = [](csajit_log_level, const char*, void* user) { (user == &a ? a.right : a.wrong)++; };
  b.callback = [](csajit_log_level, const char*, void* user) { (user == &b ? b.right : b.wrong)++; };
  log::set_callback(a.callback, &a);
  std::thread setter([] {
    for (int i = 0; i < 500; ++i) {
      Side& side = i % 2 == 0 ? b : a;
      log::set_callback(side.callback, &side);
    }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t)
    writers.emplace_back([] {
      for (int i = 0; i < 500; ++i) log::warn("x");
    });
  setter.join();
  for (std::thread& writer : writers) writer.join();
  CHECK(a.wrong + b.wrong == 0);
  CHECK(a.right + b.right == 1500);
}
