// The folders of a cache as handles: open, create, list. Follows links in the configured path, never below it.
#pragma once

#include <string>
#include <vector>

#include "cache/file_handle.hpp"

namespace csajit {

// The modes of what is written: private, or for everyone to read (a layer).
struct Modes {
  mode_t folder = 0700;
  mode_t file = 0600;
};
Modes modes_of(bool layer);

// `root` itself, only as a place to start from (O_PATH). Empty on failure, `error` says why.
FileHandle open_root(const FileSystem& fs, const std::string& root, IoError& error);
// A folder directly below.
FileHandle open_folder(const FileSystem& fs, int parent, const char* name, IoError& error);
// The same, with whatever is missing on the way created. The modes hold whatever the umask is, also for what
// a maker that was killed left half made.
FileHandle create_root(const FileSystem& fs, const std::string& root, mode_t mode, IoError& error);
FileHandle create_folder(const FileSystem& fs, int parent, const char* name, mode_t mode, IoError& error);

// All names in a folder but . and .., in no order.
std::vector<std::string> list_folder(const FileSystem& fs, int folder, IoError& error);

}  // namespace csajit
