#!/bin/sh
# CUDA kernels that ship know nothing of injection: neither their names nor their parameters speak of it. The injecting
# ones, of the same source, do.
#     tests/check_cuda_symbols.sh FOLDER    (the objects: build/cuda)
set -eu
for object in "$1"/*.o; do
  words=$(strings -a "$object" | grep -ciE 'inject|rdt_(mma_|voted?_)?hit' || true)
  kernels=$(strings -a "$object" | grep -cE '_Z(8gemm_mma|10gemm_wgmma|15gemm_wgmma_deep|9gemm_tall|5fused)I|_Z5votedI[78]rdt_|rdt_vote13rdt_vote_args$' || true)
  case $object in
    *_inject.o) [ "$words" -gt 0 ] && [ "$kernels" -eq 0 ] ;;
    *gemm_mma* | *gemm_wgmma* | *gemm_tall* | *fused_wgmma* | *voted_wgmma* | */vote.o) [ "$words" -eq 0 ] && [ "$kernels" -gt 0 ] ;;
    *) [ "$words" -eq 0 ] ;;
  esac || {
    echo "$object: $words names speak of injection, $kernels are of kernels that ship"
    exit 1
  }
done
