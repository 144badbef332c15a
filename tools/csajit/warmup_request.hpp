// What a warm-up was asked for: the options' text made into specs and architectures. Compiles nothing.
#pragma once

#include <csajit/csajit.h>

#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/result.hpp"

namespace csajit::tool {

struct WarmupOptions {
  std::string preset;
  std::vector<std::string> arch;
  std::vector<unsigned> ratio;
  std::vector<unsigned> head_dim;
  std::vector<unsigned> coff;
  std::vector<std::string> dtype;
  bool no_ape = false;
  bool rebuild = false;
  std::string layer;
  bool no_lock = false;
  unsigned jobs = 0;  // 0: one a hardware thread
  std::string cache_dir;
  bool json = false;
};

// "bf16", or "kv:score:out" as in "bf16:fp32:bf16". Error: CSAJIT_E_INVALID_ARGUMENT.
struct DtypeTriple {
  csajit_dtype kv = CSAJIT_DTYPE_BF16;
  csajit_dtype score = CSAJIT_DTYPE_BF16;
  csajit_dtype out = CSAJIT_DTYPE_BF16;
};
Result<DtypeTriple> parse_dtypes(const std::string& text);

// The shapes of the production models: attention and indexer, bf16, with APE.
std::vector<csajit_spec> production_specs();

// Every combination of the lists, or the preset (the default where no shape is named).
Result<std::vector<csajit_spec>> requested_specs(const WarmupOptions& options);

// --arch, else CSAJIT_ARCH, else the GPUs present; each once, in that order. Only the last loads libcuda.
// Error: none of them, naming --arch.
Result<std::vector<std::string>> requested_archs(const WarmupOptions& options, const Config& config);

}  // namespace csajit::tool
