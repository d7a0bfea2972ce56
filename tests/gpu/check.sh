#!/bin/sh
# make gpu-check: every CUDA kernel against exact results, its checks with and without faults, and small shapes under
# compute-sanitizer. Ends within ten minutes.
#     tests/gpu/check.sh GPU_CHECK
set -u
"$1"
code=$?
[ $code -eq 77 ] && exit 0
command -v compute-sanitizer >/dev/null 2>&1 || {
  echo "skip memcheck, racecheck: there is no compute-sanitizer"
  exit $code
}
for tool in memcheck racecheck; do
  log=$(mktemp)
  if timeout 200 compute-sanitizer --tool $tool --error-exitcode 9 "$1" --quick >"$log" 2>&1; then
    echo "$tool: nothing found"
  elif grep -q "not supported\|Device not" "$log"; then
    echo "skip $tool: the sanitizer refuses this device"
  else
    echo "$tool: FAILED"
    grep -v "^clean\|^faults" "$log" | head -n 40
    code=1
  fi
  rm -f "$log"
done
exit $code
