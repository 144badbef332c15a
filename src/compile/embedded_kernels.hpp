// The kernel templates, as the build embedded them. Bytes only; defined in a generated file.
#pragma once

#include <span>

#include "compile/nvrtc_program.hpp"

namespace csajit {

// Every file of kernels/ but check.cu, sorted by name; names as they are #include'd. Lives as long as the library.
std::span<const EmbeddedFile> embedded_kernels();

}  // namespace csajit
