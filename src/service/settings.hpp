// What one service runs by: the options in code and the environment, merged. Reads neither.
#pragma once

#include <csajit/csajit.h>

#include <optional>
#include <string>

#include "base/config.hpp"
#include "base/result.hpp"
#include "cache/disk_cache.hpp"
#include "compile/architecture.hpp"
#include "dl/nvrtc_api.hpp"

namespace csajit {

struct Settings {
  bool disabled = false;
  bool no_jit = false;
  bool fast_launch = true;
  bool validate = false;
  bool require_prepared = false;
  const Architecture* forced_arch = nullptr;
  std::optional<std::string> journal;  // CSAJIT_RECORD
  NvrtcSearch nvrtc;                   // max_major is left open: whoever holds the driver sets it
  DiskCacheOptions disk;
};

// DISABLE, NO_JIT and FAST_LAUNCH of the environment beat the options; for paths and numbers the options beat
// the environment. `options` must be of full size. Errors: CSAJIT_E_INVALID_ARGUMENT naming the option.
Result<Settings> merge_settings(const csajit_service_options& options, const Config& config);

}  // namespace csajit
