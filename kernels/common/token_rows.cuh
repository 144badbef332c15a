// Addresses of a window's entries in a tensor with one row a token (or a row of APE).
#pragma once

#include "common/dtype.h"
#include "common/segment.cuh"

namespace csajit {

// Rows of COLUMNS elements; CONTIGUOUS ones follow each other without a gap, so that the addresses of a window are one
// base and constants. Rows count from any row of the tensor: offsets are added modulo 2^64.
template <DType TYPE, int COLUMNS, bool CONTIGUOUS>
struct TokenRows {
  unsigned long long first;  // row 0, column 0
  long long stride;          // elements

  __device__ TokenRows(unsigned long long address, long long row_stride, long long first_row, long long column)
      : first(address), stride(CONTIGUOUS ? COLUMNS : row_stride) {
    first += static_cast<unsigned long long>(first_row * stride + column) * size_of(TYPE);
  }
  __device__ unsigned long long at(int row, int column) const {
    return first + static_cast<unsigned long long>(row * stride + column) * size_of(TYPE);
  }
};

}  // namespace csajit
