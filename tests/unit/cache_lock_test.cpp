// The cross-process lock of the disk cache.
#include <sys/wait.h>

#include <set>

#include "cache/disk_cache.hpp"
#include "unit/cache_fixture.hpp"
#include "unit/fault_file_system.hpp"

using namespace csajit;
using namespace csajit::test;

namespace {

// Two keys with different lock slots.
std::pair<Key, Key> keys_of_two_slots() {
  for (int i = 1;; ++i) {
    if (key_of(i).lock_slot() != key_of(0).lock_slot()) return {key_of(0), key_of(i)};
  }
}

// Whether a child process gets the lock at once.
bool child_gets_lock(const std::string& root, const Key& key) {
  const pid_t child = fork();
  if (child == 0) {
    DiskCache cache(writing_to(root));
    _exit(lock_of(cache, key) ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("one holder a slot, within a process and between processes; other slots are free") {
  const TemporaryFolder folder;
  const CapturedLog log;
  const auto [key, other] = keys_of_two_slots();
  DiskCache a(writing_to(folder / "cache")), b(writing_to(folder / "cache"));
  {
    const DiskCache::Lock held = lock_of(a, key);
    REQUIRE(held);
    CHECK_FALSE(lock_of(b, key));
    CHECK_FALSE(lock_of(a, key));
    CHECK_FALSE(child_gets_lock(folder / "cache", key));
    CHECK(lock_of(b, other));
    CHECK(child_gets_lock(folder / "cache", other));
  }
  CHECK(lock_of(b, key));
  CHECK(child_gets_lock(folder / "cache", key));
  CHECK(exists(folder / "cache/v1/lock"));
  CHECK(mode_of(folder / "cache/v1/lock") == 0600);
}

TEST_CASE("a child forked while the lock is held does not keep it") {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache"));
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  auto held = std::make_unique<DiskCache::Lock>(lock_of(cache, key_of(1)));
  REQUIRE(*held);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[1]);
    char byte;
    (void)!read(pipe_ends[0], &byte, 1);  // until the parent is done
    _exit(0);
  }
  held.reset();
  CHECK(lock_of(cache, key_of(1)));
  close(pipe_ends[1]);
  close(pipe_ends[0]);
  REQUIRE(waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a killed holder's lock is free") {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache"));
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto held = lock_of(DiskCache(writing_to(folder / "cache")), key_of(1));
    (void)!write(pipe_ends[1], held ? "y" : "n", 1);
    for (;;) pause();
  }
  char got = 0;
  REQUIRE(read(pipe_ends[0], &got, 1) == 1);
  CHECK(got == 'y');
  {
    const CapturedLog log;
    CHECK_FALSE(lock_of(cache, key_of(1)));
  }
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(lock_of(cache, key_of(1)));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_CASE("a moved lock is held once and released once") {
  const TemporaryFolder folder;
  const CapturedLog log;
  DiskCache cache(writing_to(folder / "cache"));
  DiskCache::Lock first = lock_of(cache, key_of(1));
  DiskCache::Lock second = std::move(first);
  CHECK(second);
  CHECK_FALSE(lock_of(cache, key_of(1)));
  {
    DiskCache::Lock third;
    third = std::move(second);
    CHECK(third);
  }
  CHECK(lock_of(cache, key_of(1)));
}

TEST_CASE("a busy lock is asked for again until it is free") {
  const TemporaryFolder folder;
  Faults faults;
  DiskCacheOptions options = writing_to(folder / "cache");
  options.lock_wait_ms = 20000;
  DiskCache cache(options, Faults::file_system());
  int busy = 4;
  faults.on_call([&](const std::string& call, std::size_t) { return call == "lock_byte" && busy-- > 0 ? EAGAIN : 0; });
  CHECK(lock_of(cache, key_of(1)));
  CHECK(faults.count("lock_byte") == 6);  // four refused, one granted, one unlock
}

TEST_CASE("the wait for a lock ends, and is warned of once") {
  const TemporaryFolder folder;
  const CapturedLog log;
  Faults faults;
  DiskCacheOptions options = writing_to(folder / "cache");
  options.lock_wait_ms = 5;
  DiskCache cache(options, Faults::file_system());
  faults.on_call([](const std::string& call, std::size_t) { return call == "lock_byte" ? EAGAIN : 0; });
  CHECK_FALSE(lock_of(cache, key_of(1)));
  CHECK_FALSE(lock_of(cache, key_of(1)));
  CHECK(faults.count("lock_byte") >= 4);
  CHECK(log.messages.size() == 1);
  CHECK(log.count("5 ms") == 1);
}

TEST_CASE("a call that has waited in vain once tries its other locks and waits no more") {
  const TemporaryFolder folder;
  const CapturedLog log;
  Faults faults;
  DiskCacheOptions options = writing_to(folder / "cache");
  options.lock_wait_ms = 5;
  DiskCache cache(options, Faults::file_system());
  bool busy = true;
  faults.on_call([&](const std::string& call, std::size_t) { return call == "lock_byte" && busy ? EAGAIN : 0; });
  LockPatience patience;
  CHECK_FALSE(cache.lock(key_of(1), patience));
  CHECK(patience.is_spent());
  faults.forget_calls();
  CHECK_FALSE(cache.lock(key_of(2), patience));
  CHECK(faults.count("lock_byte") == 1);
  busy = false;
  CHECK(cache.lock(key_of(3), patience));  // what is free is held all the same
}

TEST_CASE("one thread's wait in vain ends the waits of the same call's other threads") {
  const TemporaryFolder folder;
  const CapturedLog log;
  Faults faults;
  DiskCacheOptions options = writing_to(folder / "cache");
  options.lock_wait_ms = 600000;
  DiskCache cache(options, Faults::file_system());
  LockPatience patience;
  int attempts = 0;
  faults.on_call([&](const std::string& call, std::size_t) {
    if (call != "lock_byte") return 0;
    if (++attempts == 3) patience.spend();
    return EAGAIN;
  });
  CHECK_FALSE(cache.lock(key_of(1), patience));
  CHECK(attempts == 3);
}

TEST_CASE("where there are no locks, or they are off, there is none, at once and without a warning") {
  const TemporaryFolder folder;
  const CapturedLog log;
  DiskCacheOptions options = writing_to(folder / "cache");
  options.lock_wait_ms = 20000;
  for (const int code : {ENOLCK, EOPNOTSUPP, EINVAL, ENOSYS, EIO}) {
    Faults faults;
    DiskCache cache(options, Faults::file_system());
    faults.on_call([&](const std::string& call, std::size_t) { return call == "lock_byte" ? code : 0; });
    CHECK_FALSE(lock_of(cache, key_of(1)));
    CHECK(faults.count("lock_byte") == 1);
  }
  Faults faults;
  options.use_lock = false;
  DiskCache off(options, Faults::file_system());
  CHECK_FALSE(lock_of(off, key_of(1)));
  CHECK(faults.calls().empty());
  CHECK(log.messages.empty());
}

TEST_CASE("a hit takes no lock") {
  const TemporaryFolder folder;
  Faults faults;
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  const auto held = lock_of(DiskCache(writing_to(folder / "cache")), key_of(1));
  REQUIRE(held);
  CHECK(cache.load(key_of(1)));
  CHECK(faults.count("lock_byte") == 0);
}
