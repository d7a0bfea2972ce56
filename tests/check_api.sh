#!/bin/sh
# docs/api.md is what the headers say, and whoever changes a header is told: on copies, a comment that changed and a function
# without one must be noticed.
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
