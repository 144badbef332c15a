// Finding, ageing out and bounding the files of the writable cache.
#include "cache/eviction.hpp"

#include <fcntl.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "cache/atomic_file.hpp"
#include "cache/entry_name.hpp"
#include "cache/folder.hpp"
#include "cache/record.hpp"

namespace csajit {
namespace {

constexpr std::uint64_t looks_per_bound = 16;

struct OwnFile {
  std::string folder;
  std::string name;
  std::uint64_t bytes = 0;
  struct timespec mtime = {};
};

// What has a name of csajit's; whether the bytes are too is seen when it is to go.
struct OwnFiles {
  std::vector<std::string> folders;
  std::vector<OwnFile> records;
  std::vector<OwnFile> temporaries;
};

OwnFiles find_own_files(const FileSystem& fs, int root, IoError& error) {
  OwnFiles files;
  for (const std::string& schema : list_folder(fs, root, error)) {
    if (!is_schema_folder_name(schema)) continue;
    IoError problem;
    const FileHandle folder = open_folder(fs, root, schema.c_str(), problem);
    if (folder) {
      files.folders.push_back(schema);
      for (std::string& name : list_folder(fs, folder.get(), problem)) {
        const bool record = is_record_name(name);
        if (!record && !is_temporary_name(name)) continue;
        struct stat status = {};
        if (uninterrupted([&] { return fs.fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW); }) != 0) {
          if (errno != ENOENT) problem = IoError::last("stat");  // gone already is as good
          continue;
        }
        if (!S_ISREG(status.st_mode)) continue;
        (record ? files.records : files.temporaries)
            .push_back({schema, std::move(name), static_cast<std::uint64_t>(status.st_size), status.st_mtim});
      }
    }
    if (problem && problem.code != ENOENT) error = problem;
  }
  return files;
}

enum class Removal {
  done,
  absent,   // or somebody else's by its bytes: it never counted
  changed,  // since it was listed
  failed,
};

// `mtime`: only if it still has that one.
Removal remove_own_file(const FileSystem& fs, int root, const std::string& folder, const std::string& name,
                        const std::optional<struct timespec>& mtime, IoError& error) {
  const auto failed = [&](const IoError& problem) {
    if (problem.code == ENOENT) return Removal::absent;
    error = problem;
    return Removal::failed;
  };
  IoError problem;
  const FileHandle handle = open_folder(fs, root, folder.c_str(), problem);
  if (!handle) return failed(problem);
  struct stat status = {};
  const FileHandle file = open_file(fs, handle.get(), name.c_str(), status, problem);
  if (!file) return failed(problem);
  if (mtime && (mtime->tv_sec != status.st_mtim.tv_sec || mtime->tv_nsec != status.st_mtim.tv_nsec)) {
    return Removal::changed;
  }
  const auto bytes = read_all(fs, file.get(), magic_bytes, problem);
  if (problem) return failed(problem);
  if (!begins_like_record(bytes) || (is_record_name(name) && bytes.size() < magic_bytes)) return Removal::absent;
  if (uninterrupted([&] { return fs.unlinkat(handle.get(), name.c_str(), 0); }) != 0) {
    return failed(IoError::last("unlink"));
  }
  return Removal::done;
}

}  // namespace

bool older_than(const struct timespec& mtime, const struct timespec& now, std::int64_t seconds) {
  const std::int64_t age = static_cast<std::int64_t>(now.tv_sec) - static_cast<std::int64_t>(mtime.tv_sec);
  return age > seconds || age < -clock_slack_s;
}

