#!/usr/bin/env bash
# Boots a systemd of its own, to test the units and the packages on it. Needs root, and changes nothing on the host.
#
#   scripts/systemd.sh DIR [PATH…]
#
# Its root is a copy-on-write view of this one, without the machine's own units. It shares the PATHs with the caller: a
# runtime's socket, log roots. DIR/systemd.pid has its process, whose namespaces can be entered (`nsenter --target PID
# --mount --uts --ipc --pid --cgroup --root --wd=/`). DIR/systemd.log has the cause if it does not start.
#
# End of standard input ends it: the kernel kills all its processes and drops its mounts.
set -euo pipefail

die() { printf 'systemd.sh: %s\n' "$*" >&2; exit 1; }

if [ "${1:-}" != inside ]; then
  dir=$1
  shift
  [ -x /lib/systemd/systemd ] || die "missing: systemd (scripts/setup.sh installs it)"
  top=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET) || die "no cgroup2 hierarchy is mounted"
  cgroup=$(mktemp -d "$top/kubegc-systemd-XXXXXX") # the pid would be that of the cell, which another cell has too
  # A cgroup namespace has this cgroup as its root, so systemd manages what is below it and nothing else. The subshell
  # enters it, and this process does not: it removes the cgroup in the end.
  (
    echo "$BASHPID" >"$cgroup/cgroup.procs"
    exec unshare --mount --uts --ipc --pid --cgroup --fork --kill-child --propagation slave "$0" inside "$dir" "$@" \
      </dev/null >"$dir/systemd.log" 2>&1
  ) &
  cat >/dev/null
  kill -KILL $! 2>/dev/null || true
  wait $! 2>/dev/null || true
  for _ in {1..100}; do
    find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null && break
    sleep 0.1 # until the kernel has ended the last process in it
  done
  exit 0
fi

dir=$2/systemd
exec 3>"$2/systemd.pid"
shift 2
read -r pid _ </proc/self/stat # of the /proc of the caller, so that the caller can use it
mkdir "$dir"
mount -t tmpfs tmpfs "$dir"
mkdir "$dir"/{upper,work,root}
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" overlay "$dir/root"
cd "$dir/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --rbind /dev dev
for scratch in run tmp var/tmp var/log; do mount -t tmpfs tmpfs "$scratch"; done
for shared in "$@"; do
  mkdir -p ".$shared"
  mount --rbind "$shared" ".$shared"
done

# The units of the machine and of its packages do not start, and those of systemd that are for hardware do not either. The
# policy of a container image, that packages start no service, does not hold here.
rm -rf etc/systemd/system etc/fstab usr/sbin/policy-rc.d
mkdir -p etc/systemd/system
: >etc/fstab
masked=(getty.target dbus.{service,socket}
  systemd-{logind,udevd,udev-trigger,timesyncd,sysctl,binfmt,modules-load,remount-fs}.service
  dev-{hugepages,mqueue}.mount sys-fs-fuse-connections.mount sys-kernel-{debug,tracing,config}.mount
  proc-sys-fs-binfmt_misc.automount)
for unit in "${masked[@]}"; do ln -s /dev/null "etc/systemd/system/$unit"; done
# The journal has the messages of the services, and not those of this machine's kernel.
mkdir -p etc/systemd/journald.conf.d
printf '[Journal]\nReadKMsg=no\n' >etc/systemd/journald.conf.d/kubegc.conf
ln -s /lib/systemd/system/multi-user.target etc/systemd/system/default.target
# The pid is written in the new root: a process that enters earlier would reach the service manager of the machine.
exec env -i container=other PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin \
  chroot . /bin/sh -c 'echo "$1" >&3; exec 3>&- /lib/systemd/systemd --system --log-target=journal --show-status=no' sh "$pid"
