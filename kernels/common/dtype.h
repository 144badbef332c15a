// The element types, as host and kernels both name them.
#pragma once

#include "common/host_device.h"

namespace csajit {

enum class DType : int { bf16 = 1, fp16 = 2, fp32 = 3 };  // the values of csajit_dtype

CSAJIT_HOST_DEVICE constexpr int size_of(DType type) { return type == DType::fp32 ? 4 : 2; }

}  // namespace csajit
