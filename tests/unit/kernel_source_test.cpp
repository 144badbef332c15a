#include "service/kernel_source.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "compile/nvrtc_program.hpp"

using csajit::find_architecture;
using csajit::kernels_of;
using csajit::Key;
using csajit::key_of;
using csajit::Spec;

namespace {

constexpr int smem_bytes = 232448;

std::string field(const Key& key, const std::string& name) {
  for (const auto& [known, value] : key.fields()) {
    if (known == name) return value;
  }
  return "";
}

}  // namespace

TEST_CASE("every kernel of every spec and architecture has a key of its own") {
  std::vector<Spec> specs(9);
  specs[1].ratio = 8;
  specs[2].head_dim = 512;
  specs[3].coff = 1;
  specs[4].kv = csajit::DType::fp16;
  specs[5].score = csajit::DType::fp16;
  specs[6].out = csajit::DType::fp16;
  specs[7].ape = false;
  specs[8].ratio = 128;
  std::set<std::string> keys;
  std::size_t kernels = 0;
  for (const Spec& spec : specs) {
    for (const auto& recipe : kernels_of(spec, smem_bytes)) {
      for (const int capability : {80, 90, 100}) {
        keys.insert(key_of(recipe, *find_architecture(capability)).hex());
        ++kernels;
      }
    }
  }
  CHECK(kernels > 100);
  CHECK(keys.size() == kernels);
}

TEST_CASE("a key holds sources, options and architecture, and no path") {
  const auto recipe = kernels_of(Spec{}, smem_bytes).front();
  const Key key = key_of(recipe, *find_architecture(90));
  CHECK(field(key, "arch") == "sm_90");
  CHECK(field(key, "head_dim") == "128");
  CHECK(field(key, "name_expression") == recipe.name_expression);
  CHECK(csajit::is_digest_hex(field(key, "sources")));
  const auto fields = key.fields();
  for (const std::string& option : csajit::code_options()) {
    CHECK(std::find(fields.begin(), fields.end(), std::pair<std::string, std::string>("option", option)) !=
          fields.end());
  }
  CHECK(key.bytes().find('/') == std::string::npos);
}

TEST_CASE("a key changes with any field of the schedule") {
  auto recipe = kernels_of(Spec{}, smem_bytes).front();
  const csajit::Architecture& arch = *find_architecture(90);
  std::set<std::string> keys{key_of(recipe, arch).hex()};
  const auto before = recipe;
  for (std::size_t i = 0; i < before.key_fields.size(); ++i) {
    recipe = before;
    recipe.key_fields[i].second += "x";
    keys.insert(key_of(recipe, arch).hex());
  }
  CHECK(keys.size() == before.key_fields.size() + 1);
}
