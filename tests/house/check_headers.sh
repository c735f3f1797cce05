#!/usr/bin/env bash
# Every public header compiles alone, as C11 and as C++17.  Exit 77 (skipped) where there is no C++ compiler.
# usage: check_headers.sh SOURCE_TREE C_COMPILER
set -u
cd "$1" || exit 2
bad=0
cxx=$(command -v c++ || command -v g++ || command -v clang++)
flags=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude)
for header in include/alibi/*.h; do
  program="#include \"${header#include/}\""
  echo "$program" | "$2" -std=c11 -Wstrict-prototypes "${flags[@]}" -x c - ||
    { echo "$header: not alone as C11"; bad=1; }
  [ -z "$cxx" ] && continue
  echo "$program" | "$cxx" -std=c++17 "${flags[@]}" -x c++ - || { echo "$header: not alone as C++17"; bad=1; }
done
[ -n "$cxx" ] || { echo "no C++ compiler: checked as C11 only"; [ $bad = 0 ] && exit 77; }
exit $bad
