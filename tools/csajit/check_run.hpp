// Runs one check case on a device: inputs with traps, both launches twice, guards, oracle. Prints nothing.
#pragma once

#include <array>
#include <string>

#include "check_case.hpp"
#include "check_compare.hpp"
#include "check_device.hpp"

namespace csajit::tool {

enum class Verdict { pass, fail, skipped };

struct CaseOutcome {
  Verdict verdict = Verdict::pass;
  std::array<double, num_outputs> worst{-1, -1, -1, -1};  // in units of the bound; -1: not compared
  std::string message;                                    // why not pass
  double seconds = 0;
};

// What is asserted, beside the contract's bound on every element:
//   - outputs and workspace are filled with NaN before, and every element is written;
//   - input slots that no row reads hold NaN, and so do grad_out's capacity rows: none of it shows;
//   - slots that no row consumes get +0 to the bit;
//   - nothing outside the elements of the outputs changes: guard zones around every buffer, gaps between rows and
//     segments, all inputs;
//   - a second run over other leftovers in outputs and workspace gives the same bits.
// For garbage tables only the guards and the driver's verdict count. A type that this build does not serve is
// `skipped` where it is not bf16.
CaseOutcome run_case(CheckDevice& device, const CheckCase& check, unsigned threads);

}  // namespace csajit::tool
