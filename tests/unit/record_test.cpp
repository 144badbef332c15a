#include "cache/record.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

using namespace csajit;

namespace {

Key sample_key() { return Key({{"schema", "1"}, {"arch", "sm_90"}, {"ratio", "4"}}); }

KernelImage sample_image() {
  KernelImage image;
  image.arch = "sm_90";
  image.nvrtc_version = "13.0";
  image.lowered_name = "_ZN6csajit6sampleEv";
  image.usage = {40, 8, 16, 1024};
  image.compile_ms = 123.5;
  for (int i = 0; i < 300; ++i) image.cubin.push_back(static_cast<std::byte>(i * 7));
  return image;
}

void check_same(const KernelImage& a, const KernelImage& b) {
  CHECK(a.arch == b.arch);
  CHECK(a.nvrtc_version == b.nvrtc_version);
  CHECK(a.lowered_name == b.lowered_name);
  CHECK(a.usage.registers == b.usage.registers);
  CHECK(a.usage.spill_bytes == b.usage.spill_bytes);
  CHECK(a.usage.stack_bytes == b.usage.stack_bytes);
  CHECK(a.usage.static_smem_bytes == b.usage.static_smem_bytes);
  CHECK(a.compile_ms == b.compile_ms);
  CHECK(a.cubin == b.cubin);
}

std::string problem_of(const std::vector<std::byte>& bytes) {
  const auto record = decode_record(bytes);
  return record.ok() ? "" : record.error().message;
}

std::string golden_path() { return std::string(CSAJIT_SOURCE_DIR) + "/tests/golden/record.v1.bin"; }

}  // namespace

TEST_CASE("a record decodes to what was encoded") {
  const auto record = decode_record(encode_record(sample_key(), sample_image()));
  REQUIRE_MESSAGE(record.ok(), record.error().message);
  CHECK(record->key == sample_key());
  CHECK(record->key.hex() == sample_key().hex());
  CHECK(record_bytes(sample_key(), sample_image()) == encode_record(sample_key(), sample_image()).size());
  check_same(record->image, sample_image());
}

// The golden file pins format version 1. A failure here means that caches in the field would be lost: make a new
// version instead. The file itself was written by CSAJIT_WRITE_GOLDEN=1 csajit_unit_tests -tc='the golden*'.
TEST_CASE("the golden record of version 1 decodes, and the encoder still writes those bytes") {
  const auto written = encode_record(sample_key(), sample_image());
  if (std::getenv("CSAJIT_WRITE_GOLDEN") != nullptr) {
    std::ofstream file(golden_path(), std::ios::binary);
    file.write(reinterpret_cast<const char*>(written.data()), static_cast<std::streamsize>(written.size()));
  }
  std::ifstream file(golden_path(), std::ios::binary);
  REQUIRE(file);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::byte> golden(text.size());
  std::memcpy(golden.data(), text.data(), text.size());
  const auto record = decode_record(golden);
  REQUIRE_MESSAGE(record.ok(), record.error().message);
  CHECK(record->key == sample_key());
  check_same(record->image, sample_image());
  CHECK(golden == written);
}

TEST_CASE("every flipped bit, in header and payload alike, is noticed") {
  const auto good = encode_record(sample_key(), sample_image());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      auto damaged = good;
      damaged[i] ^= static_cast<std::byte>(1U << bit);
      if (decode_record(damaged).ok()) FAIL_CHECK("byte " << i << " bit " << bit << " was not noticed");
    }
  }
}

TEST_CASE("every shortened record and every longer one is refused") {
  const auto good = encode_record(sample_key(), sample_image());
  for (std::size_t length = 0; length < good.size(); ++length) {
    if (decode_record(std::span(good).first(length)).ok()) FAIL_CHECK("length " << length << " was accepted");
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK(problem_of(longer).find("its header says") != std::string::npos);
}

TEST_CASE("what is wrong with a record is said") {
  const auto good = encode_record(sample_key(), sample_image());
  CHECK(problem_of({}).find("less than a header") != std::string::npos);
  CHECK(problem_of(std::vector<std::byte>(200)).find("not a csajit record") != std::string::npos);
  auto future = good;
  future[8] = std::byte{2};
  CHECK(problem_of(future) == "it has format version 2, this csajit reads 1");
  auto damaged = good;
  damaged.back() ^= std::byte{1};
  CHECK(problem_of(damaged).find("checksum") != std::string::npos);
}

TEST_CASE("lengths that would overflow or exhaust memory are refused before use") {
  for (const std::size_t offset : {12U, 16U, 20U, 24U, 56U, 60U}) {
    auto damaged = encode_record(sample_key(), sample_image());
    for (std::size_t i = 0; i < 4; ++i) damaged[offset + i] = std::byte{0xff};
    CHECK(problem_of(damaged) == "a length in its header is out of bounds");
  }
}

TEST_CASE("a rightly summed record with senseless contents is refused") {
  KernelImage image = sample_image();
  image.cubin.clear();
  CHECK(problem_of(encode_record(sample_key(), image)).find("empty") != std::string::npos);
  image = sample_image();
  image.arch.clear();
  CHECK(problem_of(encode_record(sample_key(), image)).find("empty") != std::string::npos);
  image = sample_image();
  image.lowered_name = std::string("a\0b", 3);
  CHECK(problem_of(encode_record(sample_key(), image)).find("zero byte") != std::string::npos);
  for (const double ms : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    image = sample_image();
    image.compile_ms = ms;
    CHECK(problem_of(encode_record(sample_key(), image)).find("compile time") != std::string::npos);
  }
  CHECK(problem_of(encode_record(Key(), sample_image())).find("key") != std::string::npos);
}

TEST_CASE("the checksum covers each byte once: swapping two payload bytes is noticed") {
  auto swapped = encode_record(sample_key(), sample_image());
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  CHECK_FALSE(decode_record(swapped).ok());
}
