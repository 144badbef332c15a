// Structs of callers built against an older or a newer header: read by their struct_size, refused where that
// cannot be done. Looks at no other field.
#pragma once

#include <csajit/csajit.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/result.hpp"

namespace csajit {

// What version 1 of the header had: the least that a caller can pass. Pinned, so that a field appended later
// does not shut out hosts that were built before it.
template <class T>
inline constexpr std::uint32_t version1_bytes = 0;
template <>
inline constexpr std::uint32_t version1_bytes<csajit_service_options> = 56;
template <>
inline constexpr std::uint32_t version1_bytes<csajit_spec> = 32;
template <>
inline constexpr std::uint32_t version1_bytes<csajit_build_options> = 40;
template <>
inline constexpr std::uint32_t version1_bytes<csajit_forward_args> = 144;
template <>
inline constexpr std::uint32_t version1_bytes<csajit_backward_args> = 232;
template <>
inline constexpr std::uint32_t version1_bytes<csajit_statistics> = 104;

// No implicit padding: every byte belongs to a field, so that a byte comparison of the unknown part is fair.
static_assert(std::has_unique_object_representations_v<csajit_service_options>);
static_assert(std::has_unique_object_representations_v<csajit_spec>);
static_assert(std::has_unique_object_representations_v<csajit_build_options>);
static_assert(std::has_unique_object_representations_v<csajit_tensor>);
static_assert(std::has_unique_object_representations_v<csajit_forward_args>);
static_assert(std::has_unique_object_representations_v<csajit_backward_args>);
static_assert(std::has_unique_object_representations_v<csajit_statistics>);
// This one holds a double, whose representations are not unique; so by hand.
static_assert(offsetof(csajit_kernel_info, status) == 48 && offsetof(csajit_kernel_info, cubin_bytes) == 72 &&
              offsetof(csajit_kernel_info, published) == 88 && sizeof(csajit_kernel_info) == 96);
// The sizes of version 1, pinned: a change of one is a change of the ABI.
static_assert(sizeof(csajit_service_options) == 56 && sizeof(csajit_spec) == 32);
static_assert(sizeof(csajit_build_options) == 40 && sizeof(csajit_tensor) == 24);
static_assert(sizeof(csajit_forward_args) == 144 && sizeof(csajit_backward_args) == 232);
static_assert(sizeof(csajit_statistics) == 104);

namespace detail {

// Checks struct_size and the part that this library does not know.
inline Result<void> check_struct_size(const void* given, std::uint32_t bytes, std::uint32_t least, std::size_t known,
                                      const char* name) {
  if (bytes < least) {
    return Error{CSAJIT_E_STRUCT_SIZE,
                 fmt::format("{}.struct_size is {}, the smallest that was ever valid is {}", name, bytes, least)};
  }
  const auto* raw = static_cast<const unsigned char*>(given);
  for (std::size_t i = known; i < bytes; ++i) {
    if (raw[i] != 0) {
      return Error{CSAJIT_E_STRUCT_SIZE,
                   fmt::format("{}: byte {} of {} is not zero, but this csajit knows only {} bytes of the struct", name,
                               i, bytes, known)};
    }
  }
  return {};
}

inline Error null_argument(const char* name) {
  return Error{CSAJIT_E_INVALID_ARGUMENT, fmt::format("{} is NULL", name)};
}

}  // namespace detail

// The struct at full size: the caller's own where that is what it is, else a copy in `storage` with the missing
// fields zero. Errors: CSAJIT_E_INVALID_ARGUMENT for NULL, CSAJIT_E_STRUCT_SIZE.
template <class T>
Result<const T*> read_struct(const T* given, T& storage, const char* name) {
  static_assert(version1_bytes<T> != 0 && version1_bytes<T> <= sizeof(T));
  if (given == nullptr) return detail::null_argument(name);
  const std::uint32_t bytes = given->struct_size;
  if (bytes == sizeof(T)) return given;
  auto checked = detail::check_struct_size(given, bytes, version1_bytes<T>, sizeof(T), name);
  if (!checked) return std::move(checked).error();
  std::memset(static_cast<void*>(&storage), 0, sizeof(T));
  std::memcpy(static_cast<void*>(&storage), given, std::min<std::size_t>(bytes, sizeof(T)));
  return &storage;
}

// Writes a result into a caller's struct: as much as it has room for, its struct_size left as it was.
template <class T>
Result<void> write_struct(T value, T* destination, const char* name) {
  if (destination == nullptr) return detail::null_argument(name);
  const std::uint32_t bytes = destination->struct_size;
  auto checked = detail::check_struct_size(destination, bytes, version1_bytes<T>, sizeof(T), name);
  if (!checked) return checked;
  value.struct_size = bytes;
  std::memcpy(static_cast<void*>(destination), &value, std::min<std::size_t>(bytes, sizeof(T)));
  return {};
}

}  // namespace csajit
