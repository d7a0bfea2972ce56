#!/bin/sh
# Manual pages without a complaint by groff, nor by mandoc where it is installed.
#     tests/check_man.sh FOLDER
set -eu
pages=0
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT
complaints() { # of one page
  groff -man -ww -z "$1" 2>&1
  if command -v mandoc >/dev/null 2>&1; then
    # the pages have no date: a build must not depend on the day
    mandoc -T lint -W warning "$1" 2>&1 | grep -v "missing date" || true
  fi
}
for page in "$1"/*.1; do
  complaints "$page" >>"$bad"
  pages=$((pages + 1))
done
# what finds nothing must be shown to find something
broken=$(mktemp)
printf '.TH X 1 "" ""\n.SH NAME\nx\n.nonsense\n' >"$broken"
[ -n "$(complaints "$broken")" ] || echo "a page with a macro that does not exist has no complaint" >>"$bad"
rm -f "$broken"
cat "$bad"
echo "$pages pages"
[ "$pages" -ge 8 ] && [ ! -s "$bad" ]
