// What leaves the writable cache, in which order, and how seldom it is looked through.
#include "cache/eviction.hpp"

#include <algorithm>

#include "cache/disk_cache.hpp"
#include "unit/cache_fixture.hpp"
#include "unit/fault_file_system.hpp"

using namespace csajit;
using namespace csajit::test;

namespace {

const std::string half_record = "CSAJIT\x1a\n and not much more";
constexpr const char* stale_temporary = ".tmp-1-0-00000000000000aa";
constexpr const char* young_temporary = ".tmp-1-1-00000000000000bb";

// Of others, by their names or, the last two, by their bytes.
std::vector<std::string> foreign_names() {
  return {"notes.record", ".tmp-mine", "readme", record_name(key_of(70)), ".tmp-2-0-00000000000000cc"};
}

std::uint64_t bytes_of_record() { return record_bytes(key_of(0), image_of(0, 1000)); }
std::string path_of(const TemporaryFolder& folder, int number) {
  return folder / ("cache/v1/" + record_name(key_of(number)));
}

// A cache of `records` equal ones, published by another process; number 0 is the oldest.
void fill(const TemporaryFolder& folder, int records) {
  DiskCache other(writing_to(folder / "cache"));
  for (int i = 0; i < records; ++i) {
    REQUIRE(other.publish(key_of(i), image_of(i, 1000)));
    age(path_of(folder, i), 1000 - i);
  }
}

DiskCacheOptions bounded(const TemporaryFolder& folder, std::uint64_t records) {
  DiskCacheOptions options = writing_to(folder / "cache");
  options.max_bytes = records * bytes_of_record() + bytes_of_record() / 2;  // keys differ by a digit or two
  return options;
}

void set_time(const std::string& path, std::time_t seconds, long nanoseconds) {
  const struct timespec then = {seconds, nanoseconds};
  const struct timespec times[2] = {then, then};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

}  // namespace

TEST_CASE("names of records and temporaries are those that csajit gives, and no others") {
  CHECK(is_record_name(record_name(key_of(1))));
  CHECK(is_temporary_name(new_temporary_name()));
  for (const char* name : {"", ".record", "notes.record", "0123456789abcdef0123456789abcde.record",
                           "0123456789abcdef0123456789abcdef.record.bak", "0123456789ABCDEF0123456789abcdef.record",
                           "0123456789abcdef0123456789abcdef"}) {
    CAPTURE(name);
    CHECK_FALSE(is_record_name(name));
  }
  for (const char* name : {"", ".tmp-", ".tmp-mine", ".tmp-1-0-", ".tmp-1-0-0", ".tmp--0-00000000000000aa",
                           ".tmp-1-0-00000000000000ag", ".tmp-1-0-00000000000000aa0", "x.tmp-1-0-00000000000000aa"}) {
    CAPTURE(name);
    CHECK_FALSE(is_temporary_name(name));
  }
}

TEST_CASE("clear removes records and stale temporaries of every schema, says how many, and nothing else") {
  const TemporaryFolder folder;
  fill_layer(folder / "layer", 1);
  DiskCacheOptions options = writing_to(folder / "cache");
  options.ro_dirs = {folder / "layer"};
  DiskCache cache(options);
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  REQUIRE(cache.publish(key_of(2), image_of(2)));
  { const auto lock = lock_of(cache, key_of(1)); }
  const std::string v0 = folder / "cache/v0/", v1 = folder / "cache/v1/";
  std::filesystem::create_directory(v0);
  std::filesystem::create_directory(folder / "cache/mine");
  write_file(v0 + record_name(key_of(7)), half_record);
  write_file(folder / ("cache/mine/" + record_name(key_of(7))), half_record);
  write_file(v1 + stale_temporary, half_record);
  write_file(v1 + young_temporary, half_record);
  age(v1 + stale_temporary, 601);
  for (const std::string& name : foreign_names()) {
    write_file(v1 + name, "mine");
    age(v1 + name, 100000);
  }
  const auto cleared = cache.clear();
  REQUIRE(cleared.ok());
  REQUIRE(cleared->size() == 2);
  CHECK((*cleared)[0].name == folder / "cache/v0");
  CHECK((*cleared)[0].records == 1);
  CHECK((*cleared)[0].temporaries == 0);
  CHECK((*cleared)[1].name == folder / "cache/v1");
  CHECK((*cleared)[1].records == 2);
  CHECK((*cleared)[1].temporaries == 1);
  std::vector<std::string> left = foreign_names();
  left.push_back("lock");
  left.push_back(young_temporary);
  std::sort(left.begin(), left.end());
  CHECK(names_in(v1) == left);
  CHECK(names_in(v0).empty());
  CHECK(exists(folder / ("cache/mine/" + record_name(key_of(7)))));
  CHECK(cache.load(key_of(1)));  // the layer's
  CHECK_FALSE(cache.load(key_of(2)));
}

TEST_CASE("temporaries that a killed process left are swept at a publish once they are stale, young ones are not") {
  const TemporaryFolder folder;
  fill(folder, 1);
  const std::string v1 = folder / "cache/v1/", future = ".tmp-1-2-00000000000000cc";
  for (const std::string& name : {std::string(stale_temporary), std::string(young_temporary), future}) {
    write_file(v1 + name, half_record);
  }
  age(v1 + stale_temporary, 601);
  age(v1 + young_temporary, 590);
  age(v1 + future, -86400);  // a date in the future says nothing of when it was written
  REQUIRE(DiskCache(writing_to(folder / "cache")).publish(key_of(2), image_of(2)));
  CHECK_FALSE(exists(v1 + stale_temporary));
  CHECK(exists(v1 + young_temporary));
  CHECK_FALSE(exists(v1 + future));
}

TEST_CASE("above the size bound the least recently used records go, over all schema folders, never the new one") {
  const TemporaryFolder folder;
  fill(folder, 3);
  age(path_of(folder, 0), 100);
  age(path_of(folder, 1), 300);
  age(path_of(folder, 2), 200);
  REQUIRE(DiskCache(bounded(folder, 3)).publish(key_of(3), image_of(3, 1000)));
  CHECK(exists(path_of(folder, 0)));
  CHECK_FALSE(exists(path_of(folder, 1)));
  CHECK(exists(path_of(folder, 2)));
  CHECK(exists(path_of(folder, 3)));

  std::filesystem::create_directory(folder / "cache/v0");
  const std::string ancient = folder / ("cache/v0/" + record_name(key_of(9)));
  write_file(ancient, half_record + std::string(bytes_of_record(), 'x'));
  age(ancient, 1000);
  REQUIRE(DiskCache(bounded(folder, 3)).publish(key_of(3), image_of(3, 1000)));
  CHECK_FALSE(exists(ancient));
  CHECK(exists(path_of(folder, 2)));

  REQUIRE(DiskCache(bounded(folder, 0)).publish(key_of(4), image_of(4, 1000)));
  CHECK(names_in(folder / "cache/v1") == std::vector<std::string>{record_name(key_of(4))});
}

TEST_CASE("records of one second go by the nanosecond, whatever they are called") {
  for (const bool ascending : {false, true}) {
    const TemporaryFolder folder;
    fill(folder, 6);
    std::vector<std::string> names = names_in(folder / "cache/v1");
    if (ascending) std::reverse(names.begin(), names.end());
    long nanoseconds = 0;
    for (const std::string& name : names) set_time(folder / ("cache/v1/" + name), 1700000000, ++nanoseconds);
    REQUIRE(DiskCache(bounded(folder, 4)).publish(key_of(10), image_of(0, 1000)));
    for (std::size_t i = 0; i < names.size(); ++i) CHECK(exists(folder / ("cache/v1/" + names[i])) == (i >= 3));
  }
}

TEST_CASE("a date in the future counts as old, and a hit sets it right") {
  const TemporaryFolder folder;
  fill(folder, 3);
  age(path_of(folder, 1), -86400);
  age(path_of(folder, 2), -86400);
  DiskCache cache(bounded(folder, 3));
  CHECK(cache.load(key_of(2)));
  CHECK(mtime_of(path_of(folder, 2)) <= std::time(nullptr) + 1);
  REQUIRE(DiskCache(bounded(folder, 3)).publish(key_of(3), image_of(3, 1000)));
  CHECK(exists(path_of(folder, 0)));
  CHECK_FALSE(exists(path_of(folder, 1)));
  CHECK(exists(path_of(folder, 2)));
}

TEST_CASE("a record that this cache hit or built goes after all others") {
  const TemporaryFolder folder;
  fill(folder, 4);
  DiskCache cache(bounded(folder, 4));
  CHECK(cache.load(key_of(0)));  // the oldest, and a hit does not renew a date this young
  REQUIRE(cache.publish(key_of(4), image_of(4, 1000)));
  CHECK_FALSE(exists(path_of(folder, 1)));
  CHECK(cache.load(key_of(2)));
  REQUIRE(cache.publish(key_of(5), image_of(5, 1000)));
  CHECK_FALSE(exists(path_of(folder, 3)));
  for (int i : {0, 2, 4, 5}) CHECK(exists(path_of(folder, i)));
  REQUIRE(cache.publish(key_of(6), image_of(6, 1000)));  // nothing else is left
  CHECK(names_in(folder / "cache/v1").size() == 4);
  CHECK(exists(path_of(folder, 6)));
}

TEST_CASE("a record used since the last look is spared without another look") {
  const TemporaryFolder folder;
  fill(folder, 32);
  Faults faults;
  DiskCache cache(bounded(folder, 32), Faults::file_system());
  REQUIRE(cache.publish(key_of(100), image_of(1, 1000)));
  CHECK_FALSE(exists(path_of(folder, 0)));
  CHECK(cache.load(key_of(1)));
  age(path_of(folder, 2), 0);  // a hit by another process
  faults.forget_calls();
  REQUIRE(cache.publish(key_of(101), image_of(1, 1000)));
  CHECK(faults.count("list") == 0);
  CHECK(exists(path_of(folder, 1)));
  CHECK(exists(path_of(folder, 2)));
  CHECK_FALSE(exists(path_of(folder, 3)));
}

TEST_CASE("files of others are not evicted, whatever the bound") {
  const TemporaryFolder folder;
  fill(folder, 2);
  for (const std::string& name : foreign_names()) {
    write_file(folder / ("cache/v1/" + name), "mine");
    age(folder / ("cache/v1/" + name), 100000);
  }
  REQUIRE(DiskCache(bounded(folder, 0)).publish(key_of(4), image_of(4)));
  for (const std::string& name : foreign_names()) CHECK(exists(folder / ("cache/v1/" + name)));
  CHECK(names_in(folder / "cache/v1").size() == foreign_names().size() + 1);
}

TEST_CASE("a cache is looked through once and then every sixteenth of its bound, not at each publish") {
  const TemporaryFolder folder;
  fill(folder, 32);
  Faults faults;
  DiskCache cache(bounded(folder, 32), Faults::file_system());
  const auto looks_of = [&](int first, int end) {
    faults.forget_calls();
    for (int i = first; i < end; ++i) REQUIRE(cache.publish(key_of(i), image_of(i, 1000)));
    return faults.count("list");
  };
  CHECK(looks_of(100, 101) == 2);  // the root and its one schema folder
  CHECK(looks_of(101, 102) == 0);
  const std::size_t looks = looks_of(102, 114) / 2;  // a little more than two records are a sixteenth
  CHECK(looks >= 3);
  CHECK(looks <= 5);
  CHECK(names_in(folder / "cache/v1").size() == 32);  // and yet the bound holds all the time
}

TEST_CASE("a record replaced again and again counts once") {
  const TemporaryFolder folder;
  fill(folder, 31);
  DiskCache cache(bounded(folder, 32));
  for (int i = 0; i < 40; ++i) REQUIRE(cache.publish(key_of(100), image_of(i, 1000)));
  CHECK(names_in(folder / "cache/v1").size() == 32);
}

TEST_CASE("where the file system is full, old records make room and the publish is tried once more") {
  for (const int code : {ENOSPC, EDQUOT}) {
    const TemporaryFolder folder;
    const CapturedLog log;
    fill(folder, 3);
    Faults faults;
    DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
    CHECK(cache.load(key_of(0)));
    faults.on_call(
        [&](const std::string& call, std::size_t) { return call == "write" && exists(path_of(folder, 1)) ? code : 0; });
    CHECK(cache.publish(key_of(5), image_of(5, 1000)));
    CHECK(exists(path_of(folder, 0)));  // in use
    CHECK(exists(path_of(folder, 2)));
    CHECK(log.messages.empty());

    // Nothing is left that another one does not use more: looked for once, not at each of the failures to come.
    faults.on_call([&](const std::string& call, std::size_t) { return call == "write" ? code : 0; });
    CHECK_FALSE(cache.publish(key_of(6), image_of(6, 1000)));
    CHECK_FALSE(cache.publish(key_of(7), image_of(7, 1000)));
    faults.forget_calls();
    CHECK_FALSE(cache.publish(key_of(8), image_of(8, 1000)));
    CHECK(faults.count("list") == 0);
    CHECK(exists(path_of(folder, 0)));
    CHECK(exists(path_of(folder, 5)));
  }
}

TEST_CASE("a hit renews a record's age, at most once an hour, and only in the writable folder") {
  const TemporaryFolder folder;
  fill_layer(folder / "layer", 1);
  DiskCacheOptions options = writing_to(folder / "cache");
  options.ro_dirs = {folder / "layer"};
  Faults faults;
  DiskCache cache(options, Faults::file_system());
  REQUIRE(cache.publish(key_of(2), image_of(2)));
  const std::string own = folder / ("cache/v1/" + record_name(key_of(2)));
  const std::string layers = folder / ("layer/v1/" + record_name(key_of(1)));
  age(own, 7200);
  age(layers, 7200);
  const std::time_t before = std::time(nullptr);
  CHECK(cache.load(key_of(2)));
  CHECK(cache.load(key_of(2)));
  CHECK(cache.load(key_of(1)));
  CHECK(faults.count("futimens") == 1);
  CHECK(mtime_of(own) >= before - 1);
  CHECK(mtime_of(layers) < before - 7000);
  age(own, 3000);
  CHECK(cache.load(key_of(2)));
  CHECK(faults.count("futimens") == 1);
}

TEST_CASE("a loaded record with no touch allowed is a hit all the same") {
  const TemporaryFolder folder;
  Faults faults;
  DiskCache cache(writing_to(folder / "cache"), Faults::file_system());
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  age(folder / ("cache/v1/" + record_name(key_of(1))), 7200);
  faults.on_call([](const std::string& call, std::size_t) { return call == "futimens" ? EROFS : 0; });
  CHECK(cache.load(key_of(1)));
}
