#include "plan/probe.h"

#include <omp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/cpu_info.h"
#include "plan/timing.h"

enum { CHAINS = 12 }; /* independent sums: more than latency times ports needs, as many as registers hold */

/* A function that runs n rounds of CHAINS steps STEP(a), nothing of which the compiler can know beforehand. Each sum is
 * a variable of its own: an array may end up in memory. */
#define ALL(X) X(a) X(b) X(c) X(d) X(e) X(f) X(g) X(h) X(i) X(j) X(k) X(l)
#define PEAK(name, target, type, zero)                                            \
  target static void name(int64_t n) {                                            \
    type a = zero, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a; \
    type k = a, l = a, x = a, y = a;                                              \
    __asm__ volatile("" : HELD(x), HELD(y));                                      \
    for (; n > 0; n--) {                                                          \
      ALL(ROUND)                                                                  \
    }                                                                             \
  }
#define ROUND(a) \
  a = STEP(a);   \
  __asm__ volatile("" : HELD(a));

#if defined(__x86_64__)
#define HELD(x) "+x"(x)
#define TARGET(features) __attribute__((target(features)))
#define STEP(a) _mm256_fmadd_ps(x, y, a)
PEAK(peak_f32_avx2, TARGET("avx2,fma"), __m256, _mm256_setzero_ps())
#undef STEP
#define STEP(a) _mm256_fmadd_pd(x, y, a)
PEAK(peak_f64_avx2, TARGET("avx2,fma"), __m256d, _mm256_setzero_pd())
#undef STEP
#define STEP(a) _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(a, y), x))
PEAK(peak_int8_avx2, TARGET("avx2"), __m256i, _mm256_setzero_si256())
#undef STEP
#undef HELD
#define HELD(x) "+v"(x)
#define STEP(a) _mm512_fmadd_ps(x, y, a)
PEAK(peak_f32_avx512, TARGET("avx512f"), __m512, _mm512_setzero_ps())
#undef STEP
#define STEP(a) _mm512_fmadd_pd(x, y, a)
PEAK(peak_f64_avx512, TARGET("avx512f"), __m512d, _mm512_setzero_pd())
#undef STEP
#define STEP(a) _mm512_dpbusd_epi32(a, x, y)
PEAK(peak_int8_vnni, TARGET("avx512f,avx512vnni"), __m512i, _mm512_setzero_si512())
#undef STEP
#define STEP(a) _mm512_dpbf16_ps(a, (__m512bh)x, (__m512bh)y)
PEAK(peak_bf16_dot, TARGET("avx512f,avx512bf16"), __m512, _mm512_setzero_ps())
#undef STEP
#undef HELD
#define HELD(x) "+x"(x)
#elif defined(__aarch64__)
#define HELD(x) "+w"(x)
#else
#define HELD(x) "+m"(x)
#endif

/* This file is compiled so that a product and a sum are fused where the target has that. */
typedef float f32x4 __attribute__((vector_size(16)));
typedef double f64x2 __attribute__((vector_size(16)));
typedef int32_t s32x4 __attribute__((vector_size(16)));
#define STEP(a) ((a) * (x) + (y))
PEAK(peak_f32, , f32x4, (f32x4){0})
PEAK(peak_f64, , f64x2, (f64x2){0})
PEAK(peak_int8, , s32x4, (s32x4){0})

typedef struct probe {
  const char *name;
  rdt_dtype dtype;
  int there;
  void (*run)(int64_t n);
  double operations; /* of one step */
} probe;

/* The fastest that there is for the sums of this datatype. */
static probe choose(rdt_dtype t) {
#if defined(__x86_64__)
  const rdt_isa isa = rdt_isa_hardware();
  const int wide = isa >= RDT_ISA_AVX512, avx2 = isa >= RDT_ISA_AVX2;
#endif
  const probe list[] = {
#if defined(__x86_64__)
    {"avx512 bf16 dot product", RDT_BF16, wide && rdt_cpu_has_bf16(), peak_bf16_dot, 64},
    {"avx512 u8 x s8 dot product", RDT_S8, wide && rdt_cpu_has_vnni(), peak_int8_vnni, 128},
    {"avx512 f64 FMA", RDT_F64, wide, peak_f64_avx512, 16},
    {"avx512 f32 FMA", RDT_F32, wide, peak_f32_avx512, 32},
    {"avx2 u8 x s8 by maddubs", RDT_S8, avx2, peak_int8_avx2, 64},
    {"avx2 f64 FMA", RDT_F64, avx2, peak_f64_avx2, 8},
    {"avx2 f32 FMA", RDT_F32, avx2, peak_f32_avx2, 16},
#endif
    {"s32 multiply-add, 16 bytes", RDT_S8, 1, peak_int8, 8},
    {"f64 multiply-add, 16 bytes", RDT_F64, 1, peak_f64, 4},
    {"f32 multiply-add, 16 bytes", RDT_F32, 1, peak_f32, 8}
  };
  const int n = sizeof list / sizeof *list;
  if (t == RDT_U8) t = RDT_S8;
  for (int i = 0; i < n; i++)
    if (list[i].dtype == t && list[i].there) return list[i];
  return t == RDT_F32 ? list[n - 1] : choose(RDT_F32);
}

