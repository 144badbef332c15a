#include "emulator/packed_case.hpp"

namespace csajit::emulator {

tool::CheckCase packed(const EmulatedSpec& spec, const char* name, const Lengths& lengths) {
  tool::CheckCase check;
  check.name = name;
  check.ratio = spec.ratio;
  check.head_dim = spec.head_dim;
  check.coff = spec.coff;
  check.kv_dtype = spec.kv;
  check.score_dtype = spec.score;
  check.out_dtype = spec.out;
  check.ape = spec.ape;
  for (const std::int64_t length : lengths) {
    check.cu.push_back(check.cu.back() + static_cast<std::int32_t>(length));
    check.comp.push_back(check.comp.back() + static_cast<std::int32_t>(length / spec.ratio));
  }
  check.num_tokens = check.cu.back();
  check.num_rows = check.comp.back();
  return check;
}

void for_each_spec(const std::function<void(const EmulatedSpec&)>& each) {
  for (const EmulatedSpec& spec : emulated_specs()) each(spec);
}

}  // namespace csajit::emulator
