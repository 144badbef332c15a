// Any text as the log of a compile: figures or none, never a read outside it.
#include <cstdint>
#include <string_view>

#include "compile/resource_usage.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The name that is looked for is one that a mutated log can hold.
  static_cast<void>(csajit::parse_resource_usage({reinterpret_cast<const char*>(data), size}, "k"));
  return 0;
}
