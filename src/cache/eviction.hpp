// What goes from the writable cache: temporaries that a killed process left, and the least recently used records
// above the size bound. Deletes only what is csajit's by its name and by its first bytes.
#pragma once

#include <time.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/thread_annotations.hpp"
#include "cache/file_handle.hpp"

namespace csajit {

inline constexpr std::int64_t stale_temporary_s = 600;
inline constexpr std::int64_t touch_interval_s = 3600;  // a record's recency is this coarse: hits rarely write
inline constexpr std::int64_t clock_slack_s = 60;       // a file server's clock may be ahead this much

// A date further ahead than two clocks differ says nothing of the last use: it counts as old, or it would be young
// for years.
bool older_than(const struct timespec& mtime, const struct timespec& now, std::int64_t seconds);

struct ClearedFolder {
  std::string name;  // of the schema folder
  std::uint64_t records = 0;
  std::uint64_t temporaries = 0;
};

// Deletes the records and the stale temporaries (a young one may be a live writer's) of all schema folders below
// `root`. `error` is set if a part stayed.
std::vector<ClearedFolder> clear_own_files(const FileSystem& fs, int root, const struct timespec& now, IoError& error);

// Holds the records below a cache root to a number of bytes. Lists and stats the whole cache at its first publish and
// again after each sixteenth of the bound that it published, to see what others did; between looks it goes by a
// running total and by the list of the last look. Failures leave files: the next look tries again.
class SizeBound {
 public:
  SizeBound(const FileSystem& fs, std::uint64_t max_bytes) : fs_(fs), max_bytes_(max_bytes) {}

  // A record that was built or hit here goes only once nothing else is left.
  void use(const std::string& name);

  // After a publish of `bytes` under `name` in place of `replaced` bytes. Returns how many records went for it.
  std::uint64_t added(int root, const std::string& name, std::uint64_t bytes, std::uint64_t replaced,
                      const struct timespec& now);

  // The file system is full: lets go of at least `bytes` of what was not used here. True if anything went.
  bool make_room(int root, std::uint64_t bytes, const struct timespec& now);

 private:
  struct Candidate {
    std::string folder;
    std::string name;
    std::uint64_t bytes = 0;
    std::optional<struct timespec> mtime;  // of the last look; none: published since
    bool used = false;
  };

  bool is_used(const std::string& folder, const std::string& name);
  // Returns how many stale temporaries were swept.
  std::uint64_t look(int root, const std::string& keep, const struct timespec& now) CSAJIT_REQUIRES(mutex_);
  std::uint64_t remove_down_to(int root, std::uint64_t bytes, bool used_too) CSAJIT_REQUIRES(mutex_);

  const FileSystem& fs_;
  const std::uint64_t max_bytes_;
  Mutex used_mutex_;  // apart: a hit must not wait for a look
  std::set<std::string> used_ CSAJIT_GUARDED_BY(used_mutex_);
  Mutex mutex_;
  bool looked_ CSAJIT_GUARDED_BY(mutex_) = false;
  bool nothing_to_free_ CSAJIT_GUARDED_BY(mutex_) = false;
  std::uint64_t total_ CSAJIT_GUARDED_BY(mutex_) = 0;
  std::uint64_t since_look_ CSAJIT_GUARDED_BY(mutex_) = 0;
  std::deque<Candidate> candidates_ CSAJIT_GUARDED_BY(mutex_);  // the first one goes first
};

}  // namespace csajit
