// The real file system with faults on order: any call can be made to fail, to be interrupted or to come up short.
#pragma once

#include <errno.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "cache/file_system.hpp"

namespace csajit::test {

// Process-wide, as the table has no user pointer: one test at a time. Its constructor and destructor reset it.
class Faults {
 public:
  Faults() { current() = {}; }
  ~Faults() { current() = {}; }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  // Asked before each call with its name and running number from 0; a return other than 0 is the errno it fails with.
  void on_call(std::function<int(const std::string& call, std::size_t number)> hook) {
    current().hook = std::move(hook);
  }
  void limit_transfers(std::size_t bytes) { current().transfer_limit = bytes; }
  const std::vector<std::string>& calls() const { return current().calls; }
  void forget_calls() { current().calls.clear(); }
  std::size_t count(const std::string& call) const {
    return static_cast<std::size_t>(std::count(calls().begin(), calls().end(), call));
  }

  static const FileSystem& file_system() {
    static const FileSystem table = {
        [](int dir, const char* name, int flags, mode_t mode) {
          return fails("openat") ? -1 : real().openat(dir, name, flags, mode);
        },
        [](int fd) {
          const bool failed = fails("close");
          const int result = real().close(fd);  // as Linux: the descriptor is gone in any case
          return failed ? (errno = current().code, -1) : result;
        },
        [](int fd, void* buffer, size_t bytes) {
          return fails("read") ? ssize_t{-1} : real().read(fd, buffer, std::min(bytes, current().transfer_limit));
        },
        [](int fd, const void* buffer, size_t bytes) {
          return fails("write") ? ssize_t{-1} : real().write(fd, buffer, std::min(bytes, current().transfer_limit));
        },
        [](int fd, struct stat* out) { return fails("fstat") ? -1 : real().fstat(fd, out); },
        [](int dir, const char* name, struct stat* out, int flags) {
          return fails("fstatat") ? -1 : real().fstatat(dir, name, out, flags);
        },
        [](int dir, const char* name, mode_t mode) { return fails("mkdirat") ? -1 : real().mkdirat(dir, name, mode); },
        [](int fd, mode_t mode) { return fails("fchmod") ? -1 : real().fchmod(fd, mode); },
        [](int dir, const char* name, mode_t mode, int flags) {
          return fails("fchmodat") ? -1 : real().fchmodat(dir, name, mode, flags);
        },
        [](int fd) { return fails("fsync") ? -1 : real().fsync(fd); },
        [](int old_dir, const char* old_name, int new_dir, const char* new_name) {
          return fails("renameat") ? -1 : real().renameat(old_dir, old_name, new_dir, new_name);
        },
        [](int dir, const char* name, int flags) { return fails("unlinkat") ? -1 : real().unlinkat(dir, name, flags); },
        [](int fd, const struct timespec times[2]) { return fails("futimens") ? -1 : real().futimens(fd, times); },
        [](int fd, void (*each)(const char*, void*), void* user) {
          return fails("list") ? -1 : real().list(fd, each, user);
        },
        [](int fd, short type, off_t offset) { return fails("lock_byte") ? -1 : real().lock_byte(fd, type, offset); },
    };
    return table;
  }

 private:
  struct Plan {
    std::function<int(const std::string&, std::size_t)> hook;
    std::size_t transfer_limit = static_cast<std::size_t>(-1) >> 1;
    std::vector<std::string> calls;
    int code = 0;
  };
  static Plan& current() {
    static Plan plan;
    return plan;
  }
  static const FileSystem& real() { return real_file_system(); }
  static bool fails(const char* call) {
    Plan& plan = current();
    plan.calls.emplace_back(call);
    plan.code = plan.hook ? plan.hook(call, plan.calls.size() - 1) : 0;
    if (plan.code != 0) errno = plan.code;
    return plan.code != 0;
  }
};

}  // namespace csajit::test
