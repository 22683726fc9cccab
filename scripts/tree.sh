#!/usr/bin/env bash
# Lays out what is installed with the binary: man pages, completions and units.
#
#   scripts/tree.sh BINARY ROOT
#
# BINARY runs on this machine. ROOT is filled as the root of a Debian system.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$1 root=$2
share=$root/usr/share
mkdir -p "$share"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d} "$root/usr/lib/systemd/system"
"$binary" completions bash >"$share/bash-completion/completions/kubegc"
"$binary" completions zsh >"$share/zsh/vendor-completions/_kubegc"
"$binary" completions fish >"$share/fish/vendor_completions.d/kubegc.fish"
"$binary" man "$share/man/man1" >/dev/null
gzip -n -9 "$share"/man/man1/*
cp systemd/* "$root/usr/lib/systemd/system/"
