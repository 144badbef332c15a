// Memory of one check case: tensors laid out between guard zones.
#include "check_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "check_number.hpp"

namespace csajit::tool {
namespace {

constexpr std::int64_t guard_bytes = 4096;  // a multiple of every alignment that is checked

// Depends on the position, so that elements moved by mistake do not look like the pattern.
std::byte pattern(std::size_t at) { return static_cast<std::byte>(0x5bU ^ ((at * 167U) >> 3)); }

}  // namespace

std::int64_t Placement::row_bytes() const { return columns * static_cast<std::int64_t>(element_bytes(type)); }

std::int64_t Placement::byte_of(std::int64_t row) const {
  const std::int64_t element = rows_per_segment > 0
                                   ? row / rows_per_segment * segment_stride + row % rows_per_segment * row_stride
                                   : row * row_stride;
  return first_byte + element * static_cast<std::int64_t>(element_bytes(type));
}

void GuardedBuffer::paint(std::size_t bytes) {
  image_.resize(bytes);
  for (std::size_t i = 0; i < bytes; ++i) image_[i] = pattern(i);
}

std::vector<Placement> GuardedBuffer::lay_out(const Placement& shape, int count, std::int64_t row_gap,
                                              std::int64_t segment_gap, std::int64_t shift) {
  const auto element = static_cast<std::int64_t>(element_bytes(shape.type));
  Placement at = shape;
  at.row_stride = shape.columns * count + row_gap;
  at.segment_stride = shape.rows_per_segment > 0 ? shape.rows_per_segment * at.row_stride + segment_gap : 0;
  at.first_byte = guard_bytes + shift * element;
  const std::int64_t segments = shape.rows_per_segment > 0 ? shape.rows / shape.rows_per_segment : 0;
  const std::int64_t elements = shape.rows_per_segment > 0 ? segments * at.segment_stride : shape.rows * at.row_stride;
  paint(static_cast<std::size_t>(at.first_byte + elements * element + guard_bytes));
  std::vector<Placement> placements{at};
  for (int i = 1; i < count; ++i) {
    at.first_byte += shape.columns * element;
    placements.push_back(at);
  }
  return placements;
}

std::int64_t GuardedBuffer::lay_out_bytes(std::size_t bytes) {
  paint(bytes + 2 * static_cast<std::size_t>(guard_bytes));
  return guard_bytes;
}

std::optional<std::string> GuardedBuffer::first_damage(const std::vector<std::byte>& after,
                                                       const std::vector<Placement>& written, std::int64_t skip_begin,
                                                       std::int64_t skip_bytes) const {
  // Walk the stretches that nobody may write: everything between the (sorted) written rows.
  std::vector<std::pair<std::int64_t, std::int64_t>> allowed;
  if (skip_bytes > 0) allowed.emplace_back(skip_begin, skip_begin + skip_bytes);
  for (const Placement& at : written) {
    for (std::int64_t row = 0; row < at.rows; ++row)
      allowed.emplace_back(at.byte_of(row), at.byte_of(row) + at.row_bytes());
  }
  std::sort(allowed.begin(), allowed.end());
  const auto total = static_cast<std::int64_t>(image_.size());
  allowed.emplace_back(total, total);
  std::int64_t begin = 0;
  for (const auto& [stop, next] : allowed) {
    if (stop > begin &&
        std::memcmp(image_.data() + begin, after.data() + begin, static_cast<std::size_t>(stop - begin)) != 0) {
      while (image_[static_cast<std::size_t>(begin)] == after[static_cast<std::size_t>(begin)]) ++begin;
      return fmt::format("{}: byte {} of {} was overwritten, which belongs to no element that may be written", name_,
                         begin, total);
    }
    begin = std::max(begin, next);
  }
  return std::nullopt;
}

}  // namespace csajit::tool
