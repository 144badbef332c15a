// The specs of the compile matrix and the sampling of their kernels.
#include "compile/matrix_jobs.hpp"

#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>

using csajit::DType;
using csajit::Spec;

namespace {

std::vector<Spec> matrix_specs() {
  std::vector<Spec> specs;
  for (const std::uint32_t ratio : {1u, 2u, 3u, 4u, 8u, 16u, 17u, 127u, 128u, 256u}) {
    for (const std::uint32_t coff : {1u, 2u}) {
      for (const std::uint32_t head_dim : {1u, 65u, 128u, 512u}) {
        Spec spec;
        spec.ratio = ratio;
        spec.coff = coff;
        spec.head_dim = head_dim;
        specs.push_back(spec);
      }
    }
  }
  // Other types and no APE: both families, both ends of each, odd and even sizes.
  constexpr std::tuple<DType, DType, DType, bool> variants[] = {
      {DType::fp16, DType::fp16, DType::fp16, true}, {DType::fp32, DType::fp32, DType::fp32, true},
      {DType::bf16, DType::fp32, DType::bf16, true}, {DType::fp32, DType::fp16, DType::bf16, true},
      {DType::bf16, DType::bf16, DType::fp32, true}, {DType::bf16, DType::bf16, DType::bf16, false},
      {DType::fp32, DType::fp32, DType::fp32, false}};
  for (const std::uint32_t ratio : {1u, 4u, 8u, 16u, 17u, 128u, 256u}) {
    for (const std::uint32_t coff : {1u, 2u}) {
      for (const std::uint32_t head_dim : {65u, 128u}) {
        for (const auto& [kv, score, out, ape] : variants) {
          Spec spec{ratio, head_dim, coff, kv, score, out, ape};
          specs.push_back(spec);
        }
      }
    }
  }
  return specs;
}

}  // namespace

std::vector<MatrixJob> matrix_jobs(std::span<const csajit::Architecture* const> archs) {
  std::vector<MatrixJob> jobs;
  std::set<std::pair<const csajit::Architecture*, std::string>> seen;
  for (const Spec& spec : matrix_specs()) {
    for (const csajit::Architecture* arch : archs) {
      for (csajit::KernelRecipe& recipe : csajit::kernels_of(spec, arch->max_smem_bytes)) {
        // Kernels that ignore a part of the spec (the reduction has no types) come up more than once.
        if (seen.emplace(arch, recipe.name_expression).second) jobs.push_back({arch, std::move(recipe)});
      }
    }
  }
  return jobs;
}

std::vector<MatrixJob> sample_of(std::vector<MatrixJob> jobs, std::size_t count, std::uint64_t seed) {
  // Shuffled by hand: std::shuffle gives no promise of the same order everywhere.
  std::mt19937_64 random(seed);
  for (std::size_t i = jobs.size(); i > 1; --i) std::swap(jobs[i - 1], jobs[random() % i]);

  std::set<int> archs;
  std::set<std::string> templates;
  std::set<std::pair<int, std::string>> pairs;
  std::vector<char> taken(jobs.size(), 0);
  std::vector<MatrixJob> sample;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < jobs.size() && sample.size() < count; ++i) {
      if (taken[i] != 0) continue;
      const int arch = jobs[i].arch->capability;
      const std::string& source = jobs[i].recipe.source;
      const bool single = archs.count(arch) == 0 || templates.count(source) == 0;
      const bool pair = pairs.count({arch, source}) == 0;
      if (round == 0 ? !single : round == 1 && !pair) continue;
      taken[i] = 1;
      archs.insert(arch);
      templates.insert(source);
      pairs.emplace(arch, source);
      sample.push_back(jobs[i]);
    }
  }
  return sample;
}
