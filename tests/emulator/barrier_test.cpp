// Barriers: whichever warp of a CTA is ahead, the bits are the same.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "emulator/bit_comparison.hpp"
#include "emulator/emulated_device.hpp"
#include "emulator/grid.hpp"
#include "emulator/packed_case.hpp"

namespace csajit::emulator {

TEST_CASE("no warp overtakes another one's values, whichever is ahead") {
  for_each_spec([](const EmulatedSpec& spec) {
    const std::int64_t r = spec.ratio;
    // Rows of several partials, in few CTAs: each uses its shared memory again and again.
    const tool::CheckCase check = packed(spec, "uneven warps", {spec.coff * r <= 16 ? 21 * r : 7 * r, r - 1, 2 * r});
    for (const Schedule& schedule : uneven_schedules()) {
      for (const bool only_scalar : {false, true}) {
        EmulatedDevice device;
        device.limit_grid(2);
        device.only_scalar(only_scalar);
        device.schedule(schedule);
        const Tally tally = compare_bits(device, check);
        CHECK_MESSAGE(tally.misses == 0, fmt::format("{}, {}: {} of {}", tool::describe_spec(check), describe(schedule),
                                                     tally.misses, tally.elements));
      }
    }
  });
}

}  // namespace csajit::emulator
