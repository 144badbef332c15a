// See validate.hpp.
#include "service/validate.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "compressor/validate.hpp"
#include "device/device_info.hpp"
#include "device/device_memory.hpp"
#include "device/pointer.hpp"

namespace csajit {
namespace {

Result<void> check_pointers(const PreparedSpec& prepared, const LaunchArgs& launch_args) {
  const auto device = device_of_context(*prepared.driver, prepared.context);
  if (!device) return device.error();
  const PointerArguments arguments = pointer_arguments(prepared.spec, launch_args);
  for (std::uint32_t i = 0; i < arguments.count; ++i) {
    const PointerArgument& argument = arguments.list[i];
    for (const std::uint64_t address : {argument.begin, argument.end - 1}) {
      auto checked = check_device_access(*prepared.driver, device->device, address);
      if (checked) continue;
      return Error{checked.error().status,
                   fmt::format("{}: its {} byte at {}", argument.name, address == argument.begin ? "first" : "last",
                               checked.error().message)};
    }
  }
  return {};
}

// What is on the device once all work on the stream has run. Not by the blocking copy: that one takes the legacy
// stream, which waits for others and is forbidden while another stream captures.
Result<void> read_back(const DriverApi& driver, void* to, std::uint64_t from, std::size_t bytes, CUstream stream) {
  CUresult code = driver.cuMemcpyDtoHAsync(to, static_cast<CUdeviceptr>(from), bytes, stream);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuMemcpyDtoHAsync", code);
  code = driver.cuStreamSynchronize(stream);
  if (code == CUDA_SUCCESS) return {};
  Error error = driver_error(driver, "cuStreamSynchronize", code);
  error.message += " (in the check of CSAJIT_VALIDATE=1, or in earlier work on the stream)";
  return error;
}

Result<OffsetEntries> read_entries(const DriverApi& driver, const LaunchArgs& launch_args, long long entry,
                                   CUstream stream) {
  const std::size_t count = entry == 0 ? 1 : 2;
  const auto first = static_cast<std::uint64_t>(entry == 0 ? 0 : entry - 1) * 4;
  std::int32_t cu[2] = {};
  std::int32_t comp[2] = {};
  auto read = read_back(driver, cu + (2 - count), launch_args.cu_seqlens + first, count * 4, stream);
  if (read) read = read_back(driver, comp + (2 - count), launch_args.cu_seqlens_comp + first, count * 4, stream);
  if (!read) return std::move(read).error();
  return OffsetEntries{cu[0], cu[1], comp[0], comp[1]};
}

Result<void> check_offsets(const PreparedSpec& prepared, const LaunchArgs& launch_args, CUstream stream) {
  const DriverApi& driver = *prepared.driver;
  const auto verdict_memory = DeviceMemory::allocate(driver, sizeof(unsigned long long));
  if (!verdict_memory) return verdict_memory.error();
  LaunchArgs check_args{};
  const auto planned = plan_offset_check(prepared.shapes, launch_args, verdict_memory->address(), check_args);
  if (!planned) return {};
  const CUresult code = launch_kernel(driver, prepared.targets[planned->kernel], check_args, planned->grid, stream);
  if (code != CUDA_SUCCESS) return driver_error(driver, "cuLaunchKernelEx", code);
  unsigned long long verdict = 0;
  auto read = read_back(driver, &verdict, verdict_memory->address(), sizeof(verdict), stream);
  if (!read) return read;
  if (verdict == kOffsetsAreGood) return {};
  const auto entries = read_entries(driver, launch_args, entry_of(verdict), stream);
  if (!entries) return entries.error();
  return Error{CSAJIT_E_INVALID_ARGUMENT, describe_offset_defect(prepared.spec, launch_args, verdict, *entries)};
}

}  // namespace

Result<void> refuse_capture(const DriverApi& driver, CUstream stream) {
  const auto capturing = is_capturing(driver, stream);
  if (!capturing) return capturing.error();
  if (!*capturing) return {};
  return Error{CSAJIT_E_UNSUPPORTED,
               "CSAJIT_VALIDATE=1 (CSAJIT_SERVICE_VALIDATE) synchronises and cannot run inside a stream capture"};
}

Result<void> validate_launch(const PreparedSpec& prepared, const LaunchArgs& launch_args, CUstream stream) {
  const auto scope = ScopedContext::push(*prepared.driver, prepared.context.handle);
  if (!scope) return scope.error();
  // Allocating would break a capture that another thread has begun.
  const auto relaxed = RelaxedCapture::enter(*prepared.driver);
  if (!relaxed) return relaxed.error();
  auto checked = check_pointers(prepared, launch_args);
  if (!checked) return checked;
  return check_offsets(prepared, launch_args, stream);
}

}  // namespace csajit
