#include "probe.h"

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/cpu_info.h"
#include "core/memory.h"
#include "timing.h"

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
  const rdt_isa isa = rdt_isa_detect();
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

/* ---- memory ---- */

typedef uint64_t words __attribute__((vector_size(64), aligned(64)));

/* Thread i of n has its own stretch. */
static words *stretch(const rdt_probe_room *r, int i, int n, size_t *count) {
  const size_t all = r->bytes / sizeof(words), from = all * (size_t)i / (size_t)n;
  *count = all * (size_t)(i + 1) / (size_t)n - from;
  return (words *)r->memory + from;
}

bool rdt_probe_open(rdt_probe_room *r, int threads) {
  enum { BYTES = 256 << 20 };
  *r = (rdt_probe_room){.memory = rdt_alloc(1, BYTES), .bytes = BYTES};
  if (!r->memory) return false;
#pragma omp parallel num_threads(threads)
  {
    size_t count;
    words *w = stretch(r, omp_get_thread_num(), omp_get_num_threads(), &count);
    memset(w, 1, count * sizeof *w);
  }
  return true;
}

void rdt_probe_close(rdt_probe_room *r) {
  rdt_free(r->memory);
  r->memory = NULL;
}

static uint64_t sum_of(const words *w, size_t count) {
  words a = {0}, b = {0};
  size_t i = 0;
  for (; i + 2 <= count; i += 2) {
    a += w[i];
    b += w[i + 1];
  }
  if (i < count) a += w[i];
  a += b;
  return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

double rdt_probe_bandwidth(const rdt_probe_room *r, int threads) {
  uint64_t sum = 0;
  if (!r->memory) return NAN;
  const double begin = rdt_timing_now();
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    size_t count;
    const words *w = stretch(r, omp_get_thread_num(), omp_get_num_threads(), &count);
    sum += sum_of(w, count);
  }
  __asm__ volatile("" : : "r"(sum));
  return (double)r->bytes / (rdt_timing_now() - begin);
}
