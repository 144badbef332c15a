#include "emulator/tree_window.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace csajit::emulator {

namespace {

// The first half, rounded down, and the rest, each summed likewise.
float sum_in_pairs(std::span<const float> terms) {
  if (terms.size() == 1) return terms[0];
  const std::size_t half = terms.size() / 2;
  return sum_in_pairs(terms.first(half)) + sum_in_pairs(terms.subspan(half));
}

// In leaves of 8 terms, or of 16 in windows beyond 256; the last leaf is filled up with zeros.
float sum_by_tree(std::vector<float> terms) {
  const std::size_t entries = terms.size() <= 256 ? 8 : 16;
  terms.resize((terms.size() + entries - 1) / entries * entries, 0.0F);
  std::vector<float> leaves;
  for (std::size_t first = 0; first < terms.size(); first += entries) {
    leaves.push_back(sum_in_pairs(std::span<const float>(terms).subspan(first, entries)));
  }
  return sum_in_pairs(leaves);
}

}  // namespace

WindowValues evaluate_by_tree(const std::vector<float>& kv, const std::vector<float>& x, float grad_out) {
  const std::size_t window = kv.size();
  const float maximum = *std::max_element(x.begin(), x.end());
  std::vector<float> p(window);
  for (std::size_t k = 0; k < window; ++k) p[k] = exp_of(x[k] - maximum, Exp::kernels);
  const float denominator = sum_by_tree(p);
  std::vector<float> terms(window);
  std::vector<float> weighted(window);
  for (std::size_t k = 0; k < window; ++k) {
    p[k] = p[k] / denominator;
    terms[k] = kv[k] * p[k];
    const float grad_p = grad_out * kv[k];
    weighted[k] = grad_p * p[k];
  }
  WindowValues result;
  result.out = sum_by_tree(terms);
  const float sum = sum_by_tree(weighted);
  for (std::size_t k = 0; k < window; ++k) {
    result.grad_kv.push_back(grad_out * p[k]);
    result.grad_score.push_back(std::fma(p[k], -sum, weighted[k]));
  }
  return result;
}

}  // namespace csajit::emulator
