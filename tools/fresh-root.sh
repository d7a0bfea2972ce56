#!/bin/sh
# Runs scripts/demo and scripts/test in a fresh Debian 12 without build tools: debootstrap into a temporary folder, a copy of
# the committed tree, chroot. Needs root and the package debootstrap.
#     tools/fresh-root.sh [SCRIPT ...]          default: scripts/demo scripts/test
# MIRROR=... another Debian mirror; ROOT_FILES="/etc/..." files of this machine that its network needs, copied to the same
# places (certificates, configuration of apt or pip); KEEP=1 leaves the folder.
set -eu
repo=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" -eq 0 ] || {
  echo "fresh-root.sh: debootstrap and chroot need root" >&2
  exit 1
}
command -v debootstrap >/dev/null 2>&1 || {
  echo "fresh-root.sh: apt-get install debootstrap" >&2
  exit 1
}
[ $# -gt 0 ] || set -- scripts/demo scripts/test
base=$(mktemp -d)
root=$base/root
cleanup() {
  for mounted in proc dev; do
    if mountpoint -q "$root/$mounted"; then umount -l "$root/$mounted"; fi
  done
  if [ "${KEEP:-0}" = 1 ]; then
    echo "left in $base"
  elif ! grep -q "$base" /proc/mounts; then
    rm -rf --one-file-system "$base"
  fi
}
trap cleanup EXIT
debootstrap --variant=minbase bookworm "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$base/log" 2>&1 || {
  tail -n 20 "$base/log" >&2
  exit 1
}
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
for file in ${ROOT_FILES:-}; do
  mkdir -p "$root$(dirname "$file")"
  cp -r "$file" "$root$file"
done
mkdir -p "$root/redoubt"
git -C "$repo" archive HEAD | tar -x -C "$root/redoubt"
code=0
for script in "$@"; do
  echo "=== $script"
  start=$(date +%s)
  chroot "$root" /bin/sh -c "cd /redoubt && env LC_ALL=C.UTF-8 $script" || code=$?
  echo "=== $script: exit code $code, $(($(date +%s) - start)) s"
  [ "$code" -eq 0 ] || exit "$code"
done
