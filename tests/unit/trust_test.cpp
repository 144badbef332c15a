#include "cache/trust.hpp"

#include "unit/cache_fixture.hpp"

using namespace csajit;
using namespace csajit::test;

namespace {

const Identity me = {1000, {1000, 50}};

bool trusted(Trust trust, uid_t owner, gid_t group, mode_t mode) {
  struct stat status = {};
  status.st_uid = owner;
  status.st_gid = group;
  status.st_mode = S_IFREG | mode;
  return trust_problem(trust, me, status).empty();
}

}  // namespace

TEST_CASE("owner trusts this user and root, and nothing that others may write") {
  CHECK(trusted(Trust::owner, 1000, 1000, 0600));
  CHECK(trusted(Trust::owner, 1000, 1000, 0755));
  CHECK(trusted(Trust::owner, 0, 0, 0644));
  CHECK_FALSE(trusted(Trust::owner, 1001, 1000, 0644));
  CHECK_FALSE(trusted(Trust::owner, 1001, 50, 0600));
  CHECK_FALSE(trusted(Trust::owner, 1000, 1000, 0660));
  CHECK_FALSE(trusted(Trust::owner, 1000, 1000, 0602));
  CHECK_FALSE(trusted(Trust::owner, 0, 0, 0666));
}

TEST_CASE("group trusts also what belongs to one of this user's groups") {
  CHECK(trusted(Trust::group, 1001, 50, 0664));
  CHECK(trusted(Trust::group, 1000, 50, 0660));
  CHECK(trusted(Trust::group, 0, 0, 0644));
  CHECK_FALSE(trusted(Trust::group, 1001, 51, 0644));
  CHECK_FALSE(trusted(Trust::group, 1000, 51, 0660));
  CHECK_FALSE(trusted(Trust::group, 1001, 50, 0666));
}

TEST_CASE("any trusts all") { CHECK(trusted(Trust::any, 1234, 1234, 0777)); }

TEST_CASE("a refusal says owner, mode and cure") {
  struct stat status = {};
  status.st_uid = 1234;
  status.st_gid = 50;
  status.st_mode = S_IFREG | 0640;
  const std::string foreign = trust_problem(Trust::owner, me, status);
  for (const char* part : {"uid 1234", "0640", "uid 1000", "chown", "CSAJIT_CACHE_TRUST=group or any"}) {
    CHECK_MESSAGE(foreign.find(part) != std::string::npos, foreign);
  }
  status.st_uid = 1000;
  status.st_mode = S_IFDIR | 0777;
  const std::string open = trust_problem(Trust::owner, me, status);
  for (const char* part : {"0777", "chmod go-w"}) CHECK_MESSAGE(open.find(part) != std::string::npos, open);
}

TEST_CASE("a record that others may write is not loaded, unless any is trusted") {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache"));
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  const std::string path = folder / ("cache/v1/" + record_name(key_of(1)));
  REQUIRE(chmod(path.c_str(), 0666) == 0);
  const CapturedLog log;
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK(log.count(path) == 1);
  CHECK(log.count("0666") == 1);
  CHECK(cache.entries().value().at(0).problem.find("0666") != std::string::npos);
  DiskCacheOptions options = writing_to(folder / "cache");
  options.trust = Trust::any;
  CHECK(DiskCache(options).load(key_of(1)));
  REQUIRE(cache.publish(key_of(1), image_of(1)));  // replacing cures it
  CHECK(cache.load(key_of(1)));
}

TEST_CASE("a schema folder that others may write is neither read nor written") {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache"));
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  REQUIRE(chmod((folder / "cache/v1").c_str(), 0777) == 0);
  const CapturedLog log;
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK_FALSE(cache.load(key_of(2)));
  CHECK_FALSE(cache.publish(key_of(2), image_of(2)));
  CHECK(log.messages.size() == 2);  // one for reading, one for writing
  CHECK(log.count("0777") == 2);
  CHECK(log.count(folder / "cache/v1") == 2);
  CHECK(cache.entries().value().at(0).problem.find("0777") != std::string::npos);
  CHECK_FALSE(cache.entries().value().at(0).record);
}

TEST_CASE("another user's record is not loaded (only root can make one)" * doctest::skip(geteuid() != 0)) {
  const TemporaryFolder folder;
  DiskCache cache(writing_to(folder / "cache"));
  REQUIRE(cache.publish(key_of(1), image_of(1)));
  const std::string path = folder / ("cache/v1/" + record_name(key_of(1)));
  REQUIRE(chown(path.c_str(), 12345, 12345) == 0);
  const CapturedLog log;
  CHECK_FALSE(cache.load(key_of(1)));
  CHECK(log.count("uid 12345") == 1);
  CHECK(log.count("chown") == 1);
}
