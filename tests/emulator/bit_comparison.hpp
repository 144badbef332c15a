// Runs one case on the emulated device and holds every element of its outputs against the fp32 order of the contract,
// to the bit: serial in short windows, the fixed tree in long ones, and grad_ape's order over the rows.
#pragma once

#include <cstdint>

#include "check_case.hpp"
#include "emulator/emulated_device.hpp"

namespace csajit::emulator {

struct Tally {
  std::int64_t elements = 0, non_finite = 0, misses = 0;
};

Tally compare_bits(EmulatedDevice& device, const tool::CheckCase& check);

}  // namespace csajit::emulator
