#!/usr/bin/env bash
# Both libraries show the names alibi_* and nothing else, and the same ones.
# usage: check_exports.sh libalibi.so libalibi.a
set -u
names() {
  nm "$1" --defined-only "$2" | awk 'NF == 3 { print $3 }' |
    grep -vE '^(__asan|__odr_asan|_init$|_fini$)' | LC_ALL=C sort -u
}
shared=$(names -D "$1")
archive=$(names -g "$2")
bad=0
foreign=$(printf '%s\n%s\n' "$shared" "$archive" | grep -v '^alibi_' | sort -u)
[ -n "$foreign" ] && { printf 'exported, but not alibi_*:\n%s\n' "$foreign"; bad=1; }
[ "$(printf '%s\n' "$shared" | grep -c '^alibi_')" -ge 5 ] || { echo "too few names exported: $shared"; bad=1; }
if [ "$shared" != "$archive" ]; then
  echo "the shared library (<) and the archive (>) differ:"
  diff <(printf '%s\n' "$shared") <(printf '%s\n' "$archive")
  bad=1
fi
exit $bad
