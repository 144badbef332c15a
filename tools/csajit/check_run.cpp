// Runs one check case on a device.
#include "check_run.hpp"

#include <fmt/format.h>

#include <chrono>

#include "check_memory.hpp"

namespace csajit::tool {
namespace {

void fail(CaseOutcome& outcome, std::string message) {
  outcome.verdict = Verdict::fail;
  outcome.message = std::move(message);
}

bool only_bf16(const CheckCase& check) {
  return check.kv_dtype == CSAJIT_DTYPE_BF16 && check.score_dtype == CSAJIT_DTYPE_BF16 &&
         check.out_dtype == CSAJIT_DTYPE_BF16;
}

void refuse(CaseOutcome& outcome, const CheckCase& check, const Error& error) {
  fail(outcome, error.message);
  if (error.status == CSAJIT_E_UNSUPPORTED && !only_bf16(check)) outcome.verdict = Verdict::skipped;
}

Result<void> launch_once(CheckDevice& device, const CheckCase& check, CaseMemory& memory, int variant) {
  const csajit_spec spec = spec_of(check);
  if (Result<void> done = memory.arm(variant); !done) return done;
  if (Result<void> done = device.forward(spec, memory.forward_args()); !done) return done;
  if (Result<void> done = device.backward(spec, memory.backward_args()); !done) return done;
  return memory.fetch();
}

void run_checks(CheckDevice& device, const CheckCase& check, unsigned threads, CaseOutcome& outcome) {
  const csajit_spec spec = spec_of(check);
  if (Result<void> done = device.prepare(spec); !done) return refuse(outcome, check, done.error());
  Result<std::uint64_t> workspace = device.workspace_bytes(spec, check.num_rows);
  if (!workspace) return refuse(outcome, check, workspace.error());

  std::optional<Windows> windows;
  if (!check.garbage) windows.emplace(check);
  CaseMemory memory(device, check, windows ? &*windows : nullptr, *workspace, threads);
  if (Result<void> done = launch_once(device, check, memory, 0); !done) return refuse(outcome, check, done.error());
  if (auto damage = memory.damage()) return fail(outcome, *damage);
  if (windows) {
    const CompareResult result = compare_outputs(check, *windows, memory.compare_input(0), threads);
    outcome.worst = result.worst;
    if (result.misses > 0) {
      return fail(outcome, fmt::format("{} misses, the worst: {}", result.misses, result.message));
    }
  }
  const auto first = memory.outputs();
  if (Result<void> done = launch_once(device, check, memory, 1); !done) return refuse(outcome, check, done.error());
  if (auto damage = memory.damage()) return fail(outcome, *damage);
  // With garbage tables the backward may leave a slot alone or not, so bits say nothing.
  if (windows && memory.outputs() != first) {
    fail(outcome, "a second run over other leftovers gave other bits");
  }
}

}  // namespace

CaseOutcome run_case(CheckDevice& device, const CheckCase& check, unsigned threads) {
  const auto start = std::chrono::steady_clock::now();
  CaseOutcome outcome;
  run_checks(device, check, threads, outcome);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace csajit::tool
