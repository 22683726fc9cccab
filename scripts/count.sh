#!/usr/bin/env bash
# Counts the production lines and files of each room: all lines of src without tests (`tests*`, `testing`, `#[cfg(test)]`),
# without generated code, and without the simulated node and the demo, which do not ship (the feature `sim`).
#
#   scripts/count.sh        prints a table: lines, files, room
set -euo pipefail
cd "$(dirname "$0")/.."

# lines FILE: the lines outside of items with #[cfg(test)].
lines() {
  awk '
    /^#\[cfg\(test\)\]/ { test = 1; next }
    test && /^(#|\/\/)/ { next }
    test && /;$/ && !body { test = 0; next }
    test { body = 1; if (/^}/) test = body = 0; next }
    { count++ }
    END { print count + 0 }' "$1"
}

git ls-files src | grep '\.rs$' | grep -vE '(^|/)(tests?(/|\.rs$)|tests_|testing(/|\.rs$)|generated\.rs$|sim(/|\.rs$)|cli/demo(/|\.rs$))' | while read -r file; do
  room=${file#src/}
  room=${room%%/*}
  printf '%s %s\n' "${room%.rs}" "$(lines "$file")"
done | awk '
  { lines[$1] += $2; files[$1]++; all += $2; count++ }
  END {
    for (room in lines) printf "%7d %5d  %s\n", lines[room], files[room], room | "sort -rn"
    close("sort -rn")
    printf "%7d %5d  all\n", all, count
  }'
