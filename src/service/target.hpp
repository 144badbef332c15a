// Which architecture to compile a spec for, and what that needs: the GPU's own, or the one that was forced.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "compile/architecture.hpp"
#include "compressor/schedule.hpp"
#include "compressor/spec.hpp"

namespace csajit {

// Errors: CSAJIT_E_UNSUPPORTED, for a GPU that is not in the table or that cannot run code for `forced`.
Result<const Architecture*> target_of(int device_capability, const Architecture* forced);

// kernels_of for that architecture, or CSAJIT_E_UNSUPPORTED where there are none.
Result<std::vector<KernelRecipe>> recipes_of(const Spec& spec, const Architecture& arch);

// "csajit warmup --arch sm_90 --ratio 4 ..."
std::string warmup_command(const Spec& spec, const Architecture& arch);

}  // namespace csajit
