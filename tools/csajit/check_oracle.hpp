// The operator in double precision, one window at a time, with the sums of absolute terms that bound what fp32
// may differ by. Written from the formulas; shares nothing with the kernels.
#pragma once

#include <csajit/csajit.h>

#include <cstdint>
#include <vector>

namespace csajit::tool {

// One row: `window` entries of `columns` adjacent columns. Entry k, column j is at k * columns + j.
struct WindowResult {
  std::vector<double> out;  // (columns)
  std::vector<double> p;    // (window, columns): the softmax weights
  std::vector<double> grad_kv;
  std::vector<double> grad_score;  // also this row's share of grad_ape
  // Sums of the absolute values of the terms that a result is made of:
  //   out         sum_k |kv_k| p_k
  //   grad_kv     |g| p_k
  //   grad_score  p_k (|g kv_k| + sum_i |g kv_i| p_i)
  // with each p_k in them times max(1, 1/2 + (|x_k| + |max| + |x_k - max|) / 16). In fp32, x_k, the maximum and their
  // difference are rounded: together that moves an exponent by up to 2^-24 (|x_k| + |max| + |x_k - max|) and p_k by
  // that part of itself, beside the 2^-21 that exp, division and products take. PyTorch's fp32 results move as far,
  // to the same bits.
  std::vector<double> out_terms;
  std::vector<double> grad_kv_terms;
  std::vector<double> grad_score_terms;
};

// kv and x = score + ape are (window, columns); an entry that does not exist has kv 0 and x -inf. grad_out is
// (columns), or nullptr for the forward alone. Non-finite values follow IEEE arithmetic; a NaN among x makes
// the whole column NaN.
void evaluate_window(std::int64_t window, std::int64_t columns, const double* kv, const double* x,
                     const double* grad_out, WindowResult& result);

// The contract's bound on |y - oracle| for one element.
double error_bound(csajit_dtype type, double oracle, double terms, bool short_window);

// |y - oracle| in units of that bound: at most 1 is right. Where the oracle is not finite, 0 if y is the same
// (any NaN equals any NaN), else infinity. An infinite y is right where fp32's error may carry the oracle past the
// largest number of the type.
double error_in_bounds(csajit_dtype type, double y, double oracle, double terms, bool short_window);

}  // namespace csajit::tool
