// One NVRTC program from creation to cubin. Decides nothing about when or where to compile.
#include "compile/nvrtc_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/log.hpp"
#include "compile/locale_guard.hpp"
#include "compile/resource_usage.hpp"

namespace csajit {
namespace {

class Program {
 public:
  explicit Program(const NvrtcApi& nvrtc) : nvrtc_(nvrtc) {}
  // Destroying fails only for a handle that is not one, which this class rules out.
  ~Program() {
    if (handle_ != nullptr) static_cast<void>(nvrtc_.destroy_program(&handle_));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcProgram* out() { return &handle_; }
  nvrtcProgram get() const { return handle_; }

  // Empty where there is none or it cannot be had.
  std::string log() const {
    std::size_t bytes = 0;  // terminator included
    if (nvrtc_.get_program_log_size(handle_, &bytes) != NVRTC_SUCCESS || bytes <= 1) return {};
    std::string text(bytes, '\0');
    if (nvrtc_.get_program_log(handle_, text.data()) != NVRTC_SUCCESS) return {};
    text.resize(text.find('\0'));
    return text;
  }

 private:
  const NvrtcApi& nvrtc_;
  nvrtcProgram handle_ = nullptr;
};

Error unknown_architecture(const NvrtcApi& nvrtc, const Architecture& arch) {
  std::string message = fmt::format("NVRTC {} ({}) cannot compile for {}, which needs NVRTC {}.{} or newer",
                                    nvrtc.version_text(), nvrtc.path, arch.name, arch.nvrtc_major, arch.nvrtc_minor);
  if (const Architecture* lower = lower_target(arch, nvrtc.known_capabilities)) {
    message += fmt::format(". It knows {0}, whose code runs there too: CSAJIT_ARCH={0} forces it", lower->name);
  } else {
    message += ", and it knows no lower target of that generation; CSAJIT_NVRTC_PATH may name a newer NVRTC";
  }
  return {CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC, std::move(message)};
}

Error failure(const NvrtcApi& nvrtc, const CompileRequest& request, const char* call, nvrtcResult code,
              const std::string& log) {
  const bool memory = code == NVRTC_ERROR_OUT_OF_MEMORY;
  std::string message = fmt::format("{} failed with {} for {} on {} (NVRTC {}, {})", call, nvrtc.get_error_string(code),
                                    request.name_expression, request.arch->name, nvrtc.version_text(), nvrtc.path);
  if (code == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE && !nvrtc.builtins) {
    message += fmt::format("; libnvrtc-builtins.so.{} was not found beside it", nvrtc.version_text());
  }
  if (!log.empty()) message += "\n" + log;
  return {memory ? CSAJIT_E_OUT_OF_MEMORY : CSAJIT_E_COMPILE, std::move(message)};
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  for (const std::string& text : texts) out.push_back(text.c_str());
  return out;
}

// nvrtcCreateProgram over the embedded files.
nvrtcResult create(const NvrtcApi& nvrtc, const CompileRequest& request, Program& program) {
  const std::string source_name(request.source.name);
  std::vector<std::string> names;
  std::vector<const char*> texts;  // zero-terminated, by EmbeddedFile's word
  for (const EmbeddedFile& header : request.headers) {
    if (header.name == request.source.name) continue;
    names.emplace_back(header.name);
    texts.push_back(header.text.data());
  }
  return nvrtc.create_program(program.out(), request.source.text.data(), source_name.c_str(),
                              static_cast<int>(texts.size()), texts.data(), pointers(names).data());
}

}  // namespace

Result<void> check_architecture(const NvrtcApi& nvrtc, const Architecture& arch) {
  const auto& known = nvrtc.known_capabilities;
  if (std::find(known.begin(), known.end(), arch.capability) == known.end()) return unknown_architecture(nvrtc, arch);
  return {};
}

Result<KernelImage> compile(const NvrtcApi& nvrtc, const CompileRequest& request) {
  const Architecture& arch = *request.arch;
  if (auto known = check_architecture(nvrtc, arch); !known) return std::move(known).error();

  const auto begin = std::chrono::steady_clock::now();
  const LocaleGuard locale;
  Program program(nvrtc);
  if (const auto code = create(nvrtc, request, program); code != NVRTC_SUCCESS) {
    return failure(nvrtc, request, "nvrtcCreateProgram", code, {});
  }
  const char* name = request.name_expression.c_str();
  if (const auto code = nvrtc.add_name_expression(program.get(), name); code != NVRTC_SUCCESS) {
    return failure(nvrtc, request, "nvrtcAddNameExpression", code, {});
  }

  const std::vector<std::string> options = compile_options(nvrtc, arch);
  const auto code = nvrtc.compile_program(program.get(), static_cast<int>(options.size()), pointers(options).data());
  const std::string log = program.log();
  if (code != NVRTC_SUCCESS) return failure(nvrtc, request, "nvrtcCompileProgram", code, log);

  KernelImage image;
  image.arch = arch.name;
  image.nvrtc_version = nvrtc.version_text();
  const char* lowered = nullptr;  // owned by the program
  if (const auto got = nvrtc.get_lowered_name(program.get(), name, &lowered); got != NVRTC_SUCCESS) {
    return failure(nvrtc, request, "nvrtcGetLoweredName", got, log);
  }
  image.lowered_name = lowered;

  std::size_t bytes = 0;
  if (const auto got = nvrtc.get_cubin_size(program.get(), &bytes); got != NVRTC_SUCCESS || bytes == 0) {
    return failure(nvrtc, request, "nvrtcGetCUBINSize", got, log);
  }
  image.cubin.resize(bytes);
  if (const auto got = nvrtc.get_cubin(program.get(), reinterpret_cast<char*>(image.cubin.data()));
      got != NVRTC_SUCCESS) {
    return failure(nvrtc, request, "nvrtcGetCUBIN", got, log);
  }
  image.compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();

  if (const auto usage = parse_resource_usage(log, image.lowered_name)) {
    image.usage = *usage;
  } else {
    // The kernel is good without its figures; they are for people.
    log::warn("NVRTC {} reports the resources of {} in a way that csajit cannot read; they show as 0",
              image.nvrtc_version, image.lowered_name);
  }
  return image;
}

}  // namespace csajit
