#!/usr/bin/env bash
# Prepares a headless browser for the test of the page, and changes nothing on the host.
#
#   scripts/browser.sh            prints the path of a program that starts it: Debian 12's chromium-headless-shell
#
# The program speaks the DevTools protocol on its standard input and output: JSON documents, each ended by a zero byte. It
# has its own libraries and one font, because machines without a display have none. The script downloads about 100 MB
# once. It installs no package (`packages.sh`). A second run uses no network.
set -euo pipefail

# shellcheck source=scripts/packages.sh
. "${BASH_SOURCE[0]%/*}/packages.sh"
apt=$cache/apt-browser dir=$cache/browser

# The browser, a font, and the libraries that the browser links and that not every Debian has.
packages=(chromium-headless-shell chromium-common fonts-dejavu-core
  libasound2 libasyncns0 libatk1.0-0 libatspi2.0-0 libbrotli1 libbsd0 libdav1d6 libdbus-1-3 libdouble-conversion3 libdrm2
  libexpat1 libffi8 libflac12 libfontconfig1 libfreetype6 libgbm1 libglib2.0-0 libgraphite2-3 libharfbuzz-subset0
  libharfbuzz0b libjpeg62-turbo libmd0 libminizip1 libmp3lame0 libmpg123-0 libnspr4 libnss3 libogg0 libopenh264-7 libopus0
  libpng16-16 libpulse0 libsndfile1 libvorbis0a libvorbisenc2 libwayland-server0 libx11-6 libx11-xcb1 libxau6 libxcb1
  libxcomposite1 libxdamage1 libxdmcp6 libxext6 libxfixes3 libxi6 libxkbcommon0 libxnvctrl0 libxrandr2 libxrender1)

# browser NEW: fetches everything into NEW, which then gets the name $dir.
browser() {
  local new=$1
  say "fetching chromium-headless-shell and its libraries, about 100 MB"
  fetch bookworm "$new" "${packages[@]}"
  cat >"$new/fonts.conf" <<END
<fontconfig><dir>$dir/usr/share/fonts</dir><cachedir>$dir/fonts</cachedir></fontconfig>
END
  # The protocol is on file descriptors 3 and 4. As root the browser does not start with its sandbox.
  cat >"$new/browser" <<END
#!/bin/sh
libraries=\$(printf '%s:' '$dir'/usr/lib/*-linux-gnu '$dir'/usr/lib/*-linux-gnu/pulseaudio '$dir'/lib/*-linux-gnu)
LD_LIBRARY_PATH=\${libraries%:} FONTCONFIG_FILE='$dir/fonts.conf' exec '$dir/usr/lib/chromium/chromium-headless-shell' \\
  --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe "\$@" 3<&0 4>&1 </dev/null >/dev/null
END
  chmod +x "$new/browser"
}

once browser browser
rm -rf "$apt"
printf '%s\n' "$dir/browser"
