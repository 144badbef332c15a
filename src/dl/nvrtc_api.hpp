// NVRTC as a table of functions, found by the search order and never linked. Loads; does not compile.
#pragma once

#include <nvrtc.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "dl/shared_library.hpp"

namespace csajit {

struct NvrtcApi {
  SharedLibrary library;
  SharedLibrary builtins;  // libnvrtc-builtins.so.MAJOR.MINOR of the same folder, where it was found by path
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
};

struct NvrtcSearch {
  std::optional<std::string> path;      // option or CSAJIT_NVRTC_PATH: tried first; if it fails, that is the error
  std::optional<std::string> cuda_home;
  std::optional<std::string> cuda_path;
  std::optional<int> max_major;         // skip newer ones (the driver's major), none: take any
};

// Opens NVRTC once per distinct search in this process and keeps it (never dlclosed). The failure lists every
// place tried with its dlerror: CSAJIT_E_NVRTC_NOT_FOUND. Failures are not cached.
Result<std::shared_ptr<const NvrtcApi>> open_nvrtc(const NvrtcSearch& search);

}  // namespace csajit
