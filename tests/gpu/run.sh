#!/usr/bin/env bash
# Every test that needs a GPU, one after the other, each with a time limit; goes on after a failure.
#
# Usage: run.sh [RESULTS_DIR]
# Environment: CSAJIT_BUILD_DIR (where libcsajit.so and csajit were built, default build/release), or CSAJIT_LIBRARY
# and CSAJIT_CLI by themselves; GPU_STEPS, a list of step names to run instead of all; GPU_SEED, the seed of
# parity_random.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${CSAJIT_BUILD_DIR:-$root/build/release}
results=${1:-$build/gpu-results}
mkdir -p "$results"
results=$(cd "$results" && pwd)
passed=0 failed=0 skipped=0
export PYTHONUNBUFFERED=1

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
  echo "skip: no GPU here (nvidia-smi finds none), so no GPU test was run"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi

if [[ -z ${CSAJIT_LIBRARY:-} ]]; then
  CSAJIT_LIBRARY=$(find "$build" -name libcsajit.so -not -path '*/fake/*' 2>/dev/null | head -1)
fi
if [[ -z ${CSAJIT_CLI:-} ]]; then
  CSAJIT_CLI=$(find "$build" -name csajit -type f -perm -u+x 2>/dev/null | head -1)
fi
counting=$build/lib/counting/libcsajit_counting.so
if [[ ! -r $CSAJIT_LIBRARY ]]; then
  echo "run.sh: no libcsajit.so under $build; build it, or set CSAJIT_BUILD_DIR or CSAJIT_LIBRARY" >&2
  exit 2
fi
export CSAJIT_LIBRARY CSAJIT_CLI
# A cache of its own: the user's is left alone, and a second run of the steps finds the kernels of the first.
export CSAJIT_CACHE_DIR=${CSAJIT_CACHE_DIR:-$build/gpu-test-cache}
mkdir -p "$CSAJIT_CACHE_DIR" && chmod 700 "$CSAJIT_CACHE_DIR"

# step NAME SECONDS COMMAND...: runs it, keeps the log, says how it went.
step() {
  local name=$1 limit=$2
  shift 2
  if [[ -n ${GPU_STEPS:-} && " $GPU_STEPS " != *" $name "* ]]; then return; fi
  local log=$results/$name.log begin=$SECONDS
  timeout -k 10 "$limit" "$@" >"$log" 2>&1
  local status=$? took
  took=$((SECONDS - begin))
  local last
  last=$(grep -E '[0-9]+ passed, [0-9]+ failed' "$log" | tail -1)
  if ((status == 0)) && grep -q '^skip [a-z_]*: PyTorch' "$log"; then
    skipped=$((skipped + 1))
    echo "skip $name: $(grep -m 1 '^skip ' "$log" | cut -d' ' -f3-)"
  elif ((status == 0)); then
    passed=$((passed + 1))
    echo "ok   $name (${took} s) ${last}"
  else
    failed=$((failed + 1))
    local reason="exit $status"
    if ((status == 124 || status == 137)); then reason="stopped after $limit s"; fi
    echo "FAIL $name ($reason, ${took} s) ${last}"
    grep -m 8 -E '^(FAIL|       |Traceback|[A-Za-z]*Error)' "$log" || tail -5 "$log"
  fi
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sed 's/^/GPU: /'
step layout 30 python3 "$here/test_ctypes_layout.py"
if [[ -n $CSAJIT_CLI ]]; then
  step check 150 "$CSAJIT_CLI" check
else
  echo "skip check: no csajit program under $build"
  skipped=$((skipped + 1))
fi
if python3 -c 'import torch' 2>/dev/null; then
  step exp_division 60 python3 "$here/exp_division.py"
  step parity 120 python3 "$here/parity.py"
  step parity_dtypes 240 python3 "$here/parity.py" --dtype fp16,fp32,mixed
  step parity_random 100 python3 "$here/parity.py" --random 300 --seed "${GPU_SEED:-1}" --seconds 95 \
    --dtype bf16,fp16,fp32,mixed
  if [[ -r $counting ]]; then
    step count_stores 90 env CSAJIT_LIBRARY="$counting" python3 "$here/count_stores.py"
  else
    echo "skip count_stores: no libcsajit_counting.so under $build"
    skipped=$((skipped + 1))
  fi
  step invariance 60 python3 "$here/invariance.py"
  step determinism 90 python3 "$here/determinism.py"
  step capture 60 python3 "$here/capture.py"
  step validate 60 python3 "$here/validate.py"
  step streams 60 python3 "$here/streams.py"
  step held_sms 40 python3 "$here/held_sms.py"
  step large 120 python3 "$here/large.py"
else
  torch_steps="exp_division parity parity_dtypes parity_random count_stores invariance determinism capture validate streams held_sms large"
  echo "skip $torch_steps: PyTorch is not installed for python3"
  skipped=$((skipped + $(wc -w <<<"$torch_steps")))
fi
SANITIZE_SECONDS=50 step sanitize 240 bash "$here/sanitize.sh" "$results"
echo "logs: $results ($SECONDS s)"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
