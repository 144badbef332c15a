// See target.hpp.
#include "service/target.hpp"

#include <fmt/format.h>

namespace csajit {
namespace {

std::string capability_text(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

}  // namespace

Result<const Architecture*> target_of(int device_capability, const Architecture* forced) {
  if (forced != nullptr) {
    // Cubins run on their own major version, from their own minor version on.
    if (forced->capability / 10 == device_capability / 10 && forced->capability <= device_capability) return forced;
    return Error{CSAJIT_E_UNSUPPORTED, fmt::format("{} is forced (CSAJIT_ARCH or the arch option), but code for it "
                                                   "does not run on compute capability {}",
                                                   forced->name, capability_text(device_capability))};
  }
  if (const Architecture* exact = find_architecture(device_capability)) return exact;
  const Architecture* lower = nullptr;
  for (const Architecture& arch : architectures()) {
    if (arch.capability / 10 == device_capability / 10 && arch.capability < device_capability) lower = &arch;
  }
  return Error{CSAJIT_E_UNSUPPORTED,
               fmt::format("compute capability {} is not a target of this csajit{}", capability_text(device_capability),
                           lower == nullptr ? "" : fmt::format("; CSAJIT_ARCH={} would run on it", lower->name))};
}

Result<std::vector<KernelRecipe>> recipes_of(const Spec& spec, const Architecture& arch) {
  auto recipes = kernels_of(spec, arch.max_smem_bytes);
  if (recipes.empty()) {
    return Error{CSAJIT_E_UNSUPPORTED, fmt::format("no kernel serves {} on {}", describe(spec), arch.name)};
  }
  return recipes;
}

std::string warmup_command(const Spec& spec, const Architecture& arch) {
  return fmt::format("csajit warmup --arch {} {}", arch.name, warmup_flags(spec));
}

}  // namespace csajit
