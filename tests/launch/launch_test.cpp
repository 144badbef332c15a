// Launches: what reaches the driver, from which path, with what arguments, and when nothing may.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "launch/fixture.hpp"

TEST_CASE("a forward launches one kernel on its stream with the arguments in one struct") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  csajit_forward_args args = forward_args();
  args.kv.row_stride = 3 * 2 * spec.head_dim;
  REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  REQUIRE(device.cuda.num_launches() == 1);
  const FakeLaunch* launch = device.cuda.launch_at(0);
  CHECK(launch->stream == device.stream);
  CHECK(launch->context == device.context);
  CHECK(launch->function_loaded);
  CHECK(launch->grid > 0);
  CHECK(launch->block > 0);
  const csajit::LaunchArgs passed = device.cuda.args_of(0);
  CHECK(passed.kv == reinterpret_cast<std::uintptr_t>(args.kv.data));
  CHECK(passed.kv_row_stride == args.kv.row_stride);
  CHECK(passed.score_row_stride == 2 * spec.head_dim);
  CHECK(passed.num_rows == args.total_comp);
  CHECK(passed.cu_seqlens_comp == reinterpret_cast<std::uintptr_t>(args.cu_seqlens_comp));
}

TEST_CASE("a backward launches its two kernels with the same arguments") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_backward_args args = backward_args(spec);
  REQUIRE(csajit_backward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  REQUIRE(device.cuda.num_launches() == 2);
  CHECK(device.cuda.launch_at(0)->function != device.cuda.launch_at(1)->function);
  const csajit::LaunchArgs first = device.cuda.args_of(0);
  const csajit::LaunchArgs second = device.cuda.args_of(1);
  CHECK(std::memcmp(&first, &second, sizeof(first)) == 0);
  CHECK(first.workspace == reinterpret_cast<std::uintptr_t>(args.workspace));
}

TEST_CASE("after a thread's first launch the arguments are written in place and nothing is allocated or loaded") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  csajit_forward_args forward = forward_args();
  const csajit_backward_args backward = backward_args(spec);
  REQUIRE(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  REQUIRE(csajit_forward(service.handle, &spec, &forward, device.stream) == CSAJIT_OK);
  const void* storage = device.cuda.launch_at(0)->argument;
  const void* params = device.cuda.launch_at(0)->params;
  const int loads = device.cuda.calls("cuModuleLoadData");
  const int attributes = device.cuda.calls("cuFuncGetAttribute");

  CUstream other = device.cuda.create_stream(device.context);
  forward.out.data = reinterpret_cast<void*>(0xA000'0000);
  CHECK(allocations() > 0);  // they are counted at all
  const std::uint64_t before = allocations();
  csajit_status status = CSAJIT_OK;
  for (int i = 0; i < 100 && status == CSAJIT_OK; ++i) {
    status = csajit_forward(service.handle, &spec, &forward, other);
    if (status == CSAJIT_OK) status = csajit_backward(service.handle, &spec, &backward, device.stream);
  }
  const std::uint64_t after = allocations();
  CHECK(status == CSAJIT_OK);
  CHECK(after == before);
  CHECK(device.cuda.calls("cuModuleLoadData") == loads);
  CHECK(device.cuda.calls("cuFuncGetAttribute") == attributes);
  CHECK(device.cuda.calls("cuStreamSynchronize") == 0);
  REQUIRE(device.cuda.num_launches() == 301);
  CHECK(device.cuda.launch_at(1)->argument == storage);
  CHECK(device.cuda.launch_at(1)->params == params);
  CHECK(device.cuda.launch_at(1)->stream == other);
  CHECK(device.cuda.args_of(1).out == 0xA000'0000);
  CHECK(device.cuda.launch_at(300)->argument == storage);
  CHECK(service.statistics().fast_launches == 301);
  CHECK(service.statistics().regular_launches == 0);
}

TEST_CASE("the regular path passes what the fast path passes") {
  Device device;
  Service fast;
  const ScopedVariable off("CSAJIT_FAST_LAUNCH", "0");
  Service regular;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args forward = forward_args();
  const csajit_backward_args backward = backward_args(spec);
  for (csajit_service* service : {fast.handle, regular.handle}) {
    REQUIRE(csajit_forward(service, &spec, &forward, device.stream) == CSAJIT_OK);
    REQUIRE(csajit_backward(service, &spec, &backward, device.stream) == CSAJIT_OK);
  }
  REQUIRE(device.cuda.num_launches() == 6);
  for (int i = 0; i < 3; ++i) {
    const FakeLaunch* a = device.cuda.launch_at(i);
    const FakeLaunch* b = device.cuda.launch_at(i + 3);
    CHECK(a->function == b->function);
    CHECK(a->grid == b->grid);
    CHECK(a->block == b->block);
    CHECK(a->smem_bytes == b->smem_bytes);
    CHECK(std::memcmp(a->bytes, b->bytes, a->num_bytes) == 0);
  }
  CHECK(fast.statistics().fast_launches == 3);
  CHECK(regular.statistics().fast_launches == 0);
  CHECK(regular.statistics().regular_launches == 3);
  const std::uint64_t before = allocations();
  const csajit_status status = csajit_forward(regular.handle, &spec, &forward, device.stream);
  CHECK(allocations() == before);
  CHECK(status == CSAJIT_OK);
}

TEST_CASE("a launch state that cannot be built falls back for good and says so once") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  device.cuda.set_max_threads(1);
  for (int i = 0; i < 3; ++i) REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  device.cuda.set_max_threads(1024);
  REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  CHECK(service.statistics().regular_launches == 4);
  CHECK(service.statistics().fast_launches == 0);
  CHECK(device.log.count("regular path") == 1);
}

TEST_CASE("a call with nothing to do touches no driver") {
  Device device;
  Service service(CSAJIT_SERVICE_MEMORY_ONLY | CSAJIT_SERVICE_REQUIRE_PREPARED);
  const csajit_spec spec = fresh_spec();
  csajit_forward_args args = forward_args();
  args.total_comp = 0;
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  CHECK(device.cuda.calls("cuStreamGetCtx") == 0);
  CHECK(device.cuda.num_launches() == 0);
}

TEST_CASE("an unprepared launch under capture is refused, names the cure and leaves the capture valid") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  device.cuda.begin_capture(device.stream);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_E_NOT_PREPARED_IN_CAPTURE);
  CHECK(last_error_has("head_dim=" + std::to_string(spec.head_dim)));
  CHECK(last_error_has("csajit warmup --arch sm_90 --ratio 4"));
  CHECK(last_error_has("csajit_prepare"));
  CHECK(device.nvrtc.compiles() == 0);
  CHECK(device.cuda.num_launches() == 0);
  CHECK(device.cuda.loaded_modules(device.context) == 0);
  // Preparing on the capturing thread is legal, and then the launch is captured.
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  REQUIRE(device.cuda.num_launches() == 1);
  CHECK(device.cuda.launch_at(0)->captured);
  CHECK(device.cuda.end_capture(device.stream));
}

