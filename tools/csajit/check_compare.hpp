// Holds the outputs of one case against the oracle, element by element, on all threads of the machine. Knows
// host images only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "check_buffer.hpp"
#include "check_case.hpp"
#include "check_window.hpp"

namespace csajit::tool {

enum class Output : std::uint8_t { out, grad_kv, grad_score, grad_ape };
inline constexpr std::size_t num_outputs = 4;
const char* name_of(Output output);

// A tensor of a host image; data is nullptr where it is absent or not wanted.
struct TensorBytes {
  const std::byte* image = nullptr;
  Placement at;

  explicit operator bool() const noexcept { return image != nullptr; }
  const std::byte* row(std::int64_t i) const { return image + at.byte_of(i); }
  const std::byte* element(std::int64_t i, std::int64_t j) const;
};

struct CompareInput {
  TensorBytes kv, score, ape, grad_out;
  TensorBytes out, grad_kv, grad_score, grad_ape;  // as the device left them
  TensorBytes initial_grad_ape;                    // what it held before; set if the case accumulates
  int unwritten_variant = 0;                       // the NaN pattern that the outputs were filled with
};

struct CompareResult {
  std::array<double, num_outputs> worst{-1, -1, -1, -1};  // largest error in units of the bound; -1: no such output
  std::uint64_t misses = 0;  // elements beyond the bound, not written, or not exactly +0 where due
  std::string message;       // the worst miss, in words; empty without one

  void note(Output output, double error);
};

CompareResult compare_outputs(const CheckCase& check, const Windows& windows, const CompareInput& input,
                              unsigned threads);

}  // namespace csajit::tool
