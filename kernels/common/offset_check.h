// What the check of the segment arrays asks of each entry, and how its verdict travels: one 64-bit word.
#pragma once

#include "common/host_device.h"

namespace csajit {

// What is wrong with entry i, in the order in which one entry is checked.
enum class OffsetDefect : int {
  cu_negative = 0,       // i = 0: cu[0] < 0
  cu_descends = 1,       // cu[i] < cu[i - 1]
  cu_past_tokens = 2,    // packed: cu[i] > T
  segment_too_long = 3,  // batched: cu[i] - cu[i - 1] > S
  comp_negative = 4,     // i = 0: comp[0] < 0
  comp_step = 5,         // comp[i] - comp[i - 1] != (cu[i] - cu[i - 1]) / ratio
};

// The least word is the first bad entry, and of its defects the first.
constexpr unsigned long long kOffsetsAreGood = ~0ull;
CSAJIT_HOST_DEVICE constexpr unsigned long long offset_verdict(long long entry, OffsetDefect defect) {
  return static_cast<unsigned long long>(entry) << 3 | static_cast<unsigned long long>(defect);
}
CSAJIT_HOST_DEVICE constexpr long long entry_of(unsigned long long verdict) {
  return static_cast<long long>(verdict >> 3);
}
CSAJIT_HOST_DEVICE constexpr OffsetDefect defect_of(unsigned long long verdict) {
  return static_cast<OffsetDefect>(verdict & 7);
}

constexpr int kOffsetCheckThreads = 512;

}  // namespace csajit
