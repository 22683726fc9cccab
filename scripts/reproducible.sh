#!/usr/bin/env bash
# Builds the image and the packages of the current commit twice, in two clones at different paths, and compares them
# byte for byte.
#
#   scripts/reproducible.sh
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for clone in one a-second-one/below; do
  git clone --quiet --no-hardlinks . "$work/$clone"
  for what in image deb rpm; do
    (unset CARGO_TARGET_DIR; cd "$work/$clone" && "scripts/$what.sh" "$work/$clone.$what")
  done
  rm -rf "$work/$clone"
done
for what in image deb rpm; do
  cmp "$work/one.$what" "$work/a-second-one/below.$what" || die "two builds of the same commit differ: $what"
done
printf 'reproducible.sh: two builds of %s gave the same bytes\n' "$revision"
