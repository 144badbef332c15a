// The table of targets and the reading of their names.
#include "compile/architecture.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace csajit;

TEST_CASE("there is one target per compute capability, ascending, named after it") {
  std::vector<int> capabilities;
  for (const Architecture& arch : architectures()) {
    capabilities.push_back(arch.capability);
    CHECK(arch.name == "sm_" + std::to_string(arch.capability));
    CHECK(find_architecture(arch.capability) == &arch);
    CHECK((arch.nvrtc_major == 12 || arch.nvrtc_major == 13));
  }
  CHECK(capabilities == std::vector<int>{80, 86, 87, 89, 90, 100, 103, 110, 120, 121});
  CHECK(find_architecture(75) == nullptr);
}

TEST_CASE("targets state the limits of their SM") {
  CHECK(find_architecture(80)->max_smem_bytes == 166912);
  CHECK(find_architecture(86)->max_smem_bytes == 101376);
  CHECK(find_architecture(90)->max_smem_bytes == 232448);
  CHECK(find_architecture(120)->max_smem_bytes == 101376);
  CHECK(find_architecture(80)->max_threads_per_sm == 2048);
  CHECK(find_architecture(89)->max_threads_per_sm == 1536);
  CHECK(find_architecture(110)->max_threads_per_sm == 1536);
}

TEST_CASE("a target is read with and without its prefix") {
  for (const char* text : {"sm_90", "90"}) {
    const auto arch = parse_architecture(text);
    REQUIRE(arch.ok());
    CHECK((*arch)->capability == 90);
  }
}

TEST_CASE("anything that is no target is refused with the list of targets") {
  for (const char* text : {"", "sm_", "sm_90a", "90f", "sm_75", "sm_091", "9.0", "compute_90", "SM_90", " 90", "90 ",
                           "-90", "+90", "99999999999999999999"}) {
    const auto arch = parse_architecture(text);
    CAPTURE(text);
    REQUIRE(!arch.ok());
    CHECK(arch.error().status == CSAJIT_E_INVALID_ARGUMENT);
    CHECK(arch.error().message.find("sm_80, sm_86") != std::string::npos);
    CHECK(arch.error().message.find("sm_121") != std::string::npos);
  }
}

TEST_CASE("the lower target is the highest known one of the same generation") {
  const auto lower = [](int wanted, const std::vector<int>& known) {
    const Architecture* arch = lower_target(*find_architecture(wanted), known);
    return arch == nullptr ? 0 : arch->capability;
  };
  CHECK(lower(89, {75, 80, 86, 87, 90}) == 87);
  CHECK(lower(89, {90, 86, 80}) == 86);
  CHECK(lower(103, {90, 100, 120}) == 100);
  CHECK(lower(121, {120}) == 120);
  CHECK(lower(110, {80, 90, 100, 103}) == 0);
  CHECK(lower(90, {80, 86, 89, 90}) == 0);
  CHECK(lower(80, {}) == 0);
}
