// The driver's modules, functions and launches.
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "fake_libcuda/entry_point.hpp"
#include "fake_libcuda/state.hpp"

namespace fake_cuda {
namespace {

// ---- Modules and functions

// "...sm_90..." -> 90, 0 where there is none.
int architecture_of(const char* text, const char* end) {
  for (const char* at = text; at + 3 < end; ++at) {
    if (std::strncmp(at, "sm_", 3) == 0) return std::atoi(at + 3);
  }
  return 0;
}

// The image has no length: nothing past its third newline is read.
CUresult read_image(const void* image, int capability, std::string* kernel) {
  static constexpr char magic[] = "fake cubin\n";
  const char* text = static_cast<const char*>(image);
  if (std::strncmp(text, "\177ELF", 4) == 0) return CUDA_SUCCESS;
  if (std::strncmp(text, magic, sizeof(magic) - 1) != 0) return CUDA_ERROR_INVALID_IMAGE;
  const char* architecture = text + sizeof(magic) - 1;
  const char* name = std::strchr(architecture, '\n') + 1;
  const int target = architecture_of(architecture, name);
  if (target / 10 != capability / 10 || target > capability) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  kernel->assign(name, std::strchr(name, '\n'));
  return CUDA_SUCCESS;
}

CUresult module_load_data(CUmodule* module, const void* image) {
  FAKE_ENTER("cuModuleLoadData");
  Context* context = this_thread().current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(state().mutex);
  if (!state().may_load(this_thread().mode)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Module loaded;
  loaded.context = context;
  loaded.context_id = context->id;
  const CUresult code = read_image(image, state().capabilities[static_cast<size_t>(context->device)], &loaded.kernel);
  if (code != CUDA_SUCCESS) return code;
  state().modules.push_back(loaded);
  *module = reinterpret_cast<CUmodule>(&state().modules.back());
  return CUDA_SUCCESS;
}

CUresult module_unload(CUmodule module) {
  FAKE_ENTER("cuModuleUnload");
  const std::lock_guard lock(state().mutex);
  if (!state().may_load(this_thread().mode)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!state().is_module(module)) return CUDA_ERROR_INVALID_HANDLE;
  reinterpret_cast<Module*>(module)->alive = false;
  return CUDA_SUCCESS;
}

CUresult module_get_function(CUfunction* function, CUmodule module, const char* name) {
  FAKE_ENTER("cuModuleGetFunction");
  const std::lock_guard lock(state().mutex);
  if (!state().is_module(module)) return CUDA_ERROR_INVALID_HANDLE;
  auto* from = reinterpret_cast<Module*>(module);
  if (!from->kernel.empty() && from->kernel != name) return CUDA_ERROR_NOT_FOUND;
  state().functions.push_back({from, name, false});
  *function = reinterpret_cast<CUfunction>(&state().functions.back());
  return CUDA_SUCCESS;
}

CUresult func_load(CUfunction function) {
  FAKE_ENTER("cuFuncLoad");
  const std::lock_guard lock(state().mutex);
  if (!state().is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  reinterpret_cast<Function*>(function)->loaded = true;
  return CUDA_SUCCESS;
}

CUresult func_is_loaded(CUfunctionLoadingState* loading, CUfunction function) {
  const std::lock_guard lock(state().mutex);
  if (!state().is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  *loading = reinterpret_cast<Function*>(function)->loaded ? CU_FUNCTION_LOADING_STATE_LOADED
                                                           : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

CUresult func_get_param_info(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  FAKE_ENTER("cuFuncGetParamInfo");
  const std::lock_guard lock(state().mutex);
  if (!state().is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (index >= state().parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  for (size_t i = 0; i < index; ++i) *offset += state().parameters[i];
  *bytes = state().parameters[index];
  return CUDA_SUCCESS;
}

CUresult func_get_attribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  FAKE_ENTER("cuFuncGetAttribute");
  const std::lock_guard lock(state().mutex);
  if (!state().is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? state().max_threads : 0;
  return CUDA_SUCCESS;
}

CUresult func_set_attribute(CUfunction function, CUfunction_attribute, int) {
  FAKE_ENTER("cuFuncSetAttribute");
  const std::lock_guard lock(state().mutex);
  return state().is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// ---- Launches

CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction handle, void** params, void**) {
  FAKE_ENTER("cuLaunchKernelEx");
  const std::lock_guard lock(state().mutex);
  if (!state().is_function(handle)) return CUDA_ERROR_INVALID_HANDLE;
  const auto* function = reinterpret_cast<const Function*>(handle);
  const CUstream stream = config->hStream;
  const bool named = state().is_stream(stream);
  if (!named && stream != nullptr && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const Context* context = named ? reinterpret_cast<Stream*>(stream)->context : this_thread().current();
  if (context != function->module->context) return CUDA_ERROR_INVALID_HANDLE;
  if (config->gridDimX == 0 || config->blockDimX == 0) return CUDA_ERROR_INVALID_VALUE;

  FakeLaunch scratch{};
  const auto slot = static_cast<size_t>(state().num_launches++);
  FakeLaunch& launch = slot < state().launches.size() ? state().launches[slot] : scratch;
  launch.function = handle;
  launch.kernel = function->name.c_str();
  launch.context = reinterpret_cast<CUcontext>(function->module->context);
  launch.current = reinterpret_cast<CUcontext>(this_thread().current());
  launch.stream = stream;
  launch.grid = config->gridDimX;
  launch.block = config->blockDimX;
  launch.smem_bytes = config->sharedMemBytes;
  launch.params = params;
  launch.argument = params[0];
  launch.function_loaded = function->loaded;
  launch.captured = named && reinterpret_cast<Stream*>(stream)->capture != CU_STREAM_CAPTURE_STATUS_NONE;
  launch.num_bytes = sizeof(csajit::LaunchArgs);
  static_assert(sizeof(csajit::LaunchArgs) <= sizeof(launch.bytes));
  std::memcpy(launch.bytes, params[0], launch.num_bytes);
  if (function->name.find("compressor_validate_offsets") != std::string::npos) {
    const auto* args = static_cast<const csajit::LaunchArgs*>(params[0]);
    std::memcpy(reinterpret_cast<void*>(args->workspace), &state().verdict, sizeof(state().verdict));
  }
  return CUDA_SUCCESS;
}

CUresult launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned smem, CUstream stream, void** params,
                       void** extra) {
  CUlaunchConfig config{};
  config.gridDimX = grid_x;
  config.gridDimY = grid_y;
  config.gridDimZ = grid_z;
  config.blockDimX = block_x;
  config.blockDimY = block_y;
  config.blockDimZ = block_z;
  config.sharedMemBytes = smem;
  config.hStream = stream;
  return launch_kernel_ex(&config, function, params, extra);
}

const EntryPoint entry_points[] = {
    FAKE_ENTRY("cuModuleLoadData", 2000, module_load_data),
    FAKE_ENTRY("cuModuleUnload", 2000, module_unload),
    FAKE_ENTRY("cuModuleGetFunction", 2000, module_get_function),
    FAKE_ENTRY("cuFuncLoad", 12040, func_load),
    FAKE_ENTRY("cuFuncIsLoaded", 12040, func_is_loaded),
    FAKE_ENTRY("cuFuncGetParamInfo", 12040, func_get_param_info),
    FAKE_ENTRY("cuFuncGetAttribute", 2020, func_get_attribute),
    FAKE_ENTRY("cuFuncSetAttribute", 9000, func_set_attribute),
    FAKE_ENTRY("cuLaunchKernel", 4000, launch_kernel),
    FAKE_ENTRY("cuLaunchKernelEx", 11060, launch_kernel_ex),
};

}  // namespace

std::span<const EntryPoint> module_entry_points() { return entry_points; }

}  // namespace fake_cuda
