#include "emulator/ape_gradient.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace csajit::emulator {

namespace {

constexpr std::size_t lanes = 8;

// Neumaier's sum. What one addition loses is a float, so it may be found in another way than the kernels find it.
struct Compensated {
  float sum = 0, lost = 0;

  void add(float value) {
    const float total = sum + value;
    lost += std::abs(sum) >= std::abs(value) ? (sum - total) + value : (value - total) + sum;
    sum = total;
  }
};

// Short windows: four runs of rows a partial. At least one row a run, and rows doubled until few partials are left.
// (No case here is large enough for the limit of 32 MiB.)
std::int64_t rows_per_partial(const tool::CheckCase& check, std::int64_t rows) {
  const std::int64_t strips = (check.head_dim + 63) / 64;
  const std::int64_t most = check.is_short() ? 384 : std::clamp<std::int64_t>(512 / strips, 16, 256);
  std::int64_t per_partial = check.is_short() ? 4 : 1;
  while ((rows + per_partial - 1) / per_partial > most) per_partial *= 2;
  return per_partial;
}

}  // namespace

float sum_partials(std::span<const float> partials) {
  std::array<Compensated, lanes> sums;
  for (std::size_t i = 0; i < partials.size(); ++i) sums[i % lanes].add(partials[i]);
  for (std::size_t lane = 1; lane < lanes; ++lane) {
    sums[0].add(sums[lane].sum);
    sums[0].lost += sums[lane].lost;
  }
  return std::isfinite(sums[0].sum) ? sums[0].sum + sums[0].lost : sums[0].sum;
}

ApeGradient::ApeGradient(const tool::CheckCase& check)
    : columns_(check.columns()), runs_per_partial_(check.is_short() ? 4 : 1) {
  const std::int64_t rows = std::min<std::int64_t>(check.num_rows, check.comp.back());
  const std::int64_t per_partial = rows_per_partial(check, rows);
  rows_per_run_ = per_partial / static_cast<std::int64_t>(runs_per_partial_);
  num_partials_ = static_cast<std::size_t>((rows + per_partial - 1) / per_partial);
  runs_.assign(static_cast<std::size_t>(check.ratio * columns_) * num_partials_ * runs_per_partial_, 0.0F);
}

std::size_t ApeGradient::first_run_of(std::int64_t ape_row, std::int64_t column) const {
  return static_cast<std::size_t>(ape_row * columns_ + column) * num_partials_ * runs_per_partial_;
}

void ApeGradient::add(std::int64_t row, std::int64_t ape_row, std::int64_t column, float grad_score) {
  runs_[first_run_of(ape_row, column) + static_cast<std::size_t>(row / rows_per_run_)] += grad_score;
}

float ApeGradient::total(std::int64_t ape_row, std::int64_t column) const {
  const std::span<const float> runs = std::span(runs_).subspan(first_run_of(ape_row, column));
  std::vector<float> partials;
  for (std::size_t p = 0; p < num_partials_; ++p) {
    const std::span<const float> of_partial = runs.subspan(p * runs_per_partial_, runs_per_partial_);
    partials.push_back(of_partial.size() == 1 ? of_partial[0]
                                              : (of_partial[0] + of_partial[1]) + (of_partial[2] + of_partial[3]));
  }
  return sum_partials(partials);
}

}  // namespace csajit::emulator
