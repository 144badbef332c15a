// Source + name expression + architecture -> one cubin with its resource figures. Blocking; no cache, no files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/kernel_image.hpp"
#include "base/result.hpp"
#include "compile/architecture.hpp"
#include "dl/nvrtc_api.hpp"

namespace csajit {

struct EmbeddedFile {
  std::string_view name;  // as #include'd: "common/dtype.cuh"
  std::string_view text;  // zero-terminated
};

struct CompileRequest {
  EmbeddedFile source;                // the file that holds the template
  std::vector<EmbeddedFile> headers;  // all it may include
  std::string name_expression;        // "csajit::compressor_forward<...>"
  const Architecture* arch = nullptr;
};

// The options that change code and that every supported NVRTC accepts, in order: part of the key.
const std::vector<std::string>& code_options();
// All options for this NVRTC and architecture (those above, and the ones that change no code).
std::vector<std::string> compile_options(const NvrtcApi& nvrtc, const Architecture& arch);

// What compile() refuses before it begins: CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC.
Result<void> check_architecture(const NvrtcApi& nvrtc, const Architecture& arch);

// Errors: CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC (names architecture, version, path, the lower target to force),
// CSAJIT_E_COMPILE (the whole log), CSAJIT_E_OUT_OF_MEMORY. The process's locale is left as it was.
Result<KernelImage> compile(const NvrtcApi& nvrtc, const CompileRequest& request);

}  // namespace csajit
