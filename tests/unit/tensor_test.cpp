#include "compressor/tensor.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <set>
#include <string>
#include <utility>

using namespace csajit;

namespace {

csajit_tensor at(std::uint64_t address, std::int64_t row_stride = 0, std::int64_t segment_stride = 0) {
  return {reinterpret_cast<void*>(address), row_stride, segment_stride};
}

TensorRegion region_of(const char* name, const csajit_tensor& tensor, std::int64_t rows, std::int64_t columns,
                       bool is_output, std::int64_t segments = 1) {
  auto region = check_tensor(tensor, {name, segments, rows, columns, 2, is_output});
  REQUIRE_MESSAGE(region.ok(), region.error().message);
  return *region;
}

std::string message_of(const csajit_tensor& tensor, const TensorShape& shape) {
  auto region = check_tensor(tensor, shape);
  REQUIRE_FALSE(region.ok());
  CHECK(region.error().status == CSAJIT_E_INVALID_ARGUMENT);
  return region.error().message;
}

}  // namespace

TEST_CASE("a tensor without rows may have any pointer and stride") {
  CHECK(check_tensor(at(1, -5), {"kv", 1, 0, 8, 2, false}).ok());
  CHECK(check_tensor(at(0), {"kv", 0, 7, 8, 2, false}).ok());
}

TEST_CASE("a bad tensor is refused by name and field") {
  CHECK(message_of(at(0), {"kv", 1, 4, 8, 2, false}).find("kv.data is NULL") == 0);
  CHECK(message_of(at(0x1001), {"score", 1, 4, 8, 2, false}).find("score.data") == 0);
  CHECK(message_of(at(0x1002), {"ape", 1, 4, 8, 4, false}).find("ape.data") == 0);
  CHECK(message_of(at(0x1000, 7), {"out", 1, 4, 8, 2, true}).find("out.row_stride: 7") == 0);
  CHECK(message_of(at(0x1000, -8), {"out", 1, 4, 8, 2, true}).find("out.row_stride: -8") == 0);
  CHECK(message_of(at(0x1000, 8, -1), {"kv", 2, 4, 8, 2, false}).find("kv.segment_stride") == 0);
}

TEST_CASE("extents that leave 64 bits are refused") {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max() / 4;
  CHECK(message_of(at(0x1000, huge), {"kv", 1, 9, 8, 2, false}).find("kv:") == 0);
  CHECK(message_of(at(0x1000), {"kv", 1, huge, 8, 4, false}).find("kv:") == 0);
  CHECK(check_tensor(at(0x1000), {"kv", 1, 1LL << 40, 1024, 2, false}).ok());
}

TEST_CASE("the halves of one buffer are disjoint") {
  const std::int64_t stride = 2 * 64;
  const std::array halves{region_of("kv", at(0x1000, stride), 10, 64, false),
                          region_of("grad_kv", at(0x1000 + 64 * 2, stride), 10, 64, true)};
  CHECK(check_disjoint(halves).ok());
  const std::array overlapping{region_of("kv", at(0x1000, stride), 10, 64, false),
                               region_of("grad_kv", at(0x1000 + 63 * 2, stride), 10, 64, true)};
  const auto checked = check_disjoint(overlapping);
  REQUIRE_FALSE(checked.ok());
  CHECK(checked.error().message.find("kv and grad_kv overlap") == 0);
}

TEST_CASE("interleaved columns are told apart in either order of the buffers") {
  const std::int64_t stride = 96;
  const auto high = region_of("grad_score", at(0x1000 + 2 * 64, stride), 10, 32, true);
  const auto low = region_of("grad_kv", at(0x1000, stride), 10, 64, true);
  CHECK(check_disjoint(std::array{high, low}).ok());
  CHECK(check_disjoint(std::array{low, high}).ok());
  const auto one_more = region_of("grad_kv", at(0x1000 - 2, stride), 10, 66, true);
  CHECK_FALSE(check_disjoint(std::array{high, one_more}).ok());
}

TEST_CASE("two inputs may share memory, an output may not share with an input") {
  const auto a = region_of("kv", at(0x1000), 10, 64, false);
  const auto b = region_of("score", at(0x1000), 10, 64, false);
  const auto c = region_of("out", at(0x1000 + 64 * 2 * 9), 1, 64, true);
  CHECK(check_disjoint(std::array{a, b}).ok());
  CHECK_FALSE(check_disjoint(std::array{a, b, c}).ok());
}

TEST_CASE("touching ranges do not overlap") {
  const auto a = region_of("kv", at(0x1000), 10, 64, false);
  const auto b = region_of("grad_kv", at(0x1000 + 10 * 64 * 2), 10, 64, true);
  CHECK(check_disjoint(std::array{a, b}).ok());
}

