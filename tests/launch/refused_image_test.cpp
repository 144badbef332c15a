// Images that the driver refuses: what is tried instead, and what becomes of the record.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <string>

#include "launch/fixture.hpp"

TEST_CASE("an image that the driver refuses is built again once and then used") {
  Device device;
  TemporaryFolder folder;
  Service service(0, folder.path.c_str());
  for (const CUresult code : {CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_SOURCE,
                              CUDA_ERROR_UNSUPPORTED_PTX_VERSION}) {
    const csajit_spec spec = fresh_spec();
    const csajit_statistics before = service.statistics();
    device.cuda.fail("cuModuleLoadData", code, 1);
    CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
    CHECK(service.statistics().compiles == before.compiles + kernels_of_fresh_spec + 1);
    CHECK(service.statistics().module_loads == before.module_loads + kernels_of_fresh_spec);
  }
  CHECK(device.log.count("built again") == 4);
}

TEST_CASE("a refused record stays until a rebuild that the driver takes replaces it") {
  Device device;
  TemporaryFolder folder;
  const csajit_spec spec = fresh_spec();
  REQUIRE(run_warm("build", spec, folder) == 0);
  const std::string cache = folder.path + "/cache";
  // The files as they are: what is replaced is another one.
  const auto records = [&] {
    std::map<std::string, ino_t> files;
    for (const auto& entry : std::filesystem::directory_iterator(cache + "/v1")) {
      struct stat status = {};
      REQUIRE(stat(entry.path().c_str(), &status) == 0);
      if (entry.path().extension() == ".record") files[entry.path()] = status.st_ino;
    }
    return files;
  };
  const auto refused = [&](std::uint32_t flags, int times) {
    Service service(flags, cache.c_str());
    device.cuda.fail("cuModuleLoadData", CUDA_ERROR_INVALID_IMAGE, times);
    return csajit_prepare(service.handle, &spec, device.stream);
  };
  const auto before = records();
  REQUIRE(before.size() == kernels_of_fresh_spec);
  // Without permission to compile, by a compile that fails, by a rebuild that is refused too: it is there for the next
  // who asks.
  CHECK(refused(CSAJIT_SERVICE_NO_JIT, 1) == CSAJIT_E_JIT_DISABLED);
  CHECK(last_error_has("--rebuild"));
  CHECK(device.log.count("built again") == 0);
  CHECK(records() == before);
  device.nvrtc.fail("compile");
  CHECK(refused(0, 1) == CSAJIT_E_COMPILE);
  CHECK(records() == before);
  device.nvrtc.fail(nullptr);
  CHECK(refused(0, 2) == CSAJIT_E_DRIVER_TOO_OLD);
  CHECK(records() == before);

  CHECK(refused(0, 1) == CSAJIT_OK);
  const auto after = records();
  REQUIRE(after.size() == before.size());
  std::size_t replaced = 0;
  for (const auto& [name, inode] : before) replaced += after.at(name) != inode ? 1 : 0;
  CHECK(replaced == 1);
  CHECK(run_warm("prepare", spec, folder) == 0);
  CHECK(records() == after);  // and all are good
}

TEST_CASE("a record refused in a read-only layer leaves the rebuild in the writable folder alone") {
  Device device;
  TemporaryFolder folder;
  const csajit_spec spec = fresh_spec();
  REQUIRE(run_warm("build", spec, folder) == 0);
  const std::string cache = folder.path + "/cache", layer = folder.path + "/layer";
  std::filesystem::copy(cache, layer, std::filesystem::copy_options::recursive);
  const ScopedVariable layers("CSAJIT_CACHE_RO_DIRS", layer.c_str());
  Service service(CSAJIT_SERVICE_NO_JIT, cache.c_str());
  device.cuda.fail("cuModuleLoadData", CUDA_ERROR_INVALID_IMAGE, 1);
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  CHECK(service.statistics().rejected_entries == 1);
  CHECK(service.statistics().disk_hits == kernels_of_fresh_spec + 1);
  CHECK(device.log.count(layer) == 1);
}
