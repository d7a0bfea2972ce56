#!/bin/sh
# One part of make gpu-check: runs it, and tells what came of it as soon as it ends, all at once, so that who is stopped
# half-way has that, and parts side by side do not mix.
#     tests/gpu/part.sh LOGS NAME LIMIT GPUS SLOT
# LOGS/NAME.command is what to run, LIMIT its seconds; of GPUS (a list with commas, may be empty) it gets the one of its
# SLOT. Leaves LOGS/NAME.failed where it failed, LOGS/NAME.ended in any case.
set -u
log=$1/$2
if [ -n "$4" ]; then
  count=$(echo "$4" | tr , '\n' | wc -l)
  CUDA_VISIBLE_DEVICES=$(echo "$4" | cut -d , -f $(($5 % count + 1)))
  export CUDA_VISIBLE_DEVICES
fi
from=$(date +%s)
eval "timeout $3 $(cat "$log.command")" >"$log" 2>&1
status=$?
seconds=$(($(date +%s) - from))

outcome() {
  [ "$status" -eq 77 ] && grep "^skip" "$log" && return # there is no GPU
  case $2 in
    memcheck-* | racecheck-*)
      if [ "$status" -eq 0 ]; then
        echo "$2, $seconds s: nothing found"
        return
      elif grep -q "not supported\|Device not" "$log"; then
        echo "skip $2: the sanitizer refuses this device"
        return
      elif grep -q "Internal Sanitizer Error" "$log" && ! grep -q "Race reported\|Invalid __" "$log"; then
        echo "skip $2, $seconds s: $(grep -m 1 "Internal Sanitizer Error" "$log" | sed 's/^=* *//')"
        return
      fi
      grep -v "^clean\|^faults" "$log" | head -n 40
      ;;
    *) cat "$log" ;;
  esac
  case $status in
    0) echo "$2, $seconds s: passed" ;;
    124) echo "$2: FAILED, not ended after $3 s" ;;
    *) echo "$2, $seconds s: FAILED, status $status" ;;
  esac
  [ "$status" -eq 0 ] || touch "$log.failed"
}
outcome "$@" >"$log.outcome"
cat "$log.outcome"
touch "$log.ended"
