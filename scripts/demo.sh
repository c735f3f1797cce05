#!/usr/bin/env bash
# The demo: one text, six position methods trained at 64 tokens, tested at up to 16 times that.
# usage: demo.sh ALIBI   (TEXT: a text of yours; OUT: folder of the report; OPTIONS: more options of alibi study)
set -eu
alibi=$1
out=${OUT:-out/demo}
text=${TEXT:-}
mkdir -p "$out"

if [ -z "$text" ]; then
  text=$out/kjv.txt
  if [ ! -s "$text" ]; then
    # The King James Bible, without the verse numbers: 4.1 MB.
    bible -f Gen1:1-Rev22:21 | sed 's/^[^ ]* //' >"$text.part"
    size=$(wc -c <"$text.part")
    if [ "$size" -lt 4000000 ]; then
      echo "alibi: the program 'bible' gave $size bytes of text, expected about 4100000." >&2
      exit 1
    fi
    mv "$text.part" "$text"
  fi
fi

# An interrupted demo goes on; a finished one, or one with other settings, begins anew.
planned=$(grep -c '"label"' "$out/study.json" 2>/dev/null || true)
finished=$(find "$out/methods" -name result.json 2>/dev/null | wc -l)
if [ -z "${TEXT:-}${OPTIONS:-}" ] && [ "${planned:-0}" -gt 0 ] && [ "$finished" -lt "$planned" ]; then
  exec "$alibi" study --out "$out" --resume
fi

# shellcheck disable=SC2086  # OPTIONS is a list
"$alibi" study --out "$out" --overwrite ${OPTIONS:-} "$text"
