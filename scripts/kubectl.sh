#!/usr/bin/env bash
# Prepares kubectl for the tests of the manifests, and changes nothing on the host.
#
#   scripts/kubectl.sh            prints the path of kubectl, which contains Kustomize 5 (kubectl kustomize)
#
# It is Debian 13's. The script installs no package (`packages.sh`). It does not fetch again what is in the cache.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
apt=$cache/apt-kubectl
dir=$cache/kubectl new=$cache/kubectl.new

for tool in apt-get dpkg-deb flock; do command -v "$tool" >/dev/null || die "needs Debian's $tool"; done
mkdir -p "$cache"
exec 9>"$cache/lock-kubectl"
flock 9 # if two test runs start at once, the second waits and finds the file in the cache
if [ ! -x "$dir/kubectl" ]; then
  say "fetching kubectl"
  rm -rf "$new" "$dir"
  fetch trixie "$new/root" kubectl
  mv "$new/root/usr/bin/kubectl" "$new"
  rm -r "$new/root" "$apt"
  "$new/kubectl" version --client >/dev/null || die "kubectl of trixie does not run here"
  mv "$new" "$dir"
fi
printf '%s\n' "$dir/kubectl"
