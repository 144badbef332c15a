// Whole files in a folder: written so that a name holds all of its bytes or is not there, and read with a bound.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/file_handle.hpp"

namespace csajit {

// Puts `bytes` under `name` in `folder`, replacing what is there: private temporary, write, fsync, rename, fsync of
// the folder. After a failure the temporary is gone (or is left for the sweep, if it cannot be unlinked).
IoError write_atomically(const FileSystem& fs, int folder, const char* name, std::span<const std::byte> bytes,
                         mode_t mode);

// Opens for reading without following a link or waiting for a pipe's writer, and stats.
FileHandle open_file(const FileSystem& fs, int folder, const char* name, struct stat& status, IoError& error);

// Reads exactly `size` bytes, or fewer where the file ends early.
std::vector<std::byte> read_all(const FileSystem& fs, int file, std::uint64_t size, IoError& error);

}  // namespace csajit
