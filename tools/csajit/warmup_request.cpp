// What a warm-up was asked for: the options' text made into specs and architectures.
#include "warmup_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "compile/architecture.hpp"
#include "device/device_info.hpp"
#include "dl/driver_api.hpp"

namespace csajit::tool {
namespace {

Result<csajit_dtype> parse_dtype(std::string_view text) {
  if (text == "bf16") return CSAJIT_DTYPE_BF16;
  if (text == "fp16") return CSAJIT_DTYPE_FP16;
  if (text == "fp32") return CSAJIT_DTYPE_FP32;
  return Error{CSAJIT_E_INVALID_ARGUMENT, fmt::format("--dtype: \"{}\" is none of bf16, fp16 and fp32", text)};
}

csajit_spec make_spec(unsigned ratio, unsigned head_dim, unsigned coff, const DtypeTriple& types, bool ape) {
  csajit_spec spec{};
  spec.struct_size = sizeof spec;
  spec.ratio = ratio;
  spec.head_dim = head_dim;
  spec.coff = coff;
  spec.kv_dtype = types.kv;
  spec.score_dtype = types.score;
  spec.out_dtype = types.out;
  spec.ape = ape ? CSAJIT_APE_PRESENT : CSAJIT_APE_ABSENT;
  return spec;
}

void add_once(std::vector<std::string>& list, std::string_view name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.emplace_back(name);
}

Error no_gpu(const std::string& why) {
  return {CSAJIT_E_INVALID_ARGUMENT,
          fmt::format("there is no GPU to ask for its architecture ({}): name the architectures with --arch, "
                      "for example --arch sm_90,sm_100",
                      why)};
}

Result<std::vector<std::string>> archs_of_gpus() {
  Result<const DriverApi*> driver = driver_api();
  if (!driver) return no_gpu(driver.error().message);
  int count = 0;
  const CUresult counted = (*driver)->cuDeviceGetCount(&count);
  if (counted != CUDA_SUCCESS) return no_gpu("cuDeviceGetCount: " + (*driver)->describe(counted));
  if (count == 0) return no_gpu("the driver lists none");
  std::vector<std::string> archs;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    const CUresult got = (*driver)->cuDeviceGet(&device, ordinal);
    if (got != CUDA_SUCCESS) return Error{CSAJIT_E_DRIVER, "cuDeviceGet: " + (*driver)->describe(got)};
    Result<DeviceInfo> info = query_device(**driver, device);
    if (!info) return std::move(info).error();
    const Architecture* const arch = find_architecture(info->capability);
    if (arch == nullptr) {
      return Error{CSAJIT_E_UNSUPPORTED,
                   fmt::format("GPU {} has compute capability {}.{}, which csajit has no target for", ordinal,
                               info->capability / 10, info->capability % 10)};
    }
    add_once(archs, arch->name);
  }
  return archs;
}

}  // namespace

Result<DtypeTriple> parse_dtypes(const std::string& text) {
  std::vector<csajit_dtype> types;
  for (std::string_view rest = text;;) {
    const std::size_t colon = rest.find(':');
    Result<csajit_dtype> type = parse_dtype(rest.substr(0, colon));
    if (!type) return std::move(type).error();
    types.push_back(*type);
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (types.size() == 1) return DtypeTriple{types[0], types[0], types[0]};
  if (types.size() == 3) return DtypeTriple{types[0], types[1], types[2]};
  return Error{CSAJIT_E_INVALID_ARGUMENT,
               fmt::format("--dtype: \"{}\" is neither one type nor three, as in bf16:fp32:bf16", text)};
}

std::vector<csajit_spec> production_specs() {
  const DtypeTriple bf16;
  return {make_spec(4, 128, 2, bf16, true), make_spec(4, 512, 2, bf16, true), make_spec(128, 128, 1, bf16, true),
          make_spec(128, 512, 1, bf16, true)};
}

Result<std::vector<csajit_spec>> requested_specs(const WarmupOptions& options) {
  const bool shaped = !options.ratio.empty() || !options.head_dim.empty() || !options.coff.empty();
  const bool typed = !options.dtype.empty() || options.no_ape;
  if (!options.preset.empty() && (shaped || typed)) {
    return Error{CSAJIT_E_INVALID_ARGUMENT,
                 "--preset names whole specs: it goes without --ratio, --head-dim, --coff, --dtype and --no-ape"};
  }
  if (!shaped && !typed) return production_specs();
  if (options.ratio.empty() || options.head_dim.empty() || options.coff.empty()) {
    return Error{CSAJIT_E_INVALID_ARGUMENT, fmt::format("a spec needs --ratio, --head-dim and --coff: {} is missing",
                                                        options.ratio.empty()      ? "--ratio"
                                                        : options.head_dim.empty() ? "--head-dim"
                                                                                   : "--coff")};
  }
  std::vector<DtypeTriple> types;
  for (const std::string& text : options.dtype) {
    Result<DtypeTriple> triple = parse_dtypes(text);
    if (!triple) return std::move(triple).error();
    types.push_back(*triple);
  }
  if (types.empty()) types.emplace_back();
  std::vector<csajit_spec> specs;
  for (const unsigned ratio : options.ratio) {
    for (const unsigned head_dim : options.head_dim) {
      for (const unsigned coff : options.coff) {
        for (const DtypeTriple& triple : types)
          specs.push_back(make_spec(ratio, head_dim, coff, triple, !options.no_ape));
      }
    }
  }
  return specs;
}

Result<std::vector<std::string>> requested_archs(const WarmupOptions& options, const Config& config) {
  std::vector<std::string> named = options.arch;
  if (named.empty() && config.arch) named.push_back(*config.arch);
  if (named.empty()) return archs_of_gpus();
  std::vector<std::string> archs;
  for (const std::string& text : named) {
    Result<const Architecture*> arch = parse_architecture(text);
    if (!arch) return Error{CSAJIT_E_INVALID_ARGUMENT, "--arch: " + arch.error().message};
    add_once(archs, (*arch)->name);
  }
  return archs;
}

}  // namespace csajit::tool
