// One tensor argument, checked: where its elements lie and whether two tensors can share one. No device.
#pragma once

#include <csajit/csajit.h>

#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace csajit {

// Rows of `columns` adjacent elements; row (s, t) begins at s * segment_stride + t * row_stride.
struct TensorShape {
  const char* name = "";  // as in the public struct: "kv"
  std::int64_t segments = 1;
  std::int64_t rows = 0;  // of one segment
  std::int64_t columns = 0;
  std::int64_t element_bytes = 0;
  bool is_output = false;
};

// A checked tensor: strides with defaults resolved, and where its bytes lie: blocks `outer` apart, in each of them
// rows `inner` apart. Empty ones have begin == end.
struct TensorRegion {
  const char* name = "";
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::int64_t row_stride = 0;      // elements
  std::int64_t segment_stride = 0;  // elements
  std::int64_t row_bytes = 0;       // the bytes of one row that are elements
  std::int64_t inner = 0;           // bytes from row to row of a block; 0: there is one
  std::int64_t block_bytes = 0;     // from a block's first row to the end of its last
  std::int64_t outer = 0;           // bytes from block to block; 0: there is one
  bool is_output = false;
};

// Checks pointer, alignment, strides and overflow. A tensor without elements may have any data and strides.
Result<TensorRegion> check_tensor(const csajit_tensor& tensor, const TensorShape& shape);

// Rows and columns of one buffer that belong to two tensors may interleave: the halves of a fused GEMM's output do,
// packed or batched. Fails naming both where an output might share an element with another tensor.
// Tensors of equal strides are told apart whatever their gaps; of those with unequal strides in one buffer, some that
// share nothing are refused too.
Result<void> check_disjoint(std::span<const TensorRegion> regions);

// True if `vector` elements of every row can be moved as one access.
bool is_vector_aligned(const TensorRegion& region, std::int64_t element_bytes, std::uint32_t vector);

}  // namespace csajit
