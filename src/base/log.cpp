// Where log messages go: stderr through spdlog, or the host's callback. Never throws, never holds a lock while
// the host's code runs. The only file that includes spdlog.
#define SPDLOG_LEVEL_NAMES \
  { "trace", "debug", "info", "warn", "error", "critical", "off" }

#include "base/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/thread_annotations.hpp"

namespace csajit::log {
namespace {

struct Destination {
  csajit_log_callback callback = nullptr;
  void* user = nullptr;
};

struct State {
  std::atomic<int> level{CSAJIT_LOG_WARN};
  Mutex mutex;
  Destination destination CSAJIT_GUARDED_BY(mutex);
};

// Leaked on purpose, like the logger below: other objects' destructors may log while the process exits.
State& state() {
  static State* const instance = new State;
  return *instance;
}

spdlog::logger& stderr_logger() {
  static spdlog::logger* const instance = [] {
    // Not spdlog's registry: it would be shared with nobody and dies too early.
    auto* logger = new spdlog::logger("csajit", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_pattern("[%n] %l: %v");
    logger->set_level(spdlog::level::trace);               // write() has filtered already
    logger->set_error_handler([](const std::string&) {});  // a closed stderr is no reason to print more
    return logger;
  }();
  return *instance;
}

spdlog::level::level_enum spdlog_level(csajit_log_level level) {
  switch (level) {
    case CSAJIT_LOG_TRACE:
      return spdlog::level::trace;
    case CSAJIT_LOG_DEBUG:
      return spdlog::level::debug;
    case CSAJIT_LOG_INFO:
      return spdlog::level::info;
    case CSAJIT_LOG_WARN:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

thread_local bool inside_callback = false;

}  // namespace

void set_level(csajit_log_level level) { state().level.store(level, std::memory_order_relaxed); }

bool enabled(csajit_log_level level) {
  return level < CSAJIT_LOG_OFF && level >= state().level.load(std::memory_order_relaxed);
}

void set_callback(csajit_log_callback callback, void* user) {
  State& current = state();
  MutexLock hold(current.mutex);
  current.destination = {callback, user};
}

void write(csajit_log_level level, std::string_view message) {
  if (!enabled(level)) return;
  // The host's callback is running on this thread: calling it again could recurse without end, and whatever is
  // said here is also in the status that the inner call returns.
  if (inside_callback) return;
  try {
    State& current = state();
    Destination destination;
    {
      MutexLock hold(current.mutex);
      destination = current.destination;
    }
    if (destination.callback == nullptr) {
      stderr_logger().log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
      return;
    }
    const std::string terminated(message);
    const CallbackScope scope;
    destination.callback(level, terminated.c_str(), destination.user);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log message is never worth an exception in the caller
  }
}

bool in_callback() { return inside_callback; }

CallbackScope::CallbackScope() : before_(inside_callback) { inside_callback = true; }
CallbackScope::~CallbackScope() { inside_callback = before_; }

}  // namespace csajit::log
