// Any bytes as a key: refused, or the canonical form of the fields it decodes to.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cache/key.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto key = csajit::Key::from_bytes(bytes);
  if (key && csajit::Key(key->fields()).bytes() != bytes) std::abort();
  return 0;
}
