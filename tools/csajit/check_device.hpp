// Where a check case runs: memory and the two launches. The GPU is one; tests put a host imitation here.
#pragma once

#include <csajit/csajit.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace csajit::tool {

class CheckDevice {
 public:
  CheckDevice() = default;
  CheckDevice(const CheckDevice&) = delete;
  CheckDevice& operator=(const CheckDevice&) = delete;
  virtual ~CheckDevice() = default;

  virtual Result<std::uint64_t> allocate(std::size_t bytes) = 0;  // 256-byte aligned; bytes > 0
  virtual void release(std::uint64_t address) = 0;
  virtual Result<void> upload(std::uint64_t address, const std::vector<std::byte>& bytes) = 0;
  virtual Result<void> download(std::uint64_t address, std::vector<std::byte>& bytes) = 0;

  virtual Result<void> prepare(const csajit_spec& spec) = 0;
  virtual Result<std::uint64_t> workspace_bytes(const csajit_spec& spec, std::int64_t num_rows) = 0;
  // Launch and wait until the device is done.
  virtual Result<void> forward(const csajit_spec& spec, const csajit_forward_args& args) = 0;
  virtual Result<void> backward(const csajit_spec& spec, const csajit_backward_args& args) = 0;
  // False once an error has made the device useless for the cases to come.
  virtual bool alive() = 0;
};

}  // namespace csajit::tool
