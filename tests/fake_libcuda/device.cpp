// The driver's devices, contexts, streams and memory, and the two symbols that csajit takes by name.
#include <cuda.h>

#include <cstdlib>
#include <cstring>

#include "fake_libcuda/entry_point.hpp"
#include "fake_libcuda/state.hpp"

namespace fake_cuda {
namespace {

// ---- Library and devices

CUresult init(unsigned) {
  FAKE_ENTER("cuInit");
  return CUDA_SUCCESS;
}

CUresult driver_get_version(int* version) {
  *version = state().version;
  return CUDA_SUCCESS;
}

struct ErrorName {
  CUresult code;
  const char* name;
};
constexpr ErrorName error_names[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {CUDA_ERROR_INVALID_SOURCE, "CUDA_ERROR_INVALID_SOURCE"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
};

CUresult get_error_name(CUresult code, const char** name) {
  for (const ErrorName& known : error_names) {
    if (known.code != code) continue;
    *name = known.name;
    return CUDA_SUCCESS;
  }
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult get_error_string(CUresult, const char** text) {
  *text = "as the test asked";
  return CUDA_SUCCESS;
}

bool is_device(CUdevice device) { return device >= 0 && device < static_cast<int>(state().capabilities.size()); }

CUresult device_get(CUdevice* device, int ordinal) {
  FAKE_ENTER("cuDeviceGet");
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult device_get_count(int* count) {
  FAKE_ENTER("cuDeviceGetCount");
  *count = static_cast<int>(state().capabilities.size());
  return CUDA_SUCCESS;
}

CUresult device_get_name(char* name, int bytes, CUdevice device) {
  if (!is_device(device) || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::strncpy(name, "Fake GPU", static_cast<size_t>(bytes) - 1);
  name[bytes - 1] = '\0';
  return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  FAKE_ENTER("cuDeviceGetAttribute");
  if (!is_device(device)) return CUDA_ERROR_INVALID_VALUE;
  const int capability = state().capabilities[static_cast<size_t>(device)];
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = capability / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = capability % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 232448;
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return CUDA_SUCCESS;
  }
}

CUresult device_total_mem(size_t* bytes, CUdevice device) {
  *bytes = size_t{80} << 30;
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- Contexts and streams

CUresult ctx_get_current(CUcontext* context) {
  FAKE_ENTER("cuCtxGetCurrent");
  *context = reinterpret_cast<CUcontext>(this_thread().current());
  return CUDA_SUCCESS;
}

CUresult ctx_set_current(CUcontext context) {
  fake_cuda_set_current(context);
  return CUDA_SUCCESS;
}

CUresult ctx_get_device(CUdevice* device) {
  FAKE_ENTER("cuCtxGetDevice");
  if (this_thread().current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = this_thread().current()->device;
  return CUDA_SUCCESS;
}

CUresult ctx_get_id(CUcontext context, unsigned long long* id) {
  FAKE_ENTER("cuCtxGetId");
  const std::lock_guard lock(state().mutex);
  if (!state().is_context(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = reinterpret_cast<Context*>(context)->id;
  return CUDA_SUCCESS;
}

CUresult ctx_push_current(CUcontext context) {
  FAKE_ENTER("cuCtxPushCurrent");
  Thread& thread = this_thread();
  if (thread.depth == static_cast<int>(thread.stack.size())) return CUDA_ERROR_OUT_OF_MEMORY;
  thread.stack[static_cast<size_t>(thread.depth++)] = reinterpret_cast<Context*>(context);
  return CUDA_SUCCESS;
}

CUresult ctx_pop_current(CUcontext* context) {
  FAKE_ENTER("cuCtxPopCurrent");
  Thread& thread = this_thread();
  if (thread.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = reinterpret_cast<CUcontext>(thread.current());
  --thread.depth;
  return CUDA_SUCCESS;
}

CUresult ctx_synchronize() { return CUDA_SUCCESS; }

CUresult primary_ctx_retain(CUcontext* context, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_VALUE;
  *context = fake_cuda_create_context(device);
  return CUDA_SUCCESS;
}

CUresult primary_ctx_release(CUdevice) { return CUDA_SUCCESS; }

CUresult stream_get_ctx(CUstream stream, CUcontext* context) {
  FAKE_ENTER("cuStreamGetCtx");
  const std::lock_guard lock(state().mutex);
  if (!state().is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  *context = reinterpret_cast<CUcontext>(reinterpret_cast<Stream*>(stream)->context);
  return CUDA_SUCCESS;
}

CUresult stream_is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  FAKE_ENTER("cuStreamIsCapturing");
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  const std::lock_guard lock(state().mutex);
  if (state().is_stream(stream)) {
    *status = reinterpret_cast<Stream*>(stream)->capture;
    return CUDA_SUCCESS;
  }
  if (stream == CU_STREAM_PER_THREAD) return CUDA_SUCCESS;
  for (const Stream& other : state().streams) {
    const bool beside = other.context == this_thread().current();
    if (beside && other.capture != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return CUDA_SUCCESS;
}

CUresult exchange_capture_mode(CUstreamCaptureMode* mode) {
  FAKE_ENTER("cuThreadExchangeStreamCaptureMode");
  const CUstreamCaptureMode before = this_thread().mode;
  this_thread().mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

CUresult stream_create(CUstream* stream, unsigned) {
  if (this_thread().current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *stream = fake_cuda_create_stream(reinterpret_cast<CUcontext>(this_thread().current()));
  return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream stream) {
  const std::lock_guard lock(state().mutex);
  if (!state().is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  reinterpret_cast<Stream*>(stream)->alive = false;
  return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream) {
  FAKE_ENTER("cuStreamSynchronize");
  return CUDA_SUCCESS;
}

// ---- Memory: the host's own, so that copies and fills do what they say

CUresult mem_alloc(CUdeviceptr* pointer, size_t bytes) {
  FAKE_ENTER("cuMemAlloc");
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult mem_free(CUdeviceptr pointer) {
  FAKE_ENTER("cuMemFree");
  std::free(reinterpret_cast<void*>(pointer));
  return CUDA_SUCCESS;
}

CUresult mem_get_info(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = size_t{8} << 30;
  *total_bytes = size_t{80} << 30;
  return CUDA_SUCCESS;
}

CUresult memcpy_htod(CUdeviceptr to, const void* from, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}

CUresult memcpy_dtoh(void* to, CUdeviceptr from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}

CUresult memcpy_dtoh_async(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  FAKE_ENTER("cuMemcpyDtoHAsync");
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}

// Every address is memory of the current context's device, unless a test lets the call fail.
CUresult pointer_get_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  FAKE_ENTER("cuPointerGetAttribute");
  const Context* context = this_thread().current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = context->device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = address;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult memset_d8(CUdeviceptr to, unsigned char value, size_t bytes) {
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return CUDA_SUCCESS;
}

const EntryPoint entry_points[] = {
    FAKE_ENTRY("cuInit", 2000, init),
    FAKE_ENTRY("cuDriverGetVersion", 2020, driver_get_version),
    FAKE_ENTRY("cuGetErrorName", 6000, get_error_name),
    FAKE_ENTRY("cuGetErrorString", 6000, get_error_string),
    FAKE_ENTRY("cuDeviceGet", 2000, device_get),
    FAKE_ENTRY("cuDeviceGetCount", 2000, device_get_count),
    FAKE_ENTRY("cuDeviceGetName", 2000, device_get_name),
    FAKE_ENTRY("cuDeviceGetAttribute", 2000, device_get_attribute),
    FAKE_ENTRY("cuDeviceTotalMem", 3020, device_total_mem),
    FAKE_ENTRY("cuDevicePrimaryCtxRetain", 7000, primary_ctx_retain),
    FAKE_ENTRY("cuDevicePrimaryCtxRelease", 11000, primary_ctx_release),
    FAKE_ENTRY("cuCtxSetCurrent", 4000, ctx_set_current),
    FAKE_ENTRY("cuCtxGetCurrent", 4000, ctx_get_current),
    FAKE_ENTRY("cuCtxGetDevice", 2000, ctx_get_device),
    FAKE_ENTRY("cuCtxGetId", 12000, ctx_get_id),
    FAKE_ENTRY("cuCtxPushCurrent", 4000, ctx_push_current),
    FAKE_ENTRY("cuCtxPopCurrent", 4000, ctx_pop_current),
    FAKE_ENTRY("cuCtxSynchronize", 2000, ctx_synchronize),
    FAKE_ENTRY("cuStreamGetCtx", 9020, stream_get_ctx),
    FAKE_ENTRY("cuStreamIsCapturing", 10000, stream_is_capturing),
    FAKE_ENTRY("cuThreadExchangeStreamCaptureMode", 10010, exchange_capture_mode),
    FAKE_ENTRY("cuStreamCreate", 2000, stream_create),
    FAKE_ENTRY("cuStreamDestroy", 4000, stream_destroy),
    FAKE_ENTRY("cuStreamSynchronize", 2000, stream_synchronize),
    FAKE_ENTRY("cuMemAlloc", 3020, mem_alloc),
    FAKE_ENTRY("cuMemFree", 3020, mem_free),
    FAKE_ENTRY("cuMemGetInfo", 3020, mem_get_info),
    FAKE_ENTRY("cuMemcpyHtoD", 3020, memcpy_htod),
    FAKE_ENTRY("cuMemcpyDtoH", 3020, memcpy_dtoh),
    FAKE_ENTRY("cuMemcpyDtoHAsync", 3020, memcpy_dtoh_async),
    FAKE_ENTRY("cuPointerGetAttribute", 4000, pointer_get_attribute),
    FAKE_ENTRY("cuMemsetD8", 3020, memset_d8),
};

void* find_in(std::span<const EntryPoint> table, const char* name, int version) {
  for (const EntryPoint& entry : table) {
    if (std::strcmp(entry.name, name) == 0 && entry.since <= version) return entry.address;
  }
  return nullptr;
}

void* find_entry_point(const char* name, int version) {
  void* address = find_in(entry_points, name, version);
  return address != nullptr ? address : find_in(module_entry_points(), name, version);
}

}  // namespace
}  // namespace fake_cuda

// The two symbols that csajit takes by name, as the real library exports them.
#undef cuGetProcAddress
extern "C" {

CUresult CUDAAPI cuDriverGetVersion(int* version) { return fake_cuda::driver_get_version(version); }

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t,
                                     CUdriverProcAddressQueryResult* status) {
  const int newest = version < fake_cuda::state().version ? version : fake_cuda::state().version;
  *function = fake_cuda::find_entry_point(symbol, newest);
  if (status != nullptr) {
    *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
}
