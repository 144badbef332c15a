// Writing and reading of whole files, with every call checked.
#include "cache/atomic_file.hpp"

#include <fcntl.h>

#include <string>

#include "cache/entry_name.hpp"

namespace csajit {
namespace {

constexpr int name_attempts = 16;

// A temporary that is unlinked unless it was renamed.
class Temporary {
 public:
  Temporary(const FileSystem& fs, int folder) : fs_(fs), folder_(folder) {}
  ~Temporary() {
    if (!name_.empty()) (void)uninterrupted([&] { return fs_.unlinkat(folder_, name_.c_str(), 0); });
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  FileHandle create(IoError& error) {
    for (int attempt = 0; attempt < name_attempts; ++attempt) {
      std::string name = new_temporary_name();
      const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
      const int fd = uninterrupted([&] { return fs_.openat(folder_, name.c_str(), flags, 0600); });
      if (fd >= 0) {
        name_ = std::move(name);
        return {fs_, fd};
      }
      if (errno != EEXIST) break;
    }
    error = IoError::last("create");
    return {};
  }

  IoError rename_to(const char* name) {
    if (uninterrupted([&] { return fs_.renameat(folder_, name_.c_str(), folder_, name); }) != 0) {
      return IoError::last("rename");
    }
    name_.clear();
    return {};
  }

 private:
  const FileSystem& fs_;
  int folder_;
  std::string name_;
};

IoError write_all(const FileSystem& fs, int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return fs.write(file, bytes.data(), bytes.size()); });
    if (written < 0) return IoError::last("write");
    if (written == 0) return {"write", ENOSPC};  // no progress and no reason: asking again could go on for ever
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

// Some network and user-space file systems have no fsync of a folder; the rename is then as durable as it gets.
bool cannot_sync(int code) { return code == EINVAL || code == ENOTSUP || code == ENOSYS; }

}  // namespace

IoError write_atomically(const FileSystem& fs, int folder, const char* name, std::span<const std::byte> bytes,
                         mode_t mode) {
  IoError error;
  Temporary temporary(fs, folder);
  FileHandle file = temporary.create(error);
  if (!file) return error;
  error = write_all(fs, file.get(), bytes);
  if (error) return error;
  if (uninterrupted([&] { return fs.fchmod(file.get(), mode); }) != 0) return IoError::last("chmod");
  if (uninterrupted([&] { return fs.fsync(file.get()); }) != 0) return IoError::last("fsync");
  if (file.close() != 0 && errno != EINTR) return IoError::last("close");
  error = temporary.rename_to(name);
  if (error) return error;
  if (uninterrupted([&] { return fs.fsync(folder); }) != 0 && !cannot_sync(errno))
    return IoError::last("fsync of the folder");
  return {};
}

FileHandle open_file(const FileSystem& fs, int folder, const char* name, struct stat& status, IoError& error) {
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  FileHandle file(fs, uninterrupted([&] { return fs.openat(folder, name, flags, 0); }));
  if (!file) {
    error = IoError::last("open");
  } else if (uninterrupted([&] { return fs.fstat(file.get(), &status); }) != 0) {
    error = IoError::last("stat");
    return {};
  }
  return file;
}

std::vector<std::byte> read_all(const FileSystem& fs, int file, std::uint64_t size, IoError& error) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = uninterrupted([&] { return fs.read(file, bytes.data() + filled, bytes.size() - filled); });
    if (got < 0) {
      error = IoError::last("read");
      return {};
    }
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace csajit
