// The real system calls behind the table. Adds nothing but what one call needs.
#include "cache/file_system.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <memory>

namespace csajit {
namespace {

int real_openat(int dir, const char* name, int flags, mode_t mode) { return ::openat(dir, name, flags, mode); }

int real_list(int fd, void (*each)(const char* name, void* user), void* user) {
  // A second description instead of a dup: a dup shares the read position with every other reader of the handle.
  const int own = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return -1;
  DIR* opened = ::fdopendir(own);
  if (opened == nullptr) {
    const int code = errno;
    ::close(own);
    errno = code;
    return -1;
  }
  struct Closer {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  const std::unique_ptr<DIR, Closer> dir(opened);
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    if (::strcmp(entry->d_name, ".") != 0 && ::strcmp(entry->d_name, "..") != 0) each(entry->d_name, user);
  }
  // A failed readdir ends the loop as the last entry does, but sets errno; closedir must not hide it.
  const int code = errno;
  if (code == 0) return 0;
  errno = code;
  return -1;
}

int real_lock_byte(int fd, short type, off_t offset) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &lock);
}

}  // namespace

const FileSystem& real_file_system() {
  static constexpr FileSystem table = {
      real_openat, ::close, ::read,     ::write,    ::fstat,    ::fstatat, ::mkdirat,      ::fchmod,
      ::fchmodat,  ::fsync, ::renameat, ::unlinkat, ::futimens, real_list, real_lock_byte,
  };
  return table;
}

}  // namespace csajit
