#!/usr/bin/env bash
# Configures where that is needed, and builds.  Quiet where there is nothing to do.
# usage: build.sh FOLDER JOBS TARGET [-DNAME=VALUE...]
set -eu
folder=$1 jobs=$2 target=$3
shift 3
source=$(cd "$(dirname "$0")/.." && pwd)

generator=()
if [ ! -e "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
if ! { [ -e "$folder/build.ninja" ] || [ -e "$folder/Makefile" ]; } || [ $# -gt 0 ]; then
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  cmake -S "$source" -B "$folder" "${generator[@]}" "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
exec cmake --build "$folder" --target "$target" -j "$jobs"
