#!/bin/sh
# cmake/nvcc.cmake: registers that spill in a kernel that ships, wgmma that is serialised, and warnings, fail the build and name the kernel; of
# injecting kernels spills are allowed. Shown by a compiler that says what it is told to.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cat >"$temp/nvcc" <<'NVCC'
#!/bin/sh
echo "ptxas info    : Compiling entry function 'first' for 'sm_90a'" >&2
echo "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" >&2
echo "ptxas info    : Compiling entry function 'second' for 'sm_90a'" >&2
echo "    8 bytes stack frame, $1 bytes spill stores, $1 bytes spill loads" >&2
[ "$2" != warns ] || echo "second.cu(3): warning #177-D: variable was declared but never referenced" >&2
[ "$2" != serial ] || echo "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized" >&2
exit "$3"
NVCC
chmod +x "$temp/nvcc"
build() { # SPILLS-ALLOWED SPILLED WARNS STATUS
  cmake -DNVCC="$temp/nvcc" -DSPILLS="$1" "-DARGS=$2;$3;$4" -P "$root/cmake/nvcc.cmake" >"$temp/said" 2>&1
}
fails() { # WORDS ARGUMENTS...
  words=$1
  shift
  if build "$@" || ! grep -q "$words" "$temp/said"; then
    echo "build $*: passed, or does not say '$words'"
    cat "$temp/said"
    exit 1
  fi
}
build OFF 0 silent 0
build ON 16 silent 0
fails "second for sm_90a" OFF 16 silent 0
fails "16 bytes spill" OFF 16 silent 0
fails "never referenced" OFF 0 warns 0
fails "instructions are serialized" OFF 0 serial 0
fails "nvcc: 2" ON 0 silent 2
