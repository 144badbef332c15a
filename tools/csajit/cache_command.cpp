// `csajit cache`: shows, verifies and empties the folders of records. Never compiles; loads neither libcuda nor
// NVRTC.
#include <csajit/csajit.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "cache/disk_cache.hpp"
#include "command.hpp"
#include "text_table.hpp"

namespace csajit::tool {
namespace {

struct CacheOptions {
  std::string cache_dir;
  bool json = false;
};

Result<DiskCacheOptions> folders(const CacheOptions& options) {
  Result<Config> config = read_environment();
  if (!config) return std::move(config).error();
  log::set_level(config->log_level);
  DiskCacheOptions disk;
  disk.ro_dirs = config->cache_ro_dirs;
  disk.write_dir = options.cache_dir.empty() ? default_cache_dir(*config) : std::optional(options.cache_dir);
  disk.trust = config->cache_trust;
  disk.max_bytes = config->cache_max_bytes;
  return disk;
}

std::string age(std::int64_t mtime_s) {
  const std::int64_t seconds = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::time(nullptr)) - mtime_s);
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

std::string field(const KeyFields& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == name; });
  return found == fields.end() ? std::string() : found->second;
}

// What the kernel is, from the fields of its key; keys of other builds may lack some.
std::string kernel_name(const Record& record) {
  const KeyFields fields = record.key.fields();
  const std::string role = field(fields, "role");
  if (role.empty()) return record.image.lowered_name;
  std::string types = field(fields, "kv");
  if (field(fields, "score") != types || field(fields, "out") != types) {
    types += ':' + field(fields, "score") + ':' + field(fields, "out");
  }
  return fmt::format("{} r{} d{} c{} {}{} vec{}", role, field(fields, "ratio"), field(fields, "head_dim"),
                     field(fields, "coff"), types, field(fields, "ape") == "absent" ? " no-ape" : "",
                     field(fields, "vector"));
}

nlohmann::json json_of(const CacheEntry& entry) {
  nlohmann::json json{{"folder", entry.folder},
                      {"file", entry.name},
                      {"bytes", entry.bytes},
                      {"mtime", entry.mtime_s},
                      {"writable", entry.writable_layer},
                      {"ok", entry.record.has_value()}};
  if (!entry.problem.empty()) json["problem"] = entry.problem;
  if (!entry.record) return json;
  const KernelImage& image = entry.record->image;
  json["key"] = entry.record->key.hex();
  json["kernel"] = kernel_name(*entry.record);
  json["arch"] = image.arch;
  json["nvrtc"] = image.nvrtc_version;
  json["registers"] = image.usage.registers;
  json["spill_bytes"] = image.usage.spill_bytes;
  json["stack_bytes"] = image.usage.stack_bytes;
  json["static_smem_bytes"] = image.usage.static_smem_bytes;
  json["cubin_bytes"] = image.cubin.size();
  json["compile_ms"] = image.compile_ms;
  return json;
}

