// The operator on one column of one window in fp32, in the serial order that the contract takes from PyTorch's
// kernels. Written from the contract; of the kernels' code it knows no more than the exp of a finite number.
#pragma once

#include <vector>

namespace csajit::emulator {

// Whose exp of finite numbers <= 0.
enum class Exp {
  kernels,  // for bits: the GPU tests prove it equal to PyTorch's
  exact,    // fp64, rounded once
};

// What one column of one window gives.
struct WindowValues {
  float out = 0;
  std::vector<float> grad_kv;
  std::vector<float> grad_score;  // also what the row adds to grad_ape
};

// Entry k has kv[k] and x[k] = score + ape; one that does not exist has kv 0 and x -inf.
WindowValues evaluate_serially(const std::vector<float>& kv, const std::vector<float>& x, float grad_out, Exp exp);

float exp_of(float x, Exp exp);  // x <= 0 or NaN

}  // namespace csajit::emulator
