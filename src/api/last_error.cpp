// See last_error.hpp.
#include "api/last_error.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/thread_slot.hpp"

namespace csajit {
namespace {

struct LastError {
  std::string message;
};

}  // namespace

csajit_status set_last_error(csajit_status status, const char* message) noexcept {
  LastError* last = ThreadSlot<LastError>::get();
  if (last == nullptr) return status;
  try {
    last->message = message;
  } catch (...) {
    last->message.clear();
  }
  return status;
}

csajit_status set_last_error(const Error& error) noexcept {
  return set_last_error(error.status, error.message.c_str());
}

std::size_t copy_last_error(char* buffer, std::size_t buffer_bytes) noexcept {
  const LastError* last = ThreadSlot<LastError>::get();
  const std::size_t length = last == nullptr ? 0 : last->message.size();
  if (buffer != nullptr && buffer_bytes > 0) {
    const std::size_t copied = std::min(length, buffer_bytes - 1);
    if (copied > 0) std::memcpy(buffer, last->message.data(), copied);
    buffer[copied] = '\0';
  }
  return length + 1;
}

}  // namespace csajit
