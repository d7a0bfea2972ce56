#include "cpu/conv_sums.h"

extern const rdt_conv_sums rdt_conv_sums_generic[3], rdt_conv_sums_avx2[3], rdt_conv_sums_avx512[3];

const rdt_conv_sums *rdt_conv_sums_of(rdt_isa isa, rdt_dtype acc) {
  const rdt_conv_sums *set = isa >= RDT_ISA_AVX512 ? rdt_conv_sums_avx512
                             : isa == RDT_ISA_AVX2 ? rdt_conv_sums_avx2
                                                   : rdt_conv_sums_generic;
  for (int i = 0; i < 3; i++)
    if (set[i].elem == acc) return &set[i];
  return NULL;
}
