// See spec_journal.hpp.
#include "service/spec_journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "base/log.hpp"
#include "base/thread_annotations.hpp"

namespace csajit {
namespace {

struct Noted {
  Mutex mutex;
  std::unordered_set<std::string> lines CSAJIT_GUARDED_BY(mutex);  // with the path in front
  std::unordered_set<std::string> failed CSAJIT_GUARDED_BY(mutex);
};

// Never destroyed: csajit may be called from atexit handlers.
Noted& noted() {
  static auto* const all = new Noted;
  return *all;
}

std::string with_pid(std::string path) {
  const std::size_t at = path.find("%p");
  if (at != std::string::npos) path.replace(at, 2, fmt::format("{}", getpid()));
  return path;
}

// No field can hold a character that JSON would have escaped.
std::string line_of(const Spec& spec, const Architecture& arch, csajit_status outcome) {
  return fmt::format(
      R"({{"ratio":{},"head_dim":{},"coff":{},"kv":"{}","score":"{}","out":"{}","ape":{},"arch":"{}","outcome":"{}"}})"
      "\n",
      spec.ratio, spec.head_dim, spec.coff, name_of(spec.kv), name_of(spec.score), name_of(spec.out),
      spec.ape ? "true" : "false", arch.name, csajit_status_string(outcome));
}

// 0 or an errno. One write, so that lines of several processes do not mix.
int append(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return errno;
  const ssize_t written = write(file, line.data(), line.size());
  int problem = 0;
  if (written < 0) {
    problem = errno;
  } else if (static_cast<std::size_t>(written) != line.size()) {
    problem = ENOSPC;
  }
  if (close(file) != 0 && problem == 0) problem = errno;
  return problem;
}

}  // namespace

void note_spec(const std::optional<std::string>& path, const Spec& spec, const Architecture& arch,
               csajit_status outcome) {
  if (!path) return;
  const std::string file = with_pid(*path);
  const std::string line = line_of(spec, arch, outcome);
  {
    const MutexLock lock(noted().mutex);
    if (!noted().lines.insert(file + '\n' + line).second) return;
  }
  const int problem = append(file, line);
  if (problem == 0) return;
  {
    const MutexLock lock(noted().mutex);
    if (!noted().failed.insert(file).second) return;
  }
  log::warn("CSAJIT_RECORD: {}: {}", file, std::strerror(problem));
}

}  // namespace csajit
