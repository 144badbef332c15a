// Opening and creating cache folders through the file-system table.
#include "cache/folder.hpp"

#include <fcntl.h>

namespace csajit {
namespace {

constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// Search permission is enough for the folders above the schema folder.
constexpr int root_flags = O_PATH | O_DIRECTORY | O_CLOEXEC;

FileHandle open_at(const FileSystem& fs, int parent, const char* name, int flags, IoError& error) {
  const int fd = uninterrupted([&] { return fs.openat(parent, name, flags, 0); });
  if (fd < 0) error = IoError::last("open");
  return {fs, fd};
}

// Keeps the set-group-id bit that a folder has from its parent.
IoError set_new_mode(const FileSystem& fs, int parent, const char* name, mode_t mode) {
  struct stat status = {};
  if (uninterrupted([&] { return fs.fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW); }) != 0) {
    return IoError::last("stat");
  }
  if ((status.st_mode & 0777) == mode) return {};
  const mode_t wanted = mode | (status.st_mode & 07000);
  if (uninterrupted([&] { return fs.fchmodat(parent, name, wanted, 0); }) != 0) return IoError::last("chmod");
  return {};
}

}  // namespace

Modes modes_of(bool layer) { return layer ? Modes{0755, 0644} : Modes{0700, 0600}; }

FileHandle open_root(const FileSystem& fs, const std::string& root, IoError& error) {
  return open_at(fs, AT_FDCWD, root.c_str(), root_flags, error);
}

FileHandle open_folder(const FileSystem& fs, int parent, const char* name, IoError& error) {
  return open_at(fs, parent, name, folder_flags, error);
}

FileHandle create_root(const FileSystem& fs, const std::string& root, mode_t mode, IoError& error) {
  IoError missing;
  FileHandle found = open_root(fs, root, missing);
  if (found) return found;
  const std::size_t end = root.find_last_not_of('/');
  const std::size_t slash = end == std::string::npos ? std::string::npos : root.find_last_of('/', end);
  if (missing.code != ENOENT || slash == std::string::npos) {  // a relative path ends here: see DiskCache's constructor
    error = missing;
    return {};
  }
  const FileHandle parent = create_root(fs, slash == 0 ? "/" : root.substr(0, slash), mode, error);
  if (!parent) return {};
  return create_folder(fs, parent.get(), root.substr(slash + 1, end - slash).c_str(), mode, error);
}

FileHandle create_folder(const FileSystem& fs, int parent, const char* name, mode_t mode, IoError& error) {
  if (uninterrupted([&] { return fs.mkdirat(parent, name, mode); }) == 0) {
    // Only what was made here, and before it is opened: the umask may have taken even the owner's right to do so.
    error = set_new_mode(fs, parent, name, mode);
    if (error) return {};
  } else if (errno != EEXIST) {
    error = IoError::last("mkdir");
    return {};
  }
  return open_folder(fs, parent, name, error);
}

std::vector<std::string> list_folder(const FileSystem& fs, int folder, IoError& error) {
  std::vector<std::string> names;
  const auto collect = [](const char* name, void* user) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(name);
  };
  if (fs.list(folder, collect, &names) != 0) error = IoError::last("readdir");
  return names;
}

}  // namespace csajit
