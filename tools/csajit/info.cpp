// `csajit info`: what csajit finds on this machine, and what is missing. Fails at nothing: a machine without GPU,
// driver or NVRTC gets an answer too.
#include <csajit/csajit.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "cache/disk_cache.hpp"
#include "command.hpp"
#include "compile/architecture.hpp"
#include "device/device_info.hpp"
#include "dl/driver_api.hpp"
#include "dl/nvrtc_api.hpp"
#include "text_table.hpp"

namespace csajit::tool {
namespace {

using nlohmann::json;

json device_json(const DriverApi& driver, int ordinal) {
  json device{{"ordinal", ordinal}};
  CUdevice handle = 0;
  if (const CUresult code = driver.cuDeviceGet(&handle, ordinal); code != CUDA_SUCCESS) {
    device["error"] = driver.describe(code);
    return device;
  }
  std::string name(256, '\0');
  if (driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()), handle) == CUDA_SUCCESS) {
    device["name"] = std::string(name.c_str());
  }
  std::size_t memory = 0;
  if (driver.cuDeviceTotalMem(&memory, handle) == CUDA_SUCCESS) device["memory_bytes"] = memory;
  Result<DeviceInfo> info = query_device(driver, handle);
  if (!info) {
    device["error"] = info.error().message;
    return device;
  }
  device["compute_capability"] = fmt::format("{}.{}", info->capability / 10, info->capability % 10);
  device["sms"] = info->num_sms;
  const Architecture* const arch = find_architecture(info->capability);
  if (arch != nullptr) {
    device["arch"] = arch->name;
  } else {
    device["error"] = "csajit has no target for this GPU";
  }
  return device;
}

json driver_json(std::optional<int>& major) {
  Result<const DriverApi*> driver = driver_api();
  if (!driver) return {{"found", false}, {"error", driver.error().message}, {"devices", json::array()}};
  major = (*driver)->version / 1000;
  json result{{"found", true},
              {"path", (*driver)->path},
              {"cuda_version", fmt::format("{}.{}", (*driver)->version / 1000, (*driver)->version % 1000 / 10)},
              {"devices", json::array()}};
  int count = 0;
  if (const CUresult code = (*driver)->cuDeviceGetCount(&count); code != CUDA_SUCCESS) {
    result["error"] = "cuDeviceGetCount: " + (*driver)->describe(code);
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) result["devices"].push_back(device_json(**driver, ordinal));
  return result;
}

json nvrtc_json(const Config& config, std::optional<int> driver_major) {
  NvrtcSearch search;
  search.path = config.nvrtc_path;
  search.cuda_home = config.cuda_home;
  search.cuda_path = config.cuda_path;
  search.max_major = driver_major;
  Result<std::shared_ptr<const NvrtcApi>> nvrtc = open_nvrtc(search);
  if (!nvrtc) return {{"found", false}, {"error", nvrtc.error().message}};
  json targets = json::array();
  for (const Architecture& arch : architectures()) {
    const auto& known = (*nvrtc)->known_capabilities;
    if (std::find(known.begin(), known.end(), arch.capability) != known.end()) targets.push_back(arch.name);
  }
  return {{"found", true}, {"version", (*nvrtc)->version_text()}, {"path", (*nvrtc)->path}, {"targets", targets}};
}

// One cache root, seen as the cache sees it.
json folder_json(const std::string& root, bool writable, const Config& config) {
  const std::string path = root + "/" + schema_folder;
  json folder{{"path", path}, {"role", writable ? "writable" : "read-only layer"}};
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    folder["state"] = errno == ENOENT ? "not there yet" : std::strerror(errno);
    return folder;
  }
  folder["owner"] = status.st_uid;
  folder["mode"] = fmt::format("{:04o}", static_cast<unsigned>(status.st_mode & 07777U));
  DiskCacheOptions options;
  if (writable) {
    options.write_dir = root;
  } else {
    options.ro_dirs = {root};
  }
  options.trust = config.cache_trust;
  Result<std::vector<CacheEntry>> entries = DiskCache(options).entries();
  if (!entries) {
    folder["state"] = entries.error().message;
    return folder;
  }
  std::uint64_t bytes = 0;
  std::uint64_t bad = 0;
  for (const CacheEntry& entry : *entries) {
    bytes += entry.bytes;
    bad += entry.record ? 0U : 1U;
  }
  folder["records"] = entries->size();
  folder["bad_records"] = bad;
  folder["bytes"] = bytes;
  const bool can_write = access(path.c_str(), W_OK) == 0;
  folder["state"] = bad > 0 ? "has bad records" : writable && !can_write ? "cannot be written" : "ok";
  return folder;
}

json environment_json() {
  json list = json::array();
  for (const EnvironmentVariable& variable : environment_variables()) {
    const char* const value = std::getenv(std::string(variable.name).c_str());
    json entry{{"name", variable.name}, {"default", variable.default_text}, {"effect", variable.effect}};
    entry["value"] = value != nullptr && *value != '\0' ? json(value) : json();
    list.push_back(entry);
  }
  return list;
}

