# shellcheck shell=bash disable=SC2034
# Describes the source for the scripts that build something from it. Those scripts source this file in the top directory.
# It sets `version`, `revision` (the commit, with the suffix -dirty if files differ from it, empty outside of git) and
# SOURCE_DATE_EPOCH (the time of the commit), so that the same source gives the same bytes.

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# arch_of MACHINE: prints the architecture as containers and Debian name it.
arch_of() {
  case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "no package for the architecture $1: x86_64 and aarch64 are supported" ;;
  esac
}

# machine_of ARCH: prints the name of the architecture for the kernel, Rust and rpm.
machine_of() {
  case $1 in
    amd64) echo x86_64 ;;
    arm64) echo aarch64 ;;
    *) die "the architecture \"$1\" is not supported: amd64 and arm64 are" ;;
  esac
}

# put_binary ARCH BINARY FILE: puts the binary of a package at FILE. That is BINARY without symbols or, if BINARY is empty, the
# static one of ARCH.
put_binary() {
  local built
  if [ -n "$2" ]; then
    strip -o "$3" "$2"
  else
    built=$(scripts/binary.sh --arch "$1")
    cp "$built" "$3"
  fi
}

# runs_here ARCH FILE: prints a binary that runs on this machine: FILE, if ARCH does.
runs_here() {
  if [ "$1" = "$(arch_of "$(uname -m)")" ]; then printf '%s\n' "$2"; else scripts/binary.sh; fi
}

# pack …: tar without times, owners and order of the file system.
pack() { tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=ustar -c "$@"; }

version=$(sed -nE 's/^version = "(.+)"$/\1/p' Cargo.toml | head -n 1)
revision=$(git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null || true)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
