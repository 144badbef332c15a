// grad_ape's sum over rows in its fixed order, written from the contract: runs of rows, partials, lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "check_case.hpp"

namespace csajit::emulator {

// The partials of one element, added with compensation in eight lanes and then over the lanes.
float sum_partials(std::span<const float> partials);

class ApeGradient {
 public:
  // For the rows of the case that a segment has and that were asked for.
  explicit ApeGradient(const tool::CheckCase& check);

  // Rows in ascending order.
  void add(std::int64_t row, std::int64_t ape_row, std::int64_t column, float grad_score);
  float total(std::int64_t ape_row, std::int64_t column) const;

 private:
  std::size_t first_run_of(std::int64_t ape_row, std::int64_t column) const;

  std::int64_t columns_;
  std::size_t runs_per_partial_;
  std::int64_t rows_per_run_;
  std::size_t num_partials_;
  std::vector<float> runs_;  // by element, partial and run
};

}  // namespace csajit::emulator
