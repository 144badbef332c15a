// Columns of text for a terminal: widths, alignment, nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace csajit::tool {

class TextTable {
 public:
  struct Column {
    std::string title;
    bool right = false;  // numbers align right
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);  // missing cells are empty, surplus ones are dropped
  bool empty() const noexcept { return rows_.empty(); }
  std::string text() const;  // title line, then the rows, each ended by a newline and without trailing spaces

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string human_bytes(unsigned long long bytes);  // "512 MiB", "1.5 KiB", "17 B"

}  // namespace csajit::tool
