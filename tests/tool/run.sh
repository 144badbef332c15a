#!/usr/bin/env bash
# The program csajit, case by case: what it prints, what it leaves behind, how it exits.
#
#   run.sh help|usage|no_gpu|warmup|failures|layer|cache|info
# From the environment: CSAJIT_TOOL, CSAJIT_FAKE_DIR (of libnvrtc.so.99), CSAJIT_WORK.
set -euo pipefail
# shellcheck disable=SC2154 # all of them are set by ctest
tool=$CSAJIT_TOOL
work=$CSAJIT_WORK/$1
rm -rf "$work"
mkdir -p "$work"
cd "$work"
unset CSAJIT_CACHE_DIR CSAJIT_CACHE_RO_DIRS CSAJIT_CACHE_TRUST CSAJIT_ARCH CSAJIT_DISABLE CSAJIT_NO_JIT XDG_CACHE_HOME
export HOME=$work/home CSAJIT_NVRTC_PATH=$CSAJIT_FAKE_DIR/libnvrtc.so.99 CSAJIT_LOG_LEVEL=error
export CSAJIT_FAKE_NVRTC_COUNT_FILE=$work/compiles

fail() {
  echo "FAILED: $*"
  cat out err
  exit 1
}

# Runs the program and expects an exit status; output goes to the files out and err.
expect() {
  local wanted=$1 got=0
  shift
  "$tool" "$@" >out 2>err || got=$?
  [ "$got" = "$wanted" ] || fail "csajit $* exits $got, not $wanted"
}
says() { grep -qF -- "$1" out || fail "stdout lacks: $1"; }
complains() { grep -qF -- "$1" err || fail "stderr lacks: $1"; }
compiles() { if [ -f compiles ]; then wc -c <compiles; else echo 0; fi; }

