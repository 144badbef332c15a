// Encoder and strict decoder of a record. Takes nothing on trust: a length is compared with what is there before it
// is used, and no byte is left over.
//
// Layout, format version 1; integers little-endian, offsets in bytes:
//     0   8  magic 43 53 41 4a 49 54 1a 0a ("CSAJIT", end-of-file mark, line feed: text transfers damage it visibly)
//     8   4  format version
//    12   4  key bytes             (the canonical form of key.hpp)
//    16   4  architecture bytes
//    20   4  NVRTC version bytes
//    24   4  lowered name bytes
//    28   4  registers
//    32   4  spill bytes
//    36   4  stack bytes
//    40   4  static shared memory bytes
//    44   4  zero
//    48   8  compile time in ms, IEEE 754 double
//    56   8  cubin bytes
//    64  16  XXH3-128, canonical form, of every other byte of the file: 0..63, then 80 to the end
//    80      key, architecture, NVRTC version, lowered name, cubin, one after the other
// Format version 1 never changes; a change is a new version with a new golden file (tests/golden).
#include "cache/record.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace csajit {
namespace {

constexpr std::array<unsigned char, magic_bytes> magic = {'C', 'S', 'A', 'J', 'I', 'T', 0x1a, '\n'};
constexpr std::uint32_t format_version = 1;
constexpr std::size_t checksum_offset = 64;
constexpr std::size_t header_bytes = checksum_offset + sizeof(XXH128_canonical_t);
static_assert(header_bytes == 80);

// Far above what a kernel needs, and their sum is what a reader may be made to allocate.
constexpr std::uint64_t max_key_bytes = 16ULL << 20;
constexpr std::uint64_t max_text_bytes = 64ULL << 10;
constexpr std::uint64_t max_cubin_bytes = 256ULL << 20;
static_assert(max_record_bytes == header_bytes + max_key_bytes + 3 * max_text_bytes + max_cubin_bytes);

template <class Integer>
void append_integer(std::vector<std::byte>& out, Integer value) {
  for (unsigned shift = 0; shift < 8 * sizeof value; shift += 8)
    out.push_back(static_cast<std::byte>((value >> shift) & 0xffU));
}

void append_text(std::vector<std::byte>& out, std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), begin, begin + text.size());
}

template <class Integer>
Integer integer_at(std::span<const std::byte> bytes, std::size_t offset) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<Integer>(bytes[offset + i]) << (8 * i);
  return value;
}

XXH128_canonical_t checksum(std::span<const std::byte> bytes) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, bytes.data(), checksum_offset);
  XXH3_128bits_update(&state, bytes.data() + header_bytes, bytes.size() - header_bytes);
  XXH128_canonical_t result;
  XXH128_canonicalFromHash(&result, XXH3_128bits_digest(&state));
  return result;
}

Error bad(std::string what) { return Error{CSAJIT_E_INVALID_ARGUMENT, std::move(what)}; }

