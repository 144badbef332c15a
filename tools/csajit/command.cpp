// What the commands share: errors on stderr and exit codes.
#include "command.hpp"

#include <csajit/csajit.h>
#include <fmt/format.h>

#include <cstdio>

namespace csajit::tool {

int report(const Error& error) {
  if (error.status == CSAJIT_E_INVALID_ARGUMENT) return report_usage(error.message);
  fmt::print(stderr, "csajit: {} ({})\n", error.message, csajit_status_string(error.status));
  return exit_failure;
}

int report_usage(const std::string& message) {
  fmt::print(stderr, "csajit: {}\n", message);
  return exit_usage;
}

std::string refuse_empty(const std::string& folder) { return folder.empty() ? "the folder's name is empty" : ""; }

Error api_error(csajit_status status) {
  std::string message(csajit_last_error(nullptr, 0), '\0');
  csajit_last_error(message.data(), message.size());
  if (!message.empty()) message.pop_back();  // the terminator
  return {status, message};
}

}  // namespace csajit::tool
