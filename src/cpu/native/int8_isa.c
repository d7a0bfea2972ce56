#include "core/cpu_info.h"
#include "cpu/native/int8.h"

#define TABLES(name) .plain = &rdt_int8_##name, .inject = &rdt_int8_##name##_inject

rdt_int8_tables rdt_int8_tables_of(void) {
#if defined(__x86_64__)
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      if (rdt_cpu_has_vnni()) return (rdt_int8_tables){TABLES(avx512_vnni)};
      return (rdt_int8_tables){TABLES(avx512)};
    case RDT_ISA_AVX2:
      if (rdt_cpu_has_avx_vnni()) return (rdt_int8_tables){TABLES(avx2_vnni)};
      return (rdt_int8_tables){TABLES(avx2), .small = &rdt_int8_avx2_small,
                               .small_inject = &rdt_int8_avx2_small_inject};
    default:
      break;
  }
#endif
  return (rdt_int8_tables){TABLES(generic)};
}