std::vector<ClearedFolder> clear_own_files(const FileSystem& fs, int root, const struct timespec& now, IoError& error) {
  const OwnFiles files = find_own_files(fs, root, error);
  std::vector<ClearedFolder> cleared;
  for (const std::string& name : files.folders) {
    ClearedFolder& folder = cleared.emplace_back();
    folder.name = name;
    for (const OwnFile& file : files.records) {
      if (file.folder != name) continue;
      if (remove_own_file(fs, root, name, file.name, std::nullopt, error) == Removal::done) ++folder.records;
    }
    for (const OwnFile& file : files.temporaries) {
      if (file.folder != name || !older_than(file.mtime, now, stale_temporary_s)) continue;
      if (remove_own_file(fs, root, name, file.name, file.mtime, error) == Removal::done) ++folder.temporaries;
    }
  }
  std::sort(cleared.begin(), cleared.end(),
            [](const ClearedFolder& a, const ClearedFolder& b) { return a.name < b.name; });
  return cleared;
}

void SizeBound::use(const std::string& name) {
  const MutexLock hold(used_mutex_);
  used_.insert(name);
}

bool SizeBound::is_used(const std::string& folder, const std::string& name) {
  if (folder != schema_folder) return false;
  const MutexLock hold(used_mutex_);
  return used_.count(name) != 0;
}

std::uint64_t SizeBound::added(int root, const std::string& name, std::uint64_t bytes, std::uint64_t replaced,
                               const struct timespec& now) {
  use(name);
  const MutexLock hold(mutex_);
  total_ += bytes - std::min(replaced, total_ + bytes);
  since_look_ += bytes;
  if (!looked_ || since_look_ >= max_bytes_ / looks_per_bound) look(root, name, now);
  const std::uint64_t removed = remove_down_to(root, max_bytes_, true);
  candidates_.push_back({schema_folder, name, bytes, std::nullopt, true});
  return removed;
}

bool SizeBound::make_room(int root, std::uint64_t bytes, const struct timespec& now) {
  const MutexLock hold(mutex_);
  if (nothing_to_free_) return false;  // once is enough: each further kernel would look through the cache in vain
  const std::uint64_t swept = look(root, {}, now);
  // More than this one record needs, so that the next ones do not have to look again.
  const std::uint64_t wanted = std::max(bytes, total_ / looks_per_bound);
  const std::uint64_t removed = remove_down_to(root, total_ - std::min(wanted, total_), false);
  nothing_to_free_ = swept + removed == 0;
  return !nothing_to_free_;
}

std::uint64_t SizeBound::look(int root, const std::string& keep, const struct timespec& now) {
  IoError ignored;
  OwnFiles files = find_own_files(fs_, root, ignored);
  std::uint64_t swept = 0;
  for (const OwnFile& file : files.temporaries) {
    if (!older_than(file.mtime, now, stale_temporary_s)) continue;
    swept += remove_own_file(fs_, root, file.folder, file.name, file.mtime, ignored) == Removal::done ? 1 : 0;
  }
  looked_ = true;
  since_look_ = 0;
  total_ = 0;
  candidates_.clear();
  for (OwnFile& file : files.records) {
    total_ += file.bytes;
    if (file.folder == schema_folder && file.name == keep) continue;
    const bool used = is_used(file.folder, file.name);
    candidates_.push_back({std::move(file.folder), std::move(file.name), file.bytes, file.mtime, used});
  }
  const auto rank = [&](const Candidate& c) {
    return std::tuple(c.used, !older_than(*c.mtime, now, INT64_MAX), c.mtime->tv_sec, c.mtime->tv_nsec);
  };
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  return swept;
}

std::uint64_t SizeBound::remove_down_to(int root, std::uint64_t bytes, bool used_too) {
  IoError ignored;
  std::uint64_t removed = 0;
  while (total_ > bytes && !candidates_.empty() && (used_too || !candidates_.front().used)) {
    Candidate next = std::move(candidates_.front());
    candidates_.pop_front();
    if (!next.used && is_used(next.folder, next.name)) {  // since the look: its turn comes with those
      next.used = true;
      candidates_.push_back(std::move(next));
      continue;
    }
    const Removal removal = remove_own_file(fs_, root, next.folder, next.name, next.mtime, ignored);
    if (removal == Removal::done || removal == Removal::absent) total_ -= std::min(next.bytes, total_);
    removed += removal == Removal::done ? 1 : 0;
  }
  return removed;
}

}  // namespace csajit
