# shellcheck shell=bash disable=SC2034,SC2154
# Fetches Debian packages without installing them. The scripts that prepare programs for the tests source this file.
#
# apt runs with its own lists and archives in the cache. It does not change the host's sources and dpkg database,
# installs no package and starts no service. This file sets `cache`. The script that sources it sets `apt`, a directory
# for lists and archives that no other script uses at the same time.

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kubegc-rig

# The mirror that this machine uses for Debian itself (its security and update suites are elsewhere), from the
# addresses that an update would request: 'MIRROR/dists/bookworm/InRelease' …
mirror() {
  apt-get update --print-uris |
    sed -nE "s#^'(.+)/dists/(bookworm|stable|oldstable|trixie|testing|sid|unstable)/InRelease'.*#\\1#p" | head -n 1
}

# private_apt SUITE COMMAND…: runs apt-get with its own sources, lists and archives. It accepts a mirror that is some
# weeks old: only tests run what it fetches, and it still verifies the signature.
private_apt() {
  local suite=$1 home=$apt/$1
  shift
  apt-get -q \
    -o Dir::Etc::SourceList="$home/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
    -o Dir::State::Lists="$home/lists" -o Dir::State::Status="$home/status" -o Dir::Cache="$home" \
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
    -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root -o APT::Default-Release="$suite" \
    "$@"
}

# update SUITE [OPTION…]: downloads the package lists of a suite, once.
update() {
  local suite=$1 home=$apt/$1 uri program
  shift
  [ ! -e "$home/updated" ] || return 0
  for program in apt-get dpkg-deb; do command -v "$program" >/dev/null || die "needs Debian's $program"; done
  uri=$(mirror)
  [ -n "$uri" ] || die "apt knows no Debian mirror: its sources name no Debian release"
  mkdir -p "$home/lists/partial" "$home/archives/partial"
  : >"$home/status"
  printf '%s '"$uri $suite"' main\n' deb deb-src >"$home/sources.list"
  # Without --error-on=any an update succeeds even if it reaches no server.
  private_apt "$suite" "$@" update --error-on=any >"$home/log" 2>&1 ||
    die "cannot read the package list of $suite (offline?): $(reason "$home/log")"
  touch "$home/updated"
}

# fetch SUITE DIR PACKAGE…: unpacks the packages of a suite into DIR.
fetch() {
  local suite=$1 dir=$2 home=$apt/$1
  shift 2
  update "$suite"
  rm -rf "$home/debs"
  mkdir -p "$home/debs" "$dir"
  (cd "$home/debs" && private_apt "$suite" download "$@") >"$home/log" 2>&1 ||
    die "cannot download $* from $suite (offline?): $(reason "$home/log")"
  for deb in "$home"/debs/*.deb; do dpkg-deb -x "$deb" "$dir"; done
}

# unpack DIR DEB…: unpacks packages over each other. A directory that is a link stays a link, which `dpkg-deb --extract` would
# replace.
unpack() {
  local dir=$1 deb
  shift
  for deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$dir"; done
}

# fetch_source SUITE DIR PACKAGE: downloads the files of a source package to DIR, and unpacks none.
fetch_source() {
  local suite=$1 dir=$2 package=$3 home=$apt/$1
  update "$suite"
  mkdir -p "$dir"
  (cd "$dir" && private_apt "$suite" source --download-only "$package") >"$home/log" 2>&1 ||
    die "cannot download the source of $package from $suite (offline?): $(reason "$home/log")"
}

# reason LOG: prints apt's error message.
reason() { grep -m 1 '^[EW]:' "$1" || tail -n 1 "$1"; }

# once NAME COMMAND…: fills the directory NAME of the cache, unless it exists: COMMAND… DIR writes the files into DIR. If two
# test runs start at once, the second waits and finds them.
once() {
  local name=$1
  shift
  command -v flock >/dev/null || die "needs Debian's flock"
  mkdir -p "$cache"
  exec 9>"$cache/lock-$name"
  flock 9
  if [ ! -d "$cache/$name" ]; then
    rm -rf "$cache/$name.new"
    mkdir "$cache/$name.new"
    "$@" "$cache/$name.new"
    mv "$cache/$name.new" "$cache/$name"
  fi
  flock -u 9
}

# programs NAME SUITE PACKAGE PROGRAM…: puts programs of a package from /usr/bin into the directory NAME of the cache, once,
# and prints that directory. It removes the package lists, which the next run does not need. Sets `apt`.
programs() {
  apt=$cache/apt-$1
  once "$1" fetch_programs "${@:2}"
  rm -rf "$apt"
  printf '%s\n' "$cache/$1"
}

# fetch_programs SUITE PACKAGE PROGRAM… DIR: puts the programs into DIR.
fetch_programs() {
  local suite=$1 package=$2 dir=${*: -1} program
  say "fetching $package"
  fetch "$suite" "$dir/root" "$package"
  for program in "${@:3:$#-3}"; do mv "$dir/root/usr/bin/$program" "$dir"; done
  rm -r "$dir/root"
}
