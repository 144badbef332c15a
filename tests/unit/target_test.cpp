#include "service/target.hpp"

#include <doctest/doctest.h>

using csajit::find_architecture;
using csajit::target_of;

TEST_CASE("a device's own architecture is compiled for") {
  const auto target = target_of(90, nullptr);
  REQUIRE(target.ok());
  CHECK((*target)->name == "sm_90");
}

TEST_CASE("a forced architecture is used where its code runs: same major, minor not above") {
  CHECK((*target_of(89, find_architecture(86)))->name == "sm_86");
  CHECK((*target_of(86, find_architecture(86)))->name == "sm_86");
  for (const auto& [device, forced] : {std::pair{86, 89}, std::pair{90, 80}, std::pair{80, 90}}) {
    const auto refused = target_of(device, find_architecture(forced));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().status == CSAJIT_E_UNSUPPORTED);
  }
}

TEST_CASE("a device of no target is told the target that could be forced") {
  const auto newer = target_of(88, nullptr);
  REQUIRE_FALSE(newer.ok());
  CHECK(newer.error().status == CSAJIT_E_UNSUPPORTED);
  CHECK(newer.error().message.find("CSAJIT_ARCH=sm_87") != std::string::npos);
  const auto older = target_of(75, nullptr);
  REQUIRE_FALSE(older.ok());
  CHECK(older.error().message.find("CSAJIT_ARCH") == std::string::npos);
}
