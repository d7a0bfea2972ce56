#!/bin/sh
# docs/api.md is what the headers say, and whoever changes a header is told: on copies, a comment that changed and a function
# without one must be noticed. Headers are plain C11, each by itself, of the standard's types and their own: none of a GPU's.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
/usr/bin/python3 "$root/tools/api_doc.py" --check

fresh() {
  rm -rf "$temp/copy"
  mkdir "$temp/copy"
  cp -r "$root/include" "$root/docs" "$root/tools" "$temp/copy"
}
noticed() { # WORDS
  if /usr/bin/python3 "$temp/copy/tools/api_doc.py" --check 2>"$temp/said"; then
    echo "not noticed: $1"
    exit 1
  fi
  grep -q "$1" "$temp/said" || {
    cat "$temp/said"
    exit 1
  }
}
fresh
sed -i 's/A dense row-major view/A dense view/' "$temp/copy/include/redoubt/tensor.h"
noticed "tools/api_doc.py >docs/api.md"
fresh
sed -i 's/^#define RDT_MAX_RANK.*/&\n\nRDT_API int rdt_new_thing(void);/' "$temp/copy/include/redoubt/tensor.h"
noticed "rdt_new_thing has no comment"
fresh
sed -i '1,/\*\//d' "$temp/copy/include/redoubt/plan.h"
noticed "does not begin with a comment"

plain() { # FOLDER
  for header in "$1"/redoubt/*.h; do
    if grep '^#include' "$header" | grep -vqE '<(std[a-z]+|redoubt/[a-z_]+)\.h>'; then
      echo "$header includes what is neither C's nor ours"
      return 1
    fi
    echo "#include \"redoubt/$(basename "$header")\"" | cc -std=c11 -pedantic-errors -Wall -Wextra -Werror -I"$1" \
      -fsyntax-only -x c - || return 1
  done
}
plain "$root/include"
fresh
sed -i 's/^#include <std.*/&\n#include <cuda_runtime_api.h>/' "$temp/copy/include/redoubt/tensor.h"
if plain "$temp/copy/include" >"$temp/said"; then
  echo "not noticed: a header of CUDA"
  exit 1
fi
