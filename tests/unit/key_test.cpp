#include "cache/key.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace csajit;

TEST_CASE("the digest is the canonical XXH3-128 of the bytes") {
  // Of the empty input, as published with xxHash.
  CHECK(digest_hex("") == "99aa06d3014798d86001c324468d497f");
  CHECK(digest_hex("a") != digest_hex("b"));
  CHECK(is_digest_hex(digest_hex("anything")));
}

TEST_CASE("only 32 lower-case hex digits are a digest") {
  CHECK(is_digest_hex("0123456789abcdef0123456789abcdef"));
  CHECK_FALSE(is_digest_hex(""));
  CHECK_FALSE(is_digest_hex("0123456789abcdef0123456789abcde"));
  CHECK_FALSE(is_digest_hex("0123456789abcdef0123456789abcdef0"));
  CHECK_FALSE(is_digest_hex("0123456789ABCDEF0123456789abcdef"));
  CHECK_FALSE(is_digest_hex("0123456789abcdeg0123456789abcdef"));
  CHECK_FALSE(is_digest_hex("../../../../../../../../etc/pass"));
}

TEST_CASE("the canonical bytes are little-endian lengths and texts in order") {
  const Key key({{"ab", "c"}, {"", "def"}});
  CHECK(key.bytes() == std::string("\2\0\0\0ab\1\0\0\0c\0\0\0\0\3\0\0\0def", 22));
  CHECK(key.hex() == digest_hex(key.bytes()));
}

TEST_CASE("keys never change: this one's digest is pinned") {
  CHECK(Key({{"schema", "1"}, {"arch", "sm_90"}}).hex() == "02c58ffe3e625373e59b7ae313beb6c5");
}

TEST_CASE("moving a byte between name, value, field or position makes another key") {
  const std::vector<KeyFields> lists = {
      {{"ab", "c"}},           {{"a", "bc"}},           {{"abc", ""}},           {{"", "abc"}},
      {{"a", ""}, {"bc", ""}}, {{"bc", ""}, {"a", ""}}, {{"a", "b"}, {"c", ""}}, {}};
  std::set<std::string> bytes, hexes;
  for (const KeyFields& fields : lists) {
    bytes.insert(Key(fields).bytes());
    hexes.insert(Key(fields).hex());
  }
  CHECK(bytes.size() == lists.size());
  CHECK(hexes.size() == lists.size());
}

TEST_CASE("fields survive the way through the bytes, zero bytes included") {
  const KeyFields fields = {{"source", std::string("a\0b\n", 4)}, {"", ""}, {"x", std::string(70000, 'y')}};
  const auto back = Key::from_bytes(Key(fields).bytes());
  REQUIRE(back);
  CHECK(back->fields() == fields);
  CHECK(*back == Key(fields));
  CHECK(back->hex() == Key(fields).hex());
}

TEST_CASE("cut, extended and empty bytes are no key") {
  const std::string bytes = Key({{"name", "value"}, {"n", "v"}}).bytes();
  const std::size_t first_field = 4 + 4 + 4 + 5;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    CHECK(Key::from_bytes(std::string_view(bytes).substr(0, length)).has_value() == (length == first_field));
  }
  CHECK_FALSE(Key::from_bytes(bytes + '\0'));
  CHECK_FALSE(Key::from_bytes(std::string("\xff\xff\xff\xff", 4)));
  CHECK_FALSE(
      Key::from_bytes(std::string("\0\0\0\0\xff\xff\xff\xff"
                                  "x",
                                  9)));
}

TEST_CASE("the lock slot is the first byte of the hash") {
  for (int i = 0; i < 50; ++i) {
    const Key key({{"i", std::to_string(i)}});
    CHECK(key.lock_slot() == std::stoul(key.hex().substr(0, 2), nullptr, 16));
  }
  CHECK(Key().lock_slot() == 0);
}
