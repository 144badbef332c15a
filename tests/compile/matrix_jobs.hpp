// What the compile matrix consists of, and the choice of a sample. Compiles nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compile/architecture.hpp"
#include "compressor/schedule.hpp"

struct MatrixJob {
  const csajit::Architecture* arch = nullptr;
  csajit::KernelRecipe recipe;
};

// Every kernel of every spec of the matrix for each of `archs`, in a fixed order, none twice.
std::vector<MatrixJob> matrix_jobs(std::span<const csajit::Architecture* const> archs);

// `count` of them, the same for the same seed: first so that every target and every template is there, then every
// pair of the two as far as `count` goes.
std::vector<MatrixJob> sample_of(std::vector<MatrixJob> jobs, std::size_t count, std::uint64_t seed);
