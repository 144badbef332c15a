// The commands of the program: each adds its options to the parser and, when chosen, what to run. Exit codes are
// said here: 0 done, 1 not done (the reason is on stderr), 2 the request makes no sense.
#pragma once

#include <functional>
#include <string>

#include "base/result.hpp"

namespace CLI {
class App;
}

namespace csajit::tool {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failure = 1;
inline constexpr int exit_usage = 2;

// What the chosen command runs once the line was parsed; returns the exit code.
using Action = std::function<int()>;

void add_warmup_command(CLI::App& app, Action& action);
void add_cache_command(CLI::App& app, Action& action);
void add_info_command(CLI::App& app, Action& action);
void add_check_command(CLI::App& app, Action& action);

// Prints "csajit: message" to stderr.
int report(const Error& error);                // exit_failure, exit_usage for a bad argument or variable
int report_usage(const std::string& message);  // exit_usage

// For a folder given on the line: empty is a mistake (an unset variable of a script), never the default folder.
std::string refuse_empty(const std::string& folder);

// The status of a C API call with this thread's message.
Error api_error(csajit_status status);

}  // namespace csajit::tool
