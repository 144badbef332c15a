// A process of its own for the launch tests: builds one spec into a folder, or prepares it, and exits 0 if that
// worked. usage: warm build|prepare NVRTC CACHE HEAD_DIM
#include <csajit/csajit.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fake_libcuda/fake_cuda.h"

namespace {

int report(csajit_status status) {
  if (status == CSAJIT_OK) return 0;
  char message[2048];
  csajit_last_error(message, sizeof(message));
  std::fprintf(stderr, "%s: %s\n", csajit_status_string(status), message);
  return 1;
}

CUstream make_stream() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return nullptr;
  auto* create_context = reinterpret_cast<FakeCudaCreateContext*>(dlsym(driver, "fake_cuda_create_context"));
  auto* create_stream = reinterpret_cast<FakeCudaCreateStream*>(dlsym(driver, "fake_cuda_create_stream"));
  return create_stream(create_context(0));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  csajit_service_options options{};
  options.struct_size = sizeof(options);
  options.nvrtc_path = argv[2];
  options.cache_dir = argv[3];
  csajit_service* service = nullptr;
  if (report(csajit_service_create(&options, &service)) != 0) return 1;
  csajit_spec spec{};
  spec.struct_size = sizeof(spec);
  spec.ratio = 4;
  spec.head_dim = static_cast<uint32_t>(std::atoi(argv[4]));
  spec.coff = 2;
  int outcome = 2;
  if (std::strcmp(argv[1], "build") == 0) {
    csajit_build_options build{};
    build.struct_size = sizeof(build);
    build.arch = "sm_90";
    outcome = report(csajit_check_spec(service, &spec, "sm_90", nullptr, 0));
    if (outcome == 0) outcome = report(csajit_build(service, &spec, &build));
    // Loaded behind everybody's back, by NVRTC for one.
    if (outcome == 0 && dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr) outcome = 3;
  } else if (std::strcmp(argv[1], "prepare") == 0) {
    outcome = report(csajit_prepare(service, &spec, make_stream()));
  }
  csajit_service_destroy(service);
  return outcome;
}