TEST_CASE("the legacy stream beside a capture counts as capturing") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  device.cuda.set_current(device.context);
  device.cuda.begin_capture(device.stream);
  CHECK(csajit_forward(service.handle, &spec, &args, nullptr) == CSAJIT_E_NOT_PREPARED_IN_CAPTURE);
  CHECK(device.cuda.end_capture(device.stream));
}

TEST_CASE("a service that requires preparation refuses an unprepared launch, and capture wins") {
  Device device;
  Service service(CSAJIT_SERVICE_MEMORY_ONLY | CSAJIT_SERVICE_REQUIRE_PREPARED);
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_E_NOT_PREPARED);
  CHECK(last_error_has("csajit_prepare"));
  device.cuda.begin_capture(device.stream);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_E_NOT_PREPARED_IN_CAPTURE);
  CHECK(device.cuda.end_capture(device.stream));
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_OK);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
}

TEST_CASE("the context is the stream's, and the current one is left as it was") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  CUcontext second = device.cuda.create_context(1);
  CUstream second_stream = device.cuda.create_stream(second);
  device.cuda.set_current(second);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
    REQUIRE(csajit_forward(service.handle, &spec, &args, second_stream) == CSAJIT_OK);
  }
  CHECK(device.cuda.get_current() == second);
  REQUIRE(device.cuda.num_launches() == 6);
  for (int i = 0; i < 6; ++i) {
    CHECK(device.cuda.launch_at(i)->context == (i % 2 == 0 ? device.context : second));
    CHECK(device.cuda.launch_at(i)->current == second);
  }
  CHECK(device.cuda.loaded_modules(second) == kernels_of_fresh_spec);
  CHECK(device.nvrtc.compiles() == kernels_of_fresh_spec);
  CHECK(service.statistics().fast_launches == 6);
}

