// The system calls that the disk cache makes, as a table that tests replace. Handle-relative, no policy.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace csajit {

struct FileSystem {
  int (*openat)(int dir, const char* name, int flags, mode_t mode);
  int (*close)(int fd);
  ssize_t (*read)(int fd, void* buffer, size_t bytes);
  ssize_t (*write)(int fd, const void* buffer, size_t bytes);
  int (*fstat)(int fd, struct stat* out);
  int (*fstatat)(int dir, const char* name, struct stat* out, int flags);
  int (*mkdirat)(int dir, const char* name, mode_t mode);
  int (*fchmod)(int fd, mode_t mode);
  int (*fchmodat)(int dir, const char* name, mode_t mode, int flags);
  int (*fsync)(int fd);
  int (*renameat)(int old_dir, const char* old_name, int new_dir, const char* new_name);
  int (*unlinkat)(int dir, const char* name, int flags);
  int (*futimens)(int fd, const struct timespec times[2]);
  // Reads names of a folder (fd is duplicated inside). Calls `each` for every entry but . and ..; returns 0 or
  // -1 with errno.
  int (*list)(int fd, void (*each)(const char* name, void* user), void* user);
  // Open-file-description lock of one byte range: type F_WRLCK or F_UNLCK, not blocking; 0 or -1 with errno.
  int (*lock_byte)(int fd, short type, off_t offset);
};

const FileSystem& real_file_system();

}  // namespace csajit
