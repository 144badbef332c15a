// The table of targets and the reading of their names. Knows no device and no NVRTC at run time.
#include "compile/architecture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace csajit {
namespace {

// Opt-in shared memory of one block, by how large the SM's memory is: 100, 164 or 228 KiB, less 1 KiB reserved.
constexpr int kib_99 = 99 << 10;
constexpr int kib_163 = 163 << 10;
constexpr int kib_227 = 227 << 10;

// capability, name, opt-in shared memory, threads of an SM, the first supported NVRTC that knows it.
constexpr Architecture table[] = {
    {80, "sm_80", kib_163, 2048, 12, 0},   {86, "sm_86", kib_99, 1536, 12, 0},    {87, "sm_87", kib_163, 1536, 12, 0},
    {89, "sm_89", kib_99, 1536, 12, 0},    {90, "sm_90", kib_227, 2048, 12, 0},   {100, "sm_100", kib_227, 2048, 12, 8},
    {103, "sm_103", kib_227, 2048, 12, 9}, {110, "sm_110", kib_227, 1536, 13, 0}, {120, "sm_120", kib_99, 1536, 12, 8},
    {121, "sm_121", kib_99, 1536, 12, 9},
};

std::string list_targets() {
  std::string names;
  for (const Architecture& arch : table) names += fmt::format("{}{}", names.empty() ? "" : ", ", arch.name);
  return names;
}

}  // namespace

std::span<const Architecture> architectures() { return table; }

const Architecture* find_architecture(int capability) {
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [&](const Architecture& arch) { return arch.capability == capability; });
  return found == std::end(table) ? nullptr : found;
}

Result<const Architecture*> parse_architecture(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with("sm_")) digits.remove_prefix(3);
  int capability = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  const bool whole = code == std::errc{} && end == digits.data() + digits.size() && !digits.starts_with('0');
  if (const Architecture* arch = whole ? find_architecture(capability) : nullptr) return arch;
  return Error{CSAJIT_E_INVALID_ARGUMENT,
               fmt::format("\"{}\" is no architecture that csajit compiles for; it is one of {} (without an a or f "
                           "suffix)",
                           text, list_targets())};
}

const Architecture* lower_target(const Architecture& wanted, std::span<const int> known) {
  const Architecture* best = nullptr;
  for (const Architecture& arch : table) {
    const bool same_major = arch.capability / 10 == wanted.capability / 10;
    const bool lower = arch.capability < wanted.capability;
    const bool is_known = std::find(known.begin(), known.end(), arch.capability) != known.end();
    if (same_major && lower && is_known) best = &arch;  // the table ascends
  }
  return best;
}

}  // namespace csajit
