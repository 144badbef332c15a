#include "cache/disk_cache.hpp"

#include <atomic>
#include <thread>

#include "unit/cache_fixture.hpp"
#include "unit/fault_file_system.hpp"

using namespace csajit;
using namespace csajit::test;

TEST_CASE("the cache folder is CSAJIT_CACHE_DIR, else XDG's, else HOME's, else none") {
  Config config;
  CHECK_FALSE(default_cache_dir(config));
  config.home = "/home/u";
  CHECK(default_cache_dir(config) == "/home/u/.cache/csajit");
  config.xdg_cache_home = "relative";  // to be ignored, as XDG says
  CHECK(default_cache_dir(config) == "/home/u/.cache/csajit");
  config.xdg_cache_home = "/xdg";
  CHECK(default_cache_dir(config) == "/xdg/csajit");
  config.cache_dir = "/own";
  CHECK(default_cache_dir(config) == "/own");
  Config homeless;
  homeless.home = "not-absolute";
  CHECK_FALSE(default_cache_dir(homeless));
}

TEST_CASE("what is published is loaded, by this cache and by another on the same folder") {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache"));
  CHECK_FALSE(cache.load(key_of(1)));
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  DiskCache other(writing_to(folder / "cache"));
  for (DiskCache* each : {&cache, &other}) {
    const auto image = each->load(key_of(1));
    REQUIRE(image);
    CHECK(image->image.cubin == image_of(1).cubin);
    CHECK(image->image.lowered_name == image_of(1).lowered_name);
    CHECK(image->image.usage.registers == 1);
    CHECK_FALSE(each->load(key_of(2)));
    CHECK(each->rejected_entries() == 0);
    CHECK(each->publish_failures() == 0);
  }
  CHECK(names_in(folder / "cache/v1") == std::vector<std::string>{key_of(1).hex() + ".record"});
}

TEST_CASE("publishing replaces what is there") {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache"));
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  REQUIRE(cache.publish(key_of(1), image_of(2)));
  CHECK(loaded(cache, key_of(1)).cubin == image_of(2).cubin);
}

TEST_CASE("nothing is created before the first write") {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache"));
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK(cache.entries().value().empty());
  CHECK(cache.clear().value().empty());
  CHECK_FALSE(exists(folder / "cache"));
}

TEST_CASE("without a folder kernels stay in memory: warned of once, counted each time") {
  const CapturedLog log;
  DiskCache cache{DiskCacheOptions{}};
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK_FALSE(lock_of(cache, key_of(1)));
  CHECK_FALSE(cache.publish(key_of(1), image_of(1)));
  CHECK_FALSE(cache.publish(key_of(2), image_of(2)));
  CHECK(cache.publish_failures() == 2);
  CHECK(log.messages.size() == 1);
  CHECK(log.count("HOME") == 1);
}

TEST_CASE("memory only by wish touches no folder and warns of nothing") {
  const TemporaryFolder folder;
  fill_layer(folder / "layer", 1);
  const CapturedLog log;
  DiskCacheOptions options = writing_to(folder / "cache");
  options.ro_dirs = {folder / "layer"};
  options.memory_only = true;
  DiskCache cache(options);
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK_FALSE(cache.publish(key_of(1), image_of(1)));
  CHECK_FALSE(lock_of(cache, key_of(1)));
  CHECK(cache.entries().value().empty());
  CHECK(cache.clear().value().empty());
  CHECK(cache.publish_failures() == 0);
  CHECK(log.messages.empty());
  CHECK_FALSE(exists(folder / "cache"));
}

TEST_CASE("a relative folder goes on meaning the same one after a change of the working folder") {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(folder / "other");
  std::filesystem::current_path(folder / ".");
  DiskCache cache(writing_to("cache"));
  std::filesystem::current_path(folder / "other");
  CHECK(cache.publish(key_of(1), image_of(1)));
  std::filesystem::current_path(before);
  CHECK(exists(folder / "cache/v1"));
}

TEST_CASE("whatever lies where a record should be is a miss and can be replaced") {
  const TemporaryFolder folder;
  const std::string root = folder / "cache";
  const std::string path = root + "/v1/" + record_name(key_of(1));
  DiskCache cache(writing_to(root));
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  REQUIRE(cache.publish(key_of(2), image_of(2)));
  const std::string good = read_file(path), other = read_file(root + "/v1/" + record_name(key_of(2)));

  SUBCASE("nothing at all") { write_file(path, ""); }
  SUBCASE("a cut record") { write_file(path, good.substr(0, good.size() / 2)); }
  SUBCASE("a longer record") { write_file(path, good + "x"); }
  SUBCASE("text") { write_file(path, std::string(1000, 'x')); }
  SUBCASE("a good record under another's name") { write_file(path, other); }
  SUBCASE("a link, even to a good record") {
    write_file(folder / "elsewhere", good);
    unlink(path.c_str());
    REQUIRE(symlink((folder / "elsewhere").c_str(), path.c_str()) == 0);
  }
  SUBCASE("a pipe that nobody writes to") {
    unlink(path.c_str());
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  }
  SUBCASE("a file larger than any record") {
    REQUIRE(truncate(path.c_str(), static_cast<off_t>(max_record_bytes) + 1) == 0);
  }

  const CapturedLog log;
  DiskCache fresh(writing_to(root));
  CHECK_FALSE(fresh.load(key_of(1)));
  CHECK_FALSE(fresh.load(key_of(1)));
  CHECK(fresh.rejected_entries() == 2);
  CHECK(log.messages.size() == 1);
  CHECK(log.count(path) == 1);
  REQUIRE(fresh.publish(key_of(1), image_of(3)));
  CHECK(loaded(fresh, key_of(1)).cubin == image_of(3).cubin);
}

