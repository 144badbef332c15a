// The three element types as bits: to and from double, and their spacing. Independent of the kernels' own code.
#pragma once

#include <csajit/csajit.h>

#include <cstddef>
#include <cstdint>

namespace csajit::tool {

std::size_t element_bytes(csajit_dtype type);
const char* dtype_name(csajit_dtype type);  // "bf16"

// Decodes n adjacent elements.
void decode_elements(csajit_dtype type, const std::byte* bits, std::int64_t n, double* values);
// Rounds to nearest, ties to even; beyond the largest finite value gives infinity; NaN becomes a quiet NaN.
void encode_elements(csajit_dtype type, const double* values, std::int64_t n, std::byte* bits);
double decode_element(csajit_dtype type, const std::byte* bits);

// Distance between neighbours of the type in the binade of |value|; below the smallest normal number, the
// smallest denormal. `value` is finite.
double ulp(csajit_dtype type, double value);
// The least magnitude that rounds to infinity.
double overflow_threshold(csajit_dtype type);

// Two NaN patterns that no arithmetic produces: outputs are filled with them, so that an element that keeps one
// was not written.
void fill_unwritten(csajit_dtype type, int variant, std::int64_t n, std::byte* bits);
bool is_unwritten(csajit_dtype type, int variant, const std::byte* bits);

// Standard normal numbers, a pure function of (seed, index), so that threads may fill any part.
double normal(std::uint64_t seed, std::uint64_t index);

}  // namespace csajit::tool