const char *rdt_probe_name(rdt_dtype t) {
  return choose(t).name;
}

double rdt_probe_peak(rdt_dtype t, int threads) {
  enum { ROUNDS = 1 << 16 /* some half a millisecond */ };
  const probe p = choose(t);
  const double begin = rdt_timing_now();
#pragma omp parallel num_threads(threads)
  p.run(ROUNDS);
  return p.operations * CHAINS * ROUNDS * threads / (rdt_timing_now() - begin);
}

double rdt_probe_meeting(int threads) {
  enum { TURNS = 64 };
  const double begin = rdt_timing_now();
  for (int i = 0; i < TURNS; i++) {
#pragma omp parallel num_threads(threads)
    __asm__ volatile("");
  }
  return (rdt_timing_now() - begin) / TURNS;
}

double rdt_probe_step(void) {
  enum { STEPS = 1 << 16 };
  uint64_t sum = 0;
  const double begin = rdt_timing_now();
  for (int i = 0; i < STEPS; i++) {
    sum++;
    __asm__ volatile("" : "+r"(sum));
  }
  return (rdt_timing_now() - begin) / STEPS;
}

/* ---- memory ---- */

/* What reads memory fastest, where that was tried: huge pages, and two streams, each a little ahead of itself. */
enum { LINE = 64, STREAM = 1 << 20, AHEAD = 512, HUGE = 2 << 20 };
typedef uint64_t words __attribute__((vector_size(LINE), aligned(LINE)));

/* Thread i of n has its own stretch of pairs of streams. */
static char *stretch(const rdt_probe_room *r, int i, int n, size_t *bytes) {
  const size_t pairs = r->bytes / (2 * STREAM), from = pairs * (size_t)i / (size_t)n;
  *bytes = (pairs * (size_t)(i + 1) / (size_t)n - from) * 2 * STREAM;
  return r->memory + from * 2 * STREAM;
}

bool rdt_probe_open(rdt_probe_room *r, int threads) {
  enum { BYTES = 256 << 20 };
  *r = (rdt_probe_room){.map = mmap(NULL, BYTES + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                        .mapped = BYTES + HUGE,
                        .bytes = BYTES};
  if (r->map == MAP_FAILED) return false; /* memory: NULL */
  r->memory = (char *)r->map + (HUGE - (uintptr_t)r->map % HUGE) % HUGE;
  madvise(r->memory, r->bytes, MADV_HUGEPAGE); /* refused, it is only slower */
#pragma omp parallel num_threads(threads)
  {
    size_t bytes;
    char *mine = stretch(r, omp_get_thread_num(), omp_get_num_threads(), &bytes);
    memset(mine, 1, bytes);
  }
  return true;
}

void rdt_probe_close(rdt_probe_room *r) {
  if (r->memory) munmap(r->map, r->mapped);
  r->memory = NULL;
}

static uint64_t sum_of(const char *from, size_t bytes) {
  words a = {0}, b = {0};
  for (const char *p = from; p < from + bytes; p += 2 * STREAM)
    for (size_t i = 0; i < STREAM; i += LINE) {
      __builtin_prefetch(p + i + AHEAD);
      __builtin_prefetch(p + i + STREAM + AHEAD);
      a += *(const words *)(p + i);
      b += *(const words *)(p + i + STREAM);
    }
  a += b;
  return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

double rdt_probe_bandwidth(const rdt_probe_room *r, int threads) {
  uint64_t sum = 0;
  const double begin = rdt_timing_now();
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    size_t bytes;
    const char *mine = stretch(r, omp_get_thread_num(), omp_get_num_threads(), &bytes);
    sum += sum_of(mine, bytes);
  }
  __asm__ volatile("" : : "r"(sum));
  return (double)r->bytes / (rdt_timing_now() - begin);
}
