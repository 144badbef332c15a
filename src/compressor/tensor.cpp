// Strides into addresses: the check of one tensor, and whether two of them share an element.
#include "compressor/tensor.hpp"

#include <fmt/format.h>

#include <numeric>

namespace csajit {

namespace {

Error invalid(std::string message) { return {CSAJIT_E_INVALID_ARGUMENT, std::move(message)}; }

}  // namespace

Result<TensorRegion> check_tensor(const csajit_tensor& tensor, const TensorShape& shape) {
  TensorRegion region;
  region.name = shape.name;
  region.is_output = shape.is_output;
  region.row_stride = tensor.row_stride == 0 ? shape.columns : tensor.row_stride;
  region.segment_stride = tensor.segment_stride;
  if (shape.segments == 0 || shape.rows == 0) return region;

  if (tensor.data == nullptr) return invalid(fmt::format("{}.data is NULL", shape.name));
  const auto address = reinterpret_cast<std::uint64_t>(tensor.data);
  if (address % static_cast<std::uint64_t>(shape.element_bytes) != 0) {
    return invalid(fmt::format("{}.data: {:#x} is not aligned to its element of {} bytes", shape.name, address,
                               shape.element_bytes));
  }
  if (region.row_stride < shape.columns) {
    return invalid(
        fmt::format("{}.row_stride: {} is less than its {} columns", shape.name, region.row_stride, shape.columns));
  }
  if (region.segment_stride < 0) {
    return invalid(fmt::format("{}.segment_stride: {} is negative", shape.name, region.segment_stride));
  }

  // Elements from the first to one past the last, then bytes: all of it must fit in 63 bits.
  std::int64_t of_segments = 0;
  std::int64_t of_rows = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.segments - 1, region.segment_stride, &of_segments) ||
      __builtin_mul_overflow(shape.rows - 1, region.row_stride, &of_rows) ||
      __builtin_add_overflow(of_segments, of_rows, &elements) ||
      __builtin_add_overflow(elements, shape.columns, &elements) ||
      __builtin_mul_overflow(elements, shape.element_bytes, &bytes) ||
      __builtin_add_overflow(address, static_cast<std::uint64_t>(bytes), &region.end)) {
    return invalid(fmt::format("{}: {} segments x {} rows at strides {} and {} from {:#x} on do not fit in 64 bits",
                               shape.name, shape.segments, shape.rows, region.segment_stride, region.row_stride,
                               address));
  }
  region.begin = address;
  region.row_bytes = shape.columns * shape.element_bytes;
  const bool has_rows = shape.rows > 1;
  const bool has_segments = shape.segments > 1;
  const std::int64_t row_step = has_rows ? region.row_stride * shape.element_bytes : 0;
  const std::int64_t segment_step = has_segments ? region.segment_stride * shape.element_bytes : 0;
  const bool rows_inside = !has_segments || row_step <= segment_step;
  region.inner = rows_inside ? row_step : segment_step;
  region.outer = rows_inside ? segment_step : row_step;
  region.block_bytes = ((rows_inside ? shape.rows : shape.segments) - 1) * region.inner + region.row_bytes;

  if (shape.is_output && shape.segments > 1 && shape.rows > 1) {
    const bool segments_apart = region.segment_stride >= of_rows + shape.columns;
    const bool rows_apart = region.row_stride >= of_segments + shape.columns;
    if (!segments_apart && !rows_apart) {
      return invalid(fmt::format("{}.segment_stride: at {} with row_stride {} its segments overlap", shape.name,
                                 region.segment_stride, region.row_stride));
    }
  } else if (shape.is_output && shape.segments > 1 && region.segment_stride < shape.columns) {
    return invalid(fmt::format("{}.segment_stride: {} is less than its {} columns", shape.name, region.segment_stride,
                               shape.columns));
  }
  return region;
}

namespace {

// Two tensors whose first blocks (or rows) begin `offset` bytes apart, b's after a's where it is positive.

bool rows_apart(const TensorRegion& a, const TensorRegion& b, std::int64_t offset, std::int64_t period) {
  if (period == 0) return offset >= a.row_bytes || -offset >= b.row_bytes;
  const std::int64_t shift = (offset % period + period) % period;
  return shift >= a.row_bytes && period - shift >= b.row_bytes;
}

bool regions_apart(const TensorRegion& a, const TensorRegion& b) {
  if (a.end <= b.begin || b.end <= a.begin) return true;
  const auto offset = static_cast<std::int64_t>(b.begin - a.begin);
  const std::int64_t rows = std::gcd(a.inner, b.inner);
  const std::int64_t blocks = std::gcd(a.outer, b.outer);
  if (blocks == 0 || (rows != 0 && blocks % rows == 0)) return rows_apart(a, b, offset, rows);
  // Blocks meet at every offset congruent to this one; rows must be apart at each that makes blocks overlap.
  constexpr int max_meetings = 64;
  std::int64_t meeting = (offset % blocks + blocks) % blocks;
  meeting -= (meeting + b.block_bytes - 1) / blocks * blocks;
  for (int i = 0; meeting < a.block_bytes; meeting += blocks, ++i) {
    if (i == max_meetings || !rows_apart(a, b, meeting, rows)) return false;
  }
  return true;
}

}  // namespace

Result<void> check_disjoint(std::span<const TensorRegion> regions) {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    for (std::size_t j = i + 1; j < regions.size(); ++j) {
      const TensorRegion& a = regions[i];
      const TensorRegion& b = regions[j];
      if (!a.is_output && !b.is_output) continue;
      if (a.begin == a.end || b.begin == b.end || regions_apart(a, b)) continue;
      return Error{CSAJIT_E_INVALID_ARGUMENT,
                   fmt::format("{} and {} overlap in memory: [{:#x}, {:#x}) and [{:#x}, {:#x})", a.name, b.name,
                               a.begin, a.end, b.begin, b.end)};
    }
  }
  return {};
}

bool is_vector_aligned(const TensorRegion& region, std::int64_t element_bytes, std::uint32_t vector) {
  const auto bytes = static_cast<std::uint64_t>(element_bytes) * vector;
  return region.begin % bytes == 0 && region.row_stride % vector == 0 && region.segment_stride % vector == 0;
}

}  // namespace csajit
