#include "compressor/tensor.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>

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

TEST_CASE("vector alignment needs the address and both strides") {
  CHECK(is_vector_aligned(region_of("kv", at(0x1000, 64), 4, 64, false), 2, 4));
  CHECK_FALSE(is_vector_aligned(region_of("kv", at(0x1004, 64), 4, 64, false), 2, 4));
  CHECK_FALSE(is_vector_aligned(region_of("kv", at(0x1000, 66), 4, 64, false), 2, 4));
  CHECK_FALSE(is_vector_aligned(region_of("kv", at(0x1000, 64, 258), 4, 64, false, 2), 2, 4));
}