case $1 in
  help)
    expect 0 --help
    for command in warmup cache info check; do says "$command"; done
    for command in "warmup" "cache" "cache list" "cache verify" "cache clear" "cache path" "info" "check"; do
      # shellcheck disable=SC2086 # words
      expect 0 $command --help
      says --help
      [ -s err ] && fail "$command --help writes to stderr"
    done
    expect 0 --version
    says "csajit 0."
    ;;
  usage) # exit 2 and one line that names what is wrong
    usage_error() {
      local named=$1
      shift
      expect 2 "$@"
      complains "$named"
      [ "$(wc -l <err)" = 1 ] || fail "csajit $* does not complain in one line"
      [ -s out ] && fail "csajit $* writes to stdout"
      return 0
    }
    usage_error subcommand
    usage_error '"frob"' frob
    usage_error '"frob"' cache frob
    usage_error --frob warmup --frob
    usage_error --cache-dir cache clear --cache-dir ""
    usage_error --cache-dir info --cache-dir ""
    usage_error --cache-dir warmup --arch sm_90 --cache-dir ""
    usage_error --layer warmup --arch sm_90 --layer ""
    usage_error --preset warmup --preset other
    usage_error --ratio warmup --ratio 257 --head-dim 128 --coff 2 --arch sm_90
    usage_error --ratio warmup --ratio four --head-dim 128 --coff 2 --arch sm_90
    usage_error --head-dim warmup --ratio 4 --head-dim 0 --coff 2 --arch sm_90
    usage_error --head-dim warmup --ratio 4 --coff 2 --arch sm_90
    usage_error --coff warmup --ratio 4 --head-dim 128 --arch sm_90
    usage_error --coff warmup --ratio 4 --head-dim 128 --coff 3 --arch sm_90
    usage_error --preset warmup --preset production --ratio 4 --arch sm_90
    usage_error fp64 warmup --ratio 4 --head-dim 128 --coff 2 --dtype fp64 --arch sm_90
    usage_error bf16:fp32 warmup --ratio 4 --head-dim 128 --coff 2 --dtype bf16:fp32 --arch sm_90
    usage_error sm_90a warmup --arch sm_90a
    usage_error --jobs warmup --arch sm_90 --jobs 0
    usage_error --layer warmup --arch sm_90 --layer a --cache-dir b
    usage_error subcommand cache
    usage_error --filter check --filter "no case is called this"
    CSAJIT_CACHE_TRUST=nobody usage_error CSAJIT_CACHE_TRUST cache list
    [ "$(compiles)" = 0 ] || fail "a usage error compiled something"
    [ -e home ] && fail "a usage error wrote something"
    ;;
  no_gpu)
    if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
      echo "there is a GPU"
      exit 77
    fi
    expect 2 warmup
    complains --arch
    expect 1 check --quick
    complains GPU
    ;;
  warmup)
    expect 0 warmup --preset production --arch sm_90,sm_100 --cache-dir "$work/cache" --json
    says '"failed": 0'
    says '"hit": 0'
    kernels=$(grep -c '"key":' out)
    [ "$kernels" -ge 24 ] || fail "only $kernels kernels"
    says "\"compiled\": $kernels"
    [ "$(compiles)" = "$kernels" ] || fail "$(compiles) compiles for $kernels kernels"
    [ "$(find cache -type f -perm /077 | wc -l)" = 0 ] || fail "a private cache is open to others"
    # Again, and again without any NVRTC.
    for nvrtc in "$CSAJIT_NVRTC_PATH" /nonexistent/libnvrtc.so; do
      CSAJIT_NVRTC_PATH=$nvrtc expect 0 warmup --preset production --arch sm_90 --arch 100 --cache-dir "$work/cache" --json
      says '"compiled": 0'
      says "\"hit\": $kernels"
    done
    [ "$(compiles)" = "$kernels" ] || fail "a hit was compiled"
    # The production preset is the default, and equal to its four specs.
    expect 0 warmup --arch sm_90,sm_100 --cache-dir "$work/cache"
    says " 0 compiled, $kernels hit, 0 failed"
    grep -q '^disk  *sm_' err || fail "no plain progress lines"
    expect 0 warmup --ratio 4 --head-dim 128,512 --coff 2 --arch sm_90 --cache-dir "$work/cache"
    says " 0 compiled"
    # --rebuild compiles again; a read-only layer that hides it is named.
    mkdir layers && cp -r cache layers/one
    CSAJIT_CACHE_RO_DIRS=$work/layers/one expect 0 warmup --arch sm_90 --rebuild --cache-dir "$work/cache" --json
    says '"hit": 0'
    complains "$work/layers/one"
    CSAJIT_ARCH=sm_86 expect 0 warmup --ratio 1 --head-dim 8 --coff 1 --no-ape --dtype fp32:fp16:bf16
    says sm_86
    [ -d home/.cache/csajit ] || fail "the cache is not in HOME"
    ;;
  failures) # exit 1 where anything is missing at the end, and the reason once
    CSAJIT_NO_JIT=1 expect 1 warmup --arch sm_90 --cache-dir "$work/none" --json
    says '"compiled": 0'
    complains CSAJIT_E_JIT_DISABLED
    [ -e none ] && fail "a refusal wrote something"
    CSAJIT_NVRTC_PATH=/nonexistent/libnvrtc.so expect 1 warmup --arch sm_90 --cache-dir "$work/none"
    complains CSAJIT_E_NVRTC_NOT_FOUND
    complains /nonexistent/libnvrtc.so
    [ "$(grep -c CSAJIT_E err)" -le 4 ] || fail "one cause is told again and again"
    CSAJIT_FAKE_NVRTC_ARCHS=80,90 expect 1 warmup --arch sm_120 --cache-dir "$work/none"
    complains CSAJIT_E_ARCH_UNKNOWN_TO_NVRTC
    [ -e none ] && fail "with nothing to store something was made"
    CSAJIT_FAKE_NVRTC_FAIL=compile expect 1 warmup --arch sm_90 --cache-dir "$work/none"
    complains CSAJIT_E_COMPILE
    # Compiled, but not stored.
    touch file
    expect 1 warmup --arch sm_90 --cache-dir "$work/file/cache"
    complains "could not be stored"
    says ", 0 failed"
    # Stored, and gone again for the size bound; with the bytes that are named it is enough.
    CSAJIT_CACHE_MAX_BYTES=2K expect 1 warmup --arch sm_90 --cache-dir "$work/small"
    [ "$(grep -c CSAJIT_CACHE_MAX_BYTES err)" = 1 ] || fail "the size bound is not named once"
    complains "CSAJIT_CACHE_MAX_BYTES (2048)"
    needed=$(sed -n 's/.*these kernels need \([0-9]*\) bytes.*/\1/p' err)
    CSAJIT_CACHE_MAX_BYTES=$((needed - 1)) expect 1 warmup --arch sm_90 --cache-dir "$work/small"
    CSAJIT_CACHE_MAX_BYTES=$needed expect 0 warmup --arch sm_90 --cache-dir "$work/small"
    [ "$(find small -name '*.record' -printf '%s\n' | awk '{s += $1} END {print s}')" = "$needed" ] || fail "not all are there"
    ;;
  layer)
    (umask 077 && expect 0 warmup --arch sm_90 --layer "$work/layer")
    [ "$(find layer -type f -name '*.*' ! -perm 644 | wc -l)" = 0 ] || fail "records are not 0644"
    [ "$(find layer -type d ! -perm 755 | wc -l)" = 0 ] || fail "folders are not 0755"
    records() { find "$1" -name '*.record' | wc -l; }
    # Whole whatever the size bound is and whatever other layers hold.
    CSAJIT_CACHE_RO_DIRS=$work/layer CSAJIT_CACHE_MAX_BYTES=1 expect 0 warmup --arch sm_90 --layer "$work/deep/er"
    [ "$(records deep/er)" = "$(records layer)" ] || fail "the second layer is not whole"
    [ "$(find deep -type d ! -perm 755 | wc -l)" = 0 ] || fail "the folders above a layer are not 0755"
    # A folder that was there keeps its mode.
    mkdir -m1777 sticky
    expect 0 warmup --arch sm_90 --layer "$work/sticky"
    [ "$(stat -c %a sticky)" = 1777 ] || fail "the mode of a folder that was there is changed"
    export CSAJIT_CACHE_RO_DIRS=$work/layer CSAJIT_NO_JIT=1
    expect 0 warmup --arch sm_90 --cache-dir "$work/own"
    says " 0 compiled"
    ;;
  cache)
    export CSAJIT_CACHE_DIR=$work/cache
    expect 0 cache list
    says "0 records"
    expect 0 cache path
    [ -e cache ] && fail "looking at a cache made it"
    "$tool" warmup --ratio 4 --head-dim 128 --coff 2 --arch sm_90 >/dev/null 2>&1
    folder=$("$tool" cache path)
    [ -d "$folder" ] || fail "cache path names no folder"
    expect 0 cache list
    says "forward r4 d128 c2 bf16"
    expect 0 cache list --json
    says '"arch": "sm_90"'
    expect 0 cache verify
    says " 0 bad"
    record=$(find "$folder" -type f -size +64c | sort | head -n 1)
    printf x | dd of="$record" bs=1 seek=60 conv=notrunc status=none
    expect 1 cache verify
    says "$record"
    says " 1 bad"
    expect 1 cache verify --json
    says '"bad": 1'
    expect 0 warmup --ratio 4 --head-dim 128 --coff 2 --arch sm_90
    says " 1 compiled"
    expect 0 cache verify
    echo mine >"$folder/notes.record"
    expect 0 cache clear
    says " records removed from $folder"
    [ -e "$folder/notes.record" ] || fail "cache clear deletes files of others"
    expect 0 cache clear --json
    says '"removed": 0'
    says "\"folder\": \"$folder\""
    expect 0 cache list
    says "0 records"
    ;;
  info)
    expect 0 info
    says "NVRTC     13.0"
    says CSAJIT_CACHE_TRUST
    CSAJIT_NVRTC_PATH=/nonexistent/libnvrtc.so CSAJIT_CACHE_TRUST=group expect 0 info
    says "NVRTC     missing"
    says "group"
    expect 0 info --json --cache-dir "$work/elsewhere"
    says "$work/elsewhere/"
    says '"effect"'
    [ -e elsewhere ] && fail "info made a folder"
    ;;
  *)
    echo "no such case: $1" >&2
    exit 2
    ;;
esac
exit 0
