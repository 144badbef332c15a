#!/usr/bin/env bash
# What the shared library shows the loader: its symbols, what it needs, its name and flags.
#
#   shared_library.sh <libcsajit.so> <csajit.h>
set -euo pipefail
library=$1 header=$2
problems=0
complain() {
  printf '%s\n' "$*"
  problems=$((problems + 1))
}

exported=$(nm -D --defined-only "$library" | awk '{print $NF}' | sort)
declared=$(grep -oE '\bcsajit_[a-z_]+\(' "$header" | tr -d '(' | sort -u)
[ -n "$declared" ] || complain "$header declares nothing"
[ "$exported" = "$declared" ] || {
  complain "the exported symbols differ from what csajit.h declares (< exported, > declared):"
  diff <(printf '%s\n' "$exported") <(printf '%s\n' "$declared") || true
}

dynamic=$(readelf -d "$library")
while read -r needed; do
  case $needed in
    libc.so.* | libm.so.* | libstdc++.so.* | libgcc_s.so.* | libdl.so.* | libpthread.so.* | ld-linux*.so.*) ;;
    *) complain "needs $needed" ;;
  esac
done < <(sed -nE 's/.*\(NEEDED\).*\[(.*)\].*/\1/p' <<<"$dynamic")
grep -q '(SONAME).*\[libcsajit\.so\.0\]' <<<"$dynamic" || complain "its SONAME is not libcsajit.so.0"
grep -q '(FLAGS_1).*NODELETE' <<<"$dynamic" || complain "it was not linked with -z nodelete"
if grep -E '\((RPATH|RUNPATH)\)' <<<"$dynamic"; then complain "it has a run path"; fi
if readelf -lW "$library" | grep 'GNU_STACK' | grep -q 'RWE'; then complain "its stack is executable"; fi

[ "$problems" = 0 ] && printf 'exports %s functions and nothing else\n' "$(wc -l <<<"$exported")"
