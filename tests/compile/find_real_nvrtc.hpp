// The NVRTC of this machine, by the library's own search and the environment's settings.
#pragma once

#include <memory>

#include "dl/nvrtc_api.hpp"

inline constexpr int exit_skipped = 77;

// nullptr, after a line that says why, where there is none.
std::shared_ptr<const csajit::NvrtcApi> find_real_nvrtc();
