// Opening and polling the lock file.
#include "cache/file_lock.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cache/entry_name.hpp"

namespace csajit {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds first_pause{1};
constexpr milliseconds longest_pause{64};

FileHandle open_lock_file(const FileSystem& fs, int folder, mode_t mode, IoError& error) {
  constexpr int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  // Twice: between the two opens another process may have created it.
  for (int attempt = 0; attempt < 2; ++attempt) {
    FileHandle file(fs, uninterrupted([&] { return fs.openat(folder, lock_file_name, flags, 0); }));
    if (file || errno != ENOENT) {
      if (!file) error = IoError::last("open");
      return file;
    }
    FileHandle created(
        fs, uninterrupted([&] { return fs.openat(folder, lock_file_name, flags | O_CREAT | O_EXCL, 0600); }));
    if (created) {
      if (uninterrupted([&] { return fs.fchmod(created.get(), mode); }) == 0) return created;
      error = IoError::last("chmod");  // the umask may have left a file that the next process cannot open
      return {};
    }
    if (errno != EEXIST) break;
  }
  error = IoError::last("create");
  return {};
}

}  // namespace

LockAttempt lock_byte(const FileSystem& fs, int folder, mode_t mode, off_t offset, std::uint32_t wait_ms,
                      LockPatience& patience) {
  LockAttempt attempt;
  FileHandle file = open_lock_file(fs, folder, mode, attempt.error);
  if (!file) return attempt;
  const auto deadline = Clock::now() + milliseconds(wait_ms);
  for (milliseconds pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
    if (uninterrupted([&] { return fs.lock_byte(file.get(), F_WRLCK, offset); }) == 0) {
      attempt.outcome = LockOutcome::held;
      attempt.file = std::move(file);
      return attempt;
    }
    if (errno != EAGAIN && errno != EACCES) {  // both mean: someone has it
      attempt.error = IoError::last("lock");
      return attempt;
    }
    const auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero() || patience.is_spent()) {
      patience.spend();
      attempt.outcome = LockOutcome::timed_out;
      return attempt;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, left));
  }
}

void unlock_byte(const FileSystem& fs, int file, off_t offset) noexcept {
  (void)uninterrupted([&] { return fs.lock_byte(file, F_UNLCK, offset); });
}

}  // namespace csajit
