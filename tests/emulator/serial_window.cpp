#include "emulator/serial_window.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

#include "common/math.cuh"

namespace csajit::emulator {

float exp_of(float x, Exp exp) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return 0.0F;
  return exp == Exp::kernels ? exp_nonpositive(x) : static_cast<float>(std::exp(static_cast<double>(x)));
}

WindowValues evaluate_serially(const std::vector<float>& kv, const std::vector<float>& x, float grad_out, Exp exp) {
  const std::size_t window = kv.size();
  float maximum = -std::numeric_limits<float>::infinity();
  for (const float value : x) {
    if (value > maximum || std::isnan(value)) maximum = value;  // a NaN stays: nothing is greater
  }
  std::vector<float> p(window);
  float denominator = 0;
  for (std::size_t k = 0; k < window; ++k) {
    p[k] = exp_of(x[k] - maximum, exp);
    denominator = denominator + p[k];
  }
  WindowValues result;
  for (std::size_t k = 0; k < window; ++k) {
    p[k] = p[k] / denominator;
    const float term = kv[k] * p[k];
    result.out = result.out + term;
  }
  float sum = 0;
  std::vector<float> weighted(window);
  for (std::size_t k = 0; k < window; ++k) {
    const float grad_p = grad_out * kv[k];
    weighted[k] = grad_p * p[k];
    sum = sum + weighted[k];
  }
  for (std::size_t k = 0; k < window; ++k) {
    result.grad_kv.push_back(grad_out * p[k]);
    result.grad_score.push_back(std::fma(p[k], -sum, weighted[k]));
  }
  return result;
}

}  // namespace csajit::emulator
