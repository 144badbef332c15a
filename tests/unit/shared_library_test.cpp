// SharedLibrary against libraries that come with the C library itself.
#include "dl/shared_library.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <utility>

using csajit::SharedLibrary;

namespace {

// Part of the C library's own package, and used by nobody here.
constexpr const char* rare_library = "libBrokenLocale.so.1";

bool is_loaded(const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

}  // namespace

TEST_CASE("an open library gives its symbols and the file it came from") {
  auto library = SharedLibrary::open("libm.so.6", RTLD_NOW);
  REQUIRE(library.ok());
  CHECK(static_cast<bool>(*library));
  CHECK(library->symbol("cos") != nullptr);
  CHECK(library->symbol("no_such_function") == nullptr);
  CHECK(library->path().front() == '/');
  CHECK(library->path().find("libm.so.6") != std::string::npos);
}

TEST_CASE("a library that is not there is an error with the loader's own words") {
  const auto library = SharedLibrary::open("libcsajit-no-such-library.so.1", RTLD_NOW);
  REQUIRE(!library.ok());
  CHECK(library.error().message.find("libcsajit-no-such-library.so.1") != std::string::npos);
  CHECK(library.error().message.find("No such file") != std::string::npos);
}

TEST_CASE("asking for an already loaded library says so when there is none") {
  const auto library = SharedLibrary::open("libcsajit-no-such-library.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(!library.ok());
  CHECK(!library.error().message.empty());
}

TEST_CASE("an empty library has no symbols and no path") {
  const SharedLibrary library;
  CHECK(!static_cast<bool>(library));
  CHECK(library.symbol("cos") == nullptr);
  CHECK(library.path().empty());
}

TEST_CASE("a library closes with its last owner, wherever it was moved, unless it is kept") {
  REQUIRE(!is_loaded(rare_library));
  {
    auto opened = SharedLibrary::open(rare_library, RTLD_NOW);
    REQUIRE(opened.ok());
    SharedLibrary moved(std::move(*opened));
    SharedLibrary assigned;
    assigned = std::move(moved);
    CHECK(!static_cast<bool>(moved));  // NOLINT(bugprone-use-after-move): the moved-from state is what is tested
    CHECK(is_loaded(rare_library));
    assigned = SharedLibrary();
    CHECK(!is_loaded(rare_library));
  }
  {
    auto opened = SharedLibrary::open(rare_library, RTLD_NOW);
    REQUIRE(opened.ok());
    opened->keep_open();
  }
  CHECK(is_loaded(rare_library));
}
