/* make gpu-check: every CUDA kernel against the exact result, its checks on clean data, and planted faults.
 *     gpu_check [--quick]      --quick: few small shapes, for compute-sanitizer
 * The last line says how much was checked; 1 where anything was wrong, 77 (skipped) without a GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/tolerance.h"
#include "cuda/sm80/gemm_mma.h"
#include "gpu.h"

static rdt_cuda_device device;
static bool quick;
static int64_t products, elements, faults, wrong;

static void complain(const char *kernel, const gpu_case *c, const char *what) {
  if (++wrong > 40) return;
  printf("WRONG %s %lldx%lldx%lld: %s\n", kernel, (long long)c->p.out.shape[0], (long long)c->p.out.shape[1],
         (long long)c->in[0].shape[1], what);
}

static rdt_cuda_gemm *ready(const rdt_cuda_kernel *k, gpu_case *c, double lambda, int splits, bool fixed) {
  rdt_cuda_gemm *g;
  rdt_reason why;
  c->p.in[1].data = fixed ? c->in[1].data : NULL;
  gpu_must(rdt_cuda_gemm_create(k, &device, &c->p, lambda, splits, NULL, &g, &why), k->name, &why);
  return g;
}

static rdt_cuda_verdict run(rdt_cuda_gemm *g, gpu_case *c, const char *name) {
  rdt_reason why;
  rdt_cuda_verdict v;
  gpu_must(rdt_cuda_gemm_run(g, &c->o, NULL, &why), name, &why);
  gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), name, &why);
  return v;
}

static void print_finding(const rdt_cuda_verdict *v) {
  if (!v->listed || wrong > 40) return;
  const rdt_cuda_finding *f = &v->list[0];
  printf("  %u suspect, %u certain, %u cannot; row %d column %d k %d..%d: observed %g expected %g tau2 %g tau0 %g\n",
         v->suspect, v->certain, v->cannot, f->row, f->column, f->k_first, f->k_last, (double)f->observed,
         (double)f->expected, (double)f->tau2, (double)f->tau0);
}

/* ---- results ---- */

static void check_values(const rdt_cuda_kernel *k, const gpu_case *c, int splits) {
  const rdt_dtype_row *out = rdt_dtype_info(c->p.out.dtype);
  rdt_tolerance t = {.acc = rdt_accumulator_mma(device.major, device.minor, k->dtype),
                     .k = c->in[0].shape[1] + 4, /* and alpha, bias, residual */
                     .splits = splits + k->tile->warps_k,
                     .u_out = c->p.out.dtype == RDT_F32 ? 0.0 : out->u,
                     .eta_out = c->p.out.dtype == RDT_F32 ? 0.0 : out->min_normal * out->u * 2.0};
  t.acc.flush = 0.0;
  for (int64_t i = 0; i < c->p.out.shape[0]; i++)
    for (int64_t j = 0; j < c->p.out.shape[1]; j++) {
      const int64_t at = i * c->p.out.shape[1] + j;
      const double bound = rdt_bound_element(&t, c->magnitude[at]), now = gpu_case_value(c, i, j);
      elements++;
      if (!(fabs(now - c->exact[at]) <= bound)) {
        char text[160];
        snprintf(text, sizeof text, "at %lld %lld: %.9g, not %.9g (bound %.3g)", (long long)i, (long long)j, now,
                 c->exact[at], bound);
        complain(k->name, c, text);
        return;
      }
    }
}

