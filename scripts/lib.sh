# Shared by the scripts: sourced, not run. Packages are named here and nowhere else.
BUILD_PACKAGES="cmake make gcc libc6-dev pkg-config libdnnl-dev libonnx-dev libprotobuf-c-dev protobuf-c-compiler libcjson-dev"
TEST_PACKAGES="libcmocka-dev libzstd-dev clang libclang-rt-14-dev clang-format binutils python3 python3-venv python3-pip python3-jsonschema libonnx-testdata groff-base"
VALGRIND_PACKAGES="valgrind" # for scripts/test --full
BROWSER_PACKAGES="chromium" # large: without it, only the test of pages is skipped
# 64-bit Arm: compiler and emulator, and the libraries of that machine (unpacked beside the system, never installed)
ARM_PACKAGES="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
ARM_LIBRARIES="libdnnl-dev libprotobuf-c-dev libcjson-dev libcmocka-dev"

root=$(cd "$(dirname "$0")/.." && pwd)
jobs=$(nproc)

say() { printf '%s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Installs those Debian packages of the arguments that are missing.
need_packages() {
  missing=
  for package in "$@"; do
    case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
      *" installed") ;;
      *) missing="$missing $package" ;;
    esac
  done
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null 2>&1 || die "these Debian packages are needed:$missing"
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || die "missing packages; as root: apt-get install$missing"
    as_root=sudo
  fi
  say "installing:$missing"
  log=$(mktemp)
  # shellcheck disable=SC2086
  if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "could not install:$missing"
  fi
  rm -f "$log"
}

# build_in FOLDER [cmake options]: configures and builds; TARGET limits what is built.
build_in() {
  folder=$1
  shift
  cmake -S "$root" -B "$folder" -G "Unix Makefiles" "$@" && cmake --build "$folder" -j "$jobs" ${TARGET:+--target $TARGET}
}

# unpack_arm FOLDER: ARM_LIBRARIES and what they need. apt works there on lists of its own, without root: the system's
# packages and architectures stay as they are.
unpack_arm() {
  [ -e "$1/complete" ] && return 0
  apt=$1/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" && : >"$apt/status" || return 1
  options="-qq -oAPT::Architecture=arm64 -oAPT::Architectures=arm64 -oDir::State::Lists=$apt/lists -oDir::Cache=$apt/cache \
    -oDir::State::status=$apt/status -oDir::Log=$apt -oDebug::NoLocking=1 -oAPT::Sandbox::User="
  # shellcheck disable=SC2086
  apt-get $options update &&
    apt-get $options install -y --download-only --no-install-recommends $ARM_LIBRARIES || return 1
  for package in "$apt"/cache/archives/*.deb; do
    dpkg -x "$package" "$1" || return 1
  done
  rm -rf "$apt" && : >"$1/complete"
}
