// Opening, judging and decoding one record file.
#include "cache/record_file.hpp"

#include "cache/atomic_file.hpp"
#include "cache/entry_name.hpp"
#include "cache/trust.hpp"

namespace csajit {

RecordFile open_record(const FileSystem& fs, int folder, const std::string& name, Trust trust) {
  RecordFile found;
  IoError error;
  found.file = open_file(fs, folder, name.c_str(), found.status, error);
  if (error) {
    found.absent = error.code == ENOENT;
    found.forbidden = error.code == EACCES;
    found.problem = found.forbidden
                        ? "this user may not read it (" + error.text() + "); chmod it, or use another folder"
                        : "it cannot be read (" + error.text() + ")";
  } else if (!S_ISREG(found.status.st_mode)) {
    found.problem = "it is no regular file";
  } else {
    found.problem = trust_problem(trust, current_identity(), found.status);
    if (found.problem.empty() && static_cast<std::uint64_t>(found.status.st_size) > max_record_bytes) {
      found.problem = "it is too large";
    }
  }
  return found;
}

void read_record(const FileSystem& fs, const std::string& name, RecordFile& found) {
  if (!found.problem.empty()) return;
  IoError error;
  const auto bytes = read_all(fs, found.file.get(), static_cast<std::uint64_t>(found.status.st_size), error);
  if (error) {
    found.problem = "it cannot be read (" + error.text() + ")";
    return;
  }
  auto decoded = decode_record(bytes);
  if (!decoded) {
    found.problem = decoded.error().message;
  } else if (record_name(decoded->key) != name) {
    found.problem = "its name is not that of its key";
  } else {
    found.record = *std::move(decoded);
  }
}

}  // namespace csajit
