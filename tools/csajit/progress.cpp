// Tells a person how far a long job is.
#include "progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace csajit::tool {
namespace {

constexpr std::size_t bar_cells = 24;

std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::size_t total, std::string unit, bool quiet)
    : total_(total), unit_(std::move(unit)), quiet_(quiet), bar_(!quiet && isatty(STDERR_FILENO) == 1) {
  draw();
}

Progress::~Progress() { erase(); }

void Progress::say(const std::string& line) {
  if (quiet_) return;
  last_ = line;
  if (bar_) {
    draw();
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

void Progress::advance(std::size_t done) {
  done_ = done;
  draw();
}

void Progress::draw() {
  if (!bar_) return;
  const std::size_t filled = total_ == 0 ? bar_cells : std::min(bar_cells, done_ * bar_cells / total_);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::string line = fmt::format("[{:#<{}}{:-<{}}] {}/{} {}, {:.1f} s  {}", "", filled, "", bar_cells - filled, done_,
                                 total_, unit_, seconds, last_);
  line.resize(std::min(line.size(), terminal_columns() - 1));  // a wrapped line could not be taken back
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
}

void Progress::erase() {
  if (!bar_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

}  // namespace csajit::tool
