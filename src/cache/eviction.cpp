// Finding, ageing out and bounding the files of the writable cache.
#include "cache/eviction.hpp"

#include <fcntl.h>

#include <algorithm>
#include <tuple>

#include "cache/entry_name.hpp"
#include "cache/folder.hpp"

namespace csajit {

OwnFiles find_own_files(const FileSystem& fs, int root, IoError& error) {
  OwnFiles files;
  for (const std::string& schema : list_folder(fs, root, error)) {
    if (!is_schema_folder_name(schema)) continue;
    IoError problem;
    FileHandle folder = open_folder(fs, root, schema.c_str(), problem);
    if (folder) {
      for (std::string& name : list_folder(fs, folder.get(), problem)) {
        const bool record = is_record_name(name);
        if (!record && !is_temporary_name(name)) continue;
        struct stat status = {};
        if (uninterrupted([&] { return fs.fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW); }) != 0) {
          if (errno != ENOENT) problem = IoError::last("stat");  // gone already is as good
          continue;
        }
        (record ? files.records : files.temporaries)
            .push_back({files.folders.size(), std::move(name), static_cast<std::uint64_t>(status.st_size),
                        static_cast<std::int64_t>(status.st_mtim.tv_sec)});
      }
      files.folders.push_back(std::move(folder));
    }
    if (problem && problem.code != ENOENT) error = problem;
  }
  return files;
}

std::uint64_t evict(const FileSystem& fs, int root, std::uint64_t max_bytes, const std::string& keep,
                    std::int64_t now_s) {
  IoError ignored;
  OwnFiles files = find_own_files(fs, root, ignored);
  const auto unlink = [&](const OwnFile& file) {
    const int folder = files.folders[file.folder].get();
    return uninterrupted([&] { return fs.unlinkat(folder, file.name.c_str(), 0); }) == 0 || errno == ENOENT;
  };
  for (const OwnFile& temporary : files.temporaries) {
    if (now_s - temporary.mtime_s > stale_temporary_s) unlink(temporary);
  }

  std::uint64_t total = 0;
  for (const OwnFile& record : files.records) total += record.bytes;
  if (total <= max_bytes) return 0;
  std::sort(files.records.begin(), files.records.end(), [](const OwnFile& a, const OwnFile& b) {
    return std::tie(a.mtime_s, a.name) < std::tie(b.mtime_s, b.name);
  });
  std::uint64_t removed = 0;
  for (const OwnFile& record : files.records) {
    if (total <= max_bytes) break;
    if (record.name == keep || !unlink(record)) continue;
    total -= record.bytes;
    ++removed;
  }
  return removed;
}

}  // namespace csajit
