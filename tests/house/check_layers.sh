#!/usr/bin/env bash
# A room includes headers of lower floors and its own.  The floors and the exceptions are in tests/layers.txt.
# usage: check_layers.sh SOURCE_TREE
set -u
cd "$1" || exit 2

rooms=(src)
[ -d bench ] && rooms+=(bench)
find "${rooms[@]}" -name '*.[ch]' -type f | LC_ALL=C sort | xargs awk '
  BEGIN {
    while ((getline row < "tests/layers.txt") > 0) {
      n = split(row, word, " ")
      if (word[1] == "floor") floor[word[3]] = word[2]
      else if (word[1] == "allow" && n < 4)
        { print "tests/layers.txt: an exception without a reason: " row; bad = 1 }
      else if (word[1] == "allow") allowed[word[2] " " word[3]] = row
      else if (word[1] != "" && word[1] !~ /^#/ && word[1] != "system")
        { print "tests/layers.txt: cannot read: " row; bad = 1 }
    }
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    header = $0
    sub(/^[^"]*"/, "", header); sub(/".*/, "", header)
    split(FILENAME, part, "/"); room = part[1] == "src" ? part[2] : part[1]
    includes++
    if (!(room in floor)) { print FILENAME ": no floor in tests/layers.txt for the room " room; bad = 1; next }
    if (header ~ /\.inc$/ && header !~ /\//) next # generated from the CMakeLists.txt of the room
    if (header !~ /\//) { print FILENAME ": \"" header "\": expected \"room/header\""; bad = 1; next }
    split(header, target, "/")
    if (target[1] == "alibi" || target[1] == room) next
    key = FILENAME " " header
    if (key in allowed) { used[key] = 1; next }
    if (!(target[1] in floor)) { print FILENAME ": \"" header "\": no such room"; bad = 1; next }
    if (floor[target[1]] + 0 >= floor[room] + 0) {
      print FILENAME ": " room " (floor " floor[room] ") includes " header " (floor " floor[target[1]] ")"; bad = 1
    }
  }
  END {
    for (key in allowed) if (!(key in used)) { print "tests/layers.txt: no longer needed: " allowed[key]; bad = 1 }
    if (!includes) { print "no include found: is this the source tree?"; bad = 1 }
    exit bad
  }'