TEST_CASE("every flipped byte of a cached file is a miss, never another kernel") {
  const TemporaryFolder folder;
  REQUIRE(DiskCache(writing_to(folder / "cache")).publish(key_of(1), image_of(1, 64)));
  const std::string path = folder / ("cache/v1/" + record_name(key_of(1)));
  const std::string good = read_file(path);
  const CapturedLog log;
  DiskCache cache(writing_to(folder / "cache"));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x20);
    write_file(path, bytes);
    if (cache.load(key_of(1))) FAIL_CHECK("byte " << i << " was not noticed");
  }
  CHECK(cache.rejected_entries() == good.size());
  write_file(path, good);
  CHECK(cache.load(key_of(1)));
}

TEST_CASE("a schema folder that is a link is not followed") {
  const TemporaryFolder folder;
  fill_layer(folder / "real", 1);
  std::filesystem::create_directory(folder / "cache");
  REQUIRE(symlink((folder / "real/v1").c_str(), (folder / "cache/v1").c_str()) == 0);
  const CapturedLog log;
  DiskCache cache(writing_to(folder / "cache"));
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK_FALSE(cache.publish(key_of(2), image_of(2)));
  CHECK(log.count(folder / "cache/v1") == 2);
  CHECK_FALSE(exists(folder / ("real/v1/" + record_name(key_of(2)))));
}

TEST_CASE("a record that this user may not read is a miss, no bad record, and is not replaced") {
  const TemporaryFolder folder;
  Faults faults;
  const std::string path = folder / ("cache/v1/" + record_name(key_of(1)));
  REQUIRE(DiskCache(writing_to(folder / "cache")).publish(key_of(1), image_of(1)));
  const CapturedLog log;
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  // The third open is the record's: after the root and the schema folder.
  const auto forbid = [&] {
    faults.on_call([opens = 0](const std::string& call, std::size_t) mutable {
      return call == "openat" && ++opens == 3 ? EACCES : 0;
    });
  };
  forbid();
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK(cache.rejected_entries() == 0);
  CHECK(log.count(path) == 1);
  CHECK(log.count("this user may not read it") == 1);
  forbid();
  CHECK_FALSE(cache.publish(key_of(1), image_of(2)));
  CHECK(log.count("is not replaced") == 1);
  faults.on_call({});
  CHECK(loaded(cache, key_of(1)).cubin == image_of(1).cubin);
}

TEST_CASE("entries lists records of all folders, sorted, with what is wrong with the bad ones") {
  const TemporaryFolder folder;
  fill_layer(folder / "a", 1);
  DiskCache cache([&] {
    DiskCacheOptions options = writing_to(folder / "b");
    options.ro_dirs = {folder / "a", folder / "missing"};
    return options;
  }());
  REQUIRE(cache.publish(key_of(2), image_of(2)));
  const std::string bad = record_name(key_of(9));
  write_file(folder / ("b/v1/" + bad), "junk");
  write_file(folder / "b/v1/.tmp-1-0-0000000000000000", "half");
  write_file(folder / "b/v1/note.txt", "x");
  write_file(folder / "b/v1/notes.record", "x");
  const auto entries = cache.entries();
  REQUIRE(entries.ok());
  REQUIRE(entries->size() == 3);
  CHECK((*entries)[0].folder == folder / "a/v1");
  CHECK_FALSE((*entries)[0].writable_layer);
  REQUIRE((*entries)[0].record);
  CHECK((*entries)[0].record->key == key_of(1));
  for (std::size_t i : {1U, 2U}) {
    const CacheEntry& entry = (*entries)[i];
    CHECK(entry.folder == folder / "b/v1");
    CHECK(entry.writable_layer);
    const bool junk = entry.name == bad;
    CHECK(entry.record.has_value() == !junk);
    CHECK(entry.problem.empty() == !junk);
    CHECK(entry.bytes == read_file(entry.folder + "/" + entry.name).size());
    CHECK(entry.mtime_s == mtime_of(entry.folder + "/" + entry.name));
  }
}

TEST_CASE("threads and caches that publish and load one key at once see whole records only") {
  const TemporaryFolder folder;
  const CapturedLog log;
  DiskCache a(writing_to(folder / "cache")), b(writing_to(folder / "cache"));
  std::atomic<int> odd{0};
  std::vector<std::thread> threads;
  for (DiskCache* cache : {&a, &b}) {
    for (int number : {1, 2}) {
      threads.emplace_back([&, cache, number] {
        for (int i = 0; i < 40; ++i) {
          if (!cache->publish(key_of(1), image_of(number, 20000))) ++odd;
          const auto image = cache->load(key_of(1));
          if (!image ||
              (image->image.cubin != image_of(1, 20000).cubin && image->image.cubin != image_of(2, 20000).cubin))
            ++odd;
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(odd == 0);
  CHECK(log.messages.empty());
  CHECK(temporaries_in(folder / "cache/v1") == 0);
}
