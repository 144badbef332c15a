// The environment, read once a service: names, meanings and the parsed values. The only place that calls
// secure_getenv.
#pragma once

#include <csajit/csajit.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace csajit {

enum class Trust { owner, group, any };

struct Config {
  std::optional<std::string> cache_dir;
  std::vector<std::string> cache_ro_dirs;
  std::uint64_t cache_max_bytes = 512ULL << 20;
  Trust cache_trust = Trust::owner;
  std::optional<std::string> nvrtc_path;
  std::optional<std::string> arch;
  bool fast_launch = true;
  bool disable = false;
  bool no_jit = false;
  bool validate = false;
  csajit_log_level log_level = CSAJIT_LOG_WARN;
  std::optional<std::string> record;
  std::optional<std::string> xdg_cache_home;
  std::optional<std::string> home;
  std::optional<std::string> cuda_home;
  std::optional<std::string> cuda_path;
};

struct EnvironmentVariable {
  std::string_view name;
  std::string_view default_text;  // for people: "owner", "512 MiB", "unset"
  std::string_view effect;        // one sentence
};

// Every variable that csajit reads; the README's table is tested against it.
std::span<const EnvironmentVariable> environment_variables();

// Reads all of them through `get` (returns nullptr for an unset one). An empty value counts as unset.
// A value that cannot be read is CSAJIT_E_INVALID_ARGUMENT naming the variable and what it accepts.
Result<Config> read_environment(const std::function<const char*(const char*)>& get);
Result<Config> read_environment();  // through secure_getenv

}  // namespace csajit
