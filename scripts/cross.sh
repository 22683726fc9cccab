#!/usr/bin/env bash
# Prepares Debian's Rust compiler for another architecture, and prints its path.
#
#   scripts/cross.sh ARCH
#
# ARCH is amd64 or arm64. rustup installs standard libraries too (`rustup target add`), but from its own server only. Debian
# has one for each architecture. Nothing is installed: the compiler is unpacked in the cache and runs with its own
# libraries. It is that of Debian's development suite, because the stable ones are too old.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
arch=$1 own=$(dpkg --print-architecture)
name=rust-$arch
dir=$cache/$name apt=$cache/apt-$name

# toolchain NEW: unpacks the compiler with what it needs, and the standard library of the other architecture.
toolchain() {
  local new=$1 option=(-o "APT::Architectures::=$own" -o "APT::Architectures::=$arch") home=$apt/sid
  say "fetching Debian's Rust compiler for $arch, about 250 MB"
  update sid "${option[@]}"
  private_apt sid "${option[@]}" install -y --no-install-recommends --download-only rustc >"$home/log" 2>&1 ||
    die "cannot download rustc from sid (offline?): $(reason "$home/log")"
  (cd "$home/archives" && private_apt sid "${option[@]}" download "libstd-rust-dev:$arch") >"$home/log" 2>&1 ||
    die "cannot download the standard library for $arch from sid: $(reason "$home/log")"
  unpack "$new" "$home"/archives/*.deb
  cat >"$new/rustc" <<END
#!/bin/sh
loader=\$(echo $dir/usr/lib/*-linux-gnu/ld-linux-*.so.*)
exec "\$loader" --library-path "\${loader%/*}" --argv0 $dir/usr/bin/rustc $dir/usr/bin/rustc --sysroot $dir/usr "\$@"
END
  chmod +x "$new/rustc"
}

once "$name" toolchain
rm -rf "$apt"
printf '%s\n' "$dir/rustc"
