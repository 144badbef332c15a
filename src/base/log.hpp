// Log messages: levels, the default stderr sink and the host's callback. The only file pair that knows spdlog.
#pragma once

#include <csajit/csajit.h>
#include <fmt/format.h>

#include <string_view>

namespace csajit::log {

void set_level(csajit_log_level level);  // process-wide; default warn
bool enabled(csajit_log_level level);
void set_callback(csajit_log_callback callback, void* user);  // nullptr restores stderr
void write(csajit_log_level level, std::string_view message);

// True while a callback of the host (log or kernel callback) runs on this thread: entry points answer
// CSAJIT_E_REENTRANT.
bool in_callback();
// Marks the scope of a host callback on this thread.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  bool before_;
};

template <class... Args>
void message(csajit_log_level level, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  message(CSAJIT_LOG_DEBUG, format, std::forward<Args>(args)...);
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  message(CSAJIT_LOG_INFO, format, std::forward<Args>(args)...);
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  message(CSAJIT_LOG_WARN, format, std::forward<Args>(args)...);
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  message(CSAJIT_LOG_ERROR, format, std::forward<Args>(args)...);
}

}  // namespace csajit::log
