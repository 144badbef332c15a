// The search for NVRTC, with an injected dlopen and the fake library.
#include "dl/nvrtc_api.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "unit/fake_nvrtc_fixture.hpp"

using namespace csajit;
namespace fs = std::filesystem;

namespace {

struct Toolkit : FakeNvrtc {
  Toolkit() {
    std::string name = (fs::temp_directory_path() / "csajit-nvrtc-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = name;
  }
  ~Toolkit() { fs::remove_all(root); }

  std::string add(const fs::path& file, const std::string& source = fake_nvrtc_path) {
    fs::create_directories((root / file).parent_path());
    fs::copy_file(source, root / file);
    return (root / file).string();
  }

  fs::path root;
};

std::vector<std::string> names(const std::vector<NvrtcPlace>& places) {
  std::vector<std::string> out;
  for (const NvrtcPlace& place : places) {
    if (place.name.find("/usr/local/cuda") != 0) out.push_back(place.name);  // what this machine has is its own affair
  }
  return out;
}

}  // namespace

TEST_CASE_FIXTURE(Toolkit, "NVRTC is looked for in the process, by soname, then in toolkits, newest first") {
  const std::string home = add("home/lib64/libnvrtc.so.12");
  const std::string newer = add("home/lib64/libnvrtc.so.13");
  const std::string path = add("path/lib/libnvrtc.so.13");
  NvrtcSearch search;
  search.cuda_home = (root / "home").string();
  search.cuda_path = (root / "path").string();
  const auto places = nvrtc_places(search);
  const std::vector<std::string> sonames = {"libnvrtc.so.16", "libnvrtc.so.15", "libnvrtc.so.14", "libnvrtc.so.13",
                                            "libnvrtc.so.12"};
  std::vector<std::string> expected = sonames;
  expected.insert(expected.end(), sonames.begin(), sonames.end());
  expected.insert(expected.end(), {newer, home, path});
  CHECK(names(places) == expected);
  for (std::size_t i = 0; i < places.size(); ++i) {
    CHECK(((places[i].flags & RTLD_NOLOAD) != 0) == (i < sonames.size()));
    CHECK((places[i].flags & RTLD_NOW) != 0);
  }
}

TEST_CASE_FIXTURE(Toolkit, "a major above the driver's is not even opened") {
  add("home/lib64/libnvrtc.so.13");
  const std::string home = add("home/lib64/libnvrtc.so.12");
  NvrtcSearch search;
  search.cuda_home = (root / "home").string();
  search.max_major = 12;
  CHECK(names(nvrtc_places(search)) == std::vector<std::string>{"libnvrtc.so.12", "libnvrtc.so.12", home});
}

TEST_CASE_FIXTURE(Toolkit, "a path that was given is the only place, and its failure is the error") {
  const std::string home = add("home/lib64/libnvrtc.so.13");
  NvrtcSearch search;
  search.path = (root / "absent.so").string();
  search.cuda_home = (root / "home").string();
  const auto api = open_nvrtc(search);
  REQUIRE(!api.ok());
  CHECK(api.error().status == CSAJIT_E_NVRTC_NOT_FOUND);
  CHECK(api.error().message.find(*search.path) != std::string::npos);
  CHECK(api.error().message.find("CSAJIT_NVRTC_PATH") != std::string::npos);
  CHECK(api.error().message.find(home) == std::string::npos);
}

TEST_CASE_FIXTURE(Toolkit, "the failure lists each place with its reason, and those already loaded not at all") {
  NvrtcSearch search;
  search.cuda_home = (root / "home").string();
  std::vector<std::string> opened;
  const auto api = find_nvrtc(search, [&](const std::string& name, int) -> Result<SharedLibrary> {
    opened.push_back(name);
    return Error{CSAJIT_E_INTERNAL, "reason " + std::to_string(opened.size())};
  });
  REQUIRE(!api.ok());
  CHECK(api.error().status == CSAJIT_E_NVRTC_NOT_FOUND);
  const std::string& message = api.error().message;
  CHECK(message.find("libnvrtc.so.16: reason 6\n") != std::string::npos);
  CHECK(message.find("libnvrtc.so.12: reason 10\n") != std::string::npos);
  CHECK(message.find("reason 5\n") == std::string::npos);
  CHECK(message.find(*search.cuda_home) != std::string::npos);
  CHECK(message.find("/usr/local/cuda/") != std::string::npos);
}

TEST_CASE_FIXTURE(Toolkit, "a library that cannot be used is passed over for the next place") {
  NvrtcSearch search;
  search.cuda_home = (root / "home").string();
  const std::string good = add("home/lib64/libnvrtc.so.12");
  const auto api = find_nvrtc(search, [&](const std::string& name, int flags) -> Result<SharedLibrary> {
    if (name == "libnvrtc.so.13") return SharedLibrary::open("libm.so.6", flags & ~RTLD_NOLOAD);
    if (name.find(root.string()) == 0) return SharedLibrary::open(name, flags);
    return Error{CSAJIT_E_INTERNAL, "not here"};
  });
  REQUIRE(api.ok());
  CHECK((*api)->path == good);
}

TEST_CASE_FIXTURE(FakeNvrtc, "an NVRTC tells its version, its path and the targets it knows") {
  set("VERSION", "12.8");
  set("ARCHS", "80,90,100");
  const auto api = open_fake();
  REQUIRE(api.ok());
  CHECK((*api)->path == fake_nvrtc_path);
  CHECK((*api)->version_text() == "12.8");
  CHECK((*api)->known_capabilities == std::vector<int>{80, 90, 100});
  CHECK((*api)->at_least(12, 8));
  CHECK((*api)->at_least(11, 9));
  CHECK(!(*api)->at_least(12, 9));
  CHECK(!(*api)->at_least(13, 0));
}

TEST_CASE_FIXTURE(FakeNvrtc,
                  "an NVRTC that is too old, too new for the driver, broken or none is refused with the reason") {
  set("VERSION", "11.8");
  auto api = open_fake();
  REQUIRE(!api.ok());
  CHECK(api.error().message.find("11.8") != std::string::npos);

  set("VERSION", "14.1");
  api = open_fake(13);
  REQUIRE(!api.ok());
  CHECK(api.error().message.find("14.1") != std::string::npos);
  CHECK(api.error().message.find("(13)") != std::string::npos);
  CHECK(open_fake(14).ok());

  set("FAIL", "version");
  CHECK(!open_fake().ok());
  set("FAIL", "archs");
  CHECK(!open_fake().ok());

  NvrtcSearch search;
  search.path = "libm.so.6";
  api = find_nvrtc(search, SharedLibrary::open);
  REQUIRE(!api.ok());
  CHECK(api.error().message.find("nvrtcVersion") != std::string::npos);
}

TEST_CASE_FIXTURE(Toolkit,
                  "the builtins of the same folder and version are opened with NVRTC, and their absence is no error") {
  set("VERSION", "13.1");
  const std::string library = add("wheel/libnvrtc.so.13");
  std::vector<std::string> opened;
  const LibraryOpener recorder = [&](const std::string& name, int flags) {
    opened.push_back(name);
    return SharedLibrary::open(name, flags);
  };
  NvrtcSearch search;
  search.path = library;
  const std::string builtins = (root / "wheel/libnvrtc-builtins.so.13.1").string();
  setenv("CSAJIT_FAKE_NVRTC_VERSION", "13.1", 1);  // the copy has settings of its own
  const auto without = find_nvrtc(search, recorder);
  REQUIRE(without.ok());
  CHECK(!static_cast<bool>((*without)->builtins));
  CHECK(opened == std::vector<std::string>{library, builtins});

  add("wheel/libnvrtc-builtins.so.13.1");
  const auto with = find_nvrtc(search, recorder);
  unsetenv("CSAJIT_FAKE_NVRTC_VERSION");
  REQUIRE(with.ok());
  CHECK(static_cast<bool>((*with)->builtins));
}

TEST_CASE_FIXTURE(Toolkit, "equal searches share one NVRTC, and a failed one is tried again") {
  NvrtcSearch search;
  search.path = (root / "late.so").string();
  CHECK(!open_nvrtc(search).ok());
  add("late.so");
  const auto first = open_nvrtc(search);
  REQUIRE(first.ok());

  std::vector<const NvrtcApi*> seen(8);
  std::vector<std::thread> threads;
  for (auto& slot : seen) {
    threads.emplace_back([&] {
      const auto api = open_nvrtc(search);
      slot = api ? api->get() : nullptr;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(std::count(seen.begin(), seen.end(), first->get()) == 8);

  search.max_major = 13;
  const auto other = open_nvrtc(search);
  REQUIRE(other.ok());
  CHECK(other->get() != first->get());
}
