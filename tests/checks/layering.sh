#!/usr/bin/env bash
# Greps the includes of a source tree: fails on an edge upwards or between siblings, on third-party headers outside
# their place, and on files that have grown past 400 lines.
#
#   layering.sh <source tree>
#   layering.sh --self-test        makes small trees with one defect each and demands that each is found
set -euo pipefail

# api -> service -> compressor -> {cache, compile, device} -> dl -> base
declare -A rank=([api]=5 [service]=4 [compressor]=3 [cache]=2 [compile]=2 [device]=2 [dl]=1 [base]=0)

check() {
  local root=$1 problems=0 file line folder name target header lines
  complain() {
    printf '%s\n' "${1#"$root"/}: $2"
    problems=$((problems + 1))
  }

  while IFS=: read -r file line; do
    folder=${file#"$root/src/"}
    folder=${folder%%/*}
    header=$(sed -E 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<][^">]*[">]).*$/\1/' <<<"$line")
    name=${header:1:-1}
    if [ -z "${rank[$folder]+known}" ]; then
      complain "$file" "src/$folder is not a layer"
      continue
    fi
    case $header in
      \"*)
        target=${name%%/*}
        if [ "$target" = common ]; then
          [ -f "$root/kernels/$name" ] || complain "$file" "$header is no header of kernels/common"
        elif [ "$target" = "$name" ] || [ -z "${rank[$target]+known}" ]; then
          complain "$file" "$header does not begin with a layer's folder"
        elif [ "$target" != "$folder" ] && [ "${rank[$target]}" -ge "${rank[$folder]}" ]; then
          complain "$file" "$folder includes $header: not below it"
        fi
        ;;
      '<spdlog/'*) [ "$file" = "$root/src/base/log.cpp" ] || complain "$file" "$header belongs into src/base/log.cpp" ;;
      '<cuda_runtime'* | '<cuda_bf16'*) complain "$file" "$header: only the driver API and NVRTC are used" ;;
    esac
  done < <(grep -rE '^[[:space:]]*#[[:space:]]*include' "$root/src" --include='*.hpp' --include='*.cpp' || true)

  lines=$(grep -rlE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]xxhash' "$root/src" | wc -l || true)
  [ "$lines" -le 2 ] || complain "$root/src" "xxhash.h is included by $lines files; two are enough"

  while IFS=: read -r file line; do
    complain "$file" "a public header includes only the C++ standard library and csajit.h: $line"
  done < <(grep -rE '^[[:space:]]*#[[:space:]]*include' "$root/include" | grep -vE '<(csajit/csajit\.h|[a-z_]+|std(def|int)\.h)>' || true)
  while IFS=: read -r file line; do
    complain "$file" "csajit.h includes only stddef.h and stdint.h: $line"
  done < <(grep -HE '^[[:space:]]*#[[:space:]]*include' "$root/include/csajit/csajit.h" | grep -vE '<std(def|int)\.h>' || true)

  while IFS=: read -r file line; do
    complain "$file" "a kernel file includes only kernel files, by their path below kernels/: $line"
  done < <(grep -rE '^[[:space:]]*#[[:space:]]*include' "$root/kernels" --include='*.h' --include='*.cuh' |
    grep -vE '"[a-z_]+\.cuh"|"common/[a-z_]+\.(cuh|h)"' || true)

  while IFS= read -r file; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 400 ] || [ "$file" = "$root/include/csajit/csajit.h" ] || complain "$file" "$lines lines; 400 are enough"
    head -n 1 "$file" | grep -qE '^(//|/\*)' || complain "$file" "does not open with a comment that says what it is"
  done < <(find "$root/src" "$root/kernels" "$root/include" -name '*.[ch]pp' -o -name '*.cuh' -o -name '*.h')

  [ "$problems" = 0 ]
}

self_test() {
  tree=$(mktemp -d) # not local: the trap outlives this function
  trap 'rm -rf "$tree"' EXIT
  sound_tree() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/src/{api,service,compressor,cache,compile,device,dl,base} "$tree"/kernels/common "$tree"/include/csajit
    printf '/* c */\n#include <stdint.h>\n' >"$tree/include/csajit/csajit.h"
    printf '// a\n' >"$tree/kernels/common/args.h"
    printf '// a\n#include "dl/d.hpp"\n#include "common/args.h"\n#include <vector>\n' >"$tree/src/device/a.cpp"
  }
  expect() {
    local wanted=$1 what=$2
    if check "$tree" >"$tree/said"; then found=accepted; else found=refused; fi
    [ "$found" = "$wanted" ] || {
      printf '%s should have been %s, and was %s\n' "$what" "$wanted" "$found"
      exit 1
    }
  }
  sound_tree && expect accepted "a sound tree"
  sound_tree && printf '// a\n#include "service/s.hpp"\n' >"$tree/src/cache/a.cpp" && expect refused "an upward include"
  sound_tree && printf '// a\n  # include "compile/s.hpp"\n' >"$tree/src/cache/a.hpp" && expect refused "a sibling"
  sound_tree && printf '// a\n#include "a.hpp"\n' >"$tree/src/cache/a.cpp" && expect refused "a bare include"
  sound_tree && printf '// a\n#include "../dl/a.hpp"\n' >"$tree/src/cache/a.cpp" && expect refused "a relative include"
  sound_tree && printf '// a\n' >"$tree/src/dl/a.cpp" && printf '// a\n#include <spdlog/spdlog.h>\n' >"$tree/src/dl/b.hpp" &&
    expect refused "spdlog outside log.cpp"
  sound_tree && printf '#include <spdlog/spdlog.h>\n' >>"$tree/include/csajit/csajit.h" && expect refused "spdlog in public"
  sound_tree && printf '// a\n#include "dl/d.hpp"\n' >"$tree/kernels/k.cuh" && expect refused "src from a kernel"
  sound_tree && printf '#include <vector>\n' >"$tree/src/base/a.cpp" && expect refused "a file without an opening"
  sound_tree && { echo '// a' && seq 400; } >"$tree/src/base/a.cpp" && expect refused "a file of 401 lines"
  echo "every defect was found"
}

case $1 in
  --self-test) self_test ;;
  *) check "$1" ;;
esac
