// A stand-in for libnvrtc that compiles nothing and can be told to fail. Everything about steering is in the header.
#include "fake_nvrtc/fake_nvrtc.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <nvrtc.h>
#include <unistd.h>

#include <clocale>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

struct _nvrtcProgram {
  std::string source;
  std::vector<std::string> names;
  std::string arch;
  std::string log;
  std::string cubin;
  std::map<std::string, std::string> lowered;
};

namespace {

std::mutex mutex;
std::condition_variable changed;
std::map<std::string, std::string> settings;
std::map<std::string, int> counts;
bool held = false;
int inside = 0;

std::optional<std::string> setting(const char* name) {
  const std::lock_guard lock(mutex);
  if (const auto found = settings.find(name); found != settings.end()) return found->second;
  if (const char* value = std::getenv(name)) return value;
  return std::nullopt;
}

void version(int& major, int& minor) {
  const std::string text = setting("CSAJIT_FAKE_NVRTC_VERSION").value_or("13.0");
  major = std::atoi(text.c_str());
  const auto dot = text.find('.');
  minor = dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1);
}

bool at_least(int wanted_major, int wanted_minor) {
  int major = 0, minor = 0;
  version(major, minor);
  return major != wanted_major ? major > wanted_major : minor >= wanted_minor;
}

std::vector<int> archs() {
  std::vector<int> list;
  const std::string text = setting("CSAJIT_FAKE_NVRTC_ARCHS").value_or("80,86,87,89,90,100,103,110,120,121");
  for (std::size_t at = 0; at < text.size(); at = text.find(',', at) + 1) {
    list.push_back(std::atoi(text.c_str() + at));
    if (text.find(',', at) == std::string::npos) break;
  }
  return list;
}

// Counts the call and says what it has to return.
nvrtcResult enter(const char* call) {
  {
    const std::lock_guard lock(mutex);
    ++counts[call];
  }
  if (setting("CSAJIT_FAKE_NVRTC_FAIL") != call) return NVRTC_SUCCESS;
  const auto code = setting("CSAJIT_FAKE_NVRTC_FAIL_CODE");
  return code ? static_cast<nvrtcResult>(std::atoi(code->c_str())) : NVRTC_ERROR_COMPILATION;
}

std::string lower(const std::string& name) {
  std::string lowered = "fake_" + name;
  for (char& c : lowered) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain) c = '_';
  }
  return lowered;
}

std::string usual_log(const std::string& lowered, const std::string& arch) {
  return "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function '" + lowered + "' for '" + arch +
         "'\nptxas info    : Function properties for " + lowered +
         "\nptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
         "ptxas info    : Used 24 registers, used 1 barriers, 1040 bytes smem\n";
}

void note_in_file() {
  const auto file = setting("CSAJIT_FAKE_NVRTC_COUNT_FILE");
  if (!file) return;
  const int fd = open(file->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, "x", 1) != 1) std::abort();  // a test that miscounts is worse than one that dies
  close(fd);
}

void wait_while_held() {
  std::unique_lock lock(mutex);
  ++inside;
  changed.notify_all();
  changed.wait(lock, [] { return !held; });
  --inside;
}

// Takes what the version at hand takes; the architecture goes into the program.
bool accept(_nvrtcProgram& program, const std::string& option) {
  constexpr const char* always[] = {"--std=c++17",        "--device-as-default-execution-space",
                                    "--fmad=false",       "--ftz=false",
                                    "--prec-div=true",    "--prec-sqrt=true",
                                    "--ptxas-options=-v", "--modify-stack-limit=false",
                                    "--no-source-include"};
  for (const char* known : always) {
    if (option == known) return true;
  }
  if (option == "--no-cache") return at_least(12, 9);
  const std::string prefix = "--gpu-architecture=sm_";
  if (!option.starts_with(prefix)) return false;
  program.arch = option.substr(prefix.size() - 3);
  for (const int arch : archs()) {
    if (program.arch == "sm_" + std::to_string(arch)) return true;
  }
  return false;
}

}  // namespace

extern "C" {

void fake_nvrtc_set(const char* name, const char* value) {
  const std::lock_guard lock(mutex);
  if (value == nullptr) {
    settings.erase(name);
  } else {
    settings[name] = value;
  }
}

int fake_nvrtc_count(const char* call) {
  const std::lock_guard lock(mutex);
  return counts[call];
}

void fake_nvrtc_reset() {
  const std::lock_guard lock(mutex);
  settings.clear();
  counts.clear();
  held = false;
  changed.notify_all();
}

void fake_nvrtc_hold() {
  const std::lock_guard lock(mutex);
  held = true;
}

void fake_nvrtc_release() {
  const std::lock_guard lock(mutex);
  held = false;
  changed.notify_all();
}

void fake_nvrtc_await(int count) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return inside >= count; });
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
  if (const auto code = enter("version"); code != NVRTC_SUCCESS) return code;
  version(*major, *minor);
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_ERROR_COMPILATION     ? "NVRTC_ERROR_COMPILATION"
         : result == NVRTC_ERROR_OUT_OF_MEMORY ? "NVRTC_ERROR_OUT_OF_MEMORY"
                                               : "NVRTC_ERROR_FAKE";
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  if (const auto code = enter("archs"); code != NVRTC_SUCCESS) return code;
  *count = static_cast<int>(archs().size());
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* out) {
  const std::vector<int> list = archs();
  std::memcpy(out, list.data(), list.size() * sizeof(int));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* source, const char*, int, const char* const*,
                               const char* const*) {
  if (const auto code = enter("create"); code != NVRTC_SUCCESS) return code;
  *out = new _nvrtcProgram;
  (*out)->source = source;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  enter("destroy");
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* name) {
  if (const auto code = enter("name"); code != NVRTC_SUCCESS) return code;
  program->names.emplace_back(name);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  const nvrtcResult verdict = enter("compile");
  note_in_file();
  bool cacheless = false;
  for (int i = 0; i < count; ++i) {
    if (!accept(*program, options[i])) {
      program->log = std::string("fake nvrtc: error: unrecognised option ") + options[i];
      return NVRTC_ERROR_INVALID_OPTION;
    }
    cacheless = cacheless || std::strcmp(options[i], "--no-cache") == 0;
  }
  if (!at_least(12, 3)) std::setlocale(LC_NUMERIC, "C");
  if (at_least(12, 9) && !cacheless) static_cast<void>(dlopen("libcuda.so.1", RTLD_NOW));
  wait_while_held();
  for (const std::string& name : program->names) {
    const std::string lowered = lower(name);
    program->lowered[name] = lowered;
    program->cubin += "fake cubin\n" + program->arch + "\n" + lowered + "\n";
    program->log += usual_log(lowered, program->arch);
  }
  if (const auto log = setting("CSAJIT_FAKE_NVRTC_LOG")) program->log = *log;
  return verdict;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* out) {
  std::memcpy(out, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* name, const char** lowered) {
  if (const auto code = enter("lowered"); code != NVRTC_SUCCESS) return code;
  const auto found = program->lowered.find(name);
  if (found == program->lowered.end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  *lowered = found->second.c_str();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  if (const auto code = enter("cubin"); code != NVRTC_SUCCESS) return code;
  *bytes = program->cubin.size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* out) {
  std::memcpy(out, program->cubin.data(), program->cubin.size());
  return NVRTC_SUCCESS;
}

}  // extern "C"
