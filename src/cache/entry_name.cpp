// How the files of a cache folder are called.
#include "cache/entry_name.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace csajit {
namespace {

constexpr std::string_view temporary_prefix = ".tmp-";

constexpr std::size_t random_digits = 16;

// Takes one or more of `digits` off the front; false where there is none.
bool take_some(std::string_view& text, std::string_view digits) {
  const std::size_t end = std::min(text.find_first_not_of(digits), text.size());
  text.remove_prefix(end);
  return end > 0;
}
bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

}  // namespace

std::string record_name(const Key& key) { return record_name(key.hex()); }
std::string record_name(const std::string& digest) { return digest + std::string(record_suffix); }

bool is_record_name(std::string_view name) {
  return name.ends_with(record_suffix) && is_digest_hex(name.substr(0, name.size() - record_suffix.size()));
}

bool is_temporary_name(std::string_view name) {
  constexpr std::string_view decimal = "0123456789", hexadecimal = "0123456789abcdef";
  return take(name, temporary_prefix) && take_some(name, decimal) && take(name, "-") && take_some(name, decimal) &&
         take(name, "-") && name.size() == random_digits && take_some(name, hexadecimal) && name.empty();
}

std::string new_temporary_name() {
  static std::atomic<std::uint32_t> counter{0};
  // Two containers on one volume may have the same pid; where there is no entropy yet, the clock must do.
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random)) {
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return fmt::format("{}{}-{}-{:016x}", temporary_prefix, ::getpid(), counter.fetch_add(1, std::memory_order_relaxed),
                     random);
}

bool is_schema_folder_name(std::string_view name) {
  return name.size() >= 2 && name.size() <= 10 && name[0] == 'v' &&
         name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

}  // namespace csajit
