#!/usr/bin/env bash
# Runs the cases of one file against the command, each file in an empty folder of its own.
# usage: run_cases.sh ALIBI FILE.cli
#
#   # a comment
#   $ command line         run by bash; `alibi` is the command under test
#   1| line                expected on standard output, exactly
#   2| line                expected on standard error, exactly
#   = 2                    expected exit code (0 where there is no such line)
#
# ../families holds the tiny public models of tests/golden.
set -u
alibi=$(readlink -f "$1")
cases=$(readlink -f "$2")
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/work"
ln -s "$alibi" "$folder/bin/alibi"
ln -s "$(dirname "$cases")/../golden/families" "$folder/families"
export PATH="$folder/bin:$PATH" LC_ALL=C
cd "$folder/work" || exit 2

count=0 failed=0 command='' line=0 at=0 want_out='' want_err='' want_code=0
run_case() {
  [ -n "$command" ] || return
  count=$((count + 1))
  bash -c "$command" >"$folder/out" 2>"$folder/err" </dev/null
  local code=$? wrong=
  printf '%s' "$want_out" >"$folder/want_out"
  printf '%s' "$want_err" >"$folder/want_err"
  [ $code -eq "$want_code" ] || wrong+="exit code: expected $want_code, found $code"$'\n'
  cmp -s "$folder/want_out" "$folder/out" ||
    wrong+=$'standard output (- expected, + found):\n'"$(diff -u "$folder/want_out" "$folder/out" |
                                                       tail -n +3)"$'\n'
  cmp -s "$folder/want_err" "$folder/err" ||
    wrong+=$'standard error (- expected, + found):\n'"$(diff -u "$folder/want_err" "$folder/err" |
                                                      tail -n +3)"$'\n'
  if [ -n "$wrong" ]; then
    failed=$((failed + 1))
    printf '%s:%s: $ %s\n%s' "$cases" "$at" "$command" "$wrong"
  fi
}

while IFS= read -r text || [ -n "$text" ]; do
  line=$((line + 1))
  case $text in
    '$ '*) run_case; command=${text#'$ '} at=$line want_out='' want_err='' want_code=0 ;;
    '1|'*) text=${text#'1|'}; want_out+="${text# }"$'\n' ;;
    '2|'*) text=${text#'2|'}; want_err+="${text# }"$'\n' ;;
    '= '*) want_code=${text#'= '} ;;
    '#'* | '') ;;
    *) echo "$cases:$line: cannot read: $text"; exit 2 ;;
  esac
done <"$cases"
run_case
echo "$((count - failed)) of $count cases passed"
[ $count -gt 0 ] && [ $failed -eq 0 ]
