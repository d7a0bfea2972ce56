#!/bin/sh
# The shared library exports what tests/symbols.txt lists, nothing more, nothing less.
#     tests/check_symbols.sh LIBREDOUBT.SO          (to change the list: nm as below > tests/symbols.txt)
set -eu
list=$(dirname "$0")/symbols.txt
exported=$(nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort)
foreign=$(printf '%s\n' "$exported" | grep -v '^rdt_' || true)
[ -z "$foreign" ] || {
  echo "exported, but not of rdt_: $foreign"
  exit 1
}
printf '%s\n' "$exported" | diff -u "$list" -
