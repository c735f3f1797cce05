#!/usr/bin/env bash
# A fuzz target over its corpus, over the damaged files that a script makes, and over damaged copies of both.
# usage: check_corpus.sh CORPUS_PROGRAM FOLDER SCRIPT...     FOLDER: fuzz/corpus/TARGET, which may be absent
# What a script writes into a folder TARGET is for this target; else all that it writes.
set -eu
program=$1 corpus=$2
shift 2
ran=77 # skipped, where there is nothing to run
if [ -d "$corpus" ]; then
  "$program" "$corpus" 50
  ran=0
fi
command -v python3 >/dev/null || exit $ran
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for script in "$@"; do
  rm -rf "$folder/made"
  python3 "$script" "$folder/made"
  find "$folder/made" -size +64k -delete # nesting and counts: their place is tests/malformed
  made=$folder/made/${corpus##*/}
  [ -d "$made" ] || made=$folder/made
  "$program" "$made" 50
  ran=0
done
exit $ran
