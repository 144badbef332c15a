// What the tests of the disk cache share: a folder of their own, sample kernels, and what was logged.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "cache/disk_cache.hpp"
#include "cache/entry_name.hpp"

namespace csajit::test {

// A fresh folder, removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "csajit-test-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Messages of level info and above while it lives.
class CapturedLog {
 public:
  CapturedLog() {
    log::set_level(CSAJIT_LOG_INFO);
    log::set_callback([](csajit_log_level, const char* message,
                         void* user) { static_cast<std::vector<std::string>*>(user)->emplace_back(message); },
                      &messages);
  }
  ~CapturedLog() {
    log::set_callback(nullptr, nullptr);
    log::set_level(CSAJIT_LOG_WARN);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  std::size_t count(const std::string& part) const {
    std::size_t result = 0;
    for (const std::string& message : messages) result += message.find(part) != std::string::npos ? 1 : 0;
    return result;
  }
  std::vector<std::string> messages;
};

inline Key key_of(int number) { return Key({{"schema", "1"}, {"number", std::to_string(number)}}); }

inline KernelImage image_of(int number, std::size_t cubin_bytes = 500) {
  KernelImage image;
  image.arch = "sm_90";
  image.nvrtc_version = "13.0";
  image.lowered_name = "_Z6kernelv";
  image.usage.registers = static_cast<std::uint32_t>(number);
  image.compile_ms = 5;
  image.cubin.assign(cubin_bytes, static_cast<std::byte>(number));
  return image;
}

inline DiskCacheOptions writing_to(const std::string& root) {
  DiskCacheOptions options;
  options.write_dir = root;
  options.lock_wait_ms = 0;
  return options;
}

// What a load gives, which must be a hit.
inline KernelImage loaded(DiskCache& cache, const Key& key, std::size_t first_layer = 0) {
  auto found = cache.load(key, first_layer);
  REQUIRE(found);
  return std::move(found->image);
}

// As a call of its own does, which has waited for nothing before.
inline DiskCache::Lock lock_of(DiskCache& cache, const Key& key) {
  LockPatience patience;
  return cache.lock(key, patience);
}
inline DiskCache::Lock lock_of(DiskCache&& cache, const Key& key) { return lock_of(cache, key); }

inline bool exists(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0;
}

inline mode_t mode_of(const std::string& path) {
  struct stat status = {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

inline void write_file(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path, std::ios::binary) << text;
  REQUIRE(chmod(path.c_str(), mode) == 0);
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Moves the modification time into the past.
inline void age(const std::string& path, std::time_t seconds) {
  const struct timespec then = {std::time(nullptr) - seconds, 0};
  const struct timespec times[2] = {then, then};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

inline std::time_t mtime_of(const std::string& path) {
  struct stat status = {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mtim.tv_sec;
}

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  if (!exists(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::size_t temporaries_in(const std::string& folder) {
  std::size_t count = 0;
  for (const std::string& name : names_in(folder)) count += is_temporary_name(name) ? 1 : 0;
  return count;
}

// A root with one layer that holds `number`'s kernel.
inline void fill_layer(const std::string& root, int number) {
  DiskCacheOptions options = writing_to(root);
  options.layer = true;
  REQUIRE(DiskCache(options).publish(key_of(number), image_of(number)));
}

}  // namespace csajit::test
