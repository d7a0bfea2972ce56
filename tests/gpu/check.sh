#!/bin/sh
# make gpu-check: every CUDA kernel and linear op against exact results, checks with and without faults, what the
# checks add to the instructions, and small shapes under compute-sanitizer. Ends within ten minutes.
#     tests/gpu/check.sh GPU_CHECK GPU_FAULTS GPU_LINEAR
set -u
code=0
for program in "$@"; do
  "$program"
  result=$?
  [ $result -eq 77 ] && exit 0
  [ $result -eq 0 ] || code=$result
done
if command -v cuobjdump >/dev/null 2>&1; then
  "$(dirname "$0")/../count_mma.py" --sass "$1" || code=1
else
  echo "skip counting instructions: there is no cuobjdump"
fi
command -v compute-sanitizer >/dev/null 2>&1 || {
  echo "skip memcheck, racecheck: there is no compute-sanitizer"
  exit $code
}
for program in "$@"; do
  for tool in memcheck racecheck; do
    log=$(mktemp)
    if timeout 120 compute-sanitizer --tool $tool --error-exitcode 9 "$program" --quick >"$log" 2>&1; then
      echo "$(basename "$program") $tool: nothing found"
    elif grep -q "not supported\|Device not" "$log"; then
      echo "skip $tool: the sanitizer refuses this device"
    else
      echo "$(basename "$program") $tool: FAILED"
      grep -v "^clean\|^faults" "$log" | head -n 40
      code=1
    fi
    rm -f "$log"
  done
done
exit $code
