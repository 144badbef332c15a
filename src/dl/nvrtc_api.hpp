// NVRTC as a table of functions, found by the search order and never linked. Loads; does not compile.
#pragma once

#include <nvrtc.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "dl/shared_library.hpp"

namespace csajit {

struct NvrtcApi {
  SharedLibrary library;
  SharedLibrary builtins;  // libnvrtc-builtins.so.MAJOR.MINOR of the same folder, where there is one
  std::string path;
  int major = 0;
  int minor = 0;
  std::vector<int> known_capabilities;  // nvrtcGetSupportedArchs

  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcGetErrorString) get_error_string = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcAddNameExpression) add_name_expression = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetLoweredName) get_lowered_name = nullptr;
  decltype(&::nvrtcGetCUBINSize) get_cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) get_cubin = nullptr;
  decltype(&::nvrtcGetProgramLogSize) get_program_log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) get_program_log = nullptr;
  decltype(&::nvrtcGetNumSupportedArchs) get_num_supported_archs = nullptr;
  decltype(&::nvrtcGetSupportedArchs) get_supported_archs = nullptr;

  std::string version_text() const;  // "13.0"
  bool at_least(int wanted_major, int wanted_minor) const {
    return major != wanted_major ? major > wanted_major : minor >= wanted_minor;
  }
};

struct NvrtcSearch {
  std::optional<std::string> path;  // option or CSAJIT_NVRTC_PATH: tried first; if it fails, that is the error
  std::optional<std::string> cuda_home;
  std::optional<std::string> cuda_path;
  std::optional<int> max_major;  // refuse newer ones (the driver's major), none: take any
};

// Majors that are looked for, newest first; each is ABI-compatible in all that is used here.
inline constexpr int newest_nvrtc_major = 16;
inline constexpr int oldest_nvrtc_major = 12;

// Opens NVRTC once per distinct search in this process and keeps it (never dlclosed). The order: the path given;
// one already loaded in the process; versioned sonames through the loader; CUDA_HOME, CUDA_PATH, the usual toolkit
// folder. The failure lists every place tried with its reason: CSAJIT_E_NVRTC_NOT_FOUND. Failures are not cached.
// No lock is held while loading.
Result<std::shared_ptr<const NvrtcApi>> open_nvrtc(const NvrtcSearch& search);

// One place of the search order.
struct NvrtcPlace {
  std::string name;  // soname or file, as dlopen takes it
  int flags = 0;     // dlopen's
  int major = 0;     // what the name promises; 0: unknown
};

// All places in order, for tests and for messages. Toolkit folders give only files that exist.
std::vector<NvrtcPlace> nvrtc_places(const NvrtcSearch& search);

using LibraryOpener = std::function<Result<SharedLibrary>(const std::string& name, int flags)>;

// open_nvrtc without its memory and with an injected dlopen.
Result<std::shared_ptr<const NvrtcApi>> find_nvrtc(const NvrtcSearch& search, const LibraryOpener& open);

}  // namespace csajit
