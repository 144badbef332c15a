// Finds the real NVRTC for the tests of this folder. Skips are said aloud.
#include "compile/find_real_nvrtc.hpp"

#include <cstdio>

#include "base/config.hpp"

std::shared_ptr<const csajit::NvrtcApi> find_real_nvrtc() {
  const auto config = csajit::read_environment();
  if (!config) {
    std::printf("%s\n", config.error().message.c_str());
    return nullptr;
  }
  csajit::NvrtcSearch search;
  search.path = config->nvrtc_path;
  search.cuda_home = config->cuda_home;
  search.cuda_path = config->cuda_path;
  const auto nvrtc = csajit::open_nvrtc(search);
  if (!nvrtc) {
    std::printf("SKIPPED: no NVRTC on this machine. %s\n", nvrtc.error().message.c_str());
    return nullptr;
  }
  std::printf("NVRTC %s, %s\n", (*nvrtc)->version_text().c_str(), (*nvrtc)->path.c_str());
  return *nvrtc;
}
