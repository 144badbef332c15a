#!/usr/bin/env bash
# The embedding step: refuses what NVRTC could not use, and keeps every byte of what it takes.
#
#   embed_kernels.sh <cmake> <EmbedKernels.cmake>
# shellcheck disable=SC2016 # the odd texts are meant as they are
set -euo pipefail
cmake=$1 script=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

embed() {
  find "$folder/kernels" -type f | sort >"$folder/list"
  rm -f "$folder/out.cpp"
  "$cmake" "-DFOLDER=$folder/kernels" "-DLIST=$folder/list" "-DOUTPUT=$folder/out.cpp" -P "$script" >"$folder/said" 2>&1
}
sound() {
  rm -rf "$folder/kernels"
  mkdir -p "$folder/kernels/common"
  printf '// one\n#include "common/b.h"\n' >"$folder/kernels/a.cuh"
  printf 'int x[] = {1};  // ] [ ; ${y} \\n @z@ "#include"\n' >"$folder/kernels/common/b.h"
}
refused() {
  if embed; then
    printf '%s was embedded\n' "$1"
    exit 1
  fi
  tr '\n' ' ' <"$folder/said" | grep -qE "$2" || {
    printf '%s: the message does not say %s:\n' "$1" "$2"
    cat "$folder/said"
    exit 1
  }
}

sound
embed || {
  cat "$folder/said"
  exit 1
}
grep -qF 'int x[] = {1};  // ] [ ; ${y} \n @z@ "#include"' "$folder/out.cpp" || { echo "a text was changed"; exit 1; }
grep -qF '{"common/b.h", ' "$folder/out.cpp" || { echo "a name is missing"; exit 1; }

sound && : >"$folder/kernels/common/b.h" && refused "an empty file" 'b.h: +empty'
sound && printf '// caf\303\251\n' >"$folder/kernels/a.cuh" && refused "a byte past ASCII" 'a.cuh: +holds a byte'
sound && printf '// a\0b\n' >"$folder/kernels/a.cuh" && refused "a zero byte" 'a.cuh: +holds a byte'
sound && printf '// a\r\n' >"$folder/kernels/a.cuh" && refused "a carriage return" 'a.cuh: +holds a byte'
sound && printf '#include "b.h"\n' >"$folder/kernels/a.cuh" && refused "an unknown include" 'a.cuh: .*b.h.*not +one +of'
sound && printf 'x\n # include <cuda_bf16.h>\n' >"$folder/kernels/a.cuh" && refused "a system include" 'not +one +of'
sound && printf 'char c[] = R"csajit(a)csajit";\n' >"$folder/kernels/a.cuh" && refused "the end mark" 'end +mark'
rm -rf "$folder/kernels" && mkdir "$folder/kernels" && refused "no kernel at all" 'no +kernel +sources'
echo "bad input is refused, good input is kept"
