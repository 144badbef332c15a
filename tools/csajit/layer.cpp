// Opens a finished cache folder to every user of the machine.
#include "layer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "cache/disk_cache.hpp"

namespace csajit::tool {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

Error failure(const char* what, const std::string& name) {
  return {CSAJIT_E_INVALID_ARGUMENT, fmt::format("--layer: {} {}: {}", what, name, std::strerror(errno))};
}

Result<void> set_mode(int folder, const std::string& name, const std::string& path, int flags, mode_t mode) {
  const Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (file.get() < 0) return failure("cannot open", path);
  if (fchmod(file.get(), mode) != 0) return failure("cannot change the mode of", path);
  return {};
}

}  // namespace

Result<std::uint64_t> open_layer(const std::string& root) {
  DiskCacheOptions options;
  options.write_dir = root;
  Result<std::vector<CacheEntry>> entries = DiskCache(options).entries();
  if (!entries) return std::move(entries).error();
  std::set<std::string> folders{root};
  for (const CacheEntry& entry : *entries) {
    folders.insert(entry.folder);
    const Descriptor folder(open(entry.folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (folder.get() < 0) return failure("cannot open", entry.folder);
    const std::string path = entry.folder + "/" + entry.name;
    if (Result<void> done = set_mode(folder.get(), entry.name, path, O_NOFOLLOW | O_NONBLOCK, 0644); !done) {
      return std::move(done).error();
    }
  }
  // Last, so that nobody sees a folder whose records are still private.
  for (const std::string& folder : folders) {
    if (Result<void> done = set_mode(AT_FDCWD, folder, folder, O_DIRECTORY, 0755); !done)
      return std::move(done).error();
  }
  return entries->size();
}

}  // namespace csajit::tool
