#!/usr/bin/env bash
# Prepares a CRI-O for the tests, and changes nothing on the host.
#
#   KUBEGC_CRIO=DIR|ARCHIVE scripts/crio.sh      prints a directory with programs
#
# DIR is a directory and ARCHIVE a tar archive with `crio` and `pinns` anywhere below it, such as a bundle of a release. The
# printed directory has both, and conmon and runc of Debian 12. It also has these, if they are below DIR:
#
#   copyimg     copies images to a storage. Without it, skopeo of Debian 12 does
#   mkctr       makes a container in a storage as another client does: mkctr ROOT RUNROOT DRIVER IMAGE NAME
#
# The script installs no package (`packages.sh`). It does not fetch again what is in the cache, so a second run uses no
# network.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
apt=$cache/apt-crio

# below DIR PROGRAM: prints where the program is, if it is there.
below() { find -L "$1" -maxdepth 6 -type f -name "$2" -perm -u+x -print -quit; }

# runs PROGRAM: fails if the program does not run here.
runs() { "$1" --version >/dev/null 2>&1 || die "${1##*/} does not run here: $("$1" --version 2>&1 | tail -n 1)"; }

# debian SUITE DIR PACKAGE PROGRAM: puts a program of a package into DIR.
debian() {
  local suite=$1 dir=$2 package=$3 program=$4
  say "fetching $package"
  fetch "$suite" "$dir/root" "$package"
  mv "$(below "$dir/root" "$program")" "$dir/$program"
  rm -r "$dir/root"
  runs "$dir/$program"
}

# tools DIR: the programs that CRI-O starts.
tools() {
  debian bookworm "$1" conmon conmon
  debian bookworm "$1" runc runc
}

# skopeo DIR: with the libraries that not every system has.
skopeo() {
  say "fetching skopeo"
  fetch bookworm "$1/root" skopeo libgpgme11 libassuan0 libdevmapper1.02.1
  mkdir "$1/lib"
  find "$1/root" -name 'lib*.so*' -exec mv -t "$1/lib" {} +
  cat >"$1/skopeo" <<'END'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH=$here/lib exec "$here/root/usr/bin/skopeo" "$@"
END
  chmod +x "$1/skopeo"
  runs "$1/skopeo"
}

# programs_of SOURCE DIR: puts the programs of an archive, or links to those of a directory, into DIR.
programs_of() {
  local source=$1 dir=$2 from=$1 program found
  if [ -f "$source" ]; then
    say "unpacking $source"
    from=$dir/unpacked
    mkdir "$from"
    tar -xf "$source" -C "$from" || die "cannot unpack $source"
  fi
  for program in crio pinns copyimg mkctr; do
    found=$(below "$from" "$program")
    [ -z "$found" ] || ln -s "$(realpath --relative-to="$dir" "$found")" "$dir/$program"
  done
  for program in crio pinns; do [ -e "$dir/$program" ] || die "KUBEGC_CRIO names no CRI-O: no $program in $source"; done
  ln -s "../crio-tools/conmon" "../crio-tools/runc" "$dir"
  [ -e "$dir/copyimg" ] || ln -s "../skopeo/skopeo" "$dir"
  runs "$dir/crio"
}

[ -n "${KUBEGC_CRIO:-}" ] || die "KUBEGC_CRIO names no CRI-O: set it to a directory or an archive with crio and pinns"
[ -e "$KUBEGC_CRIO" ] || die "KUBEGC_CRIO names no CRI-O: $KUBEGC_CRIO does not exist"
source=$(realpath "$KUBEGC_CRIO")
# A changed file or directory is another CRI-O.
name=crio-$(stat -Lc '%n %s %y' "$source" | sha256sum | head -c 12)
once crio-tools tools
once "$name" programs_of "$source"
[ -e "$cache/$name/copyimg" ] || once skopeo skopeo
rm -rf "$apt"
printf '%s\n' "$cache/$name"
