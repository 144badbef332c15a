// One descriptor from the file-system table, closed with its owner, and what went wrong with a call. No policy.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "cache/file_system.hpp"

namespace csajit {

// A failed system call. An empty one (call is null) means: no failure.
struct IoError {
  const char* call = nullptr;
  int code = 0;

  static IoError last(const char* call) { return {call, errno}; }
  explicit operator bool() const noexcept { return call != nullptr; }
  std::string text() const { return std::string(call) + ": " + std::generic_category().message(code); }
};

// Repeats a call that a signal interrupted.
template <class Call>
auto uninterrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

class FileHandle {
 public:
  FileHandle() = default;
  FileHandle(const FileSystem& fs, int fd) : fs_(&fs), fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fs_(other.fs_), fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    if (this != &other) {
      reset();
      fs_ = other.fs_;
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~FileHandle() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }

  // Closes now and says how that went: network file systems report failed writes here. The descriptor is gone
  // either way, also after EINTR (Linux).
  int close() noexcept { return fs_->close(std::exchange(fd_, -1)); }

 private:
  void reset() noexcept {
    if (fd_ >= 0) fs_->close(std::exchange(fd_, -1));
  }

  const FileSystem* fs_ = nullptr;
  int fd_ = -1;
};

}  // namespace csajit
