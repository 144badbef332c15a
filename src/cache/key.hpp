// The identity of a compiled kernel: named fields -> canonical bytes -> XXH3-128. Knows no paths and no specs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace csajit {

using KeyFields = std::vector<std::pair<std::string, std::string>>;

class Key {
 public:
  Key() = default;
  // Canonical bytes: for each field, in order, length-prefixed name and value (little-endian u32 lengths).
  explicit Key(const KeyFields& fields);

  // The inverse; nullopt where `bytes` is not a canonical form.
  static std::optional<Key> from_bytes(std::string_view bytes);

  const std::string& bytes() const noexcept { return bytes_; }
  const std::string& hex() const noexcept { return hex_; }  // 32 lower-case digits of the canonical XXH3-128
  KeyFields fields() const;                                 // decoded
  std::uint8_t lock_slot() const noexcept;                  // first byte of the hash

  friend bool operator==(const Key& a, const Key& b) noexcept { return a.bytes_ == b.bytes_; }

 private:
  std::string bytes_;
  std::string hex_;
};

// 32 hex digits of the XXH3-128 of `bytes`.
std::string digest_hex(std::string_view bytes);
bool is_digest_hex(std::string_view text);

}  // namespace csajit
