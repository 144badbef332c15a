// See kernel_source.hpp.
#include "service/kernel_source.hpp"

#include <fmt/format.h>

#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/log.hpp"
#include "base/thread_annotations.hpp"
#include "cache/memory_cache.hpp"
#include "compile/embedded_kernels.hpp"
#include "compile/nvrtc_program.hpp"

namespace csajit {
namespace {

// Changes when the meaning of the fields below does.
constexpr const char* key_schema = "1";

using Images = MemoryCache<std::string, KernelImage>;

// Never destroyed: csajit may be called from atexit handlers.
Images& images() {
  static auto* const cache = new Images;
  return *cache;
}

// Kernels whose rebuilt image the driver refused too.
struct Refused {
  Mutex mutex;
  std::unordered_set<std::string> keys CSAJIT_GUARDED_BY(mutex);
};
Refused& refused() {
  static auto* const set = new Refused;
  return *set;
}

bool is_refused(const Key& key) {
  const MutexLock lock(refused().mutex);
  return refused().keys.count(key.bytes()) != 0;
}

// Names and bytes of all that a template may include, the templates themselves among them.
const std::string& source_digest() {
  static const std::string digest = [] {
    KeyFields fields;
    for (const EmbeddedFile& file : embedded_kernels()) fields.emplace_back(file.name, file.text);
    return Key(fields).hex();
  }();
  return digest;
}

Result<EmbeddedFile> find_source(std::string_view name) {
  for (const EmbeddedFile& file : embedded_kernels()) {
    if (file.name == name) return file;
  }
  return Error{CSAJIT_E_INTERNAL, fmt::format("no kernel source named {} is embedded", name)};
}

}  // namespace

bool is_own_affair(csajit_status status) {
  return status == CSAJIT_E_JIT_DISABLED || status == CSAJIT_E_NVRTC_NOT_FOUND ||
         status == CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC;
}

Key key_of(const KernelRecipe& recipe, const Architecture& arch) {
  KeyFields fields;
  fields.emplace_back("schema", key_schema);
  fields.emplace_back("sources", source_digest());
  for (const std::string& option : code_options()) fields.emplace_back("option", option);
  fields.insert(fields.end(), recipe.key_fields.begin(), recipe.key_fields.end());
  fields.emplace_back("source", recipe.source);
  fields.emplace_back("name_expression", recipe.name_expression);
  fields.emplace_back("arch", arch.name);
  return Key(fields);
}

struct KernelSource::Flight {
  csajit_kernel_origin origin = CSAJIT_ORIGIN_MEMORY;
  bool made = false;  // by this caller, rather than by the one it waited for
  bool published = false;
  bool rebuild = false;
  std::optional<RecordPlace> place;
};

Result<SourcedKernel> KernelSource::fly(const KernelRequest& request, const Key& key, bool rebuild) {
  for (;;) {
    Flight flight;
    flight.rebuild = rebuild;
    auto image = images().get_or_make(key.bytes(), [&] {
      flight.made = true;
      return make(request, key, flight);
    });
    if (image) {
      if (!flight.made) Statistics::add(statistics_.memory_hits);
      return SourcedKernel{*image, flight.origin, flight.published, flight.place};
    }
    if (flight.made || !is_own_affair(image.error().status)) return std::move(image).error();
    // Another service failed for reasons of its own; this one tries by its own settings.
  }
}

Result<SourcedKernel> KernelSource::get(const KernelRequest& request, const Key& key) {
  return fly(request, key, false);
}

Result<SourcedKernel> KernelSource::build(const KernelRequest& request, const Key& key, bool rebuild) {
  if (rebuild) images().erase(key.bytes());
  auto kernel = fly(request, key, rebuild);
  // What this process has from elsewhere need not be in this service's folder yet.
  if (kernel && kernel->origin == CSAJIT_ORIGIN_MEMORY) {
    kernel->published = read_disk(key) || publish(key, *kernel->image);
  }
  return kernel;
}

Result<std::shared_ptr<const KernelImage>> KernelSource::make(const KernelRequest& request, const Key& key,
                                                              Flight& flight) {
  if (!flight.rebuild) {
    if (auto image = take_from_disk(key, flight)) return image;
  }
  if (settings_.no_jit) {
    return Error{
        CSAJIT_E_JIT_DISABLED,
        fmt::format("compiling is off (CSAJIT_NO_JIT) and no cache folder holds a usable {} for {}; fill it by: {}",
                    request.recipe->name, request.arch->name, request.warmup_command)};
  }
  auto image = compile_locked(request, key, flight);
  if (!image || flight.origin != CSAJIT_ORIGIN_COMPILED) return image;
  const KernelImage& made = **image;
  log::info("compiled {} for {} by NVRTC {} in {:.0f} ms: {} bytes, {} registers, {}", request.recipe->name, made.arch,
            made.nvrtc_version, made.compile_ms, made.cubin.size(), made.usage.registers,
            flight.published ? fmt::format("kept in {}", *disk_.options().write_dir) : "not kept on disk");
  return image;
}

// Apart from make(), so that nothing is said while other processes wait for the lock.
Result<std::shared_ptr<const KernelImage>> KernelSource::compile_locked(const KernelRequest& request, const Key& key,
                                                                        Flight& flight) {
  // Before the lock, which makes its file: where nothing can be compiled, nothing is made.
  auto nvrtc = open_compiler(request);
  if (!nvrtc) return std::move(nvrtc).error();
  // Another process may be compiling the same kernel: wait for it, then look again, also after a wait in vain.
  const DiskCache::Lock lock = disk_.lock(key, *request.patience);
  if ((lock || request.patience->is_spent()) && !flight.rebuild) {
    if (auto image = take_from_disk(key, flight)) return image;
  }
  auto image = compile_by(**nvrtc, request);
  if (!image) return image;
  flight.origin = CSAJIT_ORIGIN_COMPILED;
  flight.published = !is_refused(key) && publish(key, **image);
  return image;
}

std::shared_ptr<const KernelImage> KernelSource::take_from_disk(const Key& key, Flight& flight) {
  auto kernel = read_disk(key);
  if (!kernel) return nullptr;
  Statistics::add(statistics_.disk_hits);
  flight.origin = kernel->origin;
  flight.published = kernel->published;
  flight.place = kernel->place;
  return std::move(kernel->image);
}

Result<std::shared_ptr<const NvrtcApi>> KernelSource::open_compiler(const KernelRequest& request) {
  NvrtcSearch search = settings_.nvrtc;
  search.max_major = request.max_nvrtc_major;
  auto nvrtc = open_nvrtc(search);
  if (!nvrtc) {
    return Error{nvrtc.error().status,
                 fmt::format("no cache folder holds a usable {} for {}, and it cannot be compiled: {}",
                             request.recipe->name, request.arch->name, nvrtc.error().message)};
  }
  if (auto known = check_architecture(**nvrtc, *request.arch); !known) {
    Statistics::add(statistics_.compile_failures);
    return std::move(known).error();
  }
  return nvrtc;
}

Result<std::shared_ptr<const KernelImage>> KernelSource::compile_by(const NvrtcApi& nvrtc,
                                                                    const KernelRequest& request) {
  auto source = find_source(request.recipe->source);
  if (!source) return std::move(source).error();

  CompileRequest compile_request;
  compile_request.source = *source;
  const auto files = embedded_kernels();
  compile_request.headers.assign(files.begin(), files.end());
  compile_request.name_expression = request.recipe->name_expression;
  compile_request.arch = request.arch;
  Result<KernelImage> image = [&] {
    const ScopedTimer timer(statistics_.compile_ns);
    return compile(nvrtc, compile_request);
  }();
  if (!image) {
    Statistics::add(statistics_.compile_failures);
    return std::move(image).error();
  }
  Statistics::add(statistics_.compiles);
  return std::shared_ptr<const KernelImage>(std::make_shared<KernelImage>(std::move(image).value()));
}

std::optional<SourcedKernel> KernelSource::read_disk(const Key& key, std::size_t first_layer) {
  const ScopedTimer timer(statistics_.disk_ns);
  auto cached = disk_.load(key, first_layer);
  if (!cached) return std::nullopt;
  return SourcedKernel{std::make_shared<KernelImage>(std::move(cached->image)), CSAJIT_ORIGIN_DISK, true,
                       cached->place};
}

bool KernelSource::publish(const Key& key, const KernelImage& image) {
  const ScopedTimer timer(statistics_.disk_ns);
  return disk_.publish(key, image);
}

std::optional<SourcedKernel> KernelSource::next_cached(const Key& key, const SourcedKernel& kernel,
                                                       const std::string& reason) {
  images().erase(key.bytes());
  if (kernel.place) disk_.skip(key, *kernel.place, reason);
  if (kernel.origin == CSAJIT_ORIGIN_COMPILED) return std::nullopt;  // each layer was asked before it was compiled
  // Layer by layer, so that this ends; what memory had may be from anywhere.
  auto next = read_disk(key, kernel.place ? kernel.place->layer + 1 : 0);
  if (!next) return std::nullopt;
  Statistics::add(statistics_.disk_hits);
  remember(key, next->image);
  return next;
}

Result<std::shared_ptr<const KernelImage>> KernelSource::recompile(const KernelRequest& request,
                                                                   const std::string& reason) {
  if (settings_.no_jit) {
    return Error{
        CSAJIT_E_JIT_DISABLED,
        fmt::format("compiling is off (CSAJIT_NO_JIT) and the driver refused the cached {} for {}; replace it by: "
                    "{} --rebuild",
                    request.recipe->name, request.arch->name, request.warmup_command)};
  }
  log::warn("{} for {} is rejected and built again: {}", request.recipe->name, request.arch->name, reason);
  auto nvrtc = open_compiler(request);
  if (!nvrtc) return std::move(nvrtc).error();
  return compile_by(**nvrtc, request);
}

void KernelSource::accept(const Key& key, const std::shared_ptr<const KernelImage>& image) {
  publish(key, *image);
  remember(key, image);
}

void KernelSource::remember(const Key& key, const std::shared_ptr<const KernelImage>& image) {
  auto kept = images().get_or_make(key.bytes(), [&] { return Result<std::shared_ptr<const KernelImage>>(image); });
  static_cast<void>(kept);  // whoever was first: both images are of the same key
}

void KernelSource::give_up(const Key& key) {
  const MutexLock lock(refused().mutex);
  refused().keys.insert(key.bytes());
}

}  // namespace csajit
