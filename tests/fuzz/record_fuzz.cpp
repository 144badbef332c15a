// Any bytes as a record: refused, or exactly what the encoder would write.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "cache/record.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto record = csajit::decode_record(bytes);
  if (record.ok() && !std::ranges::equal(csajit::encode_record(record->key, record->image), bytes)) std::abort();
  return 0;
}
