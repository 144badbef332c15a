// `csajit warmup`: compiles into the cache what is missing, and says what it found.
#include <csajit/csajit.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "build_pool.hpp"
#include "cache/disk_cache.hpp"
#include "command.hpp"
#include "dl/driver_api.hpp"
#include "dl/nvrtc_api.hpp"
#include "parallel.hpp"
#include "progress.hpp"
#include "service/settings.hpp"
#include "service_handle.hpp"
#include "text_table.hpp"
#include "warmup_request.hpp"

namespace csajit::tool {
namespace {

struct Counts {
  std::size_t compiled = 0;
  std::size_t hit = 0;
  std::size_t failed = 0;
  std::size_t unpublished = 0;  // there, but not in a cache folder
};

Counts count(const std::vector<BuiltKernel>& kernels) {
  Counts counts;
  for (const BuiltKernel& kernel : kernels) {
    switch (kernel.origin) {
      case CSAJIT_ORIGIN_COMPILED:
        ++counts.compiled;
        break;
      case CSAJIT_ORIGIN_DISK:
      case CSAJIT_ORIGIN_MEMORY:
        ++counts.hit;
        break;
      default:
        ++counts.failed;
        continue;
    }
    if (!kernel.published) ++counts.unpublished;
  }
  return counts;
}

nlohmann::json json_of(const BuiltKernel& kernel) {
  nlohmann::json json{{"name", kernel.name},
                      {"arch", kernel.arch},
                      {"origin", origin_name(kernel.origin)},
                      {"status", csajit_status_string(kernel.status)}};
  if (kernel.origin == CSAJIT_ORIGIN_FAILED) {
    json["origin"] = "failed";
    json["error"] = kernel.error;
    return json;
  }
  json["key"] = kernel.key;
  json["nvrtc"] = kernel.nvrtc;
  json["registers"] = kernel.registers;
  json["spill_bytes"] = kernel.spill_bytes;
  json["stack_bytes"] = kernel.stack_bytes;
  json["static_smem_bytes"] = kernel.static_smem_bytes;
  json["dynamic_smem_bytes"] = kernel.dynamic_smem_bytes;
  json["cubin_bytes"] = kernel.cubin_bytes;
  json["compile_ms"] = kernel.compile_ms;
  json["published"] = kernel.published;
  return json;
}

std::string table_of(const std::vector<BuiltKernel>& kernels) {
  TextTable table({{"kernel"},
                   {"arch"},
                   {"regs", true},
                   {"spill", true},
                   {"stack", true},
                   {"smem", true},
                   {"cubin", true},
                   {"compile ms", true},
                   {"origin"}});
  for (const BuiltKernel& k : kernels) {
    if (k.origin == CSAJIT_ORIGIN_FAILED) {
      table.add({k.name, k.arch, "", "", "", "", "", "", origin_name(k.origin)});
      continue;
    }
    table.add({k.name, k.arch, std::to_string(k.registers), std::to_string(k.spill_bytes),
               std::to_string(k.stack_bytes), std::to_string(k.static_smem_bytes + k.dynamic_smem_bytes),
               std::to_string(k.cubin_bytes), fmt::format("{:.0f}", k.compile_ms),
               k.published ? origin_name(k.origin) : fmt::format("{}, not stored", origin_name(k.origin))});
  }
  return table.empty() ? std::string() : table.text();
}

// Where the driver is at hand anyway, an NVRTC that is newer than it is passed over: its code might not load.
std::optional<std::string> nvrtc_for_driver(const Config& config) {
  if (config.nvrtc_path) return std::nullopt;  // a choice that was made
  Result<const DriverApi*> driver = driver_api();
  if (!driver) return std::nullopt;
  NvrtcSearch search;
  search.cuda_home = config.cuda_home;
  search.cuda_path = config.cuda_path;
  search.max_major = (*driver)->version / 1000;
  Result<std::shared_ptr<const NvrtcApi>> nvrtc = open_nvrtc(search);
  if (!nvrtc) return std::nullopt;  // needed only on a miss, which then says so itself
  return (*nvrtc)->path;
}

// A rebuilt record does nothing where an older one of a read-only layer is found first.
std::vector<std::string> hidden_by(const std::vector<BuiltKernel>& kernels, const Config& config) {
  std::vector<std::string> warnings;
  for (const std::string& root : config.cache_ro_dirs) {
    DiskCacheOptions options;
    options.ro_dirs = {root};
    options.trust = config.cache_trust;
    Result<std::vector<CacheEntry>> entries = DiskCache(options).entries();
    if (!entries) continue;  // a layer that cannot be read hides nothing
    std::size_t hidden = 0;
    for (const CacheEntry& entry : *entries) {
      if (!entry.record) continue;
      hidden += static_cast<std::size_t>(std::any_of(kernels.begin(), kernels.end(), [&](const BuiltKernel& kernel) {
        return kernel.origin == CSAJIT_ORIGIN_COMPILED && kernel.key == entry.record->key.hex();
      }));
    }
    if (hidden == 0) continue;
    warnings.push_back(
        fmt::format("the read-only layer {} has {} of the rebuilt kernels and is read first: its own are "
                    "used while CSAJIT_CACHE_RO_DIRS names it",
                    root, hidden));
  }
  return warnings;
}

class Warmup {
 public:
  explicit Warmup(const WarmupOptions& options) : options_(options) {}

