#!/usr/bin/env bash
# compute-sanitizer (memcheck, racecheck, initcheck) over small cases: `csajit check --quick` where the program is
# named by CSAJIT_CLI, and small_cases.py where PyTorch is installed. Fails if any tool reports an error.
#
# Usage: sanitize.sh [RESULTS_DIR]      environment: CSAJIT_LIBRARY, CSAJIT_CLI, SANITIZE_FILTER, SANITIZE_SECONDS
# The workspace is uninitialised in small_cases.py, so initcheck sees a read of it before its write; that every
# gradient is written is checked by parity.py, which fills them with NaN.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=${1:-$(mktemp -d)}
mkdir -p "$results"
limit=${SANITIZE_SECONDS:-150}
passed=0 failed=0 skipped=0

sanitizer=$(command -v compute-sanitizer || true)
if [[ -z $sanitizer && -x ${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer ]]; then
  sanitizer=${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer
fi
if [[ -z $sanitizer ]]; then
  echo "skip sanitize: compute-sanitizer is not installed here"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi

# run_tool TOOL NAME COMMAND...: one line of verdict, the log kept. Exit 77 is the tool's own; a program that fails
# under it by itself (a case lost to a time-out of the driver, say) is a failure too.
run_tool() {
  local tool=$1 name=$2
  shift 2
  local log=$results/sanitize-$tool-$name.log
  local begin=$SECONDS
  local extra=()
  # Racecheck looks at shared memory only: of PyTorch's own kernels nobody asked.
  # The driver is asked for one kernel parameter too many, to count them: a refusal that is no error.
  if [[ $tool == memcheck ]]; then extra=(--report-api-errors no); fi
  if [[ $tool == racecheck ]]; then extra=(--kernel-name kns=csajit --racecheck-report all); fi
  timeout -k 10 "$limit" "$sanitizer" --tool "$tool" --error-exitcode 77 --print-limit 20 "${extra[@]}" "$@" \
    >"$log" 2>&1
  local status=$?
  local summary
  summary=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -1 | sed 's/^=* *//')
  if ((status == 0)) && [[ -n $summary ]]; then
    passed=$((passed + 1))
    echo "ok   $tool $name: $summary ($((SECONDS - begin)) s)"
  else
    failed=$((failed + 1))
    local reason="exit $status"
    if ((status == 124 || status == 137)); then reason="not done in $limit s"; fi
    if [[ -z $summary ]]; then reason+=", no summary of the sanitizer"; fi
    echo "FAIL $tool $name: $reason ${summary:+($summary) }see $log"
    grep -m 5 -E '^=+ (Invalid|Error|Uninitialized|Warning|Race|Program hit)|FAIL' "$log" || tail -5 "$log"
  fi
}

tools=(memcheck racecheck initcheck)
if [[ -n ${CSAJIT_CLI:-} ]]; then
  # Warm first, outside the checker: NVRTC in the checked process would only cost time.
  "$CSAJIT_CLI" check --quick ${SANITIZE_FILTER:+--filter "$SANITIZE_FILTER"} >"$results/sanitize-warm.log" 2>&1 ||
    echo "     csajit check --quick fails without the sanitizer too: see $results/sanitize-warm.log"
  for tool in "${tools[@]}"; do
    run_tool "$tool" check "$CSAJIT_CLI" check --quick ${SANITIZE_FILTER:+--filter "$SANITIZE_FILTER"}
  done
else
  echo "skip sanitize over csajit check: CSAJIT_CLI is not set"
  skipped=$((skipped + 1))
fi
if python3 -c 'import torch' 2>/dev/null; then
  export PYTORCH_NO_CUDA_MEMORY_CACHING=1
  python3 "$here/small_cases.py" >"$results/small-cases.log" 2>&1 ||
    echo "     small_cases.py fails without the sanitizer too: see $results/small-cases.log"
  for tool in "${tools[@]}"; do
    run_tool "$tool" small_cases python3 "$here/small_cases.py"
    run_tool "$tool" validate python3 "$here/validate.py" --defects-only
  done
else
  echo "skip sanitize over small_cases.py: PyTorch is not installed"
  skipped=$((skipped + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
