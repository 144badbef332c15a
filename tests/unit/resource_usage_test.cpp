// The reader of ptxas's text, on logs as NVRTC 12.0, 12.4, 12.8, 13.0 and 13.2 gave them for one source: a kernel
// that spills, one that calls a function with an array, and a plain one.
#include "compile/resource_usage.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace csajit;

namespace {

struct Captured {
  const char* version;
  const char* log;
  ResourceUsage crowded;
};

constexpr const char* crowded = "_ZN6csajit7crowdedILi300EEEvPf";
constexpr const char* calm = "_ZN6csajit4calmILi2EEEvPf";

constexpr const char* log_12_0 = R"(ptxas info    : 304 bytes gmem
ptxas info    : Compiling entry function '_ZN6csajit7crowdedILi300EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit7crowdedILi300EEEvPf
ptxas         .     1056 bytes stack frame, 1980 bytes spill stores, 2176 bytes spill loads
ptxas info    : Used 32 registers, 1200 bytes smem
ptxas info    : Compiling entry function '_ZN6csajit4calmILi2EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit4calmILi2EEEvPf
ptxas         .     24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 15 registers
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'bare' for 'sm_90'
ptxas info    : Function properties for bare
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers
)";

constexpr const char* log_12_4 = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN6csajit7crowdedILi300EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit7crowdedILi300EEEvPf
ptxas         .     1120 bytes stack frame, 1904 bytes spill stores, 2084 bytes spill loads
ptxas info    : Used 32 registers, 1120 bytes cumulative stack size, 1200 bytes smem
ptxas info    : Compiling entry function '_ZN6csajit4calmILi2EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit4calmILi2EEEvPf
ptxas         .     24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 15 registers, 24 bytes cumulative stack size
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'bare' for 'sm_90'
ptxas info    : Function properties for bare
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers
)";

constexpr const char* log_12_8 = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN6csajit7crowdedILi300EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit7crowdedILi300EEEvPf
ptxas         .     1088 bytes stack frame, 1896 bytes spill stores, 2076 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1088 bytes cumulative stack size, 1200 bytes smem
ptxas info    : Compile time = 632.033 ms
ptxas info    : Compiling entry function '_ZN6csajit4calmILi2EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit4calmILi2EEEvPf
ptxas         .     24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 15 registers, used 0 barriers, 24 bytes cumulative stack size
ptxas info    : Compile time = 3.274 ms
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'bare' for 'sm_90'
ptxas info    : Function properties for bare
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 9.543 ms
)";

constexpr const char* log_13_0 = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN6csajit7crowdedILi300EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit7crowdedILi300EEEvPf
ptxas         .     1080 bytes stack frame, 1932 bytes spill stores, 2136 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1080 bytes cumulative stack size, 1200 bytes smem
ptxas info    : Compile time = 1204.717 ms
ptxas info    : Compiling entry function '_ZN6csajit4calmILi2EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit4calmILi2EEEvPf
ptxas         .     24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 15 registers, used 0 barriers, 24 bytes cumulative stack size
ptxas info    : Compile time = 12.620 ms
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'bare' for 'sm_90'
ptxas info    : Function properties for bare
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 5.936 ms
)";

constexpr const char* log_13_2 = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN6csajit7crowdedILi300EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit7crowdedILi300EEEvPf
ptxas         .     1080 bytes stack frame, 1932 bytes spill stores, 2136 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1080 bytes cumulative stack size, 1200 bytes smem
ptxas info    : Compile time = 679.197 ms
ptxas info    : Compiling entry function '_ZN6csajit4calmILi2EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN6csajit4calmILi2EEEvPf
ptxas         .     24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 15 registers, used 0 barriers, 24 bytes cumulative stack size
ptxas info    : Compile time = 8.842 ms
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'bare' for 'sm_90'
ptxas info    : Function properties for bare
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 9.523 ms
)";

const Captured captured[] = {
    {"12.0", log_12_0, {32, 1980 + 2176, 1056, 1200}}, {"12.4", log_12_4, {32, 1904 + 2084, 1120, 1200}},
    {"12.8", log_12_8, {32, 1896 + 2076, 1088, 1200}}, {"13.0", log_13_0, {32, 1932 + 2136, 1080, 1200}},
    {"13.2", log_13_2, {32, 1932 + 2136, 1080, 1200}},
};

}  // namespace

TEST_CASE("registers, spills, stack and shared memory are read from each NVRTC's own words") {
  for (const Captured& one : captured) {
    CAPTURE(one.version);
    const auto usage = parse_resource_usage(one.log, crowded);
    REQUIRE(usage.has_value());
    CHECK(usage->registers == one.crowded.registers);
    CHECK(usage->spill_bytes == one.crowded.spill_bytes);
    CHECK(usage->stack_bytes == one.crowded.stack_bytes);
    CHECK(usage->static_smem_bytes == one.crowded.static_smem_bytes);
  }
}

TEST_CASE("the figures are those of the kernel that was asked for, not of its neighbours") {
  for (const Captured& one : captured) {
    CAPTURE(one.version);
    const auto called = parse_resource_usage(one.log, calm);
    REQUIRE(called.has_value());
    CHECK(called->registers == 15);
    CHECK(called->spill_bytes == 0);
    CHECK(called->stack_bytes == 24);
    CHECK(called->static_smem_bytes == 0);
    const auto plain = parse_resource_usage(one.log, "bare");
    REQUIRE(plain.has_value());
    CHECK(plain->registers == 10);
    CHECK(plain->stack_bytes == 0);
  }
}

TEST_CASE("a kernel that the log does not hold, a cut log and foreign text give nothing") {
  const std::string log = log_13_0;
  CHECK(!parse_resource_usage(log, "_ZN6csajit7crowdedILi300EEEvP").has_value());
  CHECK(!parse_resource_usage(log, "").has_value());
  CHECK(!parse_resource_usage("", crowded).has_value());
  CHECK(!parse_resource_usage("ptxas info    : Compiling entry function 'bare' for 'sm_90'\n", "bare").has_value());
  CHECK(!parse_resource_usage(log.substr(0, log.find(" registers")), crowded).has_value());
  for (std::size_t length = 0; length < log.size(); ++length) {
    parse_resource_usage(log.substr(0, length), crowded);  // any cut is read without a fault
  }
}

TEST_CASE("a callee's frame counts in the kernel's stack") {
  const std::string log =
      "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 20 registers, used 0 barriers, 40 bytes cumulative stack size\n";
  const auto usage = parse_resource_usage(log, "k");
  REQUIRE(usage.has_value());
  CHECK(usage->stack_bytes == 40);
}

TEST_CASE("a number that does not fit is no figure") {
  const std::string log =
      "Compiling entry function 'k' for 'sm_90'\nFunction properties for k\n"
      "    0 bytes stack frame, 99999999999 bytes spill stores, 0 bytes spill loads\nUsed 20 registers\n";
  CHECK(!parse_resource_usage(log, "k").has_value());
}