static void check_product(const rdt_cuda_kernel *k, gpu_case *c, int splits, bool fixed, void *first, bool *has_first) {
  const size_t bytes = c->bytes[2];
  rdt_cuda_gemm *g = ready(k, c, 6.0, splits, fixed);
  for (int turn = 0; turn < 2; turn++) {
    gpu_case_poison(c);
    const rdt_cuda_verdict v = run(g, c, k->name);
    gpu_case_fetch(c);
    products++;
    if (v.suspect | v.certain | v.cannot) complain(k->name, c, "complains without a fault"), print_finding(&v);
    if (!gpu_case_gaps_kept(c)) complain(k->name, c, "writes between rows");
    if (turn == 0 && !*has_first) check_values(k, c, rdt_cuda_gemm_splits(g));
    /* the bits are those of the tile, whatever is checked, and of every run */
    if (*has_first && memcmp(first, c->host[2], bytes) != 0)
      complain(k->name, c, turn ? "other bits in the second run" : "other bits than unprotected");
    if (!*has_first) memcpy(first, c->host[2], bytes);
    *has_first = true;
  }
  rdt_cuda_gemm_destroy(g);
}

static void check_shape(const gpu_shape *s, int splits, bool fixed, uint64_t *seed) {
  int n;
  gpu_case c;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  gpu_case_make(&c, s, seed, true);
  void *first = malloc(c.bytes[2] + 1);
  if (!first) gpu_die("malloc", "out of memory");
  bool has_first = false;
  for (int i = 0; i < n; i++) {
    if (table[i].dtype != s->in) continue;
    if (i == 0 || table[i].tile != table[i - 1].tile || table[i].dtype != table[i - 1].dtype) has_first = false;
    check_product(&table[i], &c, splits, fixed, first, &has_first);
  }
  free(first);
  gpu_case_free(&c);
}

static void check_results(void) {
  static const int lengths[] = {1, 7, 8, 9, 17, 31, 64, 127, 128, 129, 251};
  static const int depths[] = {1, 7, 8, 9, 16, 127, 128, 129, 251, 509, 1031};
  uint64_t seed = 7;
  for (int turn = 0; turn < (quick ? 4 : 48); turn++) {
    const uint64_t r = gpu_random(&seed);
    gpu_shape s = {.m = lengths[r % 11],
                   .n = lengths[(r >> 8) % 11],
                   .k = depths[(r >> 16) % 11],
                   .gap = (r >> 24) % 4 == 0   ? 3
                          : (r >> 24) % 4 == 1 ? 8
                                               : 0,
                   .offset = (r >> 26) % 3 == 0 ? 1 : 0,
                   .in = turn % 2 ? RDT_BF16 : RDT_F16,
                   .bias = (r >> 30) % 2,
                   .residual = (r >> 31) % 2,
                   .alpha = (r >> 32) % 2 ? 1.0 : 0.75,
                   .beta = (r >> 33) % 2 ? 1.0 : -0.5,
                   .data = (gpu_data)((r >> 36) % GPU_SMALL)};
    s.out = (r >> 28) % 2 ? RDT_F32 : s.in;
    if (turn == 1) s.m = 1, s.n = 1, s.k = 1;
    if (quick) s.m %= 70, s.n %= 70, s.k %= 300, s.m += !s.m, s.n += !s.n, s.k += !s.k;
    check_shape(&s, (int)((r >> 40) % 4), (r >> 44) % 4 != 0, &seed);
  }
}

/* ---- clean data, larger ---- */

static void check_clean(void) {
  static const int shapes[][3] = {{16, 4096, 4096}, {32, 1024, 4096}, {200, 1000, 3000}, {384, 768, 768}};
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  uint64_t seed = 11;
  for (int i = 0; i < (quick ? 0 : 4); i++)
    for (int kind = 0; kind < GPU_DATA_COUNT; kind++)
      for (int type = 0; type < 2; type++) {
        const gpu_shape s = {.m = shapes[i][0],
                             .n = shapes[i][1],
                             .k = shapes[i][2],
                             .in = type ? RDT_BF16 : RDT_F16,
                             .out = RDT_F32,
                             .alpha = 1.0,
                             .data = (gpu_data)kind};
        gpu_case c;
        gpu_case_make(&c, &s, &seed, false);
        for (int j = 0; j < n; j++) {
          if (table[j].dtype != s.in || table[j].check == RDT_MMA_NONE || table[j].check == RDT_MMA_REPLICATE) continue;
          printf("clean %-10s %-32s %dx%dx%d suspects at lambda", gpu_data_name[kind], table[j].name, s.m, s.n, s.k);
          static const double lambdas[] = {6.0, 1.0, 0.3, 0.1};
          for (int l = 0; l < 4; l++) {
            rdt_cuda_gemm *g = ready(&table[j], &c, lambdas[l], 0, true);
            const rdt_cuda_verdict v = run(g, &c, table[j].name);
            printf("  %.2f: %u%s", lambdas[l], v.suspect, v.certain | v.cannot ? " (!)" : "");
            if (l == 0 && (v.suspect | v.certain | v.cannot))
              complain(table[j].name, &c, gpu_data_name[kind]), print_finding(&v);
            if (l == 0 && c.p.out.dtype == RDT_F32) products++;
            rdt_cuda_gemm_destroy(g);
          }
          printf("\n");
        }
        gpu_case_free(&c);
      }
}

