#include "core/cpu_info.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)
#define HAS(feature) __builtin_cpu_supports(feature)
#else
#define HAS(feature) 0
#endif

#if defined(RDT_EMULATED_AVX512) /* a build for tests */
enum { AVX2_IS = RDT_ISA_AVX512 };
#else
enum { AVX2_IS = RDT_ISA_AVX2 };
#endif

rdt_isa rdt_isa_hardware(void) {
  if (HAS("avx512f") && HAS("avx512bw") && HAS("avx512dq") && HAS("avx512vl")) return RDT_ISA_AVX512;
  if (!HAS("avx2") || !HAS("fma")) return RDT_ISA_GENERIC;
  return (rdt_isa)AVX2_IS;
}

/* RDT_ISA_COUNT: nobody knows that name. */
static rdt_isa named(const char *name) {
  rdt_isa isa = RDT_ISA_GENERIC;
  while (isa < RDT_ISA_COUNT && strcmp(name, rdt_isa_name(isa)) != 0) isa++;
  return isa;
}

static _Thread_local rdt_isa confined = RDT_ISA_COUNT;

rdt_isa rdt_isa_confine(rdt_isa most) {
  const rdt_isa before = confined;
  confined = most;
  return before;
}

rdt_isa rdt_isa_detect(void) {
  const rdt_isa hardware = rdt_isa_hardware(), best = confined < hardware ? confined : hardware;
  const char *wanted = getenv("REDOUBT_ISA");
  const rdt_isa isa = wanted ? named(wanted) : best;
  return isa < best ? isa : best;
}

rdt_status rdt_isa_wanted(rdt_reason *why) {
  const char *wanted = getenv("REDOUBT_ISA");
  if (!wanted) return RDT_OK;
  const rdt_isa isa = named(wanted), best = rdt_isa_hardware();
  if (isa == RDT_ISA_COUNT)
    return rdt_fail(why, RDT_ERR_NAME, "REDOUBT_ISA takes one of generic|avx2|avx512, not '%s'", wanted);
  if (isa > best)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "REDOUBT_ISA=%s: this CPU has no more than %s; unset it", wanted,
                    rdt_isa_name(best));
  return RDT_OK;
}

const char *rdt_isa_name(rdt_isa isa) {
  static const char *const names[] = {"generic", "avx2", "avx512"};
  return (unsigned)isa < RDT_ISA_COUNT ? names[isa] : "unknown";
}

int rdt_cpu_has_bf16(void) {
#if defined(RDT_EMULATED_AVX512)
  return 1;
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  return HAS("avx512bf16") != 0;
#else
  return 0;
#endif
}

int rdt_cpu_has_fast_bf16(void) {
#if defined(RDT_EMULATED_AVX512)
  return 1;
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  return rdt_cpu_has_bf16() && __builtin_cpu_is("intel") == 0;
#else
  return 0;
#endif
}

int rdt_cpu_has_vnni(void) {
  return HAS("avx512vnni") != 0;
}

int rdt_cpu_has_avx_vnni(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return HAS("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
#else
  return 0;
#endif
}

/* The first line of that name; otherwise by itself. */
static const char *field(const char *name, const char *otherwise, char *buf, int size) {
  char line[256];
  FILE *f = fopen("/proc/cpuinfo", "r");
  snprintf(buf, (size_t)size, "%s", otherwise);
  while (f && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (!colon || strncmp(line, name, strlen(name)) != 0) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(buf, (size_t)size, "%s", colon + (colon[1] == ' ' ? 2 : 1));
    break;
  }
  if (f) fclose(f);
  return buf;
}

const char *rdt_cpu_name(char *buf, int size) {
  return field("model name", "unknown CPU", buf, size);
}

const char *rdt_cpu_microcode(char *buf, int size) {
  return field("microcode", "", buf, size);
}

/* The system's files say it of this core; sysconf adds up what a package has, where it knows at all. */
static double read_cache(void) {
  double most = 0.0;
  for (int index = 0; index < 8; index++) {
    char path[80];
    long size = 0;
    char unit = ' ';
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    FILE *f = fopen(path, "r");
    if (!f) break;
    const int n = fscanf(f, "%ld%c", &size, &unit);
    fclose(f);
    const double bytes = (double)size * (n == 2 && unit == 'K' ? 1024.0 : n == 2 && unit == 'M' ? 1048576.0 : 1.0);
    if (n >= 1 && bytes > most) most = bytes;
  }
  const long package = most > 0.0 ? 0 : sysconf(_SC_LEVEL3_CACHE_SIZE);
  return most > 0.0 ? most : package > 0 ? (double)package : 32.0 * 1048576.0;
}

double rdt_cpu_cache(void) {
  static _Atomic(double) bytes; /* any thread finds the same */
  double known = atomic_load_explicit(&bytes, memory_order_relaxed);
  if (!(known > 0.0)) {
    known = read_cache();
    atomic_store_explicit(&bytes, known, memory_order_relaxed);
  }
  return known;
}

int rdt_cpu_current(void) {
  return sched_getcpu();
}

int rdt_cpu_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}
