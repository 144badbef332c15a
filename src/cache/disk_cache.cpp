// The policy of the on-disk cache: which folder is asked, what is believed, what is warned of. The calls themselves
// are in the files beside it.
#include "cache/disk_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>
#include <tuple>

#include "base/log.hpp"
#include "base/thread_annotations.hpp"
#include "cache/atomic_file.hpp"
#include "cache/folder.hpp"
#include "cache/record_file.hpp"
#include "cache/trust.hpp"

namespace csajit {
namespace {

std::string path_below(const std::string& root, const std::string& name) {
  return root + (root.ends_with('/') ? "" : "/") + name;
}

struct Layer {
  std::string root;
  bool writable = false;

  std::string folder() const { return path_below(root, schema_folder); }
  std::string file(const std::string& name) const { return folder() + '/' + name; }
};

// A relative folder must mean the same one after the host has changed its working folder.
std::string absolute(const std::string& path) {
  std::error_code problem;
  const auto result = std::filesystem::absolute(path, problem);
  return problem ? path : result.string();
}

// The schema folder of a layer, trusted; else `error` (which may be a plain ENOENT) or `problem` is set.
FileHandle open_trusted(const FileSystem& fs, const Layer& layer, Trust trust, IoError& error, std::string& problem) {
  const FileHandle root = open_root(fs, layer.root, error);
  if (!root) return {};
  FileHandle folder = open_folder(fs, root.get(), schema_folder, error);
  if (!folder) return {};
  struct stat status = {};
  if (uninterrupted([&] { return fs.fstat(folder.get(), &status); }) != 0) {
    error = IoError::last("stat");
    return {};
  }
  problem = trust_problem(trust, current_identity(), status);
  if (!problem.empty()) return {};
  return folder;
}

bool is_full(const IoError& error) { return error && (error.code == ENOSPC || error.code == EDQUOT); }

struct timespec current_time() {
  struct timespec now = {};
  (void)::clock_gettime(CLOCK_REALTIME, &now);  // cannot fail for this clock
  return now;
}

}  // namespace

std::optional<std::string> default_cache_dir(const Config& config) {
  const auto is_absolute = [](const std::optional<std::string>& path) { return path && path->starts_with('/'); };
  if (config.cache_dir) return config.cache_dir;
  if (is_absolute(config.xdg_cache_home)) return *config.xdg_cache_home + "/csajit";
  if (is_absolute(config.home)) return *config.home + "/.cache/csajit";
  return std::nullopt;
}

struct DiskCache::State {
  State(const FileSystem& fs, std::uint64_t max_bytes) : bound(fs, max_bytes) {}

  SizeBound bound;            // of the writable folder
  std::vector<Layer> layers;  // in the order they are asked; constant
  Mutex mutex;
  std::set<std::string> warned CSAJIT_GUARDED_BY(mutex);
  std::set<std::pair<std::string, RecordPlace>> skipped CSAJIT_GUARDED_BY(mutex);  // by record name

  // Warns unless the same was said before; `subject` is what counts as the same.
  void warn_once(const std::string& subject, const std::string& message) {
    {
      MutexLock hold(mutex);
      if (!warned.insert(subject).second) return;
    }
    log::warn("{}", message);
  }
  bool is_skipped(const std::string& name, const RecordPlace& place) {
    MutexLock hold(mutex);
    return skipped.count({name, place}) != 0;
  }
  // False if it was before.
  bool skip(const std::string& name, const RecordPlace& place) {
    MutexLock hold(mutex);
    return skipped.emplace(name, place).second;
  }
  // Once another file is seen under the name: it may yet be replaced by one with the first one's inode number.
  void ask_again(const std::string& name, std::size_t layer) {
    MutexLock hold(mutex);
    std::erase_if(skipped, [&](const auto& entry) { return entry.first == name && entry.second.layer == layer; });
  }

