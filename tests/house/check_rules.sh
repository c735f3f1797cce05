#!/usr/bin/env bash
# The rules of the house that a text search can see (docs/design.md, "Conventions").
# usage: check_rules.sh SOURCE_TREE
set -u
cd "$1" || exit 2
bad=0
complain() {
  [ -z "$2" ] && return
  printf '%s:\n%s\n' "$1" "$(printf '%s\n' "$2" | sed 's/^/  /')"
  bad=1
}

mapfile -t sources < <(find src include tests bench examples fuzz -name '*.[ch]' -type f 2>/dev/null |
                       LC_ALL=C sort)
mapfile -t rooms < <(find src -name '*.[ch]' -type f | LC_ALL=C sort)
[ ${#rooms[@]} -gt 0 ] || { echo "no sources found in $1"; exit 1; }

# The code without its comments, each line as file:line: text.
code() {
  awk 'FNR == 1 { inside = 0 }
    {
      text = $0; out = ""
      while (text != "") {
        if (inside) { p = index(text, "*/"); if (!p) break; text = substr(text, p + 2); inside = 0 }
        else {
          p = index(text, "/*"); if (!p) { out = out text; break }
          out = out substr(text, 1, p - 1); text = substr(text, p + 2); inside = 1
        }
      }
      if (out ~ /[^ \t]/) print FILENAME ":" FNR ": " out
    }' "$@"
}

complain "Two files of one name (public headers apart)" \
  "$(printf '%s\n' "${sources[@]}" | grep -v '^include/' | sed 's,.*/,,' | LC_ALL=C sort | uniq -d)"

complain "Files over 800 lines (figures that a script wrote apart): which two things are in it?" \
  "$(wc -l "${sources[@]}" | awk '$2 != "total" && $2 !~ /^tests\/golden\/.*_figures\.h$/ && $1 > 800 {
       print $2 ": " $1 " lines" }')"

# Columns, not bytes: what goes on with a character of UTF-8 is not counted.
complain "Lines over 115 columns" \
  "$(find CMakeLists.txt src include tests bench examples fuzz scripts cmake \
       \( -name '*.[ch]' -o -name '*.py' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt \) \
       -type f 2>/dev/null |
     LC_ALL=C sort | LC_ALL=C xargs awk '{
       text = $0; gsub(/[\200-\277]/, "", text)
       if (length(text) > 115) print FILENAME ":" FNR ": " length(text) " columns"
     }')"

mapfile -t library < <(printf '%s\n' "${rooms[@]}" | grep -v '^src/cli/')
complain "The library prints, exits or aborts" \
  "$(code "${library[@]}" |
     grep -E '(^|[^A-Za-z0-9_])((_?exit|_Exit|abort|v?printf|puts|putchar|perror)[[:space:]]*\(|stdout|stderr)')"

complain "Numbers are read by the program's locale, or places in files by a type of the system, outside base/" \
  "$(printf '%s\n' "${library[@]}" | grep -v '^src/base/' | { mapfile -t files; code "${files[@]}"; } |
     grep -E '(^|[^A-Za-z0-9_])(strto(d|f|ld)|atof|fseeko|ftello)[[:space:]]*\(')"

# Includes with angle brackets: of the C library anywhere, of the operating system in base/ only (exceptions: rows
# `system` of tests/layers.txt), of anything else in exactly one .c file.
standard=' assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
 stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath time uchar wchar wctype
 omp immintrin x86intrin cpuid arm_neon '
system=' unistd fcntl poll spawn dirent dlfcn pthread sched strings termios glob ftw libgen '
is_in() { case $1 in *[[:space:]]"$2"[[:space:]]*) return 0 ;; esac; return 1; }
declare -A home=()
while read -r file header; do
  name=${header%.h}
  if is_in "$standard" "$name"; then continue; fi
  if is_in "$system" "$name" || [[ $name == sys/* || $name == linux/* ]]; then
    case $file in src/base/*) continue ;; esac
    grep -q "^system $file ." tests/layers.txt ||
      complain "The operating system is called outside base/" "$file: <$header>"
    continue
  fi
  [[ $file == *.c ]] || complain "A third-party header in a header" "$file: <$header>"
  if [ -n "${home[$header]:-}" ] && [ "${home[$header]}" != "$file" ]; then
    complain "A third-party header in two files" "<$header>: ${home[$header]} and $file"
  fi
  home[$header]=$file
done < <(awk '/^[ \t]*#[ \t]*include[ \t]*</ {
                h = $0; sub(/^[^<]*</, "", h); sub(/>.*/, "", h); print FILENAME, h }' "${rooms[@]}")

complain "A public header includes more than the C library and its own" \
  "$(grep -nE '^[[:space:]]*#[[:space:]]*include' include/alibi/*.h |
     grep -vE '["]alibi/[a-z_]+\.h"|<(stddef|stdint|stdbool|stdio)\.h>')"

complain "Flags that change the meaning of the code or of the machine" \
  "$(grep -rnE -e '-ffast-math|-Ofast|-march=native' CMakeLists.txt cmake src tests bench \
       --include=CMakeLists.txt --include='*.cmake' 2>/dev/null)"

exit $bad