TEST_CASE("batched outputs may be segment-major or row-major but not overlap themselves") {
  CHECK(check_tensor(at(0x1000, 8, 8 * 5), {"grad_kv", 3, 5, 8, 2, true}).ok());
  CHECK(check_tensor(at(0x1000, 8 * 3, 8), {"grad_kv", 3, 5, 8, 2, true}).ok());
  CHECK(message_of(at(0x1000, 8, 8), {"grad_kv", 3, 5, 8, 2, true}).find("grad_kv.segment_stride") == 0);
  CHECK(message_of(at(0x1000, 8, 4), {"grad_kv", 3, 1, 8, 2, true}).find("grad_kv.segment_stride") == 0);
  CHECK(check_tensor(at(0x1000, 8, 8), {"kv", 3, 5, 8, 2, false}).ok());  // an input may be read twice
}

TEST_CASE("batched halves of one buffer are disjoint, whatever lies between rows and segments") {
  for (const std::int64_t row_gap : {0, 3}) {
    for (const std::int64_t segment_gap : {0, 40, 7}) {
      const std::int64_t row = 2 * 64 + row_gap;
      const std::int64_t segment = 10 * row + segment_gap;
      const auto low = region_of("grad_kv", at(0x1000, row, segment), 10, 64, true, 5);
      const auto high = region_of("grad_score", at(0x1000 + 2 * 64, row, segment), 10, 64, true, 5);
      CHECK(check_disjoint(std::array{low, high}).ok());
      CHECK(check_disjoint(std::array{high, low}).ok());
      const auto one_early = region_of("grad_score", at(0x1000 + 2 * 63, row, segment), 10, 64, true, 5);
      CHECK_FALSE(check_disjoint(std::array{low, one_early}).ok());
      CHECK_FALSE(check_disjoint(std::array{one_early, low}).ok());
      const auto late = region_of("grad_score", at(0x1000 + 2 * (65 + row_gap), row, segment), 10, 64, true, 5);
      CHECK_FALSE(check_disjoint(std::array{low, late}).ok());
    }
  }
}

TEST_CASE("row-major batches interleave by columns") {
  const std::int64_t segment = 2 * 64;
  const std::int64_t row = 5 * segment + 1;
  const auto low = region_of("grad_kv", at(0x1000, row, segment), 10, 64, true, 5);
  const auto high = region_of("grad_score", at(0x1000 + 2 * 64, row, segment), 10, 64, true, 5);
  CHECK(check_disjoint(std::array{low, high}).ok());
  const auto early = region_of("grad_score", at(0x1000 + 2 * 63, row, segment), 10, 64, true, 5);
  CHECK_FALSE(check_disjoint(std::array{low, early}).ok());
}

TEST_CASE("disjointness agrees with a count of every element") {
  // Small layouts in one buffer, every offset: refused whenever an element is shared; never refused for equal
  // strides where none would be shared if the outer dimension went on to both sides.
  const auto elements = [](std::int64_t base, std::int64_t row, std::int64_t segment, std::int64_t columns, int more) {
    std::set<std::int64_t> all;
    const int more_rows = row > segment ? more : 0;
    const int more_segments = row > segment ? 0 : more;
    for (std::int64_t s = -more_segments; s < 3 + more_segments; ++s) {
      for (std::int64_t t = -more_rows; t < 4 + more_rows; ++t) {
        for (std::int64_t c = 0; c < columns; ++c) all.insert(base + s * segment + t * row + c);
      }
    }
    return all;
  };
  int apart = 0;
  for (const auto& [row, segment] : {std::pair{5, 23}, std::pair{6, 24}, std::pair{17, 5}, std::pair{7, 30}}) {
    for (const auto& [other_row, other_segment] : {std::pair{row, segment}, std::pair{6, 24}, std::pair{5, 21}}) {
      for (std::int64_t offset = 0; offset < 70; ++offset) {
        for (const std::int64_t columns : {1, 2, 3}) {
          const auto a = region_of("a", at(0x1000, row, segment), 4, 3, false, 3);
          const auto b = region_of("b", at(0x1000 + 2 * static_cast<std::uint64_t>(offset), other_row, other_segment),
                                   4, columns, true, 3);
          const auto in_a = elements(0, row, segment, 3, 0);
          const auto around_a = elements(0, row, segment, 3, 20);
          bool shared = false;
          bool meets = false;
          for (const std::int64_t e : elements(offset, other_row, other_segment, columns, 0)) {
            shared |= in_a.contains(e);
            meets |= around_a.contains(e);
          }
          const bool accepted = check_disjoint(std::array{a, b}).ok();
          if (shared) CHECK_FALSE(accepted);
          if (!meets && row == other_row && segment == other_segment) CHECK(accepted);
          if (accepted) ++apart;
        }
      }
    }
  }
  CHECK(apart > 100);
}

TEST_CASE("vector alignment needs the address and both strides") {
  CHECK(is_vector_aligned(region_of("kv", at(0x1000, 64), 4, 64, false), 2, 4));
  CHECK_FALSE(is_vector_aligned(region_of("kv", at(0x1004, 64), 4, 64, false), 2, 4));
  CHECK_FALSE(is_vector_aligned(region_of("kv", at(0x1000, 66), 4, 64, false), 2, 4));
  CHECK_FALSE(is_vector_aligned(region_of("kv", at(0x1000, 64, 258), 4, 64, false, 2), 2, 4));
}
