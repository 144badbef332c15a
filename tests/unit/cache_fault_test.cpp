// The disk cache with every system call failing in turn.
#include <atomic>

#include "cache/disk_cache.hpp"
#include "unit/cache_fixture.hpp"
#include "unit/fault_file_system.hpp"

using namespace csajit;
using namespace csajit::test;

namespace {

bool is_image(const std::optional<CachedImage>& image, int number) {
  return image && image->image.cubin == image_of(number).cubin;
}

}  // namespace

TEST_CASE(
    "whichever call of a publish fails, there is the old record, the new one or none, and the next publish works") {
  for (const bool replacing : {false, true}) {
    for (const int code : {EIO, ENOSPC, EDQUOT, EACCES, EROFS, ESTALE, EMFILE, ENOENT}) {
      std::size_t calls = 0;
      bool reached = true;  // until the walk is past the last call
      for (std::size_t failing = 0; reached; ++failing) {
        CAPTURE(replacing);
        CAPTURE(code);
        CAPTURE(failing);
        const TemporaryFolder folder;
        const CapturedLog log;
        if (replacing) REQUIRE(DiskCache(writing_to(folder / "cache")).publish(key_of(1), image_of(1)));
        Faults faults;
        DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
        faults.on_call([&](const std::string&, std::size_t number) { return number == failing ? code : 0; });
        const bool published = cache.publish(key_of(1), image_of(2));
        calls = faults.calls().size();
        reached = failing < calls;
        faults.on_call({});
        CHECK(cache.publish_failures() == (published ? 0 : 1));
        CHECK(log.messages.size() == (published ? 0 : 1));
        CHECK(temporaries_in(folder / "cache/v1") == 0);
        DiskCache reader(writing_to(folder / "cache"));
        const auto image = reader.load(key_of(1));
        CHECK(reader.rejected_entries() == 0);
        if (published) {
          CHECK(is_image(image, 2));
        } else if (image) {
          CHECK((is_image(image, 2) || (replacing && is_image(image, 1))));
        } else {
          CHECK_FALSE(replacing);
        }
        CHECK(cache.publish(key_of(1), image_of(3)));
        CHECK(is_image(cache.load(key_of(1)), 3));
      }
      CHECK(calls > 10);
    }
  }
}

TEST_CASE("a publish that fails and cannot clean up leaves a temporary that nobody reads") {
  const TemporaryFolder folder;
  const CapturedLog log;
  Faults faults;
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  faults.on_call(
      [](const std::string& call, std::size_t) { return call == "renameat" || call == "unlinkat" ? EIO : 0; });
  CHECK_FALSE(cache.publish(key_of(1), image_of(1)));
  faults.on_call({});
  CHECK(temporaries_in(folder / "cache/v1") == 1);
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK(cache.entries().value().empty());
  CHECK(cache.rejected_entries() == 0);
}

TEST_CASE("whichever call of a load fails, it is a hit or a miss, and the next load hits") {
  const TemporaryFolder folder;
  REQUIRE(DiskCache(writing_to(folder / "cache")).publish(key_of(1), image_of(1)));
  const CapturedLog log;
  for (const int code : {EIO, EACCES, ESTALE, EMFILE, ENOENT, ELOOP, ENOTDIR}) {
    std::size_t calls = 0;
    bool reached = true;  // until the walk is past the last call
    for (std::size_t failing = 0; reached; ++failing) {
      Faults faults;
      DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
      faults.on_call([&](const std::string&, std::size_t number) { return number == failing ? code : 0; });
      const auto image = cache.load(key_of(1));
      calls = faults.calls().size();
      reached = failing < calls;
      faults.on_call({});
      CHECK((!image || is_image(image, 1)));
      CHECK(is_image(cache.load(key_of(1)), 1));
    }
    CHECK(calls >= 6);
  }
}

TEST_CASE("short reads and writes and interruptions change nothing") {
  const TemporaryFolder folder;
  Faults faults;
  faults.limit_transfers(7);
  faults.on_call([](const std::string& call, std::size_t number) {
    return call != "close" && call != "list" && number % 2 == 0 ? EINTR : 0;  // an interrupted close closes
  });
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  CHECK(is_image(cache.load(key_of(1)), 1));
  CHECK(lock_of(cache, key_of(1)));
  CHECK(faults.count("write") > 50);
  CHECK(faults.count("read") > 50);
  faults.on_call({});
  CHECK(is_image(DiskCache(writing_to(folder / "cache")).load(key_of(1)), 1));
}

TEST_CASE("a write that makes no progress is a failure, not an endless loop") {
  const TemporaryFolder folder;
  const CapturedLog log;
  Faults faults;
  faults.limit_transfers(0);
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  CHECK_FALSE(cache.publish(key_of(1), image_of(1)));
  CHECK(log.count("No space left") == 1);
}

TEST_CASE("a folder that cannot be written is warned of once a reason and counted each time") {
  const TemporaryFolder folder;
  const CapturedLog log;
  Faults faults;
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  int code = ENOSPC;
  faults.on_call([&](const std::string& call, std::size_t) { return call == "write" ? code : 0; });
  for (int i = 0; i < 3; ++i) CHECK_FALSE(cache.publish(key_of(i), image_of(i)));
  CHECK(log.messages.size() == 1);
  CHECK(log.count("No space left") == 1);
  CHECK(log.count(folder / "cache/v1") == 1);
  code = EDQUOT;
  CHECK_FALSE(cache.publish(key_of(1), image_of(1)));
  CHECK(log.messages.size() == 2);
  CHECK(cache.publish_failures() == 4);
}

TEST_CASE("a file system that cannot sync a folder is still a cache") {
  const TemporaryFolder folder;
  Faults faults;
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  int syncs = 0;
  faults.on_call([&](const std::string& call, std::size_t) { return call == "fsync" && ++syncs == 2 ? EINVAL : 0; });
  CHECK(cache.publish(key_of(1), image_of(1)));
  CHECK(syncs == 2);
}

TEST_CASE("the bytes are synced before the rename, and the folder after it") {
  const TemporaryFolder folder;
  Faults faults;
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  std::vector<std::string> order;
  for (const std::string& call : faults.calls()) {
    if (call == "write" || call == "fsync" || call == "renameat") order.push_back(call);
  }
  CHECK(order == std::vector<std::string>{"write", "fsync", "renameat", "fsync"});
}

TEST_CASE("no descriptor is left open, whatever fails") {
  const TemporaryFolder folder;
  const CapturedLog log;
  const auto open_descriptors = [] { return names_in("/proc/self/fd").size(); };
  const std::size_t before = open_descriptors();
  std::size_t calls = 0;
  bool reached = true;  // until the walk is past the last call
  for (std::size_t failing = 0; reached; ++failing) {
    Faults faults;
    DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
    faults.on_call([&](const std::string&, std::size_t number) { return number == failing ? EIO : 0; });
    { const auto lock = lock_of(cache, key_of(1)); }
    (void)cache.publish(key_of(1), image_of(1));
    (void)cache.load(key_of(1));
    (void)cache.entries();
    (void)cache.clear();
    calls = faults.calls().size();
    reached = failing < calls;
  }
  CHECK(calls > 40);
  CHECK(open_descriptors() == before);
}
