#!/usr/bin/env bash
# Checks a Debian package with lintian, as root. An error fails; warnings are printed.
#
#   scripts/lintian.sh FILE
#   scripts/lintian.sh         prepares lintian in the cache, once
#
# Debian's lintian is unpacked in a copy-on-write view of this machine's root, and nothing is installed. Its packages are
# fetched once, into the cache.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
apt=$cache/apt-lintian dir=$cache/lintian

# packages NEW: fetches lintian and what it needs into NEW. The packages of this machine count as installed, so that only
# what it lacks is fetched.
packages() {
  say "fetching lintian"
  update bookworm
  mkdir "$1/partial"
  private_apt bookworm install -y --no-install-recommends --download-only -o Dir::State::Status=/var/lib/dpkg/status \
    -o Dir::Cache::Archives="$1" lintian >"$apt/bookworm/log" 2>&1 ||
    die "cannot fetch lintian (offline?): $(reason "$apt/bookworm/log")"
}

if [ "${1:-}" != inside ]; then
  once lintian packages
  rm -rf "$apt"
  [ $# -gt 0 ] || exit 0
  file=$(realpath "$1")
  [ "$(id -u)" -eq 0 ] || die "must be root: mounts need it"
  exec unshare --mount --propagation slave "$0" inside "$file"
fi

work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
unpack "$work/root" "$dir"/*.deb
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount -t tmpfs tmpfs "$work/root/tmp"
cp "$2" "$work/root/tmp/kubegc.deb"
chroot "$work/root" lintian --allow-root --fail-on error --tag-display-limit 0 /tmp/kubegc.deb
