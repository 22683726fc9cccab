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

# update SUITE: downloads the package lists of a suite, once.
update() {
  local suite=$1 home=$apt/$1 uri
  [ ! -e "$home/updated" ] || return 0
  uri=$(mirror)
  [ -n "$uri" ] || die "apt knows no Debian mirror: its sources name no Debian release"
  mkdir -p "$home/lists/partial" "$home/archives/partial"
  : >"$home/status"
  printf '%s '"$uri $suite"' main\n' deb deb-src >"$home/sources.list"
  # Without --error-on=any an update succeeds even if it reaches no server.
  private_apt "$suite" update --error-on=any >"$home/log" 2>&1 ||
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

# programs NAME SUITE PACKAGE PROGRAM…: puts programs of a package from /usr/bin into the directory NAME of the cache, once,
# and prints that directory. It removes the package lists, which the next run does not need. Sets `apt`.
programs() {
  local name=$1 suite=$2 package=$3 program
  local dir=$cache/$name new=$cache/$name.new
  shift 3
  apt=$cache/apt-$name
  for program in apt-get dpkg-deb flock; do command -v "$program" >/dev/null || die "needs Debian's $program"; done
  mkdir -p "$cache"
  exec 9>"$cache/lock-$name"
  flock 9 # if two test runs start at once, the second waits and finds the files in the cache
  if [ ! -d "$dir" ]; then
    say "fetching $package"
    rm -rf "$new"
    fetch "$suite" "$new/root" "$package"
    for program; do mv "$new/root/usr/bin/$program" "$new"; done
    rm -r "$new/root"
    mv "$new" "$dir"
  fi
  rm -rf "$apt"
  printf '%s\n' "$dir"
}