// Hands out the variable part piece by piece; the caller has checked that the pieces fit exactly.
class Pieces {
 public:
  explicit Pieces(std::span<const std::byte> rest) : rest_(rest) {}
  std::span<const std::byte> take(std::uint64_t bytes) {
    const auto piece = rest_.first(static_cast<std::size_t>(bytes));
    rest_ = rest_.subspan(static_cast<std::size_t>(bytes));
    return piece;
  }
  std::string_view take_text(std::uint64_t bytes) {
    const auto piece = take(bytes);
    return {reinterpret_cast<const char*>(piece.data()), piece.size()};
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace

std::uint64_t record_bytes(const Key& key, const KernelImage& image) {
  return header_bytes + key.bytes().size() + image.arch.size() + image.nvrtc_version.size() +
         image.lowered_name.size() + image.cubin.size();
}

bool begins_like_record(std::span<const std::byte> bytes) {
  return std::memcmp(bytes.data(), magic.data(), std::min(bytes.size(), magic.size())) == 0;
}

std::vector<std::byte> encode_record(const Key& key, const KernelImage& image) {
  std::vector<std::byte> out;
  out.reserve(static_cast<std::size_t>(record_bytes(key, image)));
  for (const unsigned char byte : magic) out.push_back(static_cast<std::byte>(byte));
  append_integer(out, format_version);
  append_integer(out, static_cast<std::uint32_t>(key.bytes().size()));
  append_integer(out, static_cast<std::uint32_t>(image.arch.size()));
  append_integer(out, static_cast<std::uint32_t>(image.nvrtc_version.size()));
  append_integer(out, static_cast<std::uint32_t>(image.lowered_name.size()));
  append_integer(out, image.usage.registers);
  append_integer(out, image.usage.spill_bytes);
  append_integer(out, image.usage.stack_bytes);
  append_integer(out, image.usage.static_smem_bytes);
  append_integer(out, std::uint32_t{0});
  append_integer(out, std::bit_cast<std::uint64_t>(image.compile_ms));
  append_integer(out, std::uint64_t{image.cubin.size()});
  out.resize(header_bytes);
  append_text(out, key.bytes());
  append_text(out, image.arch);
  append_text(out, image.nvrtc_version);
  append_text(out, image.lowered_name);
  out.insert(out.end(), image.cubin.begin(), image.cubin.end());
  const XXH128_canonical_t sum = checksum(out);
  std::memcpy(out.data() + checksum_offset, sum.digest, sizeof sum.digest);
  return out;
}

Result<Record> decode_record(std::span<const std::byte> bytes) {
  if (bytes.size() < header_bytes) {
    return bad("it has " + std::to_string(bytes.size()) + " bytes, less than a header");
  }
  if (!begins_like_record(bytes)) return bad("it is not a csajit record");
  const auto version = integer_at<std::uint32_t>(bytes, 8);
  if (version != format_version) {
    return bad("it has format version " + std::to_string(version) + ", this csajit reads " +
               std::to_string(format_version));
  }

  const std::uint64_t key_bytes = integer_at<std::uint32_t>(bytes, 12);
  const std::uint64_t arch_bytes = integer_at<std::uint32_t>(bytes, 16);
  const std::uint64_t nvrtc_bytes = integer_at<std::uint32_t>(bytes, 20);
  const std::uint64_t name_bytes = integer_at<std::uint32_t>(bytes, 24);
  const auto cubin_bytes = integer_at<std::uint64_t>(bytes, 56);
  // The bounds come first: they keep the sum below far from overflow.
  if (key_bytes > max_key_bytes || arch_bytes > max_text_bytes || nvrtc_bytes > max_text_bytes ||
      name_bytes > max_text_bytes || cubin_bytes > max_cubin_bytes) {
    return bad("a length in its header is out of bounds");
  }
  const std::uint64_t total_bytes = header_bytes + key_bytes + arch_bytes + nvrtc_bytes + name_bytes + cubin_bytes;
  if (bytes.size() != total_bytes) {
    return bad("it has " + std::to_string(bytes.size()) + " bytes, its header says " + std::to_string(total_bytes));
  }
  const XXH128_canonical_t sum = checksum(bytes);
  if (std::memcmp(sum.digest, bytes.data() + checksum_offset, sizeof sum.digest) != 0) {
    return bad("its checksum does not match its contents");
  }

  // From here on the bytes are as some csajit wrote them; what is left to refuse is a writer's defect.
  if (integer_at<std::uint32_t>(bytes, 44) != 0) return bad("a reserved field is not zero");
  const auto compile_ms = std::bit_cast<double>(integer_at<std::uint64_t>(bytes, 48));
  if (!std::isfinite(compile_ms) || compile_ms < 0) return bad("its compile time is not a time");
  if (arch_bytes == 0 || nvrtc_bytes == 0 || name_bytes == 0 || cubin_bytes == 0) {
    return bad("its architecture, NVRTC version, kernel name or cubin is empty");
  }
  Pieces pieces(bytes.subspan(header_bytes));
  auto key = Key::from_bytes(pieces.take_text(key_bytes));
  if (!key) return bad("its key is malformed");

  Record record;
  record.key = *std::move(key);
  record.image.arch = pieces.take_text(arch_bytes);
  record.image.nvrtc_version = pieces.take_text(nvrtc_bytes);
  record.image.lowered_name = pieces.take_text(name_bytes);
  if (record.image.lowered_name.find('\0') != std::string::npos) return bad("its kernel name holds a zero byte");
  record.image.usage.registers = integer_at<std::uint32_t>(bytes, 28);
  record.image.usage.spill_bytes = integer_at<std::uint32_t>(bytes, 32);
  record.image.usage.stack_bytes = integer_at<std::uint32_t>(bytes, 36);
  record.image.usage.static_smem_bytes = integer_at<std::uint32_t>(bytes, 40);
  record.image.compile_ms = compile_ms;
  const auto cubin = pieces.take(cubin_bytes);
  record.image.cubin.assign(cubin.begin(), cubin.end());
  return record;
}

}  // namespace csajit
