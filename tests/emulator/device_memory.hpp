// Memory of the emulated device: every access must lie in one allocation and be aligned, and every byte counts
// its writes. Finds; does not stop a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace csajit::emulator {

// Rows of an allocation, and the strides of a second address that they have, in bytes.
struct RowView {
  std::uint64_t address = 0, row_bytes = 0;
  std::uint64_t row_stride = 0, segment_stride = 0;
  std::uint64_t far_row_stride = 0, far_segment_stride = 0;
  std::uint64_t segments = 1, rows_per_segment = 0;
};

class DeviceMemory {
 public:
  static DeviceMemory& instance();

  std::uint64_t allocate(std::size_t bytes);  // 256-byte aligned
  void release(std::uint64_t address);
  void copy_in(std::uint64_t address, const std::vector<std::byte>& bytes);
  void copy_out(std::uint64_t address, std::vector<std::byte>& bytes);

  // A second address of rows, far apart: offsets as large as no host could hold. As aligned as the first one.
  std::uint64_t view(const RowView& rows);
  void drop_views() { views_.clear(); }

  // Forgets write counts and violations.
  void begin_kernels();
  // Since begin_kernels: the first access outside an allocation or misaligned, else the first second write of a
  // byte, else "".
  const std::string& violation() const { return stray_.empty() ? twice_ : stray_; }

  template <class T>
  T load(std::uint64_t address) {
    T value{};
    if (const std::byte* bytes = find(address, sizeof(T), false)) std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
  template <class T>
  void store(std::uint64_t address, T value) {
    if (std::byte* bytes = find(address, sizeof(T), true)) std::memcpy(bytes, &value, sizeof(T));
  }

 private:
  static constexpr std::uint64_t first_view = std::uint64_t{1} << 56;

  struct Allocation {
    std::vector<std::byte> bytes;
    std::vector<std::uint8_t> writes;
  };
  // The allocation's own address of what lies at an address of a view; 0 between its rows.
  std::uint64_t resolve(std::uint64_t address, std::size_t bytes) const;
  std::byte* find(std::uint64_t address, std::size_t bytes, bool is_write);

  std::map<std::uint64_t, Allocation> allocations_;  // by device address
  std::map<std::uint64_t, RowView> views_;           // by their address
  std::uint64_t next_view_ = first_view;
  std::uint64_t next_ = 0x7f0000000000;
  std::string stray_;
  std::string twice_;
};

}  // namespace csajit::emulator
