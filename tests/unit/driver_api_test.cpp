// Resolving and starting the driver through an injected cuGetProcAddress; the fork rule in child processes.
#include "dl/driver_api.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

using namespace csajit;

namespace {

std::map<std::string, int> asked;
std::set<cuuint64_t> asked_flags;
std::set<std::string> missing;
int driver_version = 13000;
CUresult init_result = CUDA_SUCCESS;

CUresult CUDAAPI get_version(int* version) {
  *version = driver_version;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI init(unsigned int) { return init_result; }
CUresult CUDAAPI error_name(CUresult code, const char** name) {
  *name = code == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : nullptr;
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult CUDAAPI error_text(CUresult, const char** text) {
  *text = "no CUDA-capable device is detected";
  return CUDA_SUCCESS;
}
void other() {}

CUresult CUDAAPI get_proc_address(const char* name, void** address, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* found) {
  asked[name] = version;
  asked_flags.insert(flags);
  const std::string text = name;
  if (missing.count(text) != 0 || version > driver_version) {
    *address = reinterpret_cast<void*>(&other);  // a driver may leave anything here
    *found =
        version > driver_version ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return version > driver_version ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  }
  *found = CU_GET_PROC_ADDRESS_SUCCESS;
  *address = text == "cuInit"               ? reinterpret_cast<void*>(&init)
             : text == "cuGetErrorName"     ? reinterpret_cast<void*>(&error_name)
             : text == "cuGetErrorString"   ? reinterpret_cast<void*>(&error_text)
             : text == "cuDriverGetVersion" ? reinterpret_cast<void*>(&get_version)
                                            : reinterpret_cast<void*>(&other);
  return CUDA_SUCCESS;
}

struct Driver {
  Driver() {
    asked.clear();
    asked_flags.clear();
    missing.clear();
    driver_version = 13000;
    init_result = CUDA_SUCCESS;
  }
};

// Exit status of a child that runs `body`, or -1.
template <class Body>
int in_child(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

bool load_fake_libcuda() { return dlopen(CSAJIT_FAKE_DIR "/libcuda.so.1", RTLD_NOW) != nullptr; }

}  // namespace

TEST_CASE_FIXTURE(Driver, "each driver function is asked for by the version of its own typedef") {
  const auto api = resolve_driver(get_proc_address);
  REQUIRE(api.ok());
  CHECK(asked.at("cuMemAlloc") == 3020);
  CHECK(asked.at("cuCtxPushCurrent") == 4000);
  CHECK(asked.at("cuStreamGetCtx") == 9020);
  CHECK(asked.at("cuLaunchKernelEx") == 11060);
  CHECK(asked.at("cuCtxGetId") == 12000);
  CHECK(asked.at("cuFuncLoad") == 12040);
  CHECK(asked.at("cuEventElapsedTime") == 2000);
  CHECK(asked.count("cuMemAlloc_v2") == 0);
  CHECK(asked_flags == std::set<cuuint64_t>{CU_GET_PROC_ADDRESS_LEGACY_STREAM});
  CHECK(static_cast<bool>(api->cuMemAlloc));
  CHECK(api->missing_tool_function() == nullptr);
}

TEST_CASE_FIXTURE(Driver, "a driver without a required function is named as such") {
  missing.insert("cuThreadExchangeStreamCaptureMode");
  const auto api = resolve_driver(get_proc_address);
  REQUIRE(!api.ok());
  CHECK(api.error().status == CSAJIT_E_DRIVER_NOT_FOUND);
  CHECK(api.error().message.find("cuThreadExchangeStreamCaptureMode") != std::string::npos);
  CHECK(api.error().message.find("10.1") != std::string::npos);
}

TEST_CASE_FIXTURE(Driver, "functions newer than the driver are null and no error") {
  driver_version = 12000;
  missing.insert("cuGraphLaunch");
  const auto api = start_driver(get_version, get_proc_address);
  REQUIRE(api.ok());
  CHECK(api->version == 12000);
  CHECK(!api->cuFuncLoad);
  CHECK(!api->cuFuncIsLoaded);
  CHECK(!api->cuFuncGetParamInfo);
  CHECK(static_cast<bool>(api->cuLaunchKernelEx));
  CHECK(std::string(api->missing_tool_function()) == "cuGraphLaunch");
}

TEST_CASE_FIXTURE(Driver, "a driver before 12.0 is refused with both versions") {
  driver_version = 11080;
  const auto api = start_driver(get_version, nullptr);
  REQUIRE(!api.ok());
  CHECK(api.error().status == CSAJIT_E_DRIVER_NOT_FOUND);
  CHECK(api.error().message.find("11.8") != std::string::npos);
  CHECK(api.error().message.find("12.0") != std::string::npos);
  CHECK(asked.empty());
}

TEST_CASE_FIXTURE(Driver, "a failing cuInit is the driver's own error") {
  init_result = CUDA_ERROR_NO_DEVICE;
  const auto api = start_driver(get_version, get_proc_address);
  REQUIRE(!api.ok());
  CHECK(api.error().status == CSAJIT_E_DRIVER);
  CHECK(api.error().message.find("CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected") != std::string::npos);
}

TEST_CASE_FIXTURE(Driver, "an error code that the driver does not know is shown as its number") {
  const auto api = resolve_driver(get_proc_address);
  REQUIRE(api.ok());
  CHECK(api->describe(CUDA_ERROR_NO_DEVICE) == "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected");
  CHECK(api->describe(static_cast<CUresult>(12345)) == "CUDA error 12345");
  CHECK(DriverApi{}.describe(CUDA_ERROR_NO_DEVICE) == "CUDA error 100");
}

TEST_CASE("an absent driver and a library that is none are told apart") {
  const auto absent = open_driver("libcsajit-no-such-library.so.1");
  REQUIRE(!absent.ok());
  CHECK(absent.error().status == CSAJIT_E_DRIVER_NOT_FOUND);
  CHECK(absent.error().message.find("No such file") != std::string::npos);
  const auto foreign = open_driver("libm.so.6");
  REQUIRE(!foreign.ok());
  CHECK(foreign.error().status == CSAJIT_E_DRIVER_NOT_FOUND);
  CHECK(foreign.error().message.find("cuDriverGetVersion") != std::string::npos);
}

TEST_CASE("a child forked after the driver was initialised is told so, one forked before is not") {
  const int code = in_child([] {
    if (forked_since_driver_init()) return driver_api().ok() ? 1 : 0;  // this process had a driver already
    if (!load_fake_libcuda()) return 2;
    const auto before = in_child([] { return driver_api().ok() && !forked_since_driver_init() ? 0 : 1; });
    if (before != 0) return 3;
    const auto first = driver_api();
    if (!first || forked_since_driver_init()) return 4;
    const auto again = driver_api();
    if (!again || *again != *first) return 5;
    const auto after = in_child([] {
      const auto api = driver_api();
      return forked_since_driver_init() && !api && api.error().status == CSAJIT_E_FORKED ? 0 : 1;
    });
    if (after != 0) return 6;
    return forked_since_driver_init() ? 7 : 0;
  });
  CHECK(code == 0);
}
