// Canonical bytes of named fields and their hash. Refuses byte strings that no list of fields would give.
#include "cache/key.hpp"

#include <limits>
#include <stdexcept>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace csajit {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

void append_length_prefixed(std::string& out, std::string_view text) {
  // 4 GiB in one field is a defect of the caller; a wrapped length would let two lists share their bytes.
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) throw std::length_error("key field of 4 GiB or more");
  const auto length = static_cast<std::uint32_t>(text.size());
  for (unsigned shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>((length >> shift) & 0xffU));
  out.append(text);
}

// Cuts one length-prefixed text off the front of `bytes`; nullopt where there is none.
std::optional<std::string_view> take_length_prefixed(std::string_view& bytes) {
  if (bytes.size() < 4) return std::nullopt;
  std::uint32_t length = 0;
  for (unsigned i = 0; i < 4; ++i) length |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (bytes.size() - 4 < length) return std::nullopt;
  const std::string_view text = bytes.substr(4, length);
  bytes.remove_prefix(4 + std::size_t{length});
  return text;
}

unsigned hex_value(char digit) { return static_cast<unsigned>(hex_digits.find(digit)); }

}  // namespace

Key::Key(const KeyFields& fields) {
  for (const auto& [name, value] : fields) {
    append_length_prefixed(bytes_, name);
    append_length_prefixed(bytes_, value);
  }
  hex_ = digest_hex(bytes_);
}

std::optional<Key> Key::from_bytes(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;  // no fields: nothing that anything could be specialised for
  for (std::string_view rest = bytes; !rest.empty();) {
    if (!take_length_prefixed(rest) || !take_length_prefixed(rest)) return std::nullopt;
  }
  Key key;
  key.bytes_ = bytes;
  key.hex_ = digest_hex(bytes);
  return key;
}

KeyFields Key::fields() const {
  KeyFields result;
  for (std::string_view rest = bytes_; !rest.empty();) {
    const auto name = take_length_prefixed(rest);
    const auto value = take_length_prefixed(rest);
    if (!name || !value) break;  // not reachable: both constructors keep the bytes canonical
    result.emplace_back(*name, *value);
  }
  return result;
}

std::uint8_t Key::lock_slot() const noexcept {
  return hex_.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(hex_value(hex_[0]) * 16 + hex_value(hex_[1]));
}

std::string digest_hex(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string result;
  result.reserve(2 * sizeof canonical.digest);
  for (const unsigned char byte : canonical.digest) {
    result.push_back(hex_digits[byte >> 4]);
    result.push_back(hex_digits[byte & 15]);
  }
  return result;
}

bool is_digest_hex(std::string_view text) {
  return text.size() == 2 * sizeof(XXH128_canonical_t::digest) &&
         text.find_first_not_of(hex_digits) == std::string_view::npos;
}

}  // namespace csajit
