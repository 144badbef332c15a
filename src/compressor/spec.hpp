// What a kernel is specialised for, checked. Plain data; no pointers, no device.
#pragma once

#include <csajit/csajit.h>

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "common/dtype.h"

namespace csajit {

const char* name_of(DType type);  // "bf16"

inline constexpr std::uint32_t max_ratio = 256;
inline constexpr std::uint32_t max_head_dim = 65536;
// Windows up to this many entries run in PyTorch's own serial order (the short family).
inline constexpr std::uint32_t max_short_window = 16;

struct Spec {
  std::uint32_t ratio = 4;
  std::uint32_t head_dim = 128;
  std::uint32_t coff = 2;
  DType kv = DType::bf16;
  DType score = DType::bf16;
  DType out = DType::bf16;
  bool ape = true;

  std::uint32_t columns() const { return coff * head_dim; }  // W
  std::uint32_t window() const { return coff * ratio; }
  bool is_short() const { return window() <= max_short_window && head_dim > 1; }

  friend bool operator==(const Spec&, const Spec&) = default;
};

// Defaults resolved and bounds checked; the message names the field. `spec` must already be of full size.
Result<Spec> parse_spec(const csajit_spec& spec);

std::string describe(const Spec& spec);      // "ratio=4 head_dim=512 coff=2 kv=bf16 score=bf16 out=bf16 ape=present"
std::string warmup_flags(const Spec& spec);  // "--ratio 4 --head-dim 512 --coff 2 --dtype bf16"

}  // namespace csajit

template <>
struct std::hash<csajit::Spec> {
  std::size_t operator()(const csajit::Spec& spec) const noexcept;
};
