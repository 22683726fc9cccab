#!/usr/bin/env bash
# Prepares three containerd versions for the tests, and changes nothing on the host.
#
#   scripts/containerd.sh            prints one line per version:  1.6<TAB>DIR
#
# DIR/bin has containerd, ctr, containerd-shim-runc-v2 and runc of that version. Put it first in PATH: containerd finds
# its shim and runc there. DIR/containerd.version has the version that containerd prints, DIR/sandbox-image the name of
# its sandbox image. The line `busybox` names a directory with a static busybox, from which the tests build images.
#
#   1.6  Debian 12 (bookworm)     1.7  Debian 13 (trixie)     2  Debian unstable (sid)
#
# The script installs no package (`packages.sh`). It does not fetch again what is in the cache, so a second run uses no
# network. To get newer packages, delete the cache.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
apt=$cache/apt

# busybox: a static binary, so that an image needs only this file.
busybox() {
  local dir=$cache/busybox new=$cache/busybox.new
  if [ ! -x "$dir/busybox" ]; then
    say "fetching busybox"
    rm -rf "$new" "$dir"
    fetch bookworm "$new/root" busybox-static
    mv "$new/root/bin/busybox" "$new/busybox"
    rm -r "$new/root"
    mv "$new" "$dir"
  fi
  printf 'busybox\t%s\n' "$dir"
}

# runtime VERSION SUITE: the containerd of the suite with the runc of bookworm. The runc of sid needs a newer libc.
runtime() {
  local version=$1 suite=$2 dir=$cache/containerd-$1 new=$cache/containerd-$1.new found
  if [ ! -e "$dir/sandbox-image" ]; then
    say "fetching containerd $version from $suite"
    rm -rf "$new" "$dir"
    fetch "$suite" "$new/root" containerd
    fetch bookworm "$new/runc" runc
    mkdir "$new/bin"
    mv "$new"/root/usr/bin/{containerd,ctr,containerd-shim-runc-v2} "$new/bin"
    mv "$(find "$new/runc" -type f -name runc -perm -u+x)" "$new/bin/runc"
    rm -r "$new/root" "$new/runc"
    "$new/bin/runc" --version >/dev/null || die "runc of bookworm does not run here"
    # Field 3: "containerd github.com/containerd/containerd 1.7.24~ds1 …".
    found=$("$new/bin/containerd" --version | awk '{ print $3 }') || die "containerd of $suite does not run here"
    [[ $found == "$version".* ]] || die "$suite now has containerd $found, wanted $version"
    echo "$found" >"$new/containerd.version"
    "$new/bin/containerd" config default |
      sed -nE "s/^ *sandbox(_image)? = [\"'](.+)[\"']\$/\\2/p" | head -n 1 >"$new/sandbox-image"
    [ -s "$new/sandbox-image" ] || die "containerd $found names no sandbox image in its default configuration"
    mv "$new" "$dir"
  fi
  printf '%s\t%s\n' "$version" "$dir"
}

[ "$(id -u)" -eq 0 ] || die "must be root: containerd, mounts and loop devices need it"
for tool in apt-get dpkg-deb flock; do command -v "$tool" >/dev/null || die "needs Debian's $tool"; done
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # if two test runs start at once, the second waits and finds the files in the cache
busybox
runtime 1.6 bookworm
runtime 1.7 trixie
runtime 2 sid
rm -rf "$apt" # package lists of 60 MB, which the next run does not need
