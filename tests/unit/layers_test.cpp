// Several folders in one cache: which one answers, and how one that others read is written.
#include <sys/stat.h>

#include <filesystem>

#include "cache/disk_cache.hpp"
#include "unit/cache_fixture.hpp"
#include "unit/fault_file_system.hpp"

using namespace csajit;
using namespace csajit::test;

TEST_CASE("read-only layers are asked first, in order, and never written") {
  const TemporaryFolder folder;
  fill_layer(folder / "a", 1);
  fill_layer(folder / "b", 2);
  DiskCache(writing_to(folder / "b")).publish(key_of(1), image_of(90));
  DiskCache(writing_to(folder / "cache")).publish(key_of(1), image_of(91));
  DiskCacheOptions options = writing_to(folder / "cache");
  options.ro_dirs = {folder / "missing", folder / "a", folder / "b"};
  DiskCache cache(options);
  CHECK(loaded(cache, key_of(1)).cubin == image_of(1).cubin);
  CHECK(loaded(cache, key_of(2)).cubin == image_of(2).cubin);
  const auto before = names_in(folder / "a/v1");
  REQUIRE(cache.publish(key_of(3), image_of(3)));
  CHECK(names_in(folder / "a/v1") == before);
  CHECK(exists(folder / ("cache/v1/" + record_name(key_of(3)))));
}

TEST_CASE("a damaged entry of a layer falls through to the next, with one warning that names it") {
  const TemporaryFolder folder;
  fill_layer(folder / "a", 1);
  const std::string damaged = folder / ("a/v1/" + record_name(key_of(1)));
  std::string bytes = read_file(damaged);
  bytes.back() = static_cast<char>(bytes.back() + 1);
  write_file(damaged, bytes, 0644);
  DiskCacheOptions options = writing_to(folder / "cache");
  options.ro_dirs = {folder / "a"};
  DiskCache cache(options);
  const CapturedLog log;
  CHECK_FALSE(cache.load(key_of(1)));
  REQUIRE(cache.publish(key_of(1), image_of(2)));
  CHECK(loaded(cache, key_of(1)).cubin == image_of(2).cubin);
  CHECK(cache.rejected_entries() == 2);
  CHECK(log.messages.size() == 1);
  CHECK(log.count(damaged) == 1);
  CHECK(log.count("checksum") == 1);
}

TEST_CASE("a refused record is skipped in its layer, stays where it is, and the next layer is asked") {
  const TemporaryFolder folder;
  fill_layer(folder / "layer", 1);
  DiskCache(writing_to(folder / "cache")).publish(key_of(1), image_of(2));
  DiskCacheOptions options = writing_to(folder / "cache");
  options.ro_dirs = {folder / "layer"};
  DiskCache cache(options);
  const CapturedLog log;
  auto image = cache.load(key_of(1));
  REQUIRE(image);
  CHECK(image->image.cubin == image_of(1).cubin);
  CHECK(image->place.layer == 0);
  cache.skip(key_of(1), image->place, "the driver said INVALID_IMAGE");
  image = cache.load(key_of(1));
  REQUIRE(image);
  CHECK(image->image.cubin == image_of(2).cubin);
  CHECK(image->place.layer == 1);
  cache.skip(key_of(1), image->place, "the driver said INVALID_IMAGE");
  cache.skip(key_of(1), image->place, "the driver said INVALID_IMAGE");
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK(cache.rejected_entries() == 2);
  CHECK(log.messages.size() == 2);
  CHECK(log.count(folder / "layer/v1") == 1);
  CHECK(log.count(folder / "cache/v1") == 1);
  // Other processes find both.
  DiskCache other(options);
  CHECK(loaded(other, key_of(1)).cubin == image_of(1).cubin);
  CHECK(loaded(other, key_of(1), 1).cubin == image_of(2).cubin);
}

TEST_CASE("what replaces a skipped record is read, whoever published it") {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache")), other(writing_to(folder / "cache"));
  for (DiskCache* publisher : {&cache, &other}) {
    REQUIRE(publisher->publish(key_of(1), image_of(1)));
    const auto image = cache.load(key_of(1));
    REQUIRE(image);
    cache.skip(key_of(1), image->place, "x");
    CHECK_FALSE(cache.load(key_of(1)));
    REQUIRE(publisher->publish(key_of(1), image_of(2)));
    CHECK(loaded(cache, key_of(1)).cubin == image_of(2).cubin);
  }
}

TEST_CASE("a layer leaves the modes of folders that were there, and says which one readers cannot pass") {
  const TemporaryFolder folder;
  for (const mode_t mode : {01777U, 0700U, 02775U}) {
    const std::string root = folder / std::to_string(mode);
    std::filesystem::create_directory(root);
    REQUIRE(chmod(root.c_str(), mode) == 0);
    const CapturedLog log;
    fill_layer(root, 1);
    CHECK(mode_of(root) == mode);
    CHECK((mode_of(root + "/v1") & 0777) == 0755);
    CHECK(mode_of(root + "/v1/" + record_name(key_of(1))) == 0644);
    CHECK(log.count(root + " has mode 0700") == (mode == 0700 ? 1 : 0));
  }
}

TEST_CASE("a hit in layer mode changes nothing, and says which record is private") {
  const TemporaryFolder folder;
  REQUIRE(DiskCache(writing_to(folder / "layer")).publish(key_of(1), image_of(1)));
  const std::string path = folder / ("layer/v1/" + record_name(key_of(1)));
  age(path, 7200);
  DiskCacheOptions options = writing_to(folder / "layer");
  options.layer = true;
  const CapturedLog log;
  Faults faults;
  CHECK(DiskCache(options, Faults::file_system()).load(key_of(1)));
  for (const char* call : {"futimens", "fchmod", "fchmodat", "mkdirat", "lock_byte"}) CHECK(faults.count(call) == 0);
  CHECK(mode_of(path) == 0600);
  CHECK(log.count(path + " has mode 0600") == 1);
}

TEST_CASE("a layer is written whole: its size has no bound") {
  const TemporaryFolder folder;
  DiskCacheOptions options = writing_to(folder / "layer");
  options.layer = true;
  options.max_bytes = 1;
  DiskCache cache(options);
  for (int i = 0; i < 3; ++i) REQUIRE(cache.publish(key_of(i), image_of(i)));
  CHECK(names_in(folder / "layer/v1").size() == 3);
}
