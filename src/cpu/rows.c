#include "cpu/rows.h"

#include "core/cpu_info.h"

const rdt_rows_table *rdt_rows(void) {
#if defined(__x86_64__)
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      return &rdt_rows_avx512;
    case RDT_ISA_AVX2:
      return &rdt_rows_avx2;
    default:
      break;
  }
#endif
  return &rdt_rows_generic;
}
