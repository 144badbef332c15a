// What the boundary refuses: each bad argument has its status and is named, and nothing reaches the driver.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

#include "launch/fixture.hpp"

namespace {

// A legal call, changed in one place, must be refused by a message that has `part`.
template <class Change>
void check_forward_refused(Device& device, const Change& change, const char* part,
                           csajit_status status = CSAJIT_E_INVALID_ARGUMENT) {
  CAPTURE(part);
  Service service;
  csajit_spec spec = fresh_spec();
  csajit_forward_args args = forward_args();
  change(spec, args);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == status);
  CHECK(last_error_has(part));
}

template <class Change>
void check_backward_refused(Device& device, const Change& change, const char* part) {
  CAPTURE(part);
  Service service;
  const csajit_spec spec = fresh_spec();
  csajit_backward_args args = backward_args(spec);
  change(args);
  CHECK(csajit_backward(service.handle, &spec, &args, device.stream) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has(part));
}

void* misaligned(void* pointer) { return static_cast<char*>(pointer) + 1; }

}  // namespace

TEST_CASE("a bad forward argument is refused by name before anything touches the driver") {
  Device device;
  using Spec = csajit_spec;
  using Args = csajit_forward_args;
  check_forward_refused(
      device, [](Spec&, Args& a) { a.kv.data = nullptr; }, "kv");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.score.data = misaligned(a.score.data); }, "score");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.ape.data = nullptr; }, "ape");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.out.data = nullptr; }, "out");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.out.data = a.kv.data; }, "out");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.cu_seqlens = nullptr; }, "cu_seqlens");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.cu_seqlens_comp = nullptr; }, "cu_seqlens_comp");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.num_tokens = 3; }, "num_tokens");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.total_comp = -1; }, "total_comp");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.num_segments = INT64_C(1) << 31; }, "num_segments");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.kv.row_stride = 1; }, "kv");
  check_forward_refused(
      device, [](Spec&, Args& a) { a.flags = 1; }, "flags");
  check_forward_refused(
      device, [](Spec& s, Args&) { s.ratio = 0; }, "ratio");
  check_forward_refused(
      device, [](Spec& s, Args&) { s.ratio = 257; }, "ratio");
  check_forward_refused(
      device, [](Spec& s, Args&) { s.head_dim = 0; }, "head_dim");
  check_forward_refused(
      device, [](Spec& s, Args&) { s.coff = 3; }, "coff");
  check_forward_refused(
      device, [](Spec& s, Args&) { s.kv_dtype = 9; }, "kv_dtype");
  CHECK(device.cuda.calls("cuStreamGetCtx") == 0);
  CHECK(device.cuda.num_launches() == 0);
  CHECK(device.nvrtc.compiles() == 0);
}

TEST_CASE("a bad backward argument is refused by name before anything touches the driver") {
  Device device;
  using Args = csajit_backward_args;
  check_backward_refused(
      device, [](Args& a) { a.grad_out.data = nullptr; }, "grad_out");
  check_backward_refused(
      device, [](Args& a) { a.grad_kv.data = a.grad_score.data; }, "grad_kv");
  check_backward_refused(
      device, [](Args& a) { a.grad_ape.data = misaligned(a.grad_ape.data); }, "grad_ape");
  check_backward_refused(
      device, [](Args& a) { a.workspace = nullptr; }, "workspace");
  check_backward_refused(
      device, [](Args& a) { a.workspace = misaligned(a.workspace); }, "workspace");
  check_backward_refused(
      device, [](Args& a) { --a.workspace_bytes; }, "workspace_bytes");
  check_backward_refused(
      device, [](Args& a) { a.flags = 2; }, "flags");
  CHECK(device.cuda.calls("cuStreamGetCtx") == 0);
  CHECK(device.cuda.num_launches() == 0);
}

