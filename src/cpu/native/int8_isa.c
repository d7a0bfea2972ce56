#include "core/cpu_info.h"
#include "cpu/native/int8.h"

rdt_int8_tables rdt_int8_tables_of(void) {
#if defined(__x86_64__)
  const bool vnni = rdt_cpu_has_vnni();
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      if (vnni) return (rdt_int8_tables){&rdt_int8_avx512_vnni, &rdt_int8_avx512_vnni_inject};
      return (rdt_int8_tables){&rdt_int8_avx512, &rdt_int8_avx512_inject};
    case RDT_ISA_AVX2:
      if (rdt_cpu_has_avx_vnni()) return (rdt_int8_tables){&rdt_int8_avx2_vnni, &rdt_int8_avx2_vnni_inject};
      return (rdt_int8_tables){&rdt_int8_avx2, &rdt_int8_avx2_inject};
    default:
      break;
  }
#endif
  return (rdt_int8_tables){&rdt_int8_generic, &rdt_int8_generic_inject};
}
