// The search for NVRTC and the resolving of its functions. Reads no environment: what to search comes in.
#include "dl/nvrtc_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <tuple>
#include <utility>

#include "base/log.hpp"
#include "base/thread_annotations.hpp"

namespace csajit {
namespace {

#if defined(__aarch64__)
constexpr const char* toolkit_folders[] = {"lib64", "lib", "targets/sbsa-linux/lib", "targets/aarch64-linux/lib"};
#else
constexpr const char* toolkit_folders[] = {"lib64", "lib", "targets/x86_64-linux/lib"};
#endif
constexpr const char* usual_toolkit = "/usr/local/cuda";
constexpr int open_flags = RTLD_NOW | RTLD_LOCAL;

std::string soname(int major) { return fmt::format("libnvrtc.so.{}", major); }

int highest_major(const NvrtcSearch& search) {
  return search.max_major && *search.max_major < newest_nvrtc_major ? *search.max_major : newest_nvrtc_major;
}

std::vector<std::string> toolkits(const NvrtcSearch& search) {
  std::vector<std::string> roots;
  for (const auto& root : {search.cuda_home, search.cuda_path}) {
    if (root && !root->empty()) roots.push_back(*root);
  }
  roots.emplace_back(usual_toolkit);
  return roots;
}

// The address, or nullptr with the name of what is missing.
template <class Function>
void resolve(const SharedLibrary& library, const char* name, Function& function, const char*& missing) {
  function = reinterpret_cast<Function>(library.symbol(name));
  if (function == nullptr && missing == nullptr) missing = name;
}

// A table over an open library, or why it cannot be used.
Result<std::shared_ptr<NvrtcApi>> bind(SharedLibrary library) {
  auto api = std::make_shared<NvrtcApi>();
  api->path = library.path();
  const char* missing = nullptr;
  resolve(library, "nvrtcVersion", api->version, missing);
  resolve(library, "nvrtcGetErrorString", api->get_error_string, missing);
  resolve(library, "nvrtcCreateProgram", api->create_program, missing);
  resolve(library, "nvrtcDestroyProgram", api->destroy_program, missing);
  resolve(library, "nvrtcAddNameExpression", api->add_name_expression, missing);
  resolve(library, "nvrtcCompileProgram", api->compile_program, missing);
  resolve(library, "nvrtcGetLoweredName", api->get_lowered_name, missing);
  resolve(library, "nvrtcGetCUBINSize", api->get_cubin_size, missing);
  resolve(library, "nvrtcGetCUBIN", api->get_cubin, missing);
  resolve(library, "nvrtcGetProgramLogSize", api->get_program_log_size, missing);
  resolve(library, "nvrtcGetProgramLog", api->get_program_log, missing);
  resolve(library, "nvrtcGetNumSupportedArchs", api->get_num_supported_archs, missing);
  resolve(library, "nvrtcGetSupportedArchs", api->get_supported_archs, missing);
  if (missing != nullptr) return Error{CSAJIT_E_NVRTC_NOT_FOUND, fmt::format("it has no function {}", missing)};

  if (api->version(&api->major, &api->minor) != NVRTC_SUCCESS) {
    return Error{CSAJIT_E_NVRTC_NOT_FOUND, "its nvrtcVersion failed"};
  }
  if (api->major < oldest_nvrtc_major) {
    return Error{CSAJIT_E_NVRTC_NOT_FOUND,
                 fmt::format("it is of version {}; {}.0 or newer is needed", api->version_text(), oldest_nvrtc_major)};
  }
  api->library = std::move(library);
  return api;
}

// NVRTC opens its builtins by their bare name while compiling, which fails when its own folder is not on the
// loader's path. Opened from that folder first, they are found by their soname.
void open_builtins(NvrtcApi& api, const LibraryOpener& open, bool by_path) {
  const auto slash = api.path.rfind('/');
  if (slash == std::string::npos) return;
  const std::string file = fmt::format("{}/libnvrtc-builtins.so.{}", api.path.substr(0, slash), api.version_text());
  if (Result<SharedLibrary> builtins = open(file, open_flags)) {
    api.builtins = std::move(*builtins);
  } else if (by_path) {
    log::warn("NVRTC {} was loaded, its builtins were not ({}); a compile may fail for it", api.path,
              builtins.error().message);
  }
}

Result<std::shared_ptr<NvrtcApi>> load(const NvrtcPlace& place, const NvrtcSearch& search, const LibraryOpener& open) {
  Result<SharedLibrary> library = open(place.name, place.flags);
  if (!library) return Error{CSAJIT_E_NVRTC_NOT_FOUND, library.error().message};
  Result<std::shared_ptr<NvrtcApi>> api = bind(std::move(*library));
  if (!api) return api;
  NvrtcApi& found = **api;
  if (search.max_major && found.major > *search.max_major) {
    return Error{
        CSAJIT_E_NVRTC_NOT_FOUND,
        fmt::format("it is of version {}, and code of a major version above the driver's ({}) cannot be loaded",
                    found.version_text(), *search.max_major)};
  }
  open_builtins(found, open, place.name.find('/') != std::string::npos);

  int count = 0;
  if (found.get_num_supported_archs(&count) != NVRTC_SUCCESS || count <= 0) {
    return Error{CSAJIT_E_NVRTC_NOT_FOUND, "its nvrtcGetNumSupportedArchs failed"};
  }
  found.known_capabilities.resize(static_cast<std::size_t>(count));
  if (found.get_supported_archs(found.known_capabilities.data()) != NVRTC_SUCCESS) {
    return Error{CSAJIT_E_NVRTC_NOT_FOUND, "its nvrtcGetSupportedArchs failed"};
  }
  return api;
}

void keep_open(NvrtcApi& api) {
  api.library.keep_open();
  api.builtins.keep_open();
}

// Searches that differ in any field are different.
using SearchKey =
    std::tuple<std::optional<std::string>, std::optional<std::string>, std::optional<std::string>, std::optional<int>>;

struct Opened {
  Mutex mutex;
  std::map<SearchKey, std::shared_ptr<const NvrtcApi>> by_search CSAJIT_GUARDED_BY(mutex);
};

// Never destroyed: a compile may still run in another thread while the process exits.
Opened& opened() {
  static Opened& instance = *new Opened;
  return instance;
}

}  // namespace

std::string NvrtcApi::version_text() const { return fmt::format("{}.{}", major, minor); }

std::vector<NvrtcPlace> nvrtc_places(const NvrtcSearch& search) {
  if (search.path && !search.path->empty()) return {{*search.path, open_flags, 0}};
  std::vector<NvrtcPlace> places;
  const int highest = highest_major(search);
  for (int major = highest; major >= oldest_nvrtc_major; --major) {
    places.push_back({soname(major), open_flags | RTLD_NOLOAD, major});
  }
  for (int major = highest; major >= oldest_nvrtc_major; --major) places.push_back({soname(major), open_flags, major});
  for (const std::string& root : toolkits(search)) {
    for (const char* folder : toolkit_folders) {
      for (int major = highest; major >= oldest_nvrtc_major; --major) {
        const std::string file = fmt::format("{}/{}/{}", root, folder, soname(major));
        if (access(file.c_str(), F_OK) == 0) places.push_back({file, open_flags, major});
      }
    }
  }
  return places;
}

Result<std::shared_ptr<const NvrtcApi>> find_nvrtc(const NvrtcSearch& search, const LibraryOpener& open) {
  std::string tried;
  for (const NvrtcPlace& place : nvrtc_places(search)) {
    Result<std::shared_ptr<NvrtcApi>> api = load(place, search, open);
    if (api) {
      keep_open(**api);
      log::debug("NVRTC {} from {}", (*api)->version_text(), (*api)->path);
      return std::shared_ptr<const NvrtcApi>(std::move(*api));
    }
    // That a library was not loaded before is the normal case and no finding.
    if ((place.flags & RTLD_NOLOAD) == 0) tried += fmt::format("\n  {}: {}", place.name, api.error().message);
  }
  if (search.path && !search.path->empty()) {
    return Error{CSAJIT_E_NVRTC_NOT_FOUND,
                 fmt::format("the NVRTC that was asked for (option or CSAJIT_NVRTC_PATH) cannot be used:{}", tried)};
  }
  for (const std::string& root : toolkits(search)) {
    tried += fmt::format("\n  {}/{{", root);
    const char* separator = "";
    for (const char* folder : toolkit_folders) tried += std::exchange(separator, ",") + std::string(folder);
    tried += fmt::format("}}: searched for libnvrtc.so.{}..{}", highest_major(search), oldest_nvrtc_major);
  }
  return Error{CSAJIT_E_NVRTC_NOT_FOUND,
               fmt::format("a kernel must be compiled and no usable NVRTC was found; set CSAJIT_NVRTC_PATH to a "
                           "libnvrtc file or CUDA_HOME to a toolkit. Tried:{}",
                           tried)};
}

Result<std::shared_ptr<const NvrtcApi>> open_nvrtc(const NvrtcSearch& search) {
  const SearchKey key{search.path, search.cuda_home, search.cuda_path, search.max_major};
  Opened& table = opened();
  {
    const MutexLock lock(table.mutex);
    if (const auto found = table.by_search.find(key); found != table.by_search.end()) return found->second;
  }
  // Two threads may both search: they get the same library from the loader, and the first table is kept.
  Result<std::shared_ptr<const NvrtcApi>> api = find_nvrtc(search, SharedLibrary::open);
  if (!api) return api;
  const MutexLock lock(table.mutex);
  return table.by_search.emplace(key, *api).first->second;
}

}  // namespace csajit
