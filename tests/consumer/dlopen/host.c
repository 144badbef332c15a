/* A plain C host that links nothing of csajit: opens the library, uses it, closes it and opens it again.
 * argv[1] is the library, argv[2] a cache folder of its own. */
#include <csajit/csajit.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ISO C has no conversion from a pointer to data to one to a function; POSIX promises that the bytes do. */
#define LOAD(library, name) load(library, #name, &name##_, sizeof name##_)

static csajit_status (*csajit_service_create_)(const csajit_service_options*, csajit_service**);
static void (*csajit_service_destroy_)(csajit_service*);
static csajit_status (*csajit_check_spec_)(csajit_service*, const csajit_spec*, const char*, char*, size_t);
static csajit_status (*csajit_build_)(csajit_service*, const csajit_spec*, const csajit_build_options*);
static csajit_status (*csajit_prepare_)(csajit_service*, const csajit_spec*, struct CUstream_st*);
static csajit_status (*csajit_workspace_size_)(const csajit_spec*, int64_t, uint64_t*);
static csajit_status (*csajit_get_statistics_)(csajit_service*, csajit_statistics*);
static const char* (*csajit_status_string_)(csajit_status);
static size_t (*csajit_last_error_)(char*, size_t);

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

static void load(void* library, const char* name, void* function, size_t bytes) {
  void* address = dlsym(library, name);
  require(address != NULL, name);
  memcpy(function, &address, bytes);
}

static void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  require(library != NULL, "the library can be opened");
  LOAD(library, csajit_service_create);
  LOAD(library, csajit_service_destroy);
  LOAD(library, csajit_check_spec);
  LOAD(library, csajit_build);
  LOAD(library, csajit_prepare);
  LOAD(library, csajit_workspace_size);
  LOAD(library, csajit_get_statistics);
  LOAD(library, csajit_status_string);
  LOAD(library, csajit_last_error);
  return library;
}

/* Builds one spec; returns the status and what was counted. */
static csajit_status build(const char* cache_dir, csajit_statistics* statistics) {
  csajit_service_options options;
  csajit_build_options build_options;
  csajit_spec spec;
  csajit_service* service = NULL;
  uint64_t workspace_bytes = 0;
  csajit_status status;
  csajit_status prepared;
  char message[4096];

  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.cache_dir = cache_dir;
  memset(&spec, 0, sizeof spec);
  spec.struct_size = sizeof spec;
  spec.ratio = 128;
  spec.head_dim = 128;
  spec.coff = 1;
  memset(&build_options, 0, sizeof build_options);
  build_options.struct_size = sizeof build_options;
  build_options.arch = "sm_90";

  require(csajit_service_create_(&options, &service) == CSAJIT_OK, "a service can be created");
  require(csajit_check_spec_(service, &spec, "sm_90", NULL, 0) == CSAJIT_OK, "the spec is supported");
  require(csajit_workspace_size_(&spec, 1024, &workspace_bytes) == CSAJIT_OK && workspace_bytes > 0,
          "the workspace has a size");
  status = csajit_build_(service, &spec, &build_options);
  require(status == CSAJIT_OK || status == CSAJIT_E_NVRTC_NOT_FOUND, "the spec builds, or there is no NVRTC");

  memset(statistics, 0, sizeof *statistics);
  statistics->struct_size = sizeof *statistics;
  require(csajit_get_statistics_(service, statistics) == CSAJIT_OK, "statistics can be read");

  prepared = csajit_prepare_(service, &spec, NULL);
  require(prepared != CSAJIT_OK, "prepare without a context fails");
  require(csajit_last_error_(message, sizeof message) > 1, "prepare says why");
  printf("build: %s; prepare: %s: %s\n", csajit_status_string_(status), csajit_status_string_(prepared), message);
  csajit_service_destroy_(service);
  return status;
}

int main(int argc, char** argv) {
  csajit_statistics first;
  csajit_statistics second;
  void* library;
  csajit_status status;

  require(argc == 3, "two arguments, the library and the cache folder");
  library = open_library(argv[1]);
  status = build(argv[2], &first);
  require(dlclose(library) == 0, "the library can be closed");
  require(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL, "closing it leaves it mapped");

  library = open_library(argv[1]);
  build(argv[2], &second);
  if (status == CSAJIT_OK) {
    require(first.compiles > 0, "the first build compiled");
    require(second.compiles == 0 && second.memory_hits == first.compiles, "a second dlopen finds the warm state");
  }
  return 0;
}