  int run() {
    Result<Config> config = read_environment();
    if (!config) return report(config.error());
    log::set_level(config->log_level);
    Result<std::vector<csajit_spec>> specs = requested_specs(options_);
    if (!specs) return report(specs.error());
    Result<std::vector<std::string>> archs = requested_archs(options_, *config);
    if (!archs) return report(archs.error());
    for (const std::string& arch : *archs) {
      for (const csajit_spec& spec : *specs) jobs_.push_back({spec, arch});
    }
    choose_service(*config);
    Result<Settings> settings = merge_settings(service_, *config);
    if (!settings) return report(settings.error());
    disk_ = settings->disk;
    Result<ServiceHandle> service = create_service(service_);
    if (!service) return report(service.error());
    build(service->get());
    look_again();
    if (options_.rebuild) warnings_ = hidden_by(kernels_, *config);
    print();
    const Counts counts = count(kernels_);
    return counts.failed == 0 && counts.unpublished == 0 ? exit_ok : exit_failure;
  }

 private:
  void choose_service(const Config& config) {
    folder_ = !options_.layer.empty()       ? options_.layer
              : !options_.cache_dir.empty() ? options_.cache_dir
                                            : default_cache_dir(config).value_or("");
    const bool gpu_chose = options_.arch.empty() && !config.arch;
    nvrtc_ = gpu_chose ? nvrtc_for_driver(config) : std::nullopt;
    service_.struct_size = sizeof service_;
    if (!options_.layer.empty()) service_.flags |= CSAJIT_SERVICE_WRITE_LAYER;
    if (options_.no_lock) service_.flags |= CSAJIT_SERVICE_DISABLE_LOCK;
    service_.cache_dir = folder_.empty() ? nullptr : folder_.c_str();
    service_.nvrtc_path = nvrtc_ ? nvrtc_->c_str() : nullptr;
  }

  // What was stored may have gone again, for the size bound or by another process; a host would find what is here.
  void look_again() {
    DiskCache cache(disk_);
    std::map<std::string, std::uint64_t> bytes;  // by key: two specs may share a kernel
    for (BuiltKernel& kernel : kernels_) {
      if (kernel.origin == CSAJIT_ORIGIN_FAILED) continue;
      bytes[kernel.key] = kernel.record_bytes;
      const bool found = cache.holds(kernel.key);
      if (kernel.published && !found) ++lost_;
      kernel.published = found;
    }
    for (const auto& [key, size] : bytes) needed_bytes_ += size;
  }

  void build(csajit_service* service) {
    Progress progress(jobs_.size(), "specs", options_.json);
    BuildPoolOptions pool;
    pool.jobs = options_.jobs == 0 ? default_threads() : options_.jobs;
    pool.rebuild = options_.rebuild;
    pool.on_kernel = [&](const BuiltKernel& kernel) {
      progress.say(fmt::format("{:<8}  {} {}", origin_name(kernel.origin), kernel.arch, kernel.name));
    };
    pool.on_job = [&](std::size_t done) { progress.advance(done); };
    kernels_ = build_all(service, jobs_, pool);
  }

  void print() const {
    const Counts counts = count(kernels_);
    for (const std::string& warning : warnings_) fmt::print(stderr, "csajit: {}\n", warning);
    if (options_.json) {
      nlohmann::json list = nlohmann::json::array();
      for (const BuiltKernel& kernel : kernels_) list.push_back(json_of(kernel));
      const nlohmann::json json{{"compiled", counts.compiled},
                                {"hit", counts.hit},
                                {"failed", counts.failed},
                                {"unpublished", counts.unpublished},
                                {"cache_dir", folder_},
                                {"warnings", warnings_},
                                {"kernels", list}};
      fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      fmt::print("{}", table_of(kernels_));
      fmt::print("{} kernels: {} compiled, {} hit, {} failed; cache {}\n", kernels_.size(), counts.compiled, counts.hit,
                 counts.failed, folder_.empty() ? "none (memory only)" : folder_);
    }
    print_failures(counts);
  }