TEST_CASE("a null argument is refused by name") {
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  std::uint64_t bytes = 0;
  CHECK(csajit_forward(nullptr, &spec, &args, nullptr) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("service"));
  CHECK(csajit_forward(service.handle, nullptr, &args, nullptr) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("spec"));
  CHECK(csajit_forward(service.handle, &spec, nullptr, nullptr) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("args"));
  CHECK(csajit_build(service.handle, &spec, nullptr) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("options"));
  CHECK(csajit_workspace_size(&spec, 1, nullptr) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("bytes"));
  CHECK(csajit_workspace_size(&spec, -1, &bytes) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("total_comp"));
  CHECK(csajit_get_statistics(service.handle, nullptr) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("statistics"));
  CHECK(csajit_service_create(nullptr, nullptr) == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(last_error_has("service"));
}

TEST_CASE("build options out of bounds are refused by name") {
  Service service;
  const csajit_spec spec = fresh_spec();
  const auto refused = [&](auto change, const char* part) {
    csajit_build_options options{};
    options.struct_size = sizeof(options);
    options.arch = "sm_90";
    change(options);
    CHECK(csajit_build(service.handle, &spec, &options) == CSAJIT_E_INVALID_ARGUMENT);
    CHECK(last_error_has(part));
  };
  refused([](csajit_build_options& o) { o.arch = nullptr; }, "arch");
  refused([](csajit_build_options& o) { o.arch = "sm_90a"; }, "arch");
  refused([](csajit_build_options& o) { o.jobs = 257; }, "jobs");
  refused([](csajit_build_options& o) { o.flags = 2; }, "flags");
  refused([](csajit_build_options& o) { o.reserved = 1; }, "reserved");
}

TEST_CASE("service options out of bounds are refused by name and give no service") {
  const auto refused = [&](auto change, const char* part) {
    csajit_service_options options{};
    options.struct_size = sizeof(options);
    change(options);
    auto* service = reinterpret_cast<csajit_service*>(0x1);
    CHECK(csajit_service_create(&options, &service) == CSAJIT_E_INVALID_ARGUMENT);
    CHECK(service == nullptr);
    CHECK(last_error_has(part));
  };
  refused([](csajit_service_options& o) { o.flags = 1u << 30; }, "flags");
  refused([](csajit_service_options& o) { o.cache_trust = 4; }, "cache_trust");
  refused([](csajit_service_options& o) { o.arch = "sm_1"; }, "arch");
}

TEST_CASE("a struct smaller than version 1 is refused") {
  Service service;
  csajit_spec spec = fresh_spec();
  --spec.struct_size;
  std::uint64_t bytes = 0;
  CHECK(csajit_workspace_size(&spec, 16, &bytes) == CSAJIT_E_STRUCT_SIZE);
  CHECK(last_error_has("spec"));
  csajit_statistics statistics{};
  CHECK(csajit_get_statistics(service.handle, &statistics) == CSAJIT_E_STRUCT_SIZE);
  CHECK(last_error_has("statistics"));
}

TEST_CASE("a larger struct is read while the part nobody knows is zero, and refused otherwise") {
  struct Larger {
    csajit_spec spec;
    std::uint8_t tail[12];
  } larger{};
  larger.spec = fresh_spec();
  larger.spec.struct_size = sizeof(larger);
  std::uint64_t bytes = 0;
  CHECK(csajit_workspace_size(&larger.spec, 16, &bytes) == CSAJIT_OK);
  CHECK(bytes > 0);
  larger.tail[11] = 1;
  CHECK(csajit_workspace_size(&larger.spec, 16, &bytes) == CSAJIT_E_STRUCT_SIZE);
}

TEST_CASE("statistics are written no further than the caller's struct goes") {
  Service service;
  struct {
    csajit_statistics statistics;
    std::uint8_t beyond[8];
  } larger;
  std::memset(&larger, 0, sizeof(larger));
  std::memset(larger.beyond, 0x5a, sizeof(larger.beyond));
  larger.statistics.struct_size = sizeof(csajit_statistics);
  CHECK(csajit_get_statistics(service.handle, &larger.statistics) == CSAJIT_OK);
  CHECK(larger.statistics.struct_size == sizeof(csajit_statistics));
  for (const std::uint8_t byte : larger.beyond) CHECK(byte == 0x5a);
}

TEST_CASE("the last error is cut to the buffer, terminated, and stays until the next failure") {
  CHECK(csajit_workspace_size(nullptr, 1, nullptr) == CSAJIT_E_INVALID_ARGUMENT);
  const std::string whole = last_error();
  REQUIRE(whole.size() > 4);
  char cut[4] = {'x', 'x', 'x', 'x'};
  CHECK(csajit_last_error(cut, sizeof(cut)) == whole.size() + 1);
  CHECK(std::string(cut) == whole.substr(0, 3));
  const csajit_spec spec = fresh_spec();
  std::uint64_t bytes = 0;
  CHECK(csajit_workspace_size(&spec, 1, &bytes) == CSAJIT_OK);
  CHECK(last_error() == whole);
}

TEST_CASE("a call from a log callback is refused, and the last error can be read there") {
  struct Seen {
    csajit_service* service;
    csajit_status forward = CSAJIT_OK;
    csajit_status replaced = CSAJIT_OK;
    std::size_t message_bytes = 0;
    int calls = 0;
  } seen{};
  FakeCuda cuda;
  FakeNvrtc nvrtc;
  Service service;
  seen.service = service.handle;
  csajit_set_log_callback(
      [](csajit_log_level, const char*, void* user) {
        auto* s = static_cast<Seen*>(user);
        ++s->calls;
        const csajit_spec spec = fresh_spec();
        const csajit_forward_args args = forward_args();
        s->forward = csajit_forward(s->service, &spec, &args, nullptr);
        s->message_bytes = csajit_last_error(nullptr, 0);
        s->replaced = csajit_set_log_callback(nullptr, nullptr);
        csajit_service_destroy(s->service);  // refused too, or the next line of the test reads freed memory
      },
      &seen);
  // A driver that refuses the image once is warned of.
  CUstream stream = cuda.create_stream(cuda.create_context(0));
  cuda.fail("cuModuleLoadData", CUDA_ERROR_INVALID_IMAGE, 1);
  const csajit_spec spec = fresh_spec();
  CHECK(csajit_prepare(service.handle, &spec, stream) == CSAJIT_OK);
  csajit_set_log_callback(nullptr, nullptr);
  CHECK(seen.calls > 0);
  CHECK(seen.forward == CSAJIT_E_REENTRANT);
  CHECK(seen.replaced == CSAJIT_E_REENTRANT);
  CHECK(seen.message_bytes > 1);
  CHECK(service.statistics().module_loads == kernels_of_fresh_spec);
}

TEST_CASE("every status has its own name") {
  CHECK(std::string(csajit_status_string(CSAJIT_OK)) == "CSAJIT_OK");
  CHECK(std::string(csajit_status_string(CSAJIT_E_NOT_PREPARED_IN_CAPTURE)) == "CSAJIT_E_NOT_PREPARED_IN_CAPTURE");
  CHECK(std::string(csajit_status_string(static_cast<csajit_status>(1))) == "CSAJIT_E_?");
}
