/* What the CPU has; the environment's REDOUBT_ISA lowers it. */
#ifndef RDT_CORE_CPU_INFO_H
#define RDT_CORE_CPU_INFO_H

#include "core/error.h"

typedef enum rdt_isa { RDT_ISA_GENERIC = 0, RDT_ISA_AVX2 = 1, RDT_ISA_AVX512 = 2, RDT_ISA_COUNT = 3 } rdt_isa;

rdt_isa rdt_isa_hardware(void);
rdt_isa rdt_isa_detect(void); /* the best that CPU and REDOUBT_ISA allow; a word that is no ISA allows all */
/* From now on rdt_isa_detect says no more than that to the calling thread; what it was confined to before. */
rdt_isa rdt_isa_confine(rdt_isa most);
/* RDT_ERR_NAME: REDOUBT_ISA is no ISA; RDT_ERR_UNSUPPORTED: the CPU does not have it. */
rdt_status rdt_isa_wanted(rdt_reason *why);
const char *rdt_isa_name(rdt_isa isa);
int rdt_cpu_has_bf16(void);                         /* avx512_bf16 */
int rdt_cpu_has_fast_bf16(void);                    /* twice the terms of f32 a cycle; Intel's take half as many */
int rdt_cpu_has_vnni(void);                         /* avx512_vnni */
int rdt_cpu_has_avx_vnni(void);                     /* avx_vnni: the same for 256 bits */
const char *rdt_cpu_name(char *buf, int size);      /* model name for people */
const char *rdt_cpu_microcode(char *buf, int size); /* its revision, "0x..."; "" where the system does not say */
double rdt_cpu_cache(void);                         /* bytes of the last-level cache that one core sees */
int rdt_cpu_current(void);                          /* the core that runs this; -1 not known */
int rdt_cpu_count(void);                            /* CPUs this process may use */

#endif
