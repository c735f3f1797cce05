#!/usr/bin/env bash
# Runs the tests of a build folder and ends with one line: N passed, N failed (and N skipped, where some were).
# usage: check.sh FOLDER JOBS
set -u
folder=$1 jobs=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
(cd "$folder" && ctest --output-on-failure --timeout 900 -j "$jobs" --no-tests=error) 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

rows=$(grep -E '^ *[0-9]+/[0-9]+ Test +#[0-9]+: ' "$log")
count() { printf '%s\n' "$rows" | grep -cE "$1"; }
passed=$(count ' Passed +[0-9.]+ sec')
skipped=$(count '\*\*\*Skipped')
total=$(count .)
failed=$((total - passed - skipped))
[ "$status" -ne 0 ] && [ "$failed" -eq 0 ] && failed=1 # ctest itself failed
line="$passed passed, $failed failed"
[ "$skipped" -gt 0 ] && line+=", $skipped skipped"
echo "$line"
[ "$failed" -eq 0 ]
