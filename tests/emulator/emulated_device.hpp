// A device for check cases that runs the real kernel templates on the host, as the real plan launches them.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "check_device.hpp"
#include "common/launch_args.h"
#include "emulator/grid.hpp"

namespace csajit::emulator {

class EmulatedDevice : public tool::CheckDevice {
 public:
  EmulatedDevice();  // with the kernels of emulated_kernels.cpp

  Result<std::uint64_t> allocate(std::size_t bytes) override;
  void release(std::uint64_t address) override;
  Result<void> upload(std::uint64_t address, const std::vector<std::byte>& bytes) override;
  Result<void> download(std::uint64_t address, std::vector<std::byte>& bytes) override;
  Result<void> prepare(const csajit_spec& spec) override;
  Result<std::uint64_t> workspace_bytes(const csajit_spec& spec, std::int64_t num_rows) override;
  Result<void> forward(const csajit_spec& spec, const csajit_forward_args& args) override;
  Result<void> backward(const csajit_spec& spec, const csajit_backward_args& args) override;
  bool alive() override { return true; }

  // Launches at most this many CTAs, so that they stride: bits must not notice. 0: as planned.
  void limit_grid(unsigned int ctas) { max_ctas_ = ctas; }
  // Uses the scalar kernels even where wider ones fit.
  void only_scalar(bool on) { only_scalar_ = on; }
  // Runs the warps of a CTA in this order.
  void schedule(const Schedule& schedule) { schedule_ = schedule; }
  // Hands the tensors over with 2^31 more elements between their rows, and gaps as wide between their segments.
  void spread_rows(bool on) { spread_rows_ = on; }

 private:
  template <class Args, class Plan>
  Result<void> launch(const csajit_spec& spec, const Args& args, Plan plan);

  unsigned int max_ctas_ = 0;
  bool only_scalar_ = false;
  Schedule schedule_;
  bool spread_rows_ = false;
};

using Kernel = std::function<void(const LaunchArgs&)>;
// By name expression. Every spec of the emulator's tests is in it.
const std::map<std::string, Kernel>& emulated_kernels();
// The specs that emulated_kernels() serves.
struct EmulatedSpec {
  int ratio, head_dim, coff;
  csajit_dtype kv, score, out;
  bool ape;
};
const std::vector<EmulatedSpec>& emulated_specs();

}  // namespace csajit::emulator
