// Memory of one check case: tensors laid out between guard zones, with a pattern in every byte that belongs to
// no element. Builds and compares host images; the device is someone else's.
#pragma once

#include <csajit/csajit.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace csajit::tool {

// Rows of adjacent elements inside an image. Rows of a batched tensor are numbered through its segments.
struct Placement {
  csajit_dtype type = CSAJIT_DTYPE_BF16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t first_byte = 0;
  std::int64_t row_stride = 0;        // elements
  std::int64_t segment_stride = 0;    // elements; 0: packed
  std::int64_t rows_per_segment = 0;  // 0: packed

  std::int64_t row_bytes() const;
  std::int64_t byte_of(std::int64_t row) const;  // of its first element, within the image
};

// One allocation: guard, elements and gaps, guard.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::string name) : name_(std::move(name)) {}

  // Adds `count` (1 or 2) tensors of `shape` that share the buffer: the second is the right half of each row.
  // Only type, rows, columns and rows_per_segment of `shape` count. Call once; the image then holds the pattern.
  std::vector<Placement> lay_out(const Placement& shape, int count, std::int64_t row_gap, std::int64_t segment_gap,
                                 std::int64_t shift);
  // A block of plain bytes, 256-byte aligned, at the returned offset.
  std::int64_t lay_out_bytes(std::size_t bytes);

  std::byte* row(const Placement& at, std::int64_t row) { return image_.data() + at.byte_of(row); }

  const std::string& name() const noexcept { return name_; }
  std::vector<std::byte>& image() noexcept { return image_; }
  const std::vector<std::byte>& image() const noexcept { return image_; }

  // The first byte of `after` that differs from the image outside the elements of `written` (and outside
  // [skip_begin, skip_begin + skip_bytes)), in words for people; nullopt if there is none.
  std::optional<std::string> first_damage(const std::vector<std::byte>& after, const std::vector<Placement>& written,
                                          std::int64_t skip_begin = 0, std::int64_t skip_bytes = 0) const;

 private:
  void paint(std::size_t bytes);

  std::string name_;
  std::vector<std::byte> image_;
};

}  // namespace csajit::tool