TEST_CASE("the null, legacy and per-thread streams take the current context, and without one there is an error") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    device.cuda.set_current(nullptr);
    CHECK(csajit_forward(service.handle, &spec, &args, stream) == CSAJIT_E_NO_CONTEXT);
    device.cuda.set_current(device.context);
    CHECK(csajit_forward(service.handle, &spec, &args, stream) == CSAJIT_OK);
  }
  CHECK(device.cuda.num_launches() == 3);
}

TEST_CASE("a reset context is seen by its id and loaded into anew") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  device.cuda.reset_context(device.context);
  CHECK(device.cuda.loaded_modules(device.context) == 0);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  CHECK(device.cuda.loaded_modules(device.context) == kernels_of_fresh_spec);
  CHECK(device.nvrtc.compiles() == kernels_of_fresh_spec);
}

TEST_CASE("each thread has its own argument storage") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  csajit_status other = CSAJIT_E_INTERNAL;
  std::thread([&] { other = csajit_forward(service.handle, &spec, &args, device.stream); }).join();
  CHECK(other == CSAJIT_OK);
  REQUIRE(device.cuda.num_launches() == 2);
  CHECK(device.cuda.launch_at(0)->argument != device.cuda.launch_at(1)->argument);
  CHECK(device.cuda.launch_at(0)->function == device.cuda.launch_at(1)->function);
}

TEST_CASE("threads that launch, prepare, unload another context and come and go as services do not meet") {
  Device device;
  Service shared;
  csajit_spec specs[3] = {fresh_spec(), fresh_spec(), fresh_spec()};
  const csajit_forward_args args = forward_args();
  CUcontext second = device.cuda.create_context(1);
  CUstream second_stream = device.cuda.create_stream(second);
  std::atomic<int> failures{0};
  const auto expect_ok = [&](csajit_status status) { failures += status == CSAJIT_OK ? 0 : 1; };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 60; ++i) {
        CUstream stream = i % 2 == 0 ? device.stream : second_stream;
        expect_ok(csajit_forward(shared.handle, &specs[i % 3], &args, stream));
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 20; ++i) {
      csajit_service_options options{};
      options.struct_size = sizeof(options);
      options.flags = CSAJIT_SERVICE_MEMORY_ONLY;
      options.nvrtc_path = fake_nvrtc_path;
      csajit_service* own = nullptr;
      expect_ok(csajit_service_create(&options, &own));
      expect_ok(csajit_prepare(own, &specs[i % 3], second_stream));
      expect_ok(csajit_forward(own, &specs[i % 3], &args, device.stream));
      csajit_service_destroy(own);
    }
  });
  threads.emplace_back([&] {
    CUcontext third = device.cuda.create_context(0);
    CUstream third_stream = device.cuda.create_stream(third);
    for (int i = 0; i < 10; ++i) {
      expect_ok(csajit_prepare(shared.handle, &specs[0], third_stream));
      expect_ok(csajit_unload_context(third));
    }
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(device.cuda.num_launches() == 260);
  CHECK(shared.statistics().fast_launches == 240);
  CHECK(device.nvrtc.compiles() == 3 * kernels_of_fresh_spec);
}

TEST_CASE("a launch that the driver refuses is an error with the driver's name for it") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  device.cuda.fail("cuLaunchKernelEx", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 1);
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_E_DRIVER);
  CHECK(last_error_has("cuLaunchKernelEx"));
  CHECK(last_error_has("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
  CHECK(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
}

TEST_CASE("a child of fork gets an error instead of a launch") {
  Device device;
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args args = forward_args();
  REQUIRE(csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_OK);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool refused = csajit_forward(service.handle, &spec, &args, device.stream) == CSAJIT_E_FORKED &&
                         csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_E_FORKED;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("the kill switch answers every launch, prepare and check, and building still works") {
  Device device;
  const ScopedVariable on("CSAJIT_DISABLE", "1");
  Service service;
  const csajit_spec spec = fresh_spec();
  const csajit_forward_args forward = forward_args();
  const csajit_backward_args backward = backward_args(spec);
  CHECK(csajit_forward(service.handle, &spec, &forward, device.stream) == CSAJIT_E_DISABLED);
  CHECK(csajit_backward(service.handle, &spec, &backward, device.stream) == CSAJIT_E_DISABLED);
  CHECK(csajit_prepare(service.handle, &spec, device.stream) == CSAJIT_E_DISABLED);
  CHECK(csajit_check_spec(service.handle, &spec, "sm_90", nullptr, 0) == CSAJIT_E_DISABLED);
  csajit_build_options options{};
  options.struct_size = sizeof(options);
  options.arch = "sm_90";
  CHECK(csajit_build(service.handle, &spec, &options) == CSAJIT_OK);
}
