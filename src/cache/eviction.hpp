// What goes from the writable cache: temporaries that a killed process left, and the least recently used records
// above the size bound. Touches files of csajit's own naming only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/file_handle.hpp"

namespace csajit {

inline constexpr std::int64_t stale_temporary_s = 600;
inline constexpr std::int64_t touch_interval_s = 3600;  // a record's recency is this coarse: hits rarely write

struct OwnFile {
  std::size_t folder;  // index into OwnFiles::folders
  std::string name;
  std::uint64_t bytes;
  std::int64_t mtime_s;
};

// The records and temporaries below a cache root, of all schema folders.
struct OwnFiles {
  std::vector<FileHandle> folders;
  std::vector<OwnFile> records;
  std::vector<OwnFile> temporaries;
};

// What can be seen of it; `error` is set if a part could not be.
OwnFiles find_own_files(const FileSystem& fs, int root, IoError& error);

// Sweeps stale temporaries, then removes the oldest records until the rest fits `max_bytes`; `keep`, a record name
// just published, stays. Returns how many records went. Failures leave files: the next publish tries again.
std::uint64_t evict(const FileSystem& fs, int root, std::uint64_t max_bytes, const std::string& keep,
                    std::int64_t now_s);

}  // namespace csajit
