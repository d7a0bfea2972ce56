#!/bin/sh
# make gpu-networks: networks on the GPU against the CPU, with faults; a small one under compute-sanitizer. Of graphs
# that have no weights here, random ones are made where python3 has numpy and onnx.
#     tests/gpu/networks.sh GPU_NETWORKS SOURCE
set -u
models=$2/examples/digits/digits.onnx
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
if python3 -c 'import numpy, onnx' 2>/dev/null; then
  python3 "$2/tests/gpu/ops_network.py" "$made" && models="$models $made/ops.onnx $made/rows_f16.onnx $made/rows_bf16.onnx $made/mlp_f16.onnx $made/mlp_bf16.onnx $made/pointwise_f16.onnx $made/pointwise_bf16.onnx"
  for name in resnet18 mobilenet_v2 squeezenet1_1 minilm t5_small_decoder; do
    python3 "$2/tools/make_weights.py" "$2/examples/graphs/$name.onnx" -o "$made" >/dev/null && models="$models $made/$name.onnx"
  done
  [ -e "$made/minilm.onnx" ] && python3 "$2/tools/half_graph.py" "$made/minilm.onnx" -o "$made" --dtype f16 >/dev/null &&
    models="$models $made/minilm_f16.onnx"
else
  echo "skip networks without weights: python3 has no numpy and onnx"
fi
# shellcheck disable=SC2086
"$1" $models
code=$?
[ $code -eq 77 ] && exit 0
command -v compute-sanitizer >/dev/null 2>&1 || {
  echo "skip memcheck, racecheck: there is no compute-sanitizer"
  exit $code
}
for tool in memcheck racecheck; do
  if timeout 200 compute-sanitizer --tool $tool --error-exitcode 9 "$1" --quick "$2/examples/digits/digits.onnx" >"$made/log" 2>&1; then
    echo "$tool: nothing found"
  elif grep -q "not supported\|Device not" "$made/log"; then
    echo "skip $tool: the sanitizer refuses this device"
  else
    echo "$tool: FAILED"
    head -n 40 "$made/log"
    code=1
  fi
done
exit $code
