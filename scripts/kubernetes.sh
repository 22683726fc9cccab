#!/usr/bin/env bash
# Prepares etcd and the programs of Kubernetes for the tests on a real node, and changes nothing on the host.
#
#   scripts/kubernetes.sh            prints one line each:  etcd<TAB>DIR  kubernetes<TAB>DIR<TAB>VERSION
#
# DIR/bin has the programs. etcd is Debian 13's. kubelet, kube-apiserver and kube-controller-manager are those that
# KUBEGC_KUBERNETES names: a directory or an archive that contains them, such as kubernetes-server-linux-amd64.tar.gz of a
# release, of any version from 1.20 on.
#
# Without KUBEGC_KUBERNETES the script builds them. Debian has the source of Kubernetes 1.20.2, but a package of the client
# only, so the script builds them from that source with Debian 12's Go. That takes some 6 minutes on 2 cores, once, and
# 3 GB of disk during the build. The script installs no package (`packages.sh`). It neither fetches, unpacks nor builds
# again what is in the cache: a cache that lacks one program gets that one.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
apt=$cache/apt-kubernetes
version=1.20.2
programs=(kubelet kube-apiserver kube-controller-manager)

# etcd: only the server. Kubernetes 1.34 and later need etcd 3.5.
etcd() {
  local dir=$cache/etcd-3.5 new=$cache/etcd-3.5.new
  if [ ! -x "$dir/bin/etcd" ]; then
    say "fetching etcd"
    rm -rf "$new" "$dir"
    fetch trixie "$new/root" etcd-server
    mkdir "$new/bin"
    mv "$new/root/usr/bin/etcd" "$new/bin"
    rm -r "$new/root"
    "$new/bin/etcd" --version >/dev/null || die "etcd of trixie does not run here"
    mv "$new" "$dir"
  fi
  printf 'etcd\t%s\n' "$dir"
}

# given PATH: the programs in a directory or an archive that somebody downloaded.
given() {
  local path=$1 dir new from program found version
  path=$(realpath -e "$path") || die "KUBEGC_KUBERNETES: no such file or directory: $1"
  dir=$cache/kubernetes-$(stat --format='%n %s %Y' "$path" | sha256sum | cut -c 1-12) new=$dir.new
  if [ ! -e "$dir/version" ]; then
    rm -rf "$new" "$dir"
    mkdir -p "$new/bin"
    from=$path
    [ -d "$path" ] || { from=$new/files && unpack_programs "$path" "$from"; }
    for program in "${programs[@]}"; do
      found=$(find "$from" -type f -name "$program" -perm -u+x -print -quit)
      [ -n "$found" ] || die "KUBEGC_KUBERNETES: no program $program in $path"
      ln -s "${found/#"$new"/"$dir"}" "$new/bin/$program"
      version=$("$found" --version) || die "KUBEGC_KUBERNETES: $program of $path does not run here"
      [ "$(cat "$new/version" 2>/dev/null || echo "$version")" = "$version" ] || die "KUBEGC_KUBERNETES: $path has two versions"
      echo "$version" >"$new/version"
    done
    mv "$new" "$dir"
  fi
  printf 'kubernetes\t%s\t%s\n' "$dir" "$(sed 's/^Kubernetes v//' "$dir/version")"
}

# unpack_programs ARCHIVE DIR: unpacks only the three programs.
unpack_programs() {
  say "unpacking $1"
  mkdir -p "$2"
  tar -xf "$1" -C "$2" --wildcards --no-anchored "${programs[@]}" || die "KUBEGC_KUBERNETES: cannot unpack $1"
}

built() {
  local dir=$cache/kubernetes-$version new=$cache/kubernetes-$version.new program built missing=()
  for program in "${programs[@]}"; do [ -x "$dir/bin/$program" ] || missing+=("$program"); done
  if [ ${#missing[@]} != 0 ]; then
    say "building ${missing[*]} $version, which takes some minutes"
    rm -rf "$new"
    lay_out "$new"
    build "$new" "${missing[@]}" >"$new/log" 2>&1 || die "cannot build Kubernetes: $(tail -n 3 "$new/log")"
    for program in "${missing[@]}"; do
      built=$("$new/bin/$program" --version) || die "the $program built from bookworm's source does not run here"
      [ "$built" = "Kubernetes v$version" ] || die "built $built, wanted $version"
    done
    mkdir -p "$dir/bin"
    mv "$new"/bin/* "$dir/bin/"
    rm -rf "$new"
  fi
  printf 'kubernetes\t%s\t%s\n' "$dir" "$version"
}

# lay_out NEW: puts Go in NEW/root, and the source below GOPATH, because this build does not use Go modules.
lay_out() {
  local new=$1 source=$1/go/src/k8s.io/kubernetes
  mkdir -p "$source" "$new/home" "$new/tools" "$new/bin"
  fetch bookworm "$new/root" golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev
  fetch_source bookworm "$new/source" kubernetes
  tar -xf "$new"/source/kubernetes_*"$version".orig.tar.* -C "$source" --strip-components=1 ||
    die "bookworm's kubernetes is no longer $version: $(ls "$new/source")"
  # The reflect2 in the source uses the map layout from before Go 1.18. Every program built with it crashes.
  rm -r "$source/vendor/github.com/modern-go/reflect2"
  cp -r "$new/root/usr/share/gocode/src/github.com/modern-go/reflect2" "$source/vendor/github.com/modern-go/"
  # The build calls `rsync -pc FILE DIR`. cp does the same, so rsync need not be installed.
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nexec cp -p "$2" "$3"\n' >"$new/tools/rsync"
  chmod +x "$new/tools/rsync"
}

# build NEW PROGRAM…: builds the programs in NEW/bin, static and without symbols. It uses no variable of the caller's
# environment.
build() {
  local new=$1 goroot=$1/root/usr/lib/go-1.19 stamp=k8s.io/kubernetes/vendor/k8s.io/component-base/version
  local ldflags="-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=20"
  shift
  cd "$new/go/src/k8s.io/kubernetes" || return
  run() {
    env -i HOME="$new/home" PATH="$new/tools:$goroot/bin:/usr/sbin:/usr/bin:/sbin:/bin" GOROOT="$goroot" \
      GOPATH="$new/go" GOCACHE="$new/gocache" GO111MODULE=off GOPROXY=off CGO_ENABLED=0 "$@"
  }
  run make generated_files && run go build -trimpath -ldflags "$ldflags" -o "$new/bin/" "${@/#/./cmd/}"
}

for tool in apt-get dpkg-deb flock make; do command -v "$tool" >/dev/null || die "needs $tool (scripts/setup.sh)"; done
mkdir -p "$cache"
exec 9>"$cache/lock-kubernetes"
flock 9 # if two test runs start at once, the second waits and finds the files in the cache
etcd
if [ -n "${KUBEGC_KUBERNETES:-}" ]; then given "$KUBEGC_KUBERNETES"; else built; fi
rm -rf "$apt"
