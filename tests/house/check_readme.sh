#!/usr/bin/env bash
# The C program that README shows compiles, links to the library, and prints the perplexity of `alibi eval`.
# usage: check_readme.sh SOURCE BUILD CC
set -eu
source=$(readlink -f "$1")
build=$(readlink -f "$2")
cc=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '/^```c$/,/^```$/p' "$source/README.md" | sed '/^```/d' >"$folder/program.c"
[ "$(grep -c 'int main' "$folder/program.c")" = 1 ] || { echo 'README.md: expected one C program'; exit 1; }
"$cc" -std=c11 -Wall -Wextra -Werror -I"$source/include" "$folder/program.c" -L"$build" -lalibi \
  -Wl,-rpath,"$build" -o "$folder/program"
cd "$folder"
for i in $(seq 1 2000); do echo "$i: and there was evening and there was morning $((i * 7919 % 1000))"; done >text
"$build/alibi" train --out out/model --quiet --tokenizer bytes --layers 1 --width 16 --heads 2 --train-length 64 \
  --steps 2 text >/dev/null
head -c 20000 text >part
ours=$("$build/alibi" eval out/model --text part --protocol sliding --length 1024 --max-targets 0 --json |
       grep -o '"perplexity":[0-9.]*' | head -1 | cut -d: -f2)
theirs=$(./program <part)
echo "program: $theirs; alibi eval: $ours"
case "$theirs" in "perplexity $(printf %.2f "$ours") +- "*) ;; *) exit 1 ;; esac
