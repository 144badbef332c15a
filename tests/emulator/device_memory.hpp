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

class DeviceMemory {
 public:
  static DeviceMemory& instance();

  std::uint64_t allocate(std::size_t bytes);  // 256-byte aligned
  void release(std::uint64_t address);
  void copy_in(std::uint64_t address, const std::vector<std::byte>& bytes);
  void copy_out(std::uint64_t address, std::vector<std::byte>& bytes);

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
  struct Allocation {
    std::vector<std::byte> bytes;
    std::vector<std::uint8_t> writes;
  };
  std::byte* find(std::uint64_t address, std::size_t bytes, bool is_write);

  std::map<std::uint64_t, Allocation> allocations_;  // by device address
  std::uint64_t next_ = 0x7f0000000000;
  std::string stray_;
  std::string twice_;
};

}  // namespace csajit::emulator
