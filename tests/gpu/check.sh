#!/bin/sh
# make gpu-check: every CUDA kernel and linear op against exact results, checks with and without faults, what the
# checks add to the instructions, and small shapes under compute-sanitizer. Some of it side by side: on three H100 it took 200 s.
# Each part tells what came of it when it ends.
#     tests/gpu/check.sh GPU_CHECK GPU_FAULTS GPU_LINEAR GPU_TMR GPU_VOTED GPU_OPS GPU_MLP TEST_OUTOFCORE REDOUBT
# RDT_GPU_SECONDS: how long a part may take (default 540). RDT_GPU_FAULTS: arguments of gpu_faults (default its own).
# RDT_GPU_AT_ONCE: so many parts at once (default half of the cores): a GPU gives each process its turn, and all wait for
# theirs on a core. Where there are several GPUs (of CUDA_VISIBLE_DEVICES, or all), parts are spread over them.
# OMP_NUM_THREADS: of each part (default its share of the cores; with all of them parts take three times as long).
set -u
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
limit=${RDT_GPU_SECONDS:-540}
at_once=${RDT_GPU_AT_ONCE:-$((($(nproc) + 1) / 2))}
threads=$(($(nproc) / at_once))
gpus=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi -L 2>/dev/null | sed -n 's/^GPU \([0-9]*\):.*/\1/p' | paste -sd ,)}
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((threads > 1 ? threads : 1))}"
parts=
start() { # NAME COMMAND...: when it is its turn
  part=$1
  shift
  for word in "$@"; do printf "'%s' " "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")"; done >"$logs/$part.command"
  parts="$parts $part"
}

for program in "$@"; do
  name=$(basename "$program")
  if [ "$name" = gpu_faults ]; then
    # shellcheck disable=SC2086
    start "$name" "$program" ${RDT_GPU_FAULTS:-}
  elif [ "$name" = test_outofcore ]; then
    start "$name" "$program" cuda:0
  elif [ "$name" = redoubt ]; then
    start plan "$(dirname "$0")/plan.py" "$program"
  else
    start "$name" "$program"
  fi
done
if command -v cuobjdump >/dev/null 2>&1; then
  start instructions "$(dirname "$0")/../count_mma.py" --sass "$1"
else
  echo "skip counting instructions: there is no cuobjdump"
fi
if command -v compute-sanitizer >/dev/null 2>&1; then
  for program in "$@"; do
    name=$(basename "$program")
    [ "$name" = test_outofcore ] || [ "$name" = redoubt ] && continue
    # Algorithms of cuBLASLt that cannot run on a group of multiprocessors are tried, and refused: no error of memory.
    [ "$name" = gpu_tmr ] && errors=no || errors=explicit
    start "memcheck-$name" env RDT_WALK_ALL=1 compute-sanitizer --tool memcheck --report-api-errors "$errors" --error-exitcode 9 "$program" --quick
    # Of our kernels alone, whose arguments are all called rdt_...: those of libraries take minutes. The sanitizer (2025.3)
    # fails inside itself at some of cuBLASLt's, so every type has a run of its own.
    case $name in
      gpu_linear) types="f32 f16 bf16 f64 s8 f8e4m3" ;;
      gpu_tmr) types=own ;;
      # Of clusters it takes words that are written and read whole, each with the number that it has, for races.
      # Without faults: of exchanges behind barriers of three warps it has taken now none, now three of 64 for races.
      gpu_voted) types="block grid split" ;;
      # Barriers at which one lane arrives for its warp, and that count bytes, racecheck does not follow.
      gpu_mlp) continue ;;
      # The same in products on wgmma that go through a ring of pieces: lane 0 arrives for its warp, and the __syncwarp
      # before it vanishes where the compiler knows the warp to be converged (machine code has stores, fence, arrival in
      # that order; an arrival of every lane makes it serialise wgmma). These races are looked for in PTX, where the
      # __syncwarp stands: RDT_EMULATED_RACES=1 (docs/emulated-gpu.md). All other kernels, by what their names have.
      gpu_check) types="_mma_ _fma_ wgmma_tall" ;;
      gpu_faults) types="fused_wgmma_128 fused_wgmma_64 _mma_ _fma_ wgmma_tall" ;; # the longest first
      *) types="" ;;
    esac
    for type in ${types:-all}; do
      what=racecheck-$name
      [ "$type" = all ] || what=$what-$type
      [ "$type" = all ] && type=
      # shellcheck disable=SC2086
      start "$what" env RDT_WALK_ALL=1 compute-sanitizer --tool racecheck --kernel-name kns=rdt_ --error-exitcode 9 "$program" --quick $type
    done
  done
else
  echo "skip memcheck, racecheck: there is no compute-sanitizer"
fi
# shellcheck disable=SC2016,SC2086
printf '%s\n' $parts | RDT_PART="$(dirname "$0")/part.sh" xargs -P "$at_once" --process-slot-var=RDT_SLOT -I '{}' \
  sh -c '"$RDT_PART" "$1" "$2" "$3" "$4" "$RDT_SLOT"' part "$logs" '{}' "$limit" "$gpus"

for part in $parts; do
  [ -e "$logs/$part.ended" ] || echo "$part: FAILED, it was not run"
  [ -e "$logs/$part.ended" ] && [ ! -e "$logs/$part.failed" ] || exit 1
done
