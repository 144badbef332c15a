// A process of its own for the launch tests: builds one spec into a folder, or prepares it, or goes on
// launching it while the process ends; exits 0 if that worked. usage: warm build|prepare|exit NVRTC CACHE HEAD_DIM
#include <csajit/csajit.h>
#include <dlfcn.h>
#include <unistd.h>

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

// What launches after main returned, from wherever.
struct Last {
  csajit_service* service = nullptr;
  csajit_spec spec{};
  csajit_forward_args args{};
  CUstream stream = nullptr;
  int launches = 0;

  void launch() {
    if (csajit_forward(service, &spec, &args, stream) == CSAJIT_OK) {
      ++launches;
    } else if (csajit_last_error(nullptr, 0) < 1) {
      _exit(5);
    }
  }
};
Last last;

void launch_from_atexit() { last.launch(); }

struct LaunchFromDestructor {
  ~LaunchFromDestructor() {
    last.launch();
    if (last.launches == 0) _exit(4);
  }
};

// Its destructor runs before any atexit handler, and after it csajit's own thread objects may be gone.
void launch_from_thread_end() {
  struct ThreadEnd {
    ~ThreadEnd() { last.launch(); }
  };
  static thread_local ThreadEnd thread_end;
  static_cast<void>(&thread_end);
}

csajit_forward_args make_args() {
  csajit_forward_args args{};
  args.struct_size = sizeof(args);
  args.num_tokens = 64;
  args.num_segments = 1;
  args.total_comp = 16;
  args.cu_seqlens = reinterpret_cast<const int32_t*>(0x90000000);
  args.cu_seqlens_comp = reinterpret_cast<const int32_t*>(0x91000000);
  args.kv.data = reinterpret_cast<void*>(0x10000000);
  args.score.data = reinterpret_cast<void*>(0x20000000);
  args.ape.data = reinterpret_cast<void*>(0x30000000);
  args.out.data = reinterpret_cast<void*>(0x40000000);
  return args;
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
  } else if (std::strcmp(argv[1], "exit") == 0) {
    launch_from_thread_end();
    static LaunchFromDestructor destructor;
    std::atexit(launch_from_atexit);
    last.service = service;
    last.spec = spec;
    last.args = make_args();
    last.stream = make_stream();
    return report(csajit_forward(service, &spec, &last.args, last.stream));
  }
  csajit_service_destroy(service);
  return outcome;
}
