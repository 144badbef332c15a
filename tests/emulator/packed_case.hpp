// Packs for the specs that the emulator serves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "check_case.hpp"
#include "emulator/emulated_device.hpp"

namespace csajit::emulator {

using Lengths = std::vector<std::int64_t>;

// Segments of these lengths, one after another, every row of theirs asked for.
tool::CheckCase packed(const EmulatedSpec& spec, const char* name, const Lengths& lengths);

void for_each_spec(const std::function<void(const EmulatedSpec&)>& each);

}  // namespace csajit::emulator
