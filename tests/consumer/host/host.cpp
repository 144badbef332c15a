// A host program as a user would write it, against the public header only: exits 0 if the library behaves on a
// machine with or without NVRTC and with or without a driver. argv[1] is a cache folder of its own.
#include <csajit/csajit.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string last_error() {
  std::string text(csajit_last_error(nullptr, 0), '\0');
  csajit_last_error(&text[0], text.size());
  text.pop_back();
  return text;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s; last error: %s\n", what, last_error().c_str());
  std::exit(1);
}

void count_kernel(const csajit_kernel_info* info, void* user) {
  ++*static_cast<int*>(user);
  std::printf("%s for %s: status %u, %u registers\n", info->name, info->arch, info->status, info->registers);
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "one argument, the cache folder");
  require(csajit_version() == CSAJIT_VERSION_MAJOR * 10000 + CSAJIT_VERSION_MINOR * 100 + CSAJIT_VERSION_PATCH,
          "header and library are of the same version");

  csajit_service_options options = {};
  options.struct_size = sizeof options;
  options.cache_dir = argv[1];
  csajit_service* service = nullptr;
  require(csajit_service_create(&options, &service) == CSAJIT_OK, "a service can be created");

  csajit_spec spec = {};
  spec.struct_size = sizeof spec;
  spec.ratio = 4;
  spec.head_dim = 128;
  spec.coff = 2;
  char arch[16] = "";
  require(csajit_check_spec(service, &spec, "sm_90", arch, sizeof arch) == CSAJIT_OK, "the spec is supported");
  require(std::string(arch) == "sm_90", "kernels would be made for the architecture that was named");

  csajit_spec bad = spec;
  bad.coff = 3;
  require(csajit_check_spec(service, &bad, "sm_90", nullptr, 0) == CSAJIT_E_INVALID_ARGUMENT, "coff 3 is refused");
  require(last_error().find("coff") != std::string::npos, "the message names coff");

  int kernels = 0;
  csajit_build_options build = {};
  build.struct_size = sizeof build;
  build.arch = "sm_90";
  build.callback = count_kernel;
  build.user = &kernels;
  const csajit_status built = csajit_build(service, &spec, &build);
  require(kernels > 0, "the callback was called");
  require(built == CSAJIT_OK || built == CSAJIT_E_NVRTC_NOT_FOUND, "the spec builds, or there is no NVRTC");
  std::printf("build: %s\n", csajit_status_string(built));

  csajit_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  require(csajit_get_statistics(service, &statistics) == CSAJIT_OK, "statistics can be read");
  const std::uint64_t found = statistics.compiles + statistics.disk_hits + statistics.memory_hits;
  require(built != CSAJIT_OK || found == static_cast<std::uint64_t>(kernels), "every kernel was counted");

  std::uint64_t workspace_bytes = 0;
  require(csajit_workspace_size(&spec, 4096, &workspace_bytes) == CSAJIT_OK && workspace_bytes > 0,
          "the backward's workspace has a size");

  // No stream, no context: with a driver that is what is missing, without one it is the driver.
  const csajit_status prepared = csajit_prepare(service, &spec, nullptr);
  require(prepared != CSAJIT_OK && !last_error().empty(), "prepare says what is missing");
  if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr) {
    require(prepared == CSAJIT_E_DRIVER_NOT_FOUND, "without libcuda, prepare says that there is no driver");
    require(last_error().find("libcuda.so.1") != std::string::npos, "the message names libcuda.so.1");
  }
  std::printf("prepare: %s: %s\n", csajit_status_string(prepared), last_error().c_str());

  csajit_service_destroy(service);
  return 0;
}
