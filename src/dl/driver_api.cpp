// Opening and resolving the CUDA driver, once a process, and noticing a fork after it. Makes no context.
#include "dl/driver_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <utility>

#include "dl/shared_library.hpp"

namespace csajit {
namespace {

// Plain atomics with constant initialisers: usable in a fork handler and at any point of process exit. The table
// is never freed, since launches may hold it until the very end.
std::atomic<const DriverApi*> published{nullptr};
std::atomic<int> initialising{0};
std::atomic<bool> forked{false};

void after_fork_in_child() {
  if (published.load(std::memory_order_relaxed) != nullptr || initialising.load(std::memory_order_relaxed) != 0) {
    forked.store(true, std::memory_order_relaxed);
  }
}

// 0, or the error of pthread_atfork. The library is never unmapped (-z nodelete), so the handler stays valid.
int watch_forks() {
  static const int outcome = pthread_atfork(nullptr, nullptr, after_fork_in_child);
  return outcome;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Error forked_error() {
  return {CSAJIT_E_FORKED,
          "the CUDA driver was initialised before fork() and cannot be used in the child; start the child before "
          "the first CUDA call, or use exec or spawn"};
}

// True and the address, or false where this driver has no such function.
bool look_up(PFN_cuGetProcAddress_v12000 get_proc_address, const char* name, int version, void** address) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  *address = nullptr;
  const CUresult code = get_proc_address(name, address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
  if (code == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS && *address != nullptr) return true;
  *address = nullptr;
  return false;
}

}  // namespace

std::string DriverApi::describe(CUresult code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName == nullptr || cuGetErrorName(code, &name) != CUDA_SUCCESS || name == nullptr) {
    return fmt::format("CUDA error {}", static_cast<int>(code));
  }
  if (cuGetErrorString == nullptr || cuGetErrorString(code, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return fmt::format("{}: {}", name, text);
}

const char* DriverApi::missing_tool_function() const {
#define CSAJIT_DRIVER_CHECK(function, asked) \
  if (function == nullptr) return #function;
  CSAJIT_DRIVER_TOOL(CSAJIT_DRIVER_CHECK)
#undef CSAJIT_DRIVER_CHECK
  return nullptr;
}

Result<DriverApi> resolve_driver(PFN_cuGetProcAddress_v12000 get_proc_address) {
  DriverApi api;
  const char* missing = nullptr;
  int missing_version = 0;
  void* address = nullptr;
#define CSAJIT_DRIVER_REQUIRE(function, asked)                  \
  if (!look_up(get_proc_address, #function, asked, &address)) { \
    missing = #function;                                        \
    missing_version = asked;                                    \
  }                                                             \
  api.function = reinterpret_cast<decltype(api.function)>(address);
#define CSAJIT_DRIVER_TRY(function, asked)               \
  look_up(get_proc_address, #function, asked, &address); \
  api.function = reinterpret_cast<decltype(api.function)>(address);
  CSAJIT_DRIVER_REQUIRED(CSAJIT_DRIVER_REQUIRE)
  CSAJIT_DRIVER_OPTIONAL(CSAJIT_DRIVER_TRY)
  CSAJIT_DRIVER_TOOL(CSAJIT_DRIVER_TRY)
#undef CSAJIT_DRIVER_TRY
#undef CSAJIT_DRIVER_REQUIRE
  if (missing != nullptr) {
    return Error{CSAJIT_E_DRIVER_NOT_FOUND,
                 fmt::format("the CUDA driver lacks {} (as of CUDA {})", missing, version_text(missing_version))};
  }
  return api;
}

Result<DriverApi> start_driver(PFN_cuDriverGetVersion_v2020 get_version, PFN_cuGetProcAddress_v12000 get_proc_address) {
  // The version comes first: an older driver has no cuGetProcAddress of this kind, and its age is the real reason.
  int version = 0;
  if (get_version == nullptr) return Error{CSAJIT_E_DRIVER_NOT_FOUND, "it has no cuDriverGetVersion"};
  if (const CUresult code = get_version(&version); code != CUDA_SUCCESS) {
    return Error{CSAJIT_E_DRIVER, fmt::format("cuDriverGetVersion failed with CUDA error {}", static_cast<int>(code))};
  }
  if (version < oldest_driver_version) {
    return Error{CSAJIT_E_DRIVER_NOT_FOUND, fmt::format("the CUDA driver is of version {}; csajit needs {} or newer",
                                                        version_text(version), version_text(oldest_driver_version))};
  }
  if (get_proc_address == nullptr) return Error{CSAJIT_E_DRIVER_NOT_FOUND, "it has no cuGetProcAddress_v2"};

  Result<DriverApi> api = resolve_driver(get_proc_address);
  if (!api) return api;
  api->version = version;
  initialising.fetch_add(1, std::memory_order_relaxed);
  const CUresult code = api->cuInit(0);
  initialising.fetch_sub(1, std::memory_order_relaxed);
  if (code != CUDA_SUCCESS) return Error{CSAJIT_E_DRIVER, fmt::format("cuInit failed with {}", api->describe(code))};
  return api;
}

Result<DriverApi> open_driver(const std::string& name) {
  Result<SharedLibrary> library = SharedLibrary::open(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    return Error{CSAJIT_E_DRIVER_NOT_FOUND, fmt::format("cannot open the CUDA driver: {}", library.error().message)};
  }
  // cuDriverGetVersion and cuGetProcAddress_v2 have one ABI each, so their plain symbols are safe.
  Result<DriverApi> api =
      start_driver(reinterpret_cast<PFN_cuDriverGetVersion_v2020>(library->symbol("cuDriverGetVersion")),
                   reinterpret_cast<PFN_cuGetProcAddress_v12000>(library->symbol("cuGetProcAddress_v2")));
  const std::string path = library->path();
  // Once cuInit may have run, the driver has threads of its own: it must stay mapped, whatever came of it.
  library->keep_open();
  if (!api) return Error{api.error().status, fmt::format("{}: {}", path, api.error().message)};
  api->path = path;
  return api;
}

Result<const DriverApi*> driver_api() {
  if (forked_since_driver_init()) return forked_error();
  if (const DriverApi* api = published.load(std::memory_order_acquire)) return api;
  if (const int code = watch_forks(); code != 0) {
    return Error{CSAJIT_E_OUT_OF_MEMORY, fmt::format("pthread_atfork failed with error {}", code)};
  }

  Result<DriverApi> opened = open_driver("libcuda.so.1");
  if (!opened) return std::move(opened).error();
  auto mine = std::make_unique<const DriverApi>(std::move(*opened));
  const DriverApi* expected = nullptr;
  if (published.compare_exchange_strong(expected, mine.get(), std::memory_order_acq_rel)) return mine.release();
  return expected;
}

bool forked_since_driver_init() { return forked.load(std::memory_order_relaxed); }

}  // namespace csajit
