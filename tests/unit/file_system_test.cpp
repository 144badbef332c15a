#include "cache/file_system.hpp"

#include <fcntl.h>

#include "unit/cache_fixture.hpp"

using namespace csajit;
using namespace csajit::test;

namespace {

const FileSystem& fs = real_file_system();

std::vector<std::string> list(int fd) {
  std::vector<std::string> names;
  const auto collect = [](const char* name, void* user) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(name);
  };
  REQUIRE(fs.list(fd, collect, &names) == 0);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("list names all but . and .., and can be repeated on one handle") {
  const TemporaryFolder folder;
  write_file(folder / "b", "");
  write_file(folder / ".a", "");
  const int fd = fs.openat(AT_FDCWD, (folder / "").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  CHECK(list(fd) == std::vector<std::string>{".a", "b"});
  CHECK(list(fd) == std::vector<std::string>{".a", "b"});
  fs.close(fd);
}

TEST_CASE("list of what is no folder fails and says why") {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  const int fd = fs.openat(AT_FDCWD, (folder / "file").c_str(), O_RDONLY | O_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  errno = 0;
  CHECK(fs.list(
            fd, [](const char*, void*) {}, nullptr) == -1);
  CHECK(errno == ENOTDIR);
  fs.close(fd);
}

TEST_CASE("lock_byte excludes another handle of the same process, one byte at a time") {
  const TemporaryFolder folder;
  const std::string path = folder / "lock";
  const int a = fs.openat(AT_FDCWD, path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const int b = fs.openat(AT_FDCWD, path.c_str(), O_RDWR | O_CLOEXEC, 0);
  REQUIRE(a >= 0);
  REQUIRE(b >= 0);
  CHECK(fs.lock_byte(a, F_WRLCK, 7) == 0);
  CHECK(fs.lock_byte(b, F_WRLCK, 7) == -1);
  CHECK((errno == EAGAIN || errno == EACCES));
  CHECK(fs.lock_byte(b, F_WRLCK, 8) == 0);
  CHECK(fs.lock_byte(a, F_UNLCK, 7) == 0);
  CHECK(fs.lock_byte(b, F_WRLCK, 7) == 0);
  fs.close(a);
  fs.close(b);
}
