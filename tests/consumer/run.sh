#!/usr/bin/env bash
# How hosts take csajit: each case builds a consumer outside this build tree's targets and runs it.
#
#   run.sh install|package|readme|pkg-config|subdirectory|dlopen|header
# From the environment: CSAJIT_SOURCE, CSAJIT_BUILD, CSAJIT_CMAKE, CSAJIT_CC, CSAJIT_CXX, CSAJIT_LIBRARY,
# CSAJIT_CUDA_INCLUDE, CSAJIT_GENERATOR.
set -euo pipefail
# shellcheck disable=SC2154 # all of them are set by ctest
work=$CSAJIT_BUILD/consumer
here=$CSAJIT_SOURCE/tests/consumer
prefix=$work/moved
strict=(-Wall -Wextra -Wpedantic -Werror)
unset CSAJIT_CACHE_DIR CSAJIT_CACHE_RO_DIRS CSAJIT_ARCH CSAJIT_DISABLE CSAJIT_NO_JIT
mkdir -p "$work"

# A folder of its own, new.
fresh() {
  rm -rf "${work:?}/$1"
  mkdir -p "$work/$1"
  printf '%s' "$work/$1"
}

libdir() { dirname -- "$(find "$prefix" -name libcsajit.so)"; }

case $1 in
  install) # into one place and moved to another: nothing installed may know where it was installed
    rm -rf "$work/staged" "$prefix"
    "$CSAJIT_CMAKE" --install "$CSAJIT_BUILD" --prefix "$work/staged"
    mv "$work/staged" "$prefix"
    if grep -rlF -e "$work/staged" -e "$CSAJIT_SOURCE" "$prefix" --include='*.cmake' --include='*.pc' --include='*.h*'; then
      echo "these files name the place of the build or of the install"
      exit 1
    fi
    ;;
  package)
    folder=$(fresh package)
    "$CSAJIT_CMAKE" -G "$CSAJIT_GENERATOR" -S "$here/host" -B "$folder" -DCMAKE_CXX_COMPILER="$CSAJIT_CXX" \
      -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
    "$CSAJIT_CMAKE" --build "$folder"
    "$folder/host" "$folder/cache"
    ;;
  readme)
    folder=$(fresh readme)
    "$CSAJIT_CMAKE" -G "$CSAJIT_GENERATOR" -S "$here/readme" -B "$folder" -DCMAKE_CXX_COMPILER="$CSAJIT_CXX" \
      -DCMAKE_C_COMPILER="$CSAJIT_CC" -DCMAKE_PREFIX_PATH="$prefix" -DCSAJIT_CUDA_INCLUDE_DIR="$CSAJIT_CUDA_INCLUDE"
    "$CSAJIT_CMAKE" --build "$folder"
    CSAJIT_CACHE_DIR=$folder/cache "$(dirname -- "$CSAJIT_CMAKE")/ctest" --test-dir "$folder" --output-on-failure
    ;;
  pkg-config)
    folder=$(fresh pkg-config)
    export PKG_CONFIG_PATH
    PKG_CONFIG_PATH=$(libdir)/pkgconfig
    # shellcheck disable=SC2046 # flags are words
    "$CSAJIT_CXX" -std=c++17 "${strict[@]}" $(pkg-config --cflags csajit) "$here/host/host.cpp" -o "$folder/host" \
      $(pkg-config --libs csajit)
    LD_LIBRARY_PATH=$(libdir)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$folder/host" "$folder/cache"
    ;;
  subdirectory)
    # Kept between runs: it compiles the library once more. Unoptimised, since only the build is on trial.
    folder=$work/subdirectory
    "$CSAJIT_CMAKE" -G "$CSAJIT_GENERATOR" -S "$here/host" -B "$folder" -DCMAKE_CXX_COMPILER="$CSAJIT_CXX" \
      -DCMAKE_C_COMPILER="$CSAJIT_CC" -DCMAKE_CXX_FLAGS=-O0 -DCSAJIT_SOURCE_DIR="$CSAJIT_SOURCE" \
      -DCSAJIT_CUDA_INCLUDE_DIR="$CSAJIT_CUDA_INCLUDE"
    "$CSAJIT_CMAKE" --build "$folder" --parallel "$(nproc)"
    rm -rf "$folder/cache"
    "$folder/host" "$folder/cache"
    ;;
  dlopen)
    folder=$(fresh dlopen)
    "$CSAJIT_CC" -std=c11 "${strict[@]}" -D_POSIX_C_SOURCE=200809L -I "$CSAJIT_SOURCE/include" "$here/dlopen/host.c" \
      -o "$folder/host" -ldl
    "$folder/host" "$CSAJIT_LIBRARY" "$folder/cache"
    ;;
  header)
    folder=$(fresh header)
    cd "$folder"
    printf '#include <csajit/csajit.h>\n#include <csajit/csajit.h>\nint main(void) { return csajit_version() == 0; }\n' >c.c
    "$CSAJIT_CC" -std=c11 "${strict[@]}" -Wpadded -Wstrict-prototypes -I "$CSAJIT_SOURCE/include" -c c.c
    cp c.c c.cpp
    for standard in c++17 c++20; do
      "$CSAJIT_CXX" -std=$standard "${strict[@]}" -Wpadded -I "$CSAJIT_SOURCE/include" -c c.cpp
      if [ -f "$CSAJIT_SOURCE/include/csajit/csajit.hpp" ]; then
        printf '#include <csajit/csajit.hpp>\n#include <csajit/csajit.hpp>\nint main() { return 0; }\n' >cpp.cpp
        "$CSAJIT_CXX" -std=$standard "${strict[@]}" -I "$CSAJIT_SOURCE/include" -c cpp.cpp
      fi
    done
    ;;
  *)
    echo "no such case: $1" >&2
    exit 2
    ;;
esac
