#!/usr/bin/env bash
# Prepares promtool for the tests of metrics, and changes nothing on the host.
#
#   scripts/prometheus.sh            prints the directory with prometheus and promtool, from Debian 12
#
# The script installs no package (`packages.sh`). A second run uses no network.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
apt=$cache/apt-prometheus dir=$cache/prometheus new=$cache/prometheus.new

for tool in apt-get dpkg-deb flock; do command -v "$tool" >/dev/null || die "needs Debian's $tool"; done
mkdir -p "$cache"
exec 9>"$cache/lock-prometheus"
flock 9 # if two test runs start at once, the second waits and finds the files in the cache
if [ ! -x "$dir/promtool" ]; then
  say "fetching prometheus"
  rm -rf "$new" "$dir"
  fetch bookworm "$new/root" prometheus
  mv "$new"/root/usr/bin/{prometheus,promtool} "$new"
  rm -r "$new/root"
  "$new/promtool" --version >/dev/null 2>&1 || die "promtool of bookworm does not run here"
  mv "$new" "$dir"
fi
rm -rf "$apt" # package lists that the next run does not need
printf '%s\n' "$dir"
