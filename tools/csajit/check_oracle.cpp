// The operator in double precision, one window at a time.
#include "check_oracle.hpp"

#include <cmath>
#include <limits>

#include "check_number.hpp"

namespace csajit::tool {

void evaluate_window(std::int64_t window, std::int64_t columns, const double* kv, const double* x,
                     const double* grad_out, WindowResult& result) {
  const auto width = static_cast<std::size_t>(columns);
  const auto area = static_cast<std::size_t>(window * columns);
  auto for_each_entry = [&](auto&& body) {  // e: element of the window, j: its column
    for (std::size_t row = 0; row < area; row += width) {
      for (std::size_t j = 0; j < width; ++j) body(row + j, j);
    }
  };
  result.p.resize(area);
  std::vector<double> p_terms(area);
  result.out.assign(width, 0.0);
  result.out_terms.assign(width, 0.0);
  std::vector<double> maximum(width, -std::numeric_limits<double>::infinity());
  std::vector<double> denominator(width, 0.0);
  for_each_entry([&](std::size_t e, std::size_t j) {
    if (x[e] > maximum[j] || std::isnan(x[e])) maximum[j] = x[e];  // a NaN stays: nothing is greater
  });
  for_each_entry([&](std::size_t e, std::size_t j) {
    result.p[e] = std::exp(x[e] - maximum[j]);
    denominator[j] += result.p[e];
  });
  for_each_entry([&](std::size_t e, std::size_t j) {
    result.p[e] /= denominator[j];
    const double exponent = std::abs(x[e]) + std::abs(maximum[j]) + std::abs(maximum[j] - x[e]);
    p_terms[e] = result.p[e] > 0 && exponent > 8 ? result.p[e] * (0.5 + exponent / 16) : result.p[e];
    result.out[j] += kv[e] * result.p[e];
    result.out_terms[j] += std::abs(kv[e]) * p_terms[e];
  });
  if (grad_out == nullptr) return;

  result.grad_kv.resize(area);
  result.grad_score.resize(area);
  result.grad_kv_terms.resize(area);
  result.grad_score_terms.resize(area);
  std::vector<double> sum(width, 0.0);
  std::vector<double> sum_terms(width, 0.0);
  for_each_entry([&](std::size_t e, std::size_t j) {
    sum[j] += grad_out[j] * kv[e] * result.p[e];
    sum_terms[j] += std::abs(grad_out[j] * kv[e]) * p_terms[e];
  });
  for_each_entry([&](std::size_t e, std::size_t j) {
    const double p = result.p[e];
    const double dp = grad_out[j] * kv[e];
    result.grad_kv[e] = grad_out[j] * p;
    result.grad_kv_terms[e] = std::abs(grad_out[j]) * p_terms[e];
    result.grad_score[e] = p * (dp - sum[j]);
    result.grad_score_terms[e] = p_terms[e] * (std::abs(dp) + sum_terms[j]);
  });
}

double error_bound(csajit_dtype type, double oracle, double terms, bool short_window) {
  return 0.5 * ulp(type, oracle) + std::ldexp(terms, short_window ? -20 : -18);
}

double error_in_bounds(csajit_dtype type, double y, double oracle, double terms, bool short_window) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(oracle)) return std::isnan(y) ? 0 : infinity;
  if (std::isinf(oracle)) return y == oracle ? 0 : infinity;
  if (std::isnan(y)) return infinity;
  if (std::isinf(y)) {
    const double reach = std::abs(oracle) + error_bound(type, 0, terms, short_window);
    return std::signbit(y) == std::signbit(oracle) && reach >= overflow_threshold(type) ? 0 : infinity;
  }
  return std::abs(y - oracle) / error_bound(type, oracle, terms, short_window);
}

}  // namespace csajit::tool
