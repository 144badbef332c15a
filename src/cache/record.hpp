// On-disk record of one kernel. Knows bytes, not paths.
#pragma once

#include <cstddef>
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

// Layout (little-endian): see record.cpp. Checksum over every other byte of header and payload.
std::vector<std::byte> encode_record(const Key& key, const KernelImage& image);

// Any short, long, foreign, future or damaged input is an Error whose message says what is wrong with it.
Result<Record> decode_record(std::span<const std::byte> bytes);

}  // namespace csajit
