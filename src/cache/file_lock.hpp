// One byte of a schema folder's lock file, taken with a bounded wait. An open-file-description lock: it belongs to
// the handle, so threads exclude each other too, and the kernel drops it with the process. The file is never
// unlinked: whoever holds a lock on an unlinked file excludes nobody.
#pragma once

#include <atomic>
#include <cstdint>

#include "cache/file_handle.hpp"

namespace csajit {

enum class LockOutcome {
  held,
  timed_out,
  unavailable,  // the file cannot be opened, or the file system has no locks
};

// What one call may still wait for locks: after a wait that came to nothing it only tries. A peer that is stopped may
// hold any number of them. Shared by the threads of the call, so that one's timeout ends the others' waits.
class LockPatience {
 public:
  bool is_spent() const noexcept { return spent_.load(std::memory_order_relaxed); }
  void spend() noexcept { spent_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> spent_{false};
};

struct LockAttempt {
  LockOutcome outcome = LockOutcome::unavailable;
  FileHandle file;  // set when held
  IoError error;    // set when unavailable
};

// `mode` is the file's if it has to be created. Polls: a blocking wait for such a lock cannot be bounded.
LockAttempt lock_byte(const FileSystem& fs, int folder, mode_t mode, off_t offset, std::uint32_t wait_ms,
                      LockPatience& patience);

// Says so before the handle closes: a child forked meanwhile shares the lock and would keep it.
void unlock_byte(const FileSystem& fs, int file, off_t offset) noexcept;

}  // namespace csajit
