// The GPU as a CheckDevice.
#include "check_gpu.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "command.hpp"
#include "dl/driver_api.hpp"
#include "service_handle.hpp"

namespace csajit::tool {
namespace {

class Gpu final : public CheckDevice {
 public:
  explicit Gpu(const DriverApi& driver) : driver_(driver) {}

  ~Gpu() override {
    // Nothing can be done about failures here; the process is about to end.
    if (stream_ != nullptr) static_cast<void>(driver_.cuStreamDestroy(stream_));
    if (retained_) static_cast<void>(driver_.cuDevicePrimaryCtxRelease(device_));
  }

  Result<void> open(int ordinal) {
    if (auto done = checked("cuDeviceGet", driver_.cuDeviceGet(&device_, ordinal)); !done) return done;
    CUcontext context = nullptr;
    if (auto done = checked("cuDevicePrimaryCtxRetain", driver_.cuDevicePrimaryCtxRetain(&context, device_)); !done) {
      return done;
    }
    retained_ = true;
    if (auto done = checked("cuCtxSetCurrent", driver_.cuCtxSetCurrent(context)); !done) return done;
    // Ordered with the copies below, which use the legacy stream.
    if (auto done = checked("cuStreamCreate", driver_.cuStreamCreate(&stream_, CU_STREAM_DEFAULT)); !done) return done;
    csajit_service_options options{};
    options.struct_size = sizeof options;
    Result<ServiceHandle> service = create_service(options);
    if (!service) return std::move(service).error();
    service_ = std::move(*service);
    return {};
  }

  csajit_service* service() const { return service_.get(); }
  CUdevice device() const { return device_; }

  Result<std::uint64_t> allocate(std::size_t bytes) override {
    CUdeviceptr address = 0;
    if (auto done = checked("cuMemAlloc", driver_.cuMemAlloc(&address, bytes)); !done) return std::move(done).error();
    return static_cast<std::uint64_t>(address);
  }

  void release(std::uint64_t address) override { static_cast<void>(driver_.cuMemFree(address)); }

  Result<void> upload(std::uint64_t address, const std::vector<std::byte>& bytes) override {
    return checked("cuMemcpyHtoD", driver_.cuMemcpyHtoD(address, bytes.data(), bytes.size()));
  }

  Result<void> download(std::uint64_t address, std::vector<std::byte>& bytes) override {
    return checked("cuMemcpyDtoH", driver_.cuMemcpyDtoH(bytes.data(), address, bytes.size()));
  }

  Result<void> prepare(const csajit_spec& spec) override {
    const csajit_status status = csajit_prepare(service_.get(), &spec, stream_);
    if (status != CSAJIT_OK) return api_error(status);
    return {};
  }

  Result<std::uint64_t> workspace_bytes(const csajit_spec& spec, std::int64_t num_rows) override {
    std::uint64_t bytes = 0;
    const csajit_status status = csajit_workspace_size(&spec, num_rows, &bytes);
    if (status != CSAJIT_OK) return api_error(status);
    return bytes;
  }

  Result<void> forward(const csajit_spec& spec, const csajit_forward_args& args) override {
    const csajit_status status = csajit_forward(service_.get(), &spec, &args, stream_);
    if (status != CSAJIT_OK) return api_error(status);
    return wait("forward");
  }

  Result<void> backward(const csajit_spec& spec, const csajit_backward_args& args) override {
    const csajit_status status = csajit_backward(service_.get(), &spec, &args, stream_);
    if (status != CSAJIT_OK) return api_error(status);
    return wait("backward");
  }

  bool alive() override { return driver_.cuStreamSynchronize(stream_) == CUDA_SUCCESS; }

 private:
  Result<void> checked(const char* call, CUresult code) const {
    if (code == CUDA_SUCCESS) return {};
    return Error{code == CUDA_ERROR_OUT_OF_MEMORY ? CSAJIT_E_OUT_OF_MEMORY : CSAJIT_E_DRIVER,
                 fmt::format("{}: {}", call, driver_.describe(code))};
  }

  Result<void> wait(const char* what) const {
    const CUresult code = driver_.cuStreamSynchronize(stream_);
    if (code == CUDA_SUCCESS) return {};
    return Error{CSAJIT_E_DRIVER, fmt::format("the {} failed on the GPU: {}", what, driver_.describe(code))};
  }

  const DriverApi& driver_;
  CUdevice device_ = 0;
  bool retained_ = false;
  CUstream stream_ = nullptr;
  ServiceHandle service_;
};

}  // namespace

Result<GpuDevice> open_gpu(int ordinal) {
  Result<const DriverApi*> driver = driver_api();
  if (!driver) return Error{driver.error().status, "check needs a GPU: " + driver.error().message};
  int count = 0;
  const CUresult counted = (*driver)->cuDeviceGetCount(&count);
  if (counted != CUDA_SUCCESS || ordinal >= count) {
    return Error{CSAJIT_E_DRIVER,
                 fmt::format("check needs a GPU: the driver lists {}, so there is no number {}", count, ordinal)};
  }
  auto gpu = std::make_unique<Gpu>(**driver);
  if (Result<void> opened = gpu->open(ordinal); !opened) return std::move(opened).error();
  GpuDevice result;
  std::array<char, 256> name{};
  if ((*driver)->cuDeviceGetName(name.data(), static_cast<int>(name.size()), gpu->device()) == CUDA_SUCCESS) {
    result.name = name.data();
  }
  std::array<char, 32> arch{};
  csajit_spec spec{};
  spec.struct_size = sizeof spec;
  spec.ratio = 4;
  spec.head_dim = 128;
  spec.coff = 2;
  const csajit_status status = csajit_check_spec(gpu->service(), &spec, nullptr, arch.data(), arch.size());
  if (status != CSAJIT_OK) return api_error(status);
  result.arch = arch.data();
  result.service = gpu->service();
  result.device = std::move(gpu);
  return result;
}

}  // namespace csajit::tool
