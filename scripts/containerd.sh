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
# KUBEGC_CONTAINERD names another containerd 2: a directory or an archive with containerd, ctr and containerd-shim-runc-v2
# anywhere below it, such as that of a release.
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
  local version=$1 suite=$2 dir=$cache/containerd-$1 new=$cache/containerd-$1.new
  if [ ! -e "$dir/sandbox-image" ]; then
    say "fetching containerd $version from $suite"
    rm -rf "$new" "$dir"
    fetch "$suite" "$new/root" containerd
    complete "$version" "$suite"
  fi
  printf '%s\t%s\n' "$version" "$dir"
}

# given PATH: a containerd 2 that somebody built or downloaded.
given() {
  local path dir new
  path=$(realpath -e "$1") || die "KUBEGC_CONTAINERD: no such file or directory: $1"
  dir=$cache/containerd-$(stat --format='%n %s %Y' "$path" | sha256sum | cut -c 1-12) new=$dir.new
  if [ ! -e "$dir/sandbox-image" ]; then
    rm -rf "$new" "$dir"
    mkdir -p "$new/root"
    if [ -d "$path" ]; then cp -r "$path/." "$new/root"; else tar -xf "$path" -C "$new/root"; fi
    complete 2 "KUBEGC_CONTAINERD"
  fi
  printf '2\t%s\n' "$dir"
}

# complete VERSION FROM: makes $dir of the programs below $new/root.
complete() {
  local program found
  fetch bookworm "$new/runc" runc
  mkdir "$new/bin"
  for program in containerd ctr containerd-shim-runc-v2; do
    found=$(find "$new/root" -type f -name "$program" -perm -u+x -print -quit)
    [ -n "$found" ] || die "$2: no program $program"
    mv "$found" "$new/bin"
  done
  mv "$(find "$new/runc" -type f -name runc -perm -u+x)" "$new/bin/runc"
  rm -r "$new/root" "$new/runc"
  "$new/bin/runc" --version >/dev/null || die "runc of bookworm does not run here"
  # Field 3: "containerd github.com/containerd/containerd 1.7.24~ds1 …", or "v2.2.0" of a release.
  found=$("$new/bin/containerd" --version | awk '{ print $3 }') || die "containerd of $2 does not run here"
  [[ ${found#v} == "$1".* ]] || die "$2 now has containerd $found, wanted $1"
  echo "${found#v}" >"$new/containerd.version"
  "$new/bin/containerd" config default |
    sed -nE "s/^ *sandbox(_image)? = [\"'](.+)[\"']\$/\\2/p" | head -n 1 >"$new/sandbox-image"
  [ -s "$new/sandbox-image" ] || die "containerd $found names no sandbox image in its default configuration"
  mv "$new" "$dir"
}

[ "$(id -u)" -eq 0 ] || die "must be root: containerd, mounts and loop devices need it"
for tool in apt-get dpkg-deb flock; do command -v "$tool" >/dev/null || die "needs Debian's $tool"; done
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # if two test runs start at once, the second waits and finds the files in the cache
busybox
runtime 1.6 bookworm
runtime 1.7 trixie
if [ -n "${KUBEGC_CONTAINERD:-}" ]; then given "$KUBEGC_CONTAINERD"; else runtime 2 sid; fi
rm -rf "$apt" # package lists of 60 MB, which the next run does not need