  // One cause often fells many kernels (no NVRTC at all): told once, by the first of them; the JSON has them all.
  void print_failures(const Counts& counts) const {
    std::map<csajit_status, std::vector<const BuiltKernel*>> by_status;
    for (const BuiltKernel& kernel : kernels_) {
      if (kernel.origin == CSAJIT_ORIGIN_FAILED) by_status[kernel.status].push_back(&kernel);
    }
    for (const auto& [status, kernels] : by_status) {
      const BuiltKernel& first = *kernels.front();
      fmt::print(stderr, "csajit: {}: {} {}{}: {}\n", csajit_status_string(status), first.arch, first.name,
                 kernels.size() > 1 ? fmt::format(" and {} more", kernels.size() - 1) : "", first.error);
    }
    if (lost_ > 0 && !disk_.layer && needed_bytes_ > disk_.max_bytes) {
      fmt::print(stderr, "csajit: these kernels need {} bytes, more than CSAJIT_CACHE_MAX_BYTES ({}) lets {} hold\n",
                 needed_bytes_, disk_.max_bytes, folder_);
    }
    if (counts.unpublished > 0) {
      fmt::print(stderr, "csajit: {} kernels could not be stored in {}: the next process will compile them again\n",
                 counts.unpublished, folder_.empty() ? "a cache (there is no folder)" : folder_);
    }
  }

  const WarmupOptions& options_;
  std::string folder_;
  std::optional<std::string> nvrtc_;
  csajit_service_options service_{};  // points into the two above
  DiskCacheOptions disk_;             // of that service
  std::size_t lost_ = 0;              // kernels that were stored and are not there at the end
  std::uint64_t needed_bytes_ = 0;    // of all records of the request
  std::vector<BuildJob> jobs_;
  std::vector<BuiltKernel> kernels_;
  std::vector<std::string> warnings_;
};

}  // namespace

void add_warmup_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<WarmupOptions>();
  CLI::App* const warmup =
      app.add_subcommand("warmup", "Compile into the cache what is missing, for the GPUs present or named ones");
  WarmupOptions& o = *options;
  const std::string what = "What to build";
  warmup
      ->add_option("--preset", o.preset,
                   "A named list of specs; production: ratio 4 coff 2 and ratio 128 coff 1, head_dim 128 and 512, bf16 "
                   "with APE. The default where no shape is given")
      ->check(CLI::IsMember({"production"}))
      ->type_name("NAME")
      ->group(what);
  warmup->add_option("--ratio", o.ratio, "Tokens pooled into a row, 1 to 256")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->type_name("N,...")
      ->group(what);
  warmup->add_option("--head-dim", o.head_dim, "Columns of a row, 1 to 65536")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->type_name("N,...")
      ->group(what);
  warmup->add_option("--coff", o.coff, "1: own window, 2: overlapping window")
      ->delimiter(',')
      ->check(CLI::Range(1, 2))
      ->type_name("N,...")
      ->group(what);
  warmup->add_option("--dtype", o.dtype, "bf16 (default), fp16 or fp32, or three as kv:score:out")
      ->delimiter(',')
      ->type_name("TYPE,...")
      ->group(what);
  warmup->add_flag("--no-ape", o.no_ape, "Specs without the additive position embedding")->group(what);
  warmup
      ->add_option("--arch", o.arch,
                   "Architectures to compile for, such as sm_90,sm_100; needs no GPU and no driver. Default: "
                   "CSAJIT_ARCH, else the GPUs present")
      ->delimiter(',')
      ->type_name("ARCH,...")
      ->group(what);

  const std::string how = "How";
  warmup->add_flag("--rebuild", o.rebuild, "Compile even what the cache has, and replace it")->group(how);
  CLI::Option* const layer = warmup
                                 ->add_option("--layer", o.layer,
                                              "Write a layer for others to read: into DIR, folders 0755 and records "
                                              "0644; used by CSAJIT_CACHE_RO_DIRS=DIR")
                                 ->type_name("DIR")
                                 ->check(refuse_empty)
                                 ->group(how);
  warmup->add_option("--cache-dir", o.cache_dir, "Cache folder to use instead of the default one")
      ->type_name("DIR")
      ->check(refuse_empty)
      ->excludes(layer)
      ->group(how);
  warmup->add_flag("--no-lock", o.no_lock, "Do not wait for other processes that compile the same kernel")->group(how);
  warmup->add_option("--jobs", o.jobs, "Kernels to compile at once; default: the hardware threads")
      ->check(CLI::Range(1, 4096))
      ->type_name("N")
      ->group(how);
  warmup->add_flag("--json", o.json, "Print JSON: the counts compiled, hit and failed, and one object per kernel")
      ->group(how);
  warmup->footer(
      "\nLists are combined: --ratio 4 --head-dim 128,512 --coff 2 is two specs, each with several kernels.\n"
      "Exit status 1 if any kernel is missing from the cache at the end.\n"
      "\nExamples:\n"
      "  csajit warmup                                        the production preset, for this machine's GPUs\n"
      "  csajit warmup --arch sm_90,sm_100 --layer /opt/cache for an image that is built without a GPU\n"
      "  csajit warmup --ratio 2 --head-dim 128 --coff 2 --no-ape --arch sm_90");
  warmup->callback([&action, options] { action = [options] { return Warmup(*options).run(); }; });
}

}  // namespace csajit::tool
