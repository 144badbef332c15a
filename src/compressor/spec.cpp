// Bounds and names of a spec; what it refuses names the field.
#include "compressor/spec.hpp"

#include <fmt/format.h>

namespace csajit {

static_assert(static_cast<int>(DType::bf16) == CSAJIT_DTYPE_BF16 &&
              static_cast<int>(DType::fp16) == CSAJIT_DTYPE_FP16 && static_cast<int>(DType::fp32) == CSAJIT_DTYPE_FP32);

const char* name_of(DType type) {
  switch (type) {
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
    case DType::fp32:
      return "fp32";
  }
  return "?";
}

namespace {

Result<DType> parse_dtype(std::uint32_t value, DType default_type, const char* field) {
  if (value == CSAJIT_DTYPE_DEFAULT) return default_type;
  if (value > CSAJIT_DTYPE_FP32) {
    return Error{CSAJIT_E_INVALID_ARGUMENT,
                 fmt::format("spec.{}: {} is no csajit_dtype (0 default, 1 bf16, 2 fp16, 3 fp32)", field, value)};
  }
  return static_cast<DType>(value);
}

}  // namespace

Result<Spec> parse_spec(const csajit_spec& spec) {
  const auto out_of_range = [](const char* field, std::uint32_t value, std::uint32_t low, std::uint32_t high) {
    return Error{CSAJIT_E_INVALID_ARGUMENT, fmt::format("spec.{}: {} is outside {}..{}", field, value, low, high)};
  };
  if (spec.ratio < 1 || spec.ratio > max_ratio) return out_of_range("ratio", spec.ratio, 1, max_ratio);
  if (spec.head_dim < 1 || spec.head_dim > max_head_dim) {
    return out_of_range("head_dim", spec.head_dim, 1, max_head_dim);
  }
  if (spec.coff < 1 || spec.coff > 2) return out_of_range("coff", spec.coff, 1, 2);
  if (spec.ape > CSAJIT_APE_ABSENT) return out_of_range("ape", spec.ape, 0, CSAJIT_APE_ABSENT);

  Spec parsed;
  parsed.ratio = spec.ratio;
  parsed.head_dim = spec.head_dim;
  parsed.coff = spec.coff;
  parsed.ape = spec.ape == CSAJIT_APE_PRESENT;
  auto kv = parse_dtype(spec.kv_dtype, DType::bf16, "kv_dtype");
  if (!kv) return std::move(kv).error();
  parsed.kv = *kv;
  auto score = parse_dtype(spec.score_dtype, DType::bf16, "score_dtype");
  if (!score) return std::move(score).error();
  parsed.score = *score;
  auto out = parse_dtype(spec.out_dtype, parsed.kv, "out_dtype");
  if (!out) return std::move(out).error();
  parsed.out = *out;
  return parsed;
}

std::string describe(const Spec& spec) {
  return fmt::format("ratio={} head_dim={} coff={} kv={} score={} out={} ape={}", spec.ratio, spec.head_dim, spec.coff,
                     name_of(spec.kv), name_of(spec.score), name_of(spec.out), spec.ape ? "present" : "absent");
}

std::string warmup_flags(const Spec& spec) {
  const bool one_dtype = spec.kv == spec.score && spec.kv == spec.out;
  const std::string dtype =
      one_dtype ? name_of(spec.kv) : fmt::format("{}:{}:{}", name_of(spec.kv), name_of(spec.score), name_of(spec.out));
  return fmt::format("--ratio {} --head-dim {} --coff {} --dtype {}{}", spec.ratio, spec.head_dim, spec.coff, dtype,
                     spec.ape ? "" : " --no-ape");
}

}  // namespace csajit

std::size_t std::hash<csajit::Spec>::operator()(const csajit::Spec& spec) const noexcept {
  std::uint64_t packed = spec.head_dim;
  packed = packed << 9 | spec.ratio;
  packed = packed << 2 | spec.coff;
  packed = packed << 2 | static_cast<std::uint64_t>(spec.kv);
  packed = packed << 2 | static_cast<std::uint64_t>(spec.score);
  packed = packed << 2 | static_cast<std::uint64_t>(spec.out);
  packed = packed << 1 | static_cast<std::uint64_t>(spec.ape);
  return static_cast<std::size_t>(packed * 0x9e3779b97f4a7c15ULL);  // spreads the low bits over the word
}
