// The GPU as a CheckDevice: the primary context of one device, a stream of its own, csajit's C API.
#pragma once

#include <memory>
#include <string>

#include "check_device.hpp"

namespace csajit::tool {

struct GpuDevice {
  std::unique_ptr<CheckDevice> device;
  csajit_service* service = nullptr;  // owned by `device`
  std::string name;                   // "NVIDIA H200"
  std::string arch;                   // what kernels are compiled for
};

// Errors: no driver, no GPU with this number, or one that csajit has no kernels for.
Result<GpuDevice> open_gpu(int ordinal);

}  // namespace csajit::tool
