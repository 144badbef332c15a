// Tells a person how far a long job is: a bar that redraws itself on a terminal, a plain line a step elsewhere.
// Writes to stderr, so that stdout stays the result.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace csajit::tool {

class Progress {
 public:
  // `unit` in the plural: "specs". Silent if `quiet`.
  Progress(std::size_t total, std::string unit, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // takes the bar away

  // One thing happened, worth a line where there is no bar. Not thread-safe.
  void say(const std::string& line);
  // `done` of the total are done.
  void advance(std::size_t done);

 private:
  void draw();
  void erase();

  std::size_t total_;
  std::size_t done_ = 0;
  std::string unit_;
  std::string last_;
  bool quiet_;
  bool bar_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace csajit::tool
