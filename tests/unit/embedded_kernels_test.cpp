// The embedded kernel sources against the files they come from.
#include "compile/embedded_kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream.good());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("every kernel file is embedded byte for byte and nothing else is") {
  const std::filesystem::path kernels = std::filesystem::path(CSAJIT_SOURCE_DIR) / "kernels";
  std::vector<std::string> on_disk;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kernels)) {
    const std::string extension = entry.path().extension();
    if (extension == ".cuh" || extension == ".h") on_disk.push_back(std::filesystem::relative(entry.path(), kernels));
  }
  std::sort(on_disk.begin(), on_disk.end());

  std::vector<std::string> embedded;
  for (const csajit::EmbeddedFile& file : csajit::embedded_kernels()) {
    embedded.emplace_back(file.name);
    CHECK(file.text == read_file(kernels / file.name));
    CHECK(file.text.data()[file.text.size()] == '\0');
  }
  CHECK(embedded == on_disk);
  CHECK_FALSE(embedded.empty());
}