/* ---- faults ---- */

static bool found(const rdt_cuda_verdict *v) {
  return v->suspect + v->certain > 0;
}

static void strike(const rdt_cuda_kernel *k, rdt_cuda_gemm *g, gpu_case *c, const void *clean, uint64_t *seed,
                   int64_t count[4]) {
  rdt_reason why;
  rdt_cuda_verdict v;
  const uint64_t r = gpu_random(seed);
  rdt_cuda_strike s = {.hit = {.element = (int64_t)(r % (uint64_t)(c->p.out.shape[0] * c->p.out.shape[1])),
                               .position = (double)((r >> 32) % 1000) / 999.0,
                               .mask = 1u << (gpu_random(seed) % 32)},
                       .sm = -1};
  const int site = (int)(gpu_random(seed) % 4);
  s.checksum = site == 1 && k->check != RDT_MMA_REPLICATE && k->check != RDT_MMA_SUMS;
  s.reduced = site == 2;
  if (s.checksum) s.hit.mask = 1u << (10 + gpu_random(seed) % 5); /* exponent bits of fp16 */
  gpu_case_poison(c);
  gpu_must(rdt_cuda_gemm_strike(g, &c->o, &s, NULL, &why), k->name, &why);
  gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), k->name, &why);
  faults++;
  if (!s.hit.done) complain(k->name, c, "a fault was not planted");
  const double change = fabs(s.hit.after - s.hit.before);
  /* Bits are compared: whatever is in the result must be found. Early on, the last bits of an accumulator may get lost.
   */
  const bool exact = k->check == RDT_MMA_REPLICATE || (s.reduced && k->check != RDT_MMA_SUMS);
  gpu_case_fetch(c);
  const bool other = memcmp(c->host[2], clean, c->bytes[2]) != 0;
  const bool must = s.checksum ? false : exact ? other : !(change <= 2.0 * s.bound);
  count[0]++, count[1] += found(&v), count[2] += must, count[3] += must && found(&v);
  if (must && !found(&v)) {
    char text[200];
    snprintf(text, sizeof text, "missed: %s of %lld at %.3f, mask %08x: %g to %g, bound %g",
             s.reduced ? "reduced" : "accumulator", (long long)s.hit.element, s.hit.position, (unsigned)s.hit.mask,
             s.hit.before, s.hit.after, s.bound);
    complain(k->name, c, text);
  }
  if (found(&v) && !s.checksum && v.listed == 1 && v.list[0].row >= 0) { /* where it says that it was */
    const rdt_cuda_finding *f = &v.list[0];
    const int64_t row = s.hit.element / c->p.out.shape[1], column = s.hit.element % c->p.out.shape[1];
    const bool there = row >= f->row && row < f->row + f->rows &&
                       (f->column < 0 || (column >= f->column && column < f->column + f->columns));
    if (!there) complain(k->name, c, "located elsewhere");
  }
}

