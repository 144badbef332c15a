// A cold cache folder: how long a call waits for others that fill it, and what it does then.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "launch/fixture.hpp"

namespace {

csajit_status build(const Service& service, const csajit_spec& spec) {
  csajit_build_options options{};
  options.struct_size = sizeof(options);
  options.arch = "sm_90";
  return csajit_build(service.handle, &spec, &options);
}

// Every lock of a cache folder, as a process holds them that was stopped.
class StoppedPeer {
 public:
  explicit StoppedPeer(const std::string& cache) {
    std::filesystem::create_directories(cache + "/v1");
    REQUIRE(chmod((cache + "/v1").c_str(), 0700) == 0);
    file_ = open((cache + "/v1/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(file_ >= 0);
    struct flock all = {};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    REQUIRE(fcntl(file_, F_OFD_SETLK, &all) == 0);
  }
  ~StoppedPeer() { close(file_); }
  StoppedPeer(const StoppedPeer&) = delete;
  StoppedPeer& operator=(const StoppedPeer&) = delete;

 private:
  int file_ = -1;
};

}  // namespace

TEST_CASE("a peer that is stopped costs a call one wait, not one a kernel") {
  Device device;
  TemporaryFolder folder;
  const StoppedPeer peer(folder.path);
  constexpr std::uint32_t wait_ms = 1000;
  Service service(0, folder.path.c_str(), nullptr, wait_ms);
  csajit_spec spec = fresh_spec();
  const auto begin = std::chrono::steady_clock::now();
  SUBCASE("build") { CHECK(build(service, spec) == CSAJIT_OK); }
  SUBCASE("prepare") { CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK); }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() >= wait_ms);
  CHECK(took.count() < 2 * wait_ms);
  CHECK(service.statistics().compiles == kernels_of_fresh_spec);
  CHECK(device.log.count("another process") == 1);
}

TEST_CASE("what others stored during a wait in vain is taken, not compiled") {
  FakeNvrtc nvrtc;
  CapturedLog log;
  TemporaryFolder folder;
  const std::string cache = folder.path + "/cache", aside = folder.path + "/aside";
  const csajit_spec spec = fresh_spec();
  REQUIRE(run_warm("build", spec, folder) == 0);
  std::filesystem::rename(cache, aside);
  const StoppedPeer peer(cache);
  Service service(0, cache.c_str(), nullptr, 1000);
  std::thread others([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // in the middle of the wait
    for (const auto& entry : std::filesystem::directory_iterator(aside + "/v1")) {
      if (entry.path().extension() == ".record") {
        std::filesystem::rename(entry.path(), cache + "/v1/" + entry.path().filename().string());
      }
    }
  });
  CHECK(build(service, spec) == CSAJIT_OK);
  others.join();
  CHECK(nvrtc.compiles() == 0);
  CHECK(service.statistics().disk_hits == kernels_of_fresh_spec);
}
