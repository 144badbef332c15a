// Launches of a service that validates: what is checked first, what is said, and that nothing is left behind.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/offset_check.h"
#include "launch/fixture.hpp"

namespace {

// A service that validates, and segment arrays that the fake driver can copy from.
struct Validated {
  Device device;
  Service service{CSAJIT_SERVICE_MEMORY_ONLY | CSAJIT_SERVICE_VALIDATE};
  std::vector<std::int32_t> cu{0, 20, 17, 64};
  std::vector<std::int32_t> comp{0, 5, 4, 16};
  csajit_spec spec = fresh_spec();
  csajit_forward_args args = forward_args();

  Validated() {
    args.num_segments = 3;
    args.cu_seqlens = cu.data();
    args.cu_seqlens_comp = comp.data();
  }
  csajit_status forward() { return csajit_forward(service.handle, &spec, &args, device.stream); }
  void check_that_nothing_is_left() const {
    CHECK(device.cuda.calls("cuMemAlloc") == device.cuda.calls("cuMemFree"));
    CHECK(device.cuda.get_current() == nullptr);
  }
};

}  // namespace

TEST_CASE("a validated launch runs the check kernel on its stream first, waits, and then launches") {
  Validated test;
  REQUIRE(test.forward() == CSAJIT_OK);
  REQUIRE(test.device.cuda.num_launches() == 2);
  const FakeLaunch* check = test.device.cuda.launch_at(0);
  CHECK(std::string(check->kernel).find("validate_offsets") != std::string::npos);
  CHECK(check->stream == test.device.stream);
  CHECK(check->grid == 1);
  CHECK(std::string(test.device.cuda.launch_at(1)->kernel).find("forward") != std::string::npos);
  CHECK(test.device.cuda.args_of(0).cu_seqlens == reinterpret_cast<std::uintptr_t>(test.cu.data()));
  CHECK(test.device.cuda.args_of(0).workspace != 0);
  CHECK(test.device.cuda.calls("cuStreamSynchronize") == 1);
  test.check_that_nothing_is_left();
}

TEST_CASE("a bad entry of the segment arrays is named with its values and nothing else is launched") {
  using csajit::offset_verdict;
  using csajit::OffsetDefect;
  struct Case {
    unsigned long long verdict;
    const char* message;
  };
  const Case cases[] = {
      {offset_verdict(0, OffsetDefect::cu_negative), "cu_seqlens[0]: 0 is negative"},
      {offset_verdict(2, OffsetDefect::cu_descends), "cu_seqlens[2]: 17 is less than cu_seqlens[1] = 20"},
      {offset_verdict(3, OffsetDefect::cu_past_tokens), "cu_seqlens[3]: 64 is past the 64 tokens"},
      {offset_verdict(3, OffsetDefect::segment_too_long), "cu_seqlens[3]: 64 makes segment 2"},
      {offset_verdict(0, OffsetDefect::comp_negative), "cu_seqlens_comp[0]: 0 is negative"},
      {offset_verdict(3, OffsetDefect::comp_step), "cu_seqlens_comp[3]: 16 should be 15"},
  };
  for (const Case& c : cases) {
    Validated test;
    test.device.cuda.set_verdict(c.verdict);
    CHECK(test.forward() == CSAJIT_E_INVALID_ARGUMENT);
    CHECK(last_error_has(c.message));
    CHECK(test.device.cuda.num_launches() == 1);
    test.check_that_nothing_is_left();
  }
}

TEST_CASE("a pointer that the driver does not know is named and nothing is launched") {
  Validated test;
  test.device.cuda.fail("cuPointerGetAttribute", CUDA_ERROR_INVALID_VALUE, 1);
  CHECK(test.forward() == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("cu_seqlens: its first byte"));
  CHECK(test.device.cuda.num_launches() == 0);
  test.check_that_nothing_is_left();
}

TEST_CASE("a validated launch inside a capture is refused and the capture stays valid") {
  Validated test;
  test.device.cuda.begin_capture(test.device.stream);
  CHECK(test.forward() == CSAJIT_E_UNSUPPORTED);
  CHECK(last_error_has("CSAJIT_VALIDATE"));
  CHECK(test.device.cuda.num_launches() == 0);
  CHECK(test.device.cuda.end_capture(test.device.stream));
}

TEST_CASE("driver failures of a validated launch are told and leave nothing behind") {
  for (const char* function : {"cuMemAlloc", "cuMemcpyDtoHAsync", "cuStreamSynchronize", "cuPointerGetAttribute"}) {
    CAPTURE(function);
    Validated test;
    test.device.cuda.fail(function, CUDA_ERROR_UNKNOWN, 1);
    CHECK(test.forward() == CSAJIT_E_DRIVER);
    CHECK(last_error_has(function));
    CHECK(test.device.cuda.num_launches() <= 1);
    CHECK(test.device.cuda.get_current() == nullptr);
  }
}
