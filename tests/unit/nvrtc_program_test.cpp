// Compiling against the fake NVRTC: options, errors, locale, concurrency. The real one is in tests/compile.
#include "compile/nvrtc_program.hpp"

#include <doctest/doctest.h>
#include <locale.h>

#include <algorithm>
#include <clocale>
#include <string>
#include <thread>
#include <vector>

#include "unit/fake_nvrtc_fixture.hpp"

using namespace csajit;

namespace {

CompileRequest request(int capability = 90) {
  CompileRequest request;
  request.source = {"kernel.cuh", "#include \"common/a.cuh\"\n"};
  request.headers = {{"common/a.cuh", "// a\n"}};
  request.name_expression = "csajit::kernel<4, 2>";
  request.arch = find_architecture(capability);
  return request;
}

bool has(const std::vector<std::string>& list, const char* text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool contains(const Error& error, const std::string& text) { return error.message.find(text) != std::string::npos; }

struct NumericLocale {
  NumericLocale() : before(std::setlocale(LC_NUMERIC, nullptr)) {}
  ~NumericLocale() { std::setlocale(LC_NUMERIC, before.c_str()); }
  std::string before;
};

}  // namespace

TEST_CASE_FIXTURE(FakeNvrtc, "a compile gives the cubin, its kernel's name and what it uses") {
  const auto nvrtc = open_fake();
  REQUIRE(nvrtc.ok());
  const auto image = compile(**nvrtc, request());
  REQUIRE(image.ok());
  CHECK(image->arch == "sm_90");
  CHECK(image->nvrtc_version == "13.0");
  CHECK(image->lowered_name == "fake_csajit__kernel_4__2_");
  const std::string cubin(reinterpret_cast<const char*>(image->cubin.data()), image->cubin.size());
  CHECK(cubin == "fake cubin\nsm_90\nfake_csajit__kernel_4__2_\n");
  CHECK(image->usage.registers == 24);
  CHECK(image->usage.static_smem_bytes == 1040);
  CHECK(image->compile_ms > 0);
  CHECK(count("destroy") == 1);
}

TEST_CASE_FIXTURE(FakeNvrtc, "every supported NVRTC gets the same options that change code, and only what it accepts") {
  for (const char* version : {"12.0", "12.4", "12.8", "12.9", "13.0", "13.2", "14.0"}) {
    CAPTURE(version);
    set("VERSION", version);
    const auto nvrtc = open_fake();
    REQUIRE(nvrtc.ok());
    const auto options = compile_options(**nvrtc, *find_architecture(86));
    REQUIRE(options.size() > code_options().size());
    CHECK(std::equal(code_options().begin(), code_options().end(), options.begin()));
    CHECK(has(options, "--gpu-architecture=sm_86"));
    CHECK(has(options, "--no-cache") == (std::string(version) >= "12.9"));
    CHECK(compile(**nvrtc, request(86)).ok());  // the fake refuses what that version would
  }
  CHECK(has(code_options(), "--fmad=false"));
}

TEST_CASE_FIXTURE(FakeNvrtc, "an unknown architecture names version, path, what would do, and the target to force") {
  set("VERSION", "12.8");
  set("ARCHS", "80,90,100,120");
  const auto nvrtc = open_fake();
  REQUIRE(nvrtc.ok());
  auto image = compile(**nvrtc, request(103));
  REQUIRE(!image.ok());
  CHECK(image.error().status == CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC);
  CHECK(contains(image.error(), "sm_103"));
  CHECK(contains(image.error(), "NVRTC 12.8"));
  CHECK(contains(image.error(), fake_nvrtc_path));
  CHECK(contains(image.error(), "12.9 or newer"));
  CHECK(contains(image.error(), "CSAJIT_ARCH=sm_100"));
  image = compile(**nvrtc, request(110));
  REQUIRE(!image.ok());
  CHECK(image.error().status == CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC);
  CHECK(!contains(image.error(), "CSAJIT_ARCH"));
  CHECK(count("create") == 0);
}

TEST_CASE_FIXTURE(FakeNvrtc, "a failed compile holds the whole log and leaves no program behind") {
  const std::string log = "kernel.cuh(1): error: " + std::string(100000, 'x') + " end";
  set("FAIL", "compile");
  set("LOG", log.c_str());
  const auto nvrtc = open_fake();
  REQUIRE(nvrtc.ok());
  const auto image = compile(**nvrtc, request());
  REQUIRE(!image.ok());
  CHECK(image.error().status == CSAJIT_E_COMPILE);
  CHECK(contains(image.error(), log));
  CHECK(contains(image.error(), "csajit::kernel<4, 2>"));
  CHECK(contains(image.error(), "NVRTC_ERROR_COMPILATION"));
  CHECK(contains(image.error(), fake_nvrtc_path));
  CHECK(count("destroy") == 1);
}

TEST_CASE_FIXTURE(FakeNvrtc, "a failure of any NVRTC call is an error that names it") {
  const auto nvrtc = open_fake();
  REQUIRE(nvrtc.ok());
  const std::pair<const char*, const char*> calls[] = {{"create", "nvrtcCreateProgram"},
                                                       {"name", "nvrtcAddNameExpression"},
                                                       {"compile", "nvrtcCompileProgram"},
                                                       {"lowered", "nvrtcGetLoweredName"},
                                                       {"cubin", "nvrtcGetCUBINSize"}};
  for (const auto& call : calls) {
    CAPTURE(call.second);
    set("FAIL", call.first);
    const auto image = compile(**nvrtc, request());
    REQUIRE(!image.ok());
    CHECK(image.error().status == CSAJIT_E_COMPILE);
    CHECK(contains(image.error(), call.second));
  }
  CHECK(count("destroy") == 4);  // all but the one that was never created
}

TEST_CASE_FIXTURE(FakeNvrtc, "memory that ran out in NVRTC is told apart from bad source") {
  set("FAIL", "compile");
  set("FAIL_CODE", "1");
  const auto nvrtc = open_fake();
  REQUIRE(nvrtc.ok());
  const auto image = compile(**nvrtc, request());
  REQUIRE(!image.ok());
  CHECK(image.error().status == CSAJIT_E_OUT_OF_MEMORY);
}

TEST_CASE_FIXTURE(FakeNvrtc, "a kernel whose resource text cannot be read is still a kernel") {
  set("LOG", "something new");
  const auto nvrtc = open_fake();
  REQUIRE(nvrtc.ok());
  const auto image = compile(**nvrtc, request());
  REQUIRE(image.ok());
  CHECK(image->usage.registers == 0);
  CHECK(!image->cubin.empty());
}

TEST_CASE_FIXTURE(FakeNvrtc, "compiles run side by side, and the locale is put back when the last one leaves") {
  const NumericLocale restore;
  REQUIRE(std::setlocale(LC_NUMERIC, "C.UTF-8") != nullptr);
  set("VERSION", "12.0");  // sets the process's numeric locale to "C"
  const auto nvrtc = open_fake();
  REQUIRE(nvrtc.ok());

  hold();
  std::vector<int> ok(4, 0);
  std::vector<std::thread> threads;
  for (int& slot : ok) {
    threads.emplace_back([&] {
      const locale_t before = uselocale(nullptr);
      const bool compiled = compile(**nvrtc, request()).ok();
      slot = compiled && uselocale(nullptr) == before;
    });
  }
  await_inside(4);  // would never return if a lock were held across a compile
  CHECK(std::string(std::setlocale(LC_NUMERIC, nullptr)) == "C");
  release();
  for (auto& thread : threads) thread.join();
  CHECK(std::count(ok.begin(), ok.end(), 1) == 4);
  CHECK(std::string(std::setlocale(LC_NUMERIC, nullptr)) == "C.UTF-8");
}

TEST_CASE_FIXTURE(FakeNvrtc, "the locale is put back after a failed compile too") {
  const NumericLocale restore;
  REQUIRE(std::setlocale(LC_NUMERIC, "C.UTF-8") != nullptr);
  set("VERSION", "12.0");
  set("FAIL", "compile");
  const auto nvrtc = open_fake();
  REQUIRE(nvrtc.ok());
  CHECK(!compile(**nvrtc, request()).ok());
  CHECK(std::string(std::setlocale(LC_NUMERIC, nullptr)) == "C.UTF-8");
}
