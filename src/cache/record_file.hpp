// One record file: opened, judged, read, decoded. Says what is wrong with it; knows no layers and replaces nothing.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/config.hpp"
#include "cache/file_handle.hpp"
#include "cache/record.hpp"

namespace csajit {

struct RecordFile {
  FileHandle file;
  struct stat status = {};
  std::optional<Record> record;  // set by read_record
  std::string problem;           // why there is none
  bool absent = false;           // a plain miss
  bool forbidden = false;        // this user may not read it, which says nothing about what it holds
};

// Opens a file and judges all but its bytes.
RecordFile open_record(const FileSystem& fs, int folder, const std::string& name, Trust trust);
// Reads and decodes what was opened, unless there is a problem with it.
void read_record(const FileSystem& fs, const std::string& name, RecordFile& found);

}  // namespace csajit