void print_json(const nlohmann::json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int list(const CacheOptions& options) {
  Result<DiskCacheOptions> disk = folders(options);
  if (!disk) return report(disk.error());
  Result<std::vector<CacheEntry>> entries = DiskCache(*disk).entries();
  if (!entries) return report(entries.error());
  if (options.json) {
    nlohmann::json json = nlohmann::json::array();
    for (const CacheEntry& entry : *entries) json.push_back(json_of(entry));
    print_json({{"entries", json}});
    return exit_ok;
  }
  TextTable table({{"kernel"}, {"arch"}, {"nvrtc"}, {"regs", true}, {"cubin", true}, {"used", true}, {"folder"}});
  std::uint64_t bytes = 0;
  for (const CacheEntry& entry : *entries) {
    bytes += entry.bytes;
    if (!entry.record) {
      table.add({fmt::format("bad: {} ({})", entry.name, entry.problem), "", "", "", human_bytes(entry.bytes),
                 age(entry.mtime_s), entry.folder});
      continue;
    }
    const KernelImage& image = entry.record->image;
    table.add({kernel_name(*entry.record), image.arch, image.nvrtc_version, std::to_string(image.usage.registers),
               human_bytes(image.cubin.size()), age(entry.mtime_s), entry.folder});
  }
  if (!table.empty()) fmt::print("{}", table.text());
  fmt::print("{} records, {}\n", entries->size(), human_bytes(bytes));
  return exit_ok;
}

int verify(const CacheOptions& options) {
  Result<DiskCacheOptions> disk = folders(options);
  if (!disk) return report(disk.error());
  Result<std::vector<CacheEntry>> entries = DiskCache(*disk).entries();
  if (!entries) return report(entries.error());
  std::uint64_t bad = 0;
  nlohmann::json problems = nlohmann::json::array();
  for (const CacheEntry& entry : *entries) {
    if (entry.problem.empty() && entry.record) continue;
    ++bad;
    problems.push_back(json_of(entry));
    if (!options.json) fmt::print("bad: {}/{}: {}\n", entry.folder, entry.name, entry.problem);
  }
  if (options.json) {
    print_json({{"records", entries->size()}, {"bad", bad}, {"problems", problems}});
  } else {
    fmt::print("{} records, {} bad\n", entries->size(), bad);
  }
  return bad == 0 ? exit_ok : exit_failure;
}

int clear(const CacheOptions& options) {
  Result<DiskCacheOptions> disk = folders(options);
  if (!disk) return report(disk.error());
  if (!disk->write_dir) return report_usage("there is no writable cache folder: give --cache-dir");
  Result<std::vector<ClearedFolder>> cleared = DiskCache(*disk).clear();
  if (!cleared) return report(cleared.error());
  std::uint64_t removed = 0;
  nlohmann::json folders = nlohmann::json::array();
  for (const ClearedFolder& folder : *cleared) {
    removed += folder.records;
    folders.push_back({{"folder", folder.name}, {"records", folder.records}, {"temporaries", folder.temporaries}});
    if (options.json) continue;
    fmt::print("{} records{} removed from {}\n", folder.records,
               folder.temporaries == 0 ? "" : fmt::format(" and {} stale temporaries", folder.temporaries),
               folder.name);
  }
  if (options.json) {
    print_json({{"removed", removed}, {"folders", folders}});
  } else if (cleared->empty()) {
    fmt::print("0 records removed: there is no folder of records in {}\n", *disk->write_dir);
  }
  return exit_ok;
}

int path(const CacheOptions& options) {
  Result<DiskCacheOptions> disk = folders(options);
  if (!disk) return report(disk.error());
  if (options.json) {
    nlohmann::json layers = nlohmann::json::array();
    for (const std::string& dir : disk->ro_dirs) layers.push_back(dir + "/" + schema_folder);
    nlohmann::json writable;
    if (disk->write_dir) writable = *disk->write_dir + "/" + schema_folder;
    print_json({{"writable", writable}, {"read_only", layers}});
    return exit_ok;
  }
  if (!disk->write_dir) {
    fmt::print(stderr, "csajit: no cache folder: none of CSAJIT_CACHE_DIR, XDG_CACHE_HOME and HOME is set\n");
    return exit_failure;
  }
  fmt::print("{}/{}\n", *disk->write_dir, schema_folder);
  return exit_ok;
}

}  // namespace

void add_cache_command(CLI::App& app, Action& action) {
  CLI::App* const cache = app.add_subcommand("cache", "Show, verify or empty the kernel cache");
  cache->require_subcommand(1);
  cache->footer(
      "\nThe cache is --cache-dir, else $CSAJIT_CACHE_DIR, else $XDG_CACHE_HOME/csajit, else $HOME/.cache/csajit;\n"
      "records lie in a folder of their format below it. $CSAJIT_CACHE_RO_DIRS lists read-only layers, read first.");
  auto options = std::make_shared<CacheOptions>();
  auto add = [&](const char* name, const char* about, int (*run)(const CacheOptions&)) {
    CLI::App* const command = cache->add_subcommand(name, about);
    command->add_option("--cache-dir", options->cache_dir, "Cache folder to use instead of the default one")
        ->type_name("DIR")
        ->check(refuse_empty);
    command->add_flag("--json", options->json, "Print JSON");
    command->callback([&action, options, run] { action = [options, run] { return run(*options); }; });
  };
  add("list", "List every record: kernel, architecture, the NVRTC that compiled it, registers, size, last use", list);
  add("verify", "Recheck every record and name the bad ones; exit 1 if there are any", verify);
  add("clear", "Delete every record of the writable folder; read-only layers stay", clear);
  add("path", "Print the folder that holds the writable cache's records", path);
}

}  // namespace csajit::tool
