// The one table of environment variables and the readers of their values. Text in, Config out; asks nothing else
// of the process.
#include "base/config.hpp"

#include <stdlib.h>

#include <array>
#include <charconv>
#include <limits>

namespace csajit {
namespace {

// A reader takes a value that is not empty; false: it is not one that `accepts` describes.
struct Entry {
  EnvironmentVariable variable;
  std::string_view accepts;
  bool (*read)(std::string_view value, Config& config);
};

template <std::optional<std::string> Config::*field>
bool read_text(std::string_view value, Config& config) {
  (config.*field).emplace(value);
  return true;
}

template <bool Config::*field>
bool read_switch(std::string_view value, Config& config) {
  if (value != "0" && value != "1") return false;
  config.*field = value == "1";
  return true;
}

bool read_path_list(std::string_view value, Config& config) {
  while (!value.empty()) {
    const std::size_t end = value.find(':');
    const std::string_view item = value.substr(0, end);
    if (!item.empty()) config.cache_ro_dirs.emplace_back(item);
    value = end == std::string_view::npos ? std::string_view() : value.substr(end + 1);
  }
  return true;
}

bool read_byte_count(std::string_view value, Config& config) {
  std::uint64_t number = 0;
  const auto [rest, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (problem != std::errc() || number == 0) return false;
  const std::string_view unit(rest, static_cast<std::size_t>(value.data() + value.size() - rest));
  unsigned shift = 0;
  if (unit == "K" || unit == "KiB") {
    shift = 10;
  } else if (unit == "M" || unit == "MiB") {
    shift = 20;
  } else if (unit == "G" || unit == "GiB") {
    shift = 30;
  } else if (!unit.empty()) {
    return false;
  }
  if (number > std::numeric_limits<std::uint64_t>::max() >> shift) return false;
  config.cache_max_bytes = number << shift;
  return true;
}

bool read_trust(std::string_view value, Config& config) {
  if (value == "owner") {
    config.cache_trust = Trust::owner;
  } else if (value == "group") {
    config.cache_trust = Trust::group;
  } else if (value == "any") {
    config.cache_trust = Trust::any;
  } else {
    return false;
  }
  return true;
}

bool read_log_level(std::string_view value, Config& config) {
  constexpr std::array<std::pair<std::string_view, csajit_log_level>, 6> levels = {{
      {"trace", CSAJIT_LOG_TRACE},
      {"debug", CSAJIT_LOG_DEBUG},
      {"info", CSAJIT_LOG_INFO},
      {"warn", CSAJIT_LOG_WARN},
      {"error", CSAJIT_LOG_ERROR},
      {"off", CSAJIT_LOG_OFF},
  }};
  for (const auto& [name, level] : levels) {
    if (value == name) {
      config.log_level = level;
      return true;
    }
  }
  return false;
}

constexpr std::string_view any_text = "any text";
constexpr std::string_view zero_or_one = "0 or 1";

constexpr std::array entries = {
    Entry{{"CSAJIT_CACHE_DIR", "unset", "Folder of the writable cache; unset, the user's cache folder is used."},
          any_text,
          read_text<&Config::cache_dir>},
    Entry{{"CSAJIT_CACHE_RO_DIRS", "unset", "Colon-separated folders of read-only cache layers, read first, in order."},
          any_text,
          read_path_list},
    Entry{{"CSAJIT_CACHE_MAX_BYTES", "512 MiB",
           "Size bound of the writable cache folder: bytes, or a number with K, M or G (powers of 1024)."},
          "a whole number of bytes above 0, or one with the suffix K, M or G (KiB, MiB, GiB)",
          read_byte_count},
    Entry{{"CSAJIT_CACHE_TRUST", "owner",
           "Whose cache entries are loaded: owner (this user), group (this user's groups) or any; root's always are."},
          "owner, group or any",
          read_trust},
    Entry{{"CSAJIT_NVRTC_PATH", "unset", "The NVRTC library file to use instead of searching for one."},
          any_text,
          read_text<&Config::nvrtc_path>},
    Entry{{"CSAJIT_ARCH", "unset", "Architecture to compile for instead of the GPU's own, such as sm_86."},
          any_text,
          read_text<&Config::arch>},
    Entry{{"CSAJIT_FAST_LAUNCH", "1", "0 turns the launch snapshots off; the results have the same bits."},
          zero_or_one,
          read_switch<&Config::fast_launch>},
    Entry{{"CSAJIT_DISABLE", "0", "1 makes the spec check, prepare and every launch answer CSAJIT_E_DISABLED."},
          zero_or_one,
          read_switch<&Config::disable>},
    Entry{{"CSAJIT_NO_JIT", "0", "1 makes a kernel that the cache lacks an error instead of compiling it."},
          zero_or_one,
          read_switch<&Config::no_jit>},
    Entry{{"CSAJIT_VALIDATE", "0",
           "1 checks the pointers and segment arrays of each launch first (waits for the stream; no capture)."},
          zero_or_one,
          read_switch<&Config::validate>},
    Entry{{"CSAJIT_LOG_LEVEL", "warn", "Least severe messages to log: trace, debug, info, warn, error or off."},
          "trace, debug, info, warn, error or off",
          read_log_level},
    Entry{{"CSAJIT_RECORD", "unset", "File that gets one JSON line for each spec prepared or refused; %p is the pid."},
          any_text,
          read_text<&Config::record>},
    Entry{{"XDG_CACHE_HOME", "unset", "Its folder csajit is the cache where CSAJIT_CACHE_DIR is unset."},
          any_text,
          read_text<&Config::xdg_cache_home>},
    Entry{{"HOME", "unset", "Its folder .cache/csajit is the cache where XDG_CACHE_HOME is unset too."},
          any_text,
          read_text<&Config::home>},
    Entry{{"CUDA_HOME", "unset", "A CUDA toolkit to search for NVRTC."}, any_text, read_text<&Config::cuda_home>},
    Entry{{"CUDA_PATH", "unset", "A CUDA toolkit to search for NVRTC, after CUDA_HOME."},
          any_text,
          read_text<&Config::cuda_path>},
};

constexpr std::array<EnvironmentVariable, entries.size()> variables = [] {
  std::array<EnvironmentVariable, entries.size()> result;
  for (std::size_t i = 0; i < entries.size(); ++i) result[i] = entries[i].variable;
  return result;
}();

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return variables; }

Result<Config> read_environment(const std::function<const char*(const char*)>& get) {
  Config config;
  for (const Entry& entry : entries) {
    const char* value = get(entry.variable.name.data());  // the names are literals, so terminated
    if (value == nullptr || *value == '\0') continue;
    if (!entry.read(value, config)) {
      return Error{CSAJIT_E_INVALID_ARGUMENT, std::string(entry.variable.name) + "=\"" + value +
                                                  "\" cannot be read: it accepts " + std::string(entry.accepts)};
    }
  }
  return config;
}

Result<Config> read_environment() {
  return read_environment([](const char* name) -> const char* { return secure_getenv(name); });
}

}  // namespace csajit
