// What a validated launch looks at: the memory that its arguments span, and the segment arrays by a kernel. Plans
// and words it; asks no driver.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "common/launch_args.h"
#include "common/offset_check.h"
#include "compressor/problem.hpp"
#include "compressor/spec.hpp"

namespace csajit {

// Bytes [begin, end) of a device pointer that the caller passed.
struct PointerArgument {
  const char* name = "";  // as in the public struct: "grad_kv"
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct PointerArguments {
  std::uint32_t count = 0;
  std::array<PointerArgument, 11> list{};
};

// Of a planned call: every argument with at least one byte.
PointerArguments pointer_arguments(const Spec& spec, const LaunchArgs& launch_args);

// The check kernel for a planned call, or nothing where a segment array is absent. `check_args` becomes its
// argument: it reads the call's arrays and writes its verdict, 8 bytes, to the address `verdict`.
std::optional<KernelLaunch> plan_offset_check(std::span<const KernelShape> kernels, const LaunchArgs& launch_args,
                                              std::uint64_t verdict, LaunchArgs& check_args);

// The bad entry of both arrays and the one before it (0 for entry 0), as they lie on the device.
struct OffsetEntries {
  std::int32_t cu_before = 0;
  std::int32_t cu = 0;
  std::int32_t comp_before = 0;
  std::int32_t comp = 0;
};

// A verdict other than kOffsetsAreGood, in words: "cu_seqlens[3]: 17 is less than cu_seqlens[2] = 20".
std::string describe_offset_defect(const Spec& spec, const LaunchArgs& launch_args, unsigned long long verdict,
                                   const OffsetEntries& entries);

}  // namespace csajit