std::string text_or(const json& object, const char* key, const char* otherwise) {
  return object.contains(key) ? object[key].get<std::string>() : std::string(otherwise);
}

void print_devices(const json& driver) {
  if (!driver["found"].get<bool>()) {
    fmt::print("driver    missing: {}\n", driver["error"].get<std::string>());
  } else {
    fmt::print("driver    CUDA {}, {}\n", driver["cuda_version"].get<std::string>(), driver["path"].get<std::string>());
    if (driver.contains("error")) fmt::print("          {}\n", driver["error"].get<std::string>());
  }
  if (driver["devices"].empty()) {
    fmt::print("GPUs      none: csajit warmup needs --arch, csajit check cannot run\n");
  }
  for (const json& device : driver["devices"]) {
    fmt::print("GPU {:<5} {}, {}", device["ordinal"].get<int>(), text_or(device, "name", "unnamed"),
               text_or(device, "arch", "no target"));
    if (device.contains("sms")) fmt::print(", {} SMs", device["sms"].get<int>());
    if (device.contains("memory_bytes")) fmt::print(", {}", human_bytes(device["memory_bytes"].get<std::uint64_t>()));
    fmt::print("{}\n", device.contains("error") ? ": " + device["error"].get<std::string>() : "");
  }
}

void print_text(const json& info) {
  fmt::print("csajit    {}\n", info["version"].get<std::string>());
  print_devices(info["driver"]);
  const json& nvrtc = info["nvrtc"];
  if (nvrtc["found"].get<bool>()) {
    std::string targets;
    for (const json& target : nvrtc["targets"]) targets += " " + target.get<std::string>();
    fmt::print("NVRTC     {}, {}\n          targets:{}\n", nvrtc["version"].get<std::string>(),
               nvrtc["path"].get<std::string>(), targets);
  } else {
    fmt::print("NVRTC     missing, so only what the cache holds can run: {}\n", nvrtc["error"].get<std::string>());
  }
  for (const json& folder : info["cache"]) {
    fmt::print("cache     {} ({}): {}", folder["path"].get<std::string>(), folder["role"].get<std::string>(),
               folder["state"].get<std::string>());
    if (folder.contains("records")) {
      fmt::print(", {} records, {}", folder["records"].get<std::size_t>(),
                 human_bytes(folder["bytes"].get<std::uint64_t>()));
    }
    if (folder.contains("mode")) {
      fmt::print(", owner {}, mode {}", folder["owner"].get<unsigned>(), folder["mode"].get<std::string>());
    }
    fmt::print("\n");
  }
  if (info["cache"].empty()) fmt::print("cache     none: kernels live in memory only\n");
  fmt::print("\nEnvironment\n");
  TextTable table({{"variable"}, {"value"}, {"default"}, {"effect"}});
  for (const json& variable : info["environment"]) {
    table.add({variable["name"].get<std::string>(),
               variable["value"].is_null() ? "-" : variable["value"].get<std::string>(),
               variable["default"].get<std::string>(), variable["effect"].get<std::string>()});
  }
  fmt::print("{}", table.text());
}

int run(bool as_json, const std::string& cache_dir) {
  Result<Config> config = read_environment();
  if (!config) return report(config.error());
  log::set_level(config->log_level);
  json info{{"version", fmt::format("{}.{}.{}", CSAJIT_VERSION_MAJOR, CSAJIT_VERSION_MINOR, CSAJIT_VERSION_PATCH)}};
  std::optional<int> driver_major;
  info["driver"] = driver_json(driver_major);
  info["nvrtc"] = nvrtc_json(*config, driver_major);
  info["cache"] = json::array();
  for (const std::string& root : config->cache_ro_dirs) info["cache"].push_back(folder_json(root, false, *config));
  const auto writable = cache_dir.empty() ? default_cache_dir(*config) : std::optional(cache_dir);
  if (writable) info["cache"].push_back(folder_json(*writable, true, *config));
  info["environment"] = environment_json();
  if (as_json) {
    fmt::print("{}\n", info.dump(2, ' ', false, json::error_handler_t::replace));
  } else {
    print_text(info);
  }
  return exit_ok;
}

}  // namespace

void add_info_command(CLI::App& app, Action& action) {
  struct Options {
    bool json = false;
    std::string cache_dir;
  };
  auto options = std::make_shared<Options>();
  CLI::App* const info =
      app.add_subcommand("info", "Show GPUs, driver, NVRTC, cache folders and the environment; says what is missing");
  info->add_flag("--json", options->json, "Print JSON");
  info->add_option("--cache-dir", options->cache_dir, "Cache folder to look at instead of the default one")
      ->type_name("DIR")
      ->check(refuse_empty);
  info->callback([&action, options] { action = [options] { return run(options->json, options->cache_dir); }; });
}

}  // namespace csajit::tool
