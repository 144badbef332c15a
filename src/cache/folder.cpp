// Opening and creating cache folders through the file-system table.
#include "cache/folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

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

// mkdir's mode goes through the umask, which is the process's to keep. So a folder is made with the sticky bit as well,
// which means nothing where only the owner may write, and loses it with the call that sets its mode. Where it is still
// there, the maker was killed in between.
constexpr mode_t unfinished = S_ISVTX;

bool is_unfinished(const struct stat& status) {
  return S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (unfinished | 0077)) == unfinished;
}

// Gives a folder that was just `made`, or that is unfinished, its mode; no other. Keeps the set-group-id bit that it
// has from its parent. `flags` as for fstatat.
IoError finish_folder(const FileSystem& fs, int parent, const char* name, mode_t mode, int flags, bool made) {
  struct stat status = {};
  if (uninterrupted([&] { return fs.fstatat(parent, name, &status, flags); }) != 0) return IoError::last("stat");
  if (!made && !is_unfinished(status)) return {};
  if ((status.st_mode & (unfinished | 0777)) == mode) return {};
  const mode_t wanted = mode | (status.st_mode & (S_ISUID | S_ISGID));
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
  if (found) {
    error = finish_folder(fs, AT_FDCWD, root.c_str(), mode, 0, false);
    return error ? FileHandle() : std::move(found);
  }
  const std::size_t end = root.find_last_not_of('/');
  const std::size_t slash = end == std::string::npos ? std::string::npos : root.find_last_of('/', end);
  // An unfinished folder on the way may lack even its owner's right to pass. A relative path ends here: see DiskCache's
  // constructor.
  if ((missing.code != ENOENT && missing.code != EACCES) || slash == std::string::npos) {
    error = missing;
    return {};
  }
  const FileHandle parent = create_root(fs, slash == 0 ? "/" : root.substr(0, slash), mode, error);
  if (!parent) return {};
  return create_folder(fs, parent.get(), root.substr(slash + 1, end - slash).c_str(), mode, error);
}

FileHandle create_folder(const FileSystem& fs, int parent, const char* name, mode_t mode, IoError& error) {
  const bool made = uninterrupted([&] { return fs.mkdirat(parent, name, unfinished | 0700); }) == 0;
  if (!made && errno != EEXIST) {
    error = IoError::last("mkdir");
    return {};
  }
  // Before it is opened: the umask may have taken even the owner's right to do so.
  error = finish_folder(fs, parent, name, mode, AT_SYMLINK_NOFOLLOW, made);
  if (error) return {};
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
