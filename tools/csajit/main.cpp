// csajit: fills, lists and checks the kernel cache, and checks the operator on this machine's GPU.
#include <csajit/csajit.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "command.hpp"

namespace {

constexpr const char* description =
    "csajit compiles the CUDA kernels of the CSA/HCA Compressor's gated pooling and keeps them in a cache on disk.\n"
    "A host that finds its kernels there needs no compiler at run time.\n";

constexpr const char* footer =
    "\nExit status: 0 done, 1 not done (the reason is on stderr), 2 the request makes no sense.\n"
    "The environment variables that csajit reads, with their values: csajit info.";

int run(int argc, char** argv) {
  using namespace csajit::tool;
  CLI::App app(description, "csajit");
  app.footer(footer);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  const std::string version =
      fmt::format("csajit {}.{}.{}", CSAJIT_VERSION_MAJOR, CSAJIT_VERSION_MINOR, CSAJIT_VERSION_PATCH);
  app.set_version_flag("--version", version, "Print the version and exit");
  Action action;
  add_warmup_command(app, action);
  add_cache_command(app, action);
  add_info_command(app, action);
  add_check_command(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);  // --help
    const std::vector<std::string> unknown = app.remaining(true);
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) && !unknown.empty()) {
      return report_usage(fmt::format("there is no command \"{}\" (see csajit --help)", unknown.front()));
    }
    const auto is_named = [&](const CLI::App* command) { return argc > 1 && command->get_name() == argv[1]; };
    const char* const command = app.get_subcommands(is_named).empty() ? "" : argv[1];
    return report_usage(fmt::format("{} (see csajit {}{}--help)", error.what(), command, *command != '\0' ? " " : ""));
  }
  const int code = action ? action() : exit_usage;
  if (std::fflush(stdout) != 0) {
    fmt::print(stderr, "csajit: the output could not be written\n");
    return exit_failure;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("csajit: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "csajit: %s\n", error.what());
  }
  return csajit::tool::exit_failure;
}
