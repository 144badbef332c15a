// The modes of what the cache makes, whatever the umask is and whenever the process is killed.
#include "cache/folder.hpp"

#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>

#include "cache/disk_cache.hpp"
#include "unit/cache_fixture.hpp"
#include "unit/fault_file_system.hpp"

using namespace csajit;
using namespace csajit::test;

namespace {

// The return value of `run` in a child process that permissions bind. Small: it is the exit status.
template <class Run>
int in_child_without_root(Run run) {
  const pid_t child = fork();
  if (child == 0) _exit(geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0) ? 99 : run());
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("private entries are 0700 and 0600, a layer's 0755 and 0644, whatever the umask") {
  const TemporaryFolder folder;
  REQUIRE(chmod((folder / ".").c_str(), 0777) == 0);
  for (const mode_t mask : {0000U, 0022U, 0077U, 0277U, 0777U}) {
    const std::string root = folder / ("m" + std::to_string(mask));
    DiskCacheOptions layer = writing_to(root + "-layer/public");
    layer.layer = true;
    const int status = in_child_without_root([&] {
      umask(mask);
      int failures = 0;
      for (const DiskCacheOptions& options : {writing_to(root + "/deep/private"), layer}) {
        DiskCache cache(options);
        failures += lock_of(cache, key_of(1)) ? 0 : 1;
        failures += cache.publish(key_of(1), image_of(1)) ? 0 : 1;
        failures += cache.load(key_of(1)) ? 0 : 1;
      }
      return failures;
    });
    CAPTURE(mask);
    REQUIRE(status == 0);
    for (const char* part : {"", "/deep", "/deep/private", "/deep/private/v1"}) CHECK(mode_of(root + part) == 0700);
    CHECK(mode_of(root + "/deep/private/v1/" + record_name(key_of(1))) == 0600);
    for (const char* part : {"-layer", "-layer/public", "-layer/public/v1"}) CHECK(mode_of(root + part) == 0755);
    CHECK(mode_of(root + "-layer/public/v1/" + record_name(key_of(1))) == 0644);
  }
}

TEST_CASE("a folder whose maker was killed before it set the mode gets it from the next writer") {
  const TemporaryFolder folder;
  REQUIRE(chmod((folder / ".").c_str(), 0777) == 0);
  for (const mode_t mask : {0022U, 0077U, 0777U}) {
    for (const bool is_layer : {false, true}) {
      for (int killed_at = 1; killed_at <= 3; ++killed_at) {  // of three folders
        CAPTURE(mask);
        CAPTURE(is_layer);
        CAPTURE(killed_at);
        const std::string top = folder / (std::to_string(mask) + (is_layer ? "l" : "p") + std::to_string(killed_at));
        DiskCacheOptions options = writing_to(top + "/root");
        options.layer = is_layer;
        REQUIRE(in_child_without_root([&] {
                  umask(mask);
                  Faults faults;
                  DiskCache cache(options, Faults::file_system());
                  faults.on_call([&, made = 0](const std::string& call, std::size_t) mutable {
                    if (made == killed_at) _exit(42);  // at the first call after that mkdirat
                    made += call == "mkdirat" ? 1 : 0;
                    return 0;
                  });
                  return cache.publish(key_of(1), image_of(1)) ? 0 : 1;
                }) == 42);
        REQUIRE(in_child_without_root([&] { return DiskCache(options).publish(key_of(1), image_of(1)) ? 0 : 1; }) == 0);
        for (const char* part : {"", "/root", "/root/v1"}) CHECK(mode_of(top + part) == (is_layer ? 0755 : 0700));
      }
    }
  }
}

TEST_CASE("a folder that somebody made keeps its mode, even an empty one") {
  const TemporaryFolder folder;
  for (const mode_t mode : {0700U, 0750U, 0755U, 01777U, 01755U}) {
    for (const bool is_layer : {false, true}) {
      const std::string root = folder / (std::to_string(mode) + (is_layer ? "l" : "p"));
      std::filesystem::create_directories(root + "/v1");
      REQUIRE(chmod(root.c_str(), mode) == 0);
      REQUIRE(chmod((root + "/v1").c_str(), mode) == 0);
      const CapturedLog log;
      DiskCacheOptions options = writing_to(root);
      options.layer = is_layer;
      options.trust = Trust::any;
      CHECK(DiskCache(options).publish(key_of(1), image_of(1)));
      CHECK(mode_of(root) == mode);
      CHECK(mode_of(root + "/v1") == mode);
    }
  }
}
