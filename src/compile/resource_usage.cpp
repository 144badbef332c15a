// The reader of ptxas's verbose text. Accepts the wordings of NVRTC 12.0 to 13.2; refuses to guess at others.
#include "compile/resource_usage.hpp"

#include <charconv>
#include <string>

namespace csajit {
namespace {

// The number that ends right before `unit` ("spill stores") in `line`, with " bytes " between where the text has it.
std::optional<std::uint32_t> number_before(std::string_view line, std::string_view unit) {
  const auto at = line.find(unit);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = line.substr(0, at);
  const auto last = before.find_last_of("0123456789");
  if (last == std::string_view::npos) return std::nullopt;
  const auto gap = before.substr(last + 1);
  if (gap != " " && gap != " bytes ") return std::nullopt;
  const auto not_digit = before.find_last_not_of("0123456789", last);
  const auto first = not_digit == std::string_view::npos ? 0 : not_digit + 1;
  std::uint32_t value = 0;
  const auto [end, code] = std::from_chars(before.data() + first, before.data() + last + 1, value);
  if (code != std::errc{} || end != before.data() + last + 1) return std::nullopt;
  return value;
}

// The first line at or after `from` that holds `words`.
std::string_view line_with(std::string_view text, std::string_view words, std::size_t from = 0) {
  const auto at = text.find(words, from);
  if (at == std::string_view::npos) return {};
  const auto newline = text.rfind('\n', at);
  const auto begin = newline == std::string_view::npos ? 0 : newline + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

}  // namespace

std::optional<ResourceUsage> parse_resource_usage(std::string_view log, std::string_view lowered_name) {
  // The part of the log that speaks of this entry, and of the device functions that it calls.
  const std::string name(lowered_name);
  const auto begin = log.find("Compiling entry function '" + name + "'");
  if (name.empty() || begin == std::string_view::npos) return std::nullopt;
  const std::string_view rest = log.substr(begin);
  const std::string_view part = rest.substr(0, rest.find("Compiling entry function '", 1));

  const auto properties = part.find("Function properties for " + name + "\n");
  if (properties == std::string_view::npos) return std::nullopt;
  const std::string_view frame = line_with(part, "bytes stack frame", properties);
  const std::string_view used = line_with(part, " registers", properties);

  const auto stack = number_before(frame, "stack frame");
  const auto stores = number_before(frame, "spill stores");
  const auto loads = number_before(frame, "spill loads");
  const auto registers = number_before(used, "registers");
  if (!stack || !stores || !loads || !registers) return std::nullopt;

  ResourceUsage usage;
  usage.registers = *registers;
  usage.stack_bytes = *stack;
  usage.spill_bytes = *stores + *loads;
  // Absent where there is none. A called function's frame counts too: it is in the cumulative size only.
  usage.static_smem_bytes = number_before(used, "smem").value_or(0);
  if (const auto cumulative = number_before(used, "cumulative stack size"); cumulative && *cumulative > *stack) {
    usage.stack_bytes = *cumulative;
  }
  return usage;
}

}  // namespace csajit
