#!/bin/sh
# Installs a build to a prefix of its own and builds examples/protect_gemm.c against it, with pkg-config and with CMake.
#     tests/check_install.sh BUILD_FOLDER
set -eu
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
prefix=$temp/prefix
cmake --install "$build" --prefix "$prefix" >"$temp/log" || {
  cat "$temp/log"
  exit 1
}
pc=$(find "$prefix" -name redoubt.pc)
libraries=$(dirname "$(find "$prefix" -name libredoubt.so)")

echo "- with pkg-config"
export PKG_CONFIG_PATH="${pc%/*}"
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror "$root/examples/protect_gemm.c" $(pkg-config --cflags --libs redoubt) -o "$temp/by-pkg-config"
LD_LIBRARY_PATH=$libraries "$temp/by-pkg-config"

echo "- with pkg-config --static, against the archive"
# shellcheck disable=SC2046
cc -std=c11 -Wall "$root/examples/protect_gemm.c" $(pkg-config --cflags redoubt) "$libraries/libredoubt.a" \
  $(pkg-config --static --libs-only-l redoubt | sed 's/-lredoubt//') -o "$temp/static"
"$temp/static"

echo "- with CMake's find_package"
cmake -S "$root/examples" -B "$temp/build" -DCMAKE_PREFIX_PATH="$prefix" >"$temp/log" && cmake --build "$temp/build" >>"$temp/log" || {
  cat "$temp/log"
  exit 1
}
"$temp/build/protect_gemm"

echo "- the manual"
for command in run plan inject conformance bench info list; do
  [ -s "$prefix/share/man/man1/redoubt-$command.1" ]
done
[ -s "$prefix/share/man/man1/redoubt.1" ]

echo "- the installed program"
[ "$(LD_LIBRARY_PATH=$libraries "$prefix/bin/redoubt" --version)" = "redoubt $(pkg-config --modversion redoubt)" ]
