#!/usr/bin/env bash
# Prints the commit of these sources, for `kubegc version`: 12 digits, and `-changed` if tracked files differ from it. It
# prints nothing outside a git repository. KUBEGC_COMMIT, if it is set, replaces it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -n "${KUBEGC_COMMIT+set}" ]; then
  printf '%s\n' "$KUBEGC_COMMIT"
elif commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
  git diff --quiet HEAD -- 2>/dev/null || commit+=-changed
  printf '%s\n' "$commit"
fi
