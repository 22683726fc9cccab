#!/usr/bin/env bash
# Packs the Helm chart as `helm package` does; the same commit gives the same bytes.
#
#   scripts/chart.sh [--version VERSION] DIR      writes DIR/kubegc-VERSION.tgz and prints its path
#
# Between two releases VERSION ends with ~COMMIT, as in scripts/release.sh. The chart then has the version X.Y.Z-gCOMMIT,
# because a part of a semantic version that is a number cannot start with 0, and the image has the tag X.Y.Z-COMMIT.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/source.sh
. scripts/source.sh

if [ "${1:-}" = --version ]; then
  version=$2
  shift 2
fi
[ -d "${1:-}" ] || die "usage: scripts/chart.sh [--version VERSION] DIR, and DIR must exist"
file=$1/kubegc-${version/\~/-g}.tgz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -rL packaging/chart "$work/kubegc" # Helm follows the link to the alerts, an archive cannot
rm "$work"/kubegc/monitoring/*_test.yaml
sed -i -e "s/^version: .*/version: ${version/\~/-g}/" -e "s/^appVersion: .*/appVersion: ${version/\~/-}/" "$work/kubegc/Chart.yaml"
pack -C "$work" kubegc | gzip -n -9 >"$file"
printf '%s\n' "$file"
