// On-disk record of one kernel. Knows bytes, not paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/kernel_image.hpp"
#include "base/result.hpp"
#include "cache/key.hpp"

namespace csajit {

struct Record {
  Key key;
  KernelImage image;
};

// No record is longer: readers refuse a bigger file unread.
inline constexpr std::uint64_t max_record_bytes = 80 + (16ULL << 20) + 3 * (64ULL << 10) + (256ULL << 20);

// Bytes of the record of `image`, without making it.
std::uint64_t record_bytes(const Key& key, const KernelImage& image);

// The first bytes of every record, of any format version.
inline constexpr std::size_t magic_bytes = 8;
// Whether a record may begin like this; a temporary may end before its magic does.
bool begins_like_record(std::span<const std::byte> bytes);

// Layout (little-endian): see record.cpp. Checksum over every other byte of header and payload.
std::vector<std::byte> encode_record(const Key& key, const KernelImage& image);

// Any short, long, foreign, future or damaged input is an Error whose message says what is wrong with it.
Result<Record> decode_record(std::span<const std::byte> bytes);

}  // namespace csajit
