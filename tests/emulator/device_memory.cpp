#include "emulator/device_memory.hpp"

#include <fmt/format.h>

namespace csajit::emulator {

DeviceMemory& DeviceMemory::instance() {
  static DeviceMemory memory;
  return memory;
}

std::uint64_t DeviceMemory::allocate(std::size_t bytes) {
  const std::uint64_t address = next_;
  next_ += (bytes + 511) / 256 * 256;  // at least a gap of one byte between allocations
  allocations_[address] = {std::vector<std::byte>(bytes), std::vector<std::uint8_t>(bytes)};
  return address;
}

void DeviceMemory::release(std::uint64_t address) { allocations_.erase(address); }

void DeviceMemory::copy_in(std::uint64_t address, const std::vector<std::byte>& bytes) {
  allocations_.at(address).bytes = bytes;
}

void DeviceMemory::copy_out(std::uint64_t address, std::vector<std::byte>& bytes) {
  bytes = allocations_.at(address).bytes;
}

void DeviceMemory::begin_kernels() {
  stray_.clear();
  twice_.clear();
  for (auto& [address, allocation] : allocations_) allocation.writes.assign(allocation.bytes.size(), 0);
}

std::uint64_t DeviceMemory::view(const RowView& rows) {
  const std::uint64_t address = next_view_ + rows.address % 256;
  views_[address] = rows;
  next_view_ += (rows.segments * rows.far_segment_stride + 1024) / 256 * 256;
  return address;
}

std::uint64_t DeviceMemory::resolve(std::uint64_t address, std::size_t bytes) const {
  auto next = views_.upper_bound(address);
  if (next == views_.begin()) return 0;
  const auto& [begin, view] = *std::prev(next);
  const std::uint64_t offset = address - begin;
  const std::uint64_t segment = offset / view.far_segment_stride;
  const std::uint64_t in_segment = offset % view.far_segment_stride;
  const std::uint64_t row = in_segment / view.far_row_stride;
  const std::uint64_t in_row = in_segment % view.far_row_stride;
  if (segment >= view.segments || row >= view.rows_per_segment || in_row + bytes > view.row_bytes) return 0;
  return view.address + segment * view.segment_stride + row * view.row_stride + in_row;
}

std::byte* DeviceMemory::find(std::uint64_t address, std::size_t bytes, bool is_write) {
  const char* what = is_write ? "write" : "read";
  const auto note = [](std::string& first, std::string text) {
    if (first.empty()) first = std::move(text);
  };
  if (address % bytes != 0) note(stray_, fmt::format("{} of {} bytes at {:#x} is misaligned", what, bytes, address));
  const std::uint64_t named = address;
  if (address >= first_view) address = resolve(address, bytes);
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) {
    note(stray_, fmt::format("{} of {} bytes at {:#x} lies in no allocation", what, bytes, named));
    return nullptr;
  }
  auto& [begin, allocation] = *std::prev(next);
  const std::uint64_t offset = address - begin;
  if (offset + bytes > allocation.bytes.size()) {
    note(stray_, fmt::format("{} of {} bytes at {:#x} lies past an allocation of {} bytes at {:#x}", what, bytes,
                             address, allocation.bytes.size(), begin));
    return nullptr;
  }
  if (is_write) {
    for (std::size_t i = offset; i < offset + bytes; ++i) {
      if (allocation.writes[i]++ != 0)
        note(twice_, fmt::format("byte {} of the allocation at {:#x} is written twice", i, begin));
    }
  }
  return allocation.bytes.data() + offset;
}

}  // namespace csajit::emulator
