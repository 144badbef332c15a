// See settings.hpp.
#include "service/settings.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace csajit {
namespace {

constexpr std::uint32_t known_flags = CSAJIT_SERVICE_REQUIRE_PREPARED | CSAJIT_SERVICE_DISABLE_LOCK |
                                      CSAJIT_SERVICE_NO_JIT | CSAJIT_SERVICE_NO_FAST_LAUNCH | CSAJIT_SERVICE_VALIDATE |
                                      CSAJIT_SERVICE_MEMORY_ONLY | CSAJIT_SERVICE_WRITE_LAYER;

Error invalid(std::string message) { return Error{CSAJIT_E_INVALID_ARGUMENT, std::move(message)}; }

bool given(const char* text) { return text != nullptr && *text != '\0'; }

std::vector<std::string> split_colons(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t colon = text.find(':');
    const std::string_view part = text.substr(0, colon);
    if (!part.empty()) parts.emplace_back(part);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  return parts;
}

Result<Trust> trust_of(std::uint32_t option, Trust from_environment) {
  switch (option) {
    case CSAJIT_CACHE_TRUST_DEFAULT:
      return from_environment;
    case CSAJIT_CACHE_TRUST_OWNER:
      return Trust::owner;
    case CSAJIT_CACHE_TRUST_GROUP:
      return Trust::group;
    case CSAJIT_CACHE_TRUST_ANY:
      return Trust::any;
    default:
      return invalid(fmt::format("cache_trust: {} is no csajit_cache_trust", option));
  }
}

Result<DiskCacheOptions> disk_options(const csajit_service_options& options, const Config& config) {
  DiskCacheOptions disk;
  auto trust = trust_of(options.cache_trust, config.cache_trust);
  if (!trust) return std::move(trust).error();
  disk.trust = *trust;
  disk.max_bytes = options.cache_max_bytes != 0 ? options.cache_max_bytes : config.cache_max_bytes;
  if (options.lock_wait_ms != 0) disk.lock_wait_ms = options.lock_wait_ms;
  disk.use_lock = (options.flags & CSAJIT_SERVICE_DISABLE_LOCK) == 0;
  if ((options.flags & CSAJIT_SERVICE_MEMORY_ONLY) != 0) return disk;
  disk.layer = (options.flags & CSAJIT_SERVICE_WRITE_LAYER) != 0;
  // A layer is shipped without the others: what they hold must be in it too.
  if (!disk.layer)
    disk.ro_dirs = given(options.cache_ro_dirs) ? split_colons(options.cache_ro_dirs) : config.cache_ro_dirs;
  disk.write_dir = given(options.cache_dir) ? std::optional<std::string>(options.cache_dir) : default_cache_dir(config);
  return disk;
}

}  // namespace

Result<Settings> merge_settings(const csajit_service_options& options, const Config& config) {
  if ((options.flags & ~known_flags) != 0) {
    return invalid(fmt::format("flags: 0x{:x} holds a bit that is no CSAJIT_SERVICE_* flag", options.flags));
  }
  Settings settings;
  settings.disabled = config.disable;
  settings.no_jit = config.no_jit || (options.flags & CSAJIT_SERVICE_NO_JIT) != 0;
  settings.fast_launch = config.fast_launch && (options.flags & CSAJIT_SERVICE_NO_FAST_LAUNCH) == 0;
  settings.validate = config.validate || (options.flags & CSAJIT_SERVICE_VALIDATE) != 0;
  settings.require_prepared = (options.flags & CSAJIT_SERVICE_REQUIRE_PREPARED) != 0;

  const bool arch_option = given(options.arch);
  if (arch_option || config.arch) {
    auto arch = parse_architecture(arch_option ? std::string_view(options.arch) : std::string_view(*config.arch));
    if (!arch) return invalid(fmt::format("{}: {}", arch_option ? "arch" : "CSAJIT_ARCH", arch.error().message));
    settings.forced_arch = *arch;
  }
  settings.journal = config.record;
  settings.nvrtc.path = given(options.nvrtc_path) ? std::optional<std::string>(options.nvrtc_path) : config.nvrtc_path;
  settings.nvrtc.cuda_home = config.cuda_home;
  settings.nvrtc.cuda_path = config.cuda_path;

  auto disk = disk_options(options, config);
  if (!disk) return std::move(disk).error();
  settings.disk = std::move(disk).value();
  return settings;
}

}  // namespace csajit
