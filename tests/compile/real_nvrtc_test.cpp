// What csajit asks of the real NVRTC: a cubin with its figures, its log, and hands off libcuda and the locale.
#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstring>
#include <filesystem>
#include <string>

#include "compile/find_real_nvrtc.hpp"
#include "compile/nvrtc_program.hpp"

using namespace csajit;

namespace {

std::shared_ptr<const NvrtcApi> nvrtc;

CompileRequest request(const char* text, const Architecture* arch = find_architecture(80)) {
  CompileRequest request;
  request.source = {"scale.cuh", text};
  // Each is included by the name that it was given under, from whatever folder.
  request.headers = {{"common/outer.cuh", "#pragma once\n#include \"common/inner.cuh\"\n"},
                     {"common/inner.cuh", "#pragma once\nconstexpr int twice(int n) { return 2 * n; }\n"}};
  request.name_expression = "csajit::scale<3>";
  request.arch = arch;
  return request;
}

constexpr const char* scale = R"(
#include "common/outer.cuh"
#include "common/inner.cuh"
static_assert(1.5f * 2 == 3.0f, "read with a decimal comma it would be 1");
namespace csajit {
template <int N>
__global__ void scale(float* values, int n) {
  __shared__ float staged[32];
  staged[threadIdx.x % 32] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = staged[(threadIdx.x + 1) % 32] * 1.5f + twice(n) * N;
}
}  // namespace csajit
)";

bool tripped() { return getenv("CSAJIT_TRIPWIRE_TRIPPED") != nullptr; }

// The process in a locale with a decimal comma, made on the spot where the system can, else in any that is not "C".
class OtherLocale {
 public:
  OtherLocale() : folder_(std::filesystem::temp_directory_path() / ("csajit-locale-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(folder_);
    const std::string make = "localedef -i de_DE -f UTF-8 '" + (folder_ / "de_DE.UTF-8").string() + "' >/dev/null 2>&1";
    const int made = std::system(make.c_str());
    setenv("LOCPATH", folder_.c_str(), 1);
    const bool comma = made == 0 && std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
    if (!comma) REQUIRE(std::setlocale(LC_ALL, "C.UTF-8") != nullptr);
    name_ = std::setlocale(LC_ALL, nullptr);
  }
  ~OtherLocale() {
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    std::filesystem::remove_all(folder_);
  }
  OtherLocale(const OtherLocale&) = delete;
  OtherLocale& operator=(const OtherLocale&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::filesystem::path folder_;
  std::string name_;
};

}  // namespace

// First, so that nothing else has loaded a driver before.
TEST_CASE("a compile never loads libcuda") {
  REQUIRE(!tripped());
  REQUIRE(compile(*nvrtc, request(scale)).ok());
  CHECK(!tripped());
  CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);

  // And it would have been seen: without that option NVRTC does, from 12.9 on.
  if (nvrtc->at_least(12, 9)) {
    nvrtcProgram program = nullptr;
    REQUIRE(nvrtc->create_program(&program, "__global__ void k() {}", "k.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
    const char* option = "--gpu-architecture=sm_80";
    REQUIRE(nvrtc->compile_program(program, 1, &option) == NVRTC_SUCCESS);
    REQUIRE(nvrtc->destroy_program(&program) == NVRTC_SUCCESS);
  } else {
    dlopen("libcuda.so.1", RTLD_NOW);
  }
  CHECK(tripped());  // fails too when the folder of the stand-in libcuda is not on LD_LIBRARY_PATH
}

TEST_CASE("the real NVRTC gives a cubin, its kernel's name and its figures") {
  const auto image = compile(*nvrtc, request(scale));
  REQUIRE(image.ok());
  REQUIRE(image->cubin.size() > 64);
  CHECK(std::memcmp(image->cubin.data(), "\177ELF", 4) == 0);
  CHECK(image->lowered_name == "_ZN6csajit5scaleILi3EEEvPfi");
  const std::string bytes(reinterpret_cast<const char*>(image->cubin.data()), image->cubin.size());
  CHECK(bytes.find(image->lowered_name) != std::string::npos);
  CHECK(image->usage.registers >= 4);
  CHECK(image->usage.registers <= 64);
  CHECK(image->usage.static_smem_bytes == 128);
  CHECK(image->usage.spill_bytes == 0);
  CHECK(image->usage.stack_bytes == 0);
  CHECK(image->compile_ms > 0);
}

TEST_CASE("every target that the real NVRTC lists compiles, and every other is refused as unknown") {
  for (const Architecture& arch : architectures()) {
    CAPTURE(arch.name);
    const auto& known = nvrtc->known_capabilities;
    const bool listed = std::find(known.begin(), known.end(), arch.capability) != known.end();
    const auto image = compile(*nvrtc, request(scale, &arch));
    CHECK(image.ok() == listed);
    CHECK(listed == nvrtc->at_least(arch.nvrtc_major, arch.nvrtc_minor));
    if (image) {
      CHECK(image->arch == arch.name);
    } else {
      CHECK(image.error().status == CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC);
    }
  }
}

TEST_CASE("a refused source comes back with NVRTC's own words") {
  const auto image =
      compile(*nvrtc, request("namespace csajit {\ntemplate <int N> __global__ void scale(int) { oops; }\n}\n"));
  REQUIRE(!image.ok());
  CHECK(image.error().status == CSAJIT_E_COMPILE);
  CHECK(image.error().message.find("scale.cuh(2)") != std::string::npos);
  CHECK(image.error().message.find("oops") != std::string::npos);
}

TEST_CASE("a local array shows as a stack frame") {
  const auto image = compile(*nvrtc, request(R"(
namespace csajit {
template <int N>
__global__ void scale(float* values, int n) {
  float local[64];
  for (int i = 0; i < 64; ++i) local[i] = values[i] * i;
  for (int i = 0; i < n; ++i) local[i * n % 64] += local[(i + n) % 64];
  values[threadIdx.x] = local[(n * threadIdx.x) % 64];
}
}
)"));
  REQUIRE(image.ok());
  CHECK(image->usage.stack_bytes == 256);
}

TEST_CASE("code does not depend on the process's locale, and the locale stays as it was") {
  const auto expected = compile(*nvrtc, request(scale));
  REQUIRE(expected.ok());
  const OtherLocale locale;
  CAPTURE(locale.name());
  const auto image = compile(*nvrtc, request(scale));
  REQUIRE(image.ok());
  CHECK(std::setlocale(LC_ALL, nullptr) == locale.name());
  CHECK(uselocale(nullptr) == LC_GLOBAL_LOCALE);
  // Older ones put a number that changes into the names of symbols.
  if (nvrtc->at_least(12, 3)) CHECK(image->cubin == expected->cubin);
}

int main(int argc, char** argv) {
  nvrtc = find_real_nvrtc();
  if (nvrtc == nullptr) return exit_skipped;
  return doctest::Context(argc, argv).run();
}
