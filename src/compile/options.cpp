// The options of a compile: those that change code, which every supported NVRTC accepts, and those that do not.
#include <fmt/format.h>

#include "compile/nvrtc_program.hpp"

namespace csajit {

const std::vector<std::string>& code_options() {
  // Contraction is on by default and would break the arithmetic that the contract fixes, so it is off and fma is
  // written where it is meant. The rest are defaults, said so that no future default can change the bits.
  static const std::vector<std::string> options = {
      "--std=c++17",
      "--device-as-default-execution-space",  // plain constexpr functions, shared with the host, are callable
      "--fmad=false",
      "--ftz=false",
      "--prec-div=true",
      "--prec-sqrt=true",
  };
  return options;
}

std::vector<std::string> compile_options(const NvrtcApi& nvrtc, const Architecture& arch) {
  std::vector<std::string> options = code_options();
  options.push_back(fmt::format("--gpu-architecture={}", arch.name));  // sm_, not compute_: a cubin, never PTX
  options.emplace_back("--ptxas-options=-v");                          // the text of resource_usage
  options.emplace_back("--modify-stack-limit=false");                  // the process's limits are the host's
  options.emplace_back("--no-source-include");                         // nothing is read from the current folder
  // From 12.9 on NVRTC has a cache of its own and opens libcuda and calls cuInit for it, inside a compile.
  if (nvrtc.at_least(12, 9)) options.emplace_back("--no-cache");
  return options;
}

}  // namespace csajit