  // A layer is for others to read; what was there before keeps its mode, so that it is said.
  void warn_if_closed(const std::string& path, const struct stat& status, mode_t needed) {
    if ((status.st_mode & needed) == needed) return;
    warn_once("closed " + path, fmt::format("{} has mode {:04o}: other users cannot read this layer; chmod a+{} it",
                                            path, status.st_mode & 07777U, S_ISDIR(status.st_mode) ? "rx" : "r"));
  }
  void warn_if_closed(const FileSystem& fs, const std::string& path, int folder, mode_t needed) {
    struct stat status = {};
    if (uninterrupted([&] { return fs.fstat(folder, &status); }) == 0) warn_if_closed(path, status, needed);
  }

  // The schema folder to read from, or an empty handle; anything but its absence is warned of once a folder.
  FileHandle open_to_read(const FileSystem& fs, const Layer& layer, Trust trust) {
    IoError error;
    std::string problem;
    FileHandle folder = open_trusted(fs, layer, trust, error, problem);
    if (!folder && !(error && error.code == ENOENT)) {
      warn_once("folder " + layer.root,
                fmt::format("cache folder {} is not read: {}", layer.folder(), error ? error.text() : problem));
    }
    return folder;
  }

  // The same to write to, created if it is missing, with `root` for what is beside it.
  static FileHandle open_to_write(const FileSystem& fs, const Layer& layer, Trust trust, mode_t mode, FileHandle& root,
                                  std::string& problem) {
    IoError error;
    root = create_root(fs, layer.root, mode, error);
    FileHandle folder = root ? create_folder(fs, root.get(), schema_folder, mode, error) : FileHandle();
    struct stat status = {};
    if (folder && uninterrupted([&] { return fs.fstat(folder.get(), &status); }) != 0) {
      error = IoError::last("stat");
    }
    problem = error ? error.text() : trust_problem(trust, current_identity(), status);
    if (!problem.empty()) return {};
    return folder;
  }
};

DiskCache::DiskCache(DiskCacheOptions options, const FileSystem& fs)
    : options_(std::move(options)), fs_(fs), state_(std::make_unique<State>(fs, options_.max_bytes)) {
  for (std::string& root : options_.ro_dirs) root = absolute(root);
  if (options_.write_dir) options_.write_dir = absolute(*options_.write_dir);
  if (options_.memory_only) return;
  for (const std::string& root : options_.ro_dirs) state_->layers.push_back({root, false});
  if (options_.write_dir) state_->layers.push_back({*options_.write_dir, true});
}

DiskCache::~DiskCache() = default;

std::optional<CachedImage> DiskCache::load(const Key& key, std::size_t first_layer) {
  return find(record_name(key), &key, first_layer);
}

bool DiskCache::holds(const std::string& digest) { return find(record_name(digest), nullptr, 0).has_value(); }

std::optional<CachedImage> DiskCache::find(const std::string& name, const Key* key, std::size_t first_layer) {
  for (std::size_t i = first_layer; i < state_->layers.size(); ++i) {
    const Layer& layer = state_->layers[i];
    const FileHandle folder = state_->open_to_read(fs_, layer, options_.trust);
    if (!folder) continue;
    RecordFile found = open_record(fs_, folder.get(), name, options_.trust);
    if (found.absent) continue;
    const RecordPlace place{i, found.status.st_dev, found.status.st_ino};
    if (found.file && state_->is_skipped(name, place)) continue;
    state_->ask_again(name, i);
    read_record(fs_, name, found);
    // Equal names of different keys are a collision of the hash: as good as absent.
    if (found.record && key != nullptr && !(found.record->key == *key)) {
      found.record.reset();
      found.problem = "it holds another kernel with the same hash";
    }
    if (!found.record) {
      if (!found.forbidden) rejected_.fetch_add(1, std::memory_order_relaxed);
      state_->warn_once("file " + layer.file(name),
                        fmt::format("cache entry {} is ignored: {}", layer.file(name), found.problem));
      continue;
    }
    if (options_.layer) state_->warn_if_closed(layer.file(name), found.status, 0044);
    if (layer.writable && !options_.layer) {
      state_->bound.use(name);
      if (older_than(found.status.st_mtim, current_time(), touch_interval_s)) {
        const struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
        (void)fs_.futimens(found.file.get(), times);  // recency only; a cache that cannot be written still hits
      }
    }
    return CachedImage{std::move(found.record->image), place};
  }
  return std::nullopt;
}

bool DiskCache::publish(const Key& key, const KernelImage& image) {
  if (options_.memory_only) return false;
  const auto fail = [&](const std::string& reason, const std::string& consequence) {
    publish_failures_.fetch_add(1, std::memory_order_relaxed);
    state_->warn_once("publish " + reason, reason + consequence);
    return false;
  };
  if (!options_.write_dir) {
    return fail("there is no cache folder (CSAJIT_CACHE_DIR, XDG_CACHE_HOME and HOME are unset)",
                ": compiled kernels are kept in memory only");
  }
  const Layer& layer = state_->layers.back();
  const std::string name = record_name(key);
  const auto bytes = encode_record(key, image);
  // What could not be read back is not written: it would be a warning in each process to come.
  if (const auto readable = decode_record(bytes); !readable) {
    return fail("a compiled kernel makes no valid cache record: " + readable.error().message, "");
  }

  const Modes modes = modes_of(options_.layer);
  FileHandle root;
  std::string problem;
  std::uint64_t replaced = 0;  // bytes
  const FileHandle folder = State::open_to_write(fs_, layer, options_.trust, modes.folder, root, problem);
  if (problem.empty()) {
    const RecordFile before = open_record(fs_, folder.get(), name, options_.trust);
    // Nothing is known of a record that this user may not read: it may be good, and others' access would go with it.
    if (before.forbidden) {
      return fail(fmt::format("cache entry {} may not be read by this user and is not replaced", layer.file(name)),
                  "; the compiled kernel is kept in memory only");
    }
    replaced = before.file ? static_cast<std::uint64_t>(before.status.st_size) : 0;
    IoError error = write_atomically(fs_, folder.get(), name.c_str(), bytes, modes.file);
    if (is_full(error) && !options_.layer && state_->bound.make_room(root.get(), bytes.size(), current_time())) {
      error = write_atomically(fs_, folder.get(), name.c_str(), bytes, modes.file);
    }
    if (error) problem = error.text();
  }
  if (!problem.empty()) {
    return fail(fmt::format("cache folder {} cannot be written: {}", layer.folder(), problem),
                "; compiled kernels are kept in memory only");
  }
  state_->ask_again(name, state_->layers.size() - 1);
  if (options_.layer) {
    state_->warn_if_closed(fs_, layer.root, root.get(), 0011);
    state_->warn_if_closed(fs_, layer.folder(), folder.get(), 0011);
  } else {
    const std::uint64_t evicted = state_->bound.added(root.get(), name, bytes.size(), replaced, current_time());
    if (evicted != 0) log::debug("{} records left cache folder {} for its size bound", evicted, layer.root);
  }
  return true;
}

void DiskCache::skip(const Key& key, const RecordPlace& place, const std::string& reason) {
  const std::string name = record_name(key);
  if (!state_->skip(name, place)) return;
  rejected_.fetch_add(1, std::memory_order_relaxed);
  const std::string file = state_->layers[place.layer].file(name);
  state_->warn_once("file " + file, fmt::format("cache entry {} is skipped from now on: {}", file, reason));
}

DiskCache::Lock::Lock(Lock&& other) noexcept
    : fs_(other.fs_), fd_(std::exchange(other.fd_, -1)), offset_(other.offset_) {}

DiskCache::Lock& DiskCache::Lock::operator=(Lock&& other) noexcept {
  std::swap(fs_, other.fs_);
  std::swap(fd_, other.fd_);
  std::swap(offset_, other.offset_);
  return *this;
}

DiskCache::Lock::~Lock() {
  if (fd_ < 0) return;
  unlock_byte(*fs_, fd_, offset_);
  fs_->close(fd_);
}

DiskCache::Lock DiskCache::lock(const Key& key, LockPatience& patience) {
  if (options_.memory_only || !options_.use_lock || !options_.write_dir) return {};
  const Layer& layer = state_->layers.back();
  const Modes modes = modes_of(options_.layer);
  FileHandle root;
  std::string problem;
  const FileHandle folder = State::open_to_write(fs_, layer, options_.trust, modes.folder, root, problem);
  if (!folder) return {};  // publish() will say why
  const off_t offset = key.lock_slot();
  LockAttempt attempt = lock_byte(fs_, folder.get(), modes.file, offset, options_.lock_wait_ms, patience);
  switch (attempt.outcome) {
    case LockOutcome::held:
      return {&fs_, attempt.file.release(), offset};
    case LockOutcome::timed_out:
      state_->warn_once("lock timeout", fmt::format("waited {} ms for another process that holds {}; going on without",
                                                    options_.lock_wait_ms, layer.file(lock_file_name)));
      return {};
    case LockOutcome::unavailable:
      log::debug("{} cannot be locked ({}): processes may compile the same kernel at once", layer.file(lock_file_name),
                 attempt.error.text());
      return {};
  }
  return {};
}

Result<std::vector<CacheEntry>> DiskCache::entries() {
  std::vector<CacheEntry> result;
  for (const Layer& layer : state_->layers) {
    IoError error;
    std::string distrust;
    // A folder that is not trusted is listed all the same, each entry with the reason: the tool is to show it.
    const FileHandle folder = open_trusted(fs_, layer, Trust::any, error, distrust);
    if (!folder && error.code == ENOENT) continue;
    struct stat status = {};
    if (folder && uninterrupted([&] { return fs_.fstat(folder.get(), &status); }) != 0) error = IoError::last("stat");
    std::vector<std::string> names;
    if (!error) names = list_folder(fs_, folder.get(), error);
    if (error)
      return Error{CSAJIT_E_INVALID_ARGUMENT, "cache folder " + layer.folder() + " cannot be listed: " + error.text()};
    distrust = trust_problem(options_.trust, current_identity(), status);
    for (std::string& name : names) {
      if (!is_record_name(name)) continue;
      RecordFile found = open_record(fs_, folder.get(), name, options_.trust);
      if (found.absent) continue;  // evicted since the listing
      read_record(fs_, name, found);
      CacheEntry entry;
      entry.folder = layer.folder();
      entry.name = std::move(name);
      entry.bytes = static_cast<std::uint64_t>(found.status.st_size);
      entry.mtime_s = found.status.st_mtim.tv_sec;
      entry.writable_layer = layer.writable;
      entry.problem = distrust.empty() ? std::move(found.problem) : "its folder is " + distrust;
      if (distrust.empty()) entry.record = std::move(found.record);
      result.push_back(std::move(entry));
    }
  }
  std::sort(result.begin(), result.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return std::tie(a.folder, a.name) < std::tie(b.folder, b.name);
  });
  return result;
}

Result<std::vector<ClearedFolder>> DiskCache::clear() {
  std::vector<ClearedFolder> cleared;
  if (options_.memory_only || !options_.write_dir) return cleared;
  IoError error;
  const FileHandle root = open_root(fs_, *options_.write_dir, error);
  if (!root && error.code == ENOENT) return cleared;
  if (root) cleared = clear_own_files(fs_, root.get(), current_time(), error);
  if (error)
    return Error{CSAJIT_E_INVALID_ARGUMENT,
                 "cache folder " + *options_.write_dir + " cannot be cleared: " + error.text()};
  for (ClearedFolder& folder : cleared) folder.name = path_below(*options_.write_dir, folder.name);
  return cleared;
}

}  // namespace csajit
