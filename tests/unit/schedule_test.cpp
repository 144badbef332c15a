#include "compressor/schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace csajit;

namespace {

Spec spec_of(std::uint32_t ratio, std::uint32_t head_dim, std::uint32_t coff, bool ape = true) {
  return {ratio, head_dim, coff, DType::bf16, DType::bf16, DType::bf16, ape};
}

}  // namespace

TEST_CASE("every spec has a scalar kernel of each role, so that any alignment is served") {
  for (const std::uint32_t ratio : {1U, 3U, 4U, 16U, 17U, 128U, 256U}) {
    for (const std::uint32_t coff : {1U, 2U}) {
      for (const std::uint32_t d : {1U, 2U, 65U, 96U, 512U}) {
        const auto recipes = kernels_of(spec_of(ratio, d, coff), 99 << 10);
        for (const KernelRole role :
             {KernelRole::forward, KernelRole::backward, KernelRole::reduce_grad_ape, KernelRole::validate_offsets}) {
          CHECK(std::any_of(recipes.begin(), recipes.end(),
                            [&](const KernelRecipe& r) { return r.role == role && r.vector == 1; }));
        }
        for (const KernelRecipe& recipe : recipes) {
          CHECK(d % recipe.vector == 0);
          CHECK(recipe.block_threads % 32 == 0);
          CHECK(recipe.block_threads <= 512);
        }
      }
    }
  }
}

TEST_CASE("without APE there is no second stage") {
  for (const KernelRecipe& recipe : kernels_of(spec_of(4, 128, 2, false), 99 << 10)) {
    CHECK(recipe.role != KernelRole::reduce_grad_ape);
  }
}

TEST_CASE("the check of the segment arrays is the last kernel of every spec") {
  for (const bool ape : {false, true}) {
    for (const std::uint32_t ratio : {1U, 4U, 256U}) {
      const auto recipes = kernels_of(spec_of(ratio, 65, 2, ape), 99 << 10);
      CHECK(recipes.back().role == KernelRole::validate_offsets);
      CHECK(std::count_if(recipes.begin(), recipes.end(),
                          [](const KernelRecipe& r) { return r.role == KernelRole::validate_offsets; }) == 1);
    }
  }
}

TEST_CASE("kernels of a spec differ in their key fields, and so do those of two specs") {
  std::set<std::vector<std::pair<std::string, std::string>>> seen;
  std::size_t count = 0;
  for (const std::uint32_t ratio : {4U, 128U}) {
    for (const std::uint32_t d : {128U, 512U}) {
      for (const bool ape : {false, true}) {
        for (const DType type : {DType::bf16, DType::fp16, DType::fp32}) {
          Spec spec = spec_of(ratio, d, 2, ape);
          spec.score = type;
          for (const KernelRecipe& recipe : kernels_of(spec, 99 << 10)) {
            seen.insert(recipe.key_fields);
            ++count;
          }
        }
      }
    }
  }
  CHECK(seen.size() == count);
}

TEST_CASE("the name expression instantiates the template that the source file holds") {
  const auto recipes = kernels_of(spec_of(4, 512, 2), 227 << 10);
  REQUIRE(recipes.size() == 8);
  CHECK(recipes[0].source == "forward_short.cuh");
  CHECK(recipes[0].name_expression ==
        "csajit::compressor_forward_short<4, 512, 2, csajit::DType::bf16, csajit::DType::bf16, csajit::DType::bf16, "
        "true, 4, true>");
  CHECK(recipes[1].name_expression ==
        "csajit::compressor_forward_short<4, 512, 2, csajit::DType::bf16, csajit::DType::bf16, csajit::DType::bf16, "
        "true, 4, false>");
  CHECK(recipes[6].name_expression == "csajit::compressor_reduce_grad_ape<4, 512, 2, true>");
  CHECK(recipes[7].source == "validate_offsets.cuh");
  CHECK(recipes[7].name_expression == "csajit::compressor_validate_offsets<4>");
  CHECK(kernels_of(spec_of(128, 512, 1), 227 << 10)[3].source == "backward_long.cuh");
}
