// The hashed folder of records: read-only layers first, then one writable folder. A bad entry is a miss; a
// folder that cannot be written costs a warning, never a kernel.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/kernel_image.hpp"
#include "base/result.hpp"
#include "cache/entry_name.hpp"
#include "cache/eviction.hpp"
#include "cache/file_lock.hpp"
#include "cache/file_system.hpp"
#include "cache/key.hpp"
#include "cache/record.hpp"

namespace csajit {

struct DiskCacheOptions {
  std::vector<std::string> ro_dirs;      // roots of read-only layers, in order
  std::optional<std::string> write_dir;  // root of the writable cache; none: memory only
  Trust trust = Trust::owner;
  std::uint64_t max_bytes = 512ULL << 20;
  std::uint32_t lock_wait_ms = 20000;
  bool use_lock = true;
  bool layer = false;        // write 0755/0644 instead of 0700/0600, never evict, change nothing on a hit
  bool memory_only = false;  // by wish: no folder is looked at, and that nothing is published is not worth a warning
};

// `$CSAJIT_CACHE_DIR`, else `$XDG_CACHE_HOME/csajit`, else `$HOME/.cache/csajit`, else nullopt. Relative XDG
// values are ignored, as the XDG specification says.
std::optional<std::string> default_cache_dir(const Config& config);

struct CacheEntry {
  std::string folder;  // schema folder it lies in, absolute
  std::string name;    // file name
  std::uint64_t bytes = 0;
  std::int64_t mtime_s = 0;
  bool writable_layer = false;
  std::optional<Record> record;  // set if it decodes and its name matches its key
  std::string problem;           // why not, otherwise
};

// A record file: its layer, in the order they are asked, and the inode. What replaces it is another place.
struct RecordPlace {
  std::size_t layer = 0;
  dev_t device = 0;
  ino_t inode = 0;
  friend auto operator<=>(const RecordPlace&, const RecordPlace&) = default;
};

struct CachedImage {
  KernelImage image;
  RecordPlace place;
};

class DiskCache {
 public:
  explicit DiskCache(DiskCacheOptions options, const FileSystem& fs = real_file_system());
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // The verified image for `key` of the first layer from `first_layer` on that has one, or nullopt: absent, skipped,
  // unreadable or rejected (the last two are warned of once a file; only a rejected one is counted).
  std::optional<CachedImage> load(const Key& key, std::size_t first_layer = 0);

  // Whether a load of the key with these 32 digits would hit now.
  bool holds(const std::string& digest);

  // Writes the record atomically: true if it is in place. False: warned once a reason, counted.
  bool publish(const Key& key, const KernelImage& image);

  // Passes over a record that the driver refused, in this cache only: another driver or process may take it.
  void skip(const Key& key, const RecordPlace& place, const std::string& reason);

  // Holds the cross-process lock of a key while it lives; makes the lock file, and the folder, where they are missing;
  // empty where locking is off or not possible or timed out. Without it everything still works.
  class Lock {
   public:
    Lock() = default;
    Lock(const FileSystem* fs, int fd, off_t offset) : fs_(fs), fd_(fd), offset_(offset) {}
    Lock(Lock&& other) noexcept;
    Lock& operator=(Lock&& other) noexcept;
    ~Lock();
    explicit operator bool() const noexcept { return fd_ >= 0; }

   private:
    const FileSystem* fs_ = nullptr;
    int fd_ = -1;
    off_t offset_ = 0;
  };
  Lock lock(const Key& key, LockPatience& patience);

  // For the tool. Every record file of every layer, sorted by folder and name; stale temps are not listed.
  Result<std::vector<CacheEntry>> entries();
  // Deletes every record and stale temp of the writable folder; `name` of what is returned is the whole path.
  Result<std::vector<ClearedFolder>> clear();

  const DiskCacheOptions& options() const noexcept { return options_; }
  std::uint64_t rejected_entries() const noexcept { return rejected_.load(std::memory_order_relaxed); }
  std::uint64_t publish_failures() const noexcept { return publish_failures_.load(std::memory_order_relaxed); }

 private:
  struct State;  // warned-once sets, skipped records
  std::optional<CachedImage> find(const std::string& name, const Key* key, std::size_t first_layer);
  DiskCacheOptions options_;
  const FileSystem& fs_;
  std::unique_ptr<State> state_;
  std::atomic<std::uint64_t> rejected_{0};
  std::atomic<std::uint64_t> publish_failures_{0};
};

}  // namespace csajit
