// The operator on one column of one long window in fp32: every sum over a fixed tree. Written from the contract; of
// the kernels' code it knows no more than the exp of a finite number.
#pragma once

#include <vector>

#include "emulator/serial_window.hpp"

namespace csajit::emulator {

// As evaluate_serially(), for windows whose weights are 0 or not tiny.
WindowValues evaluate_by_tree(const std::vector<float>& kv, const std::vector<float>& x, float grad_out);

}  // namespace csajit::emulator
