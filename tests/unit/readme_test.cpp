// The README's table of environment variables against the one that is read.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/config.hpp"

TEST_CASE("the README lists every environment variable as it is read, and no other") {
  const std::ifstream file(CSAJIT_SOURCE_DIR "/README.md");
  REQUIRE(file.is_open());
  std::ostringstream text;
  text << file.rdbuf();
  const std::string readme = text.str();

  std::string table = "| variable | default | effect |\n| --- | --- | --- |\n";
  for (const csajit::EnvironmentVariable& variable : csajit::environment_variables()) {
    table += fmt::format("| `{}` | {} | {} |\n", variable.name, variable.default_text, variable.effect);
  }
  const std::string begin = "<!-- environment: begin -->\n";
  const std::string end = "<!-- environment: end -->";
  const std::size_t from = readme.find(begin);
  const std::size_t to = readme.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  CHECK(readme.substr(from + begin.size(), to - from - begin.size()) == table);
}