static void check_faults(void) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  uint64_t seed = 13;
  const gpu_shape s = {.m = quick ? 70 : 150,
                       .n = quick ? 70 : 300,
                       .k = quick ? 200 : 2000,
                       .in = RDT_F16,
                       .out = RDT_F32,
                       .alpha = 1.0};
  gpu_case c;
  gpu_case_make(&c, &s, &seed, false);
  void *expected = malloc(c.bytes[2]);
  if (!expected) gpu_die("malloc", "out of memory");
  for (int i = 0; i < n; i++) {
    if (!rdt_cuda_kernel_inject(&table[i])) continue;
    rdt_cuda_gemm *g = ready(&table[i], &c, 6.0, 2, true);
    rdt_reason why;
    rdt_cuda_verdict v;
    int64_t count[4] = {0};
    gpu_case_poison(&c);
    run(g, &c, table[i].name);
    gpu_case_fetch(&c);
    memcpy(expected, c.host[2], c.bytes[2]);
    for (int f = 0; f < (quick ? 4 : 2000); f++) strike(&table[i], g, &c, expected, &seed, count);
    printf("faults %-32s %lld planted, %lld found; %lld above the floor, %lld of them found\n", table[i].name,
           (long long)count[0], (long long)count[1], (long long)count[2], (long long)count[3]);
    rdt_cuda_strike sm = {.hit = {.element = 0, .position = 0.5, .mask = 1u << 30}, .sm = 5};
    gpu_must(rdt_cuda_gemm_strike(g, &c.o, &sm, NULL, &why), "SM", &why);
    gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), "SM", &why);
    if (sm.hit.done && !found(&v)) complain(table[i].name, &c, "a broken SM was not noticed");
    if (sm.hit.done && v.listed && table[i].check != RDT_MMA_SUMS && v.list[0].sm != 5)
      complain(table[i].name, &c, "another SM was named");
    const rdt_cuda_verdict clean = run(g, &c, table[i].name);
    if (found(&clean)) complain(table[i].name, &c, "a fault is still reported in the next run");
    rdt_cuda_gemm_destroy(g);
  }
  free(expected);
  gpu_case_free(&c);
}

/* Inputs without a bound are told as such, and are no faults. */
static void check_unbounded(void) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  uint64_t seed = 17;
  const gpu_shape s = {.m = 20, .n = 40, .k = 100, .in = RDT_F16, .out = RDT_F32, .alpha = 1.0};
  gpu_case c;
  gpu_case_make(&c, &s, &seed, false);
  rdt_reason why;
  const uint16_t infinite = 0x7c00;
  gpu_must(rdt_cuda_put(c.device[0], &infinite, 2, NULL, &why), "put", &why);
  gpu_must(rdt_cuda_wait(NULL, &why), "put", &why);
  for (int i = 0; i < n; i++) {
    if (table[i].dtype != RDT_F16 || table[i].check == RDT_MMA_NONE || table[i].check == RDT_MMA_REPLICATE) continue;
    rdt_cuda_gemm *g = ready(&table[i], &c, 6.0, 0, true);
    const rdt_cuda_verdict v = run(g, &c, table[i].name);
    if (!v.cannot) complain(table[i].name, &c, "an infinite input is not told");
    if (v.certain + v.suspect) complain(table[i].name, &c, "an infinite input is called a fault"), print_finding(&v);
    rdt_cuda_gemm_destroy(g);
  }
  gpu_case_free(&c);
}

int main(int argc, char **argv) {
  rdt_reason why;
  quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  if (rdt_cuda_count(&why) == 0) {
    printf("skip: %s\n", why.text);
    return 77;
  }
  gpu_must(rdt_cuda_open(0, &device, &why), "cuda:0", &why);
  printf("%s, compute capability %d.%d, %d SMs, driver %d\n", device.name, device.major, device.minor, device.sms,
         device.driver);
  check_results();
  check_unbounded();
  check_faults();
  check_clean();
  printf("gpu-check: %lld products, %lld elements, %lld faults: %lld wrong\n", (long long)products, (long long)elements,
         (long long)faults, (long long)wrong);
  return wrong ? 1 : 0;
}
