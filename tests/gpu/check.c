/* make gpu-check: every CUDA kernel against the exact result, and its checks on clean data. Faults: faults.c.
 *     gpu_check [--quick] [NAME]      --quick: few small shapes, for compute-sanitizer; NAME: kernels whose names have
 * it The last line says how much was checked; 1 where anything was wrong, 77 (skipped) without a GPU. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "check/tolerance.h"
#include "cuda/probe.h"
#include "cuda/sm80/gemm_mma.h"
#include "cuda/wide.h"
#include "gpu.h"
#include "stored.h"

static rdt_cuda_device device, few[2]; /* so few multiprocessors that each has many rows, or some a tile less */
static bool quick;
static const char *only; /* of names; NULL: all */
static int64_t products, elements, wrong, covered,
    shared; /* covered: whose stores are seen; shared: products in which two blocks share tiles on wgmma */

static bool wanted(const rdt_cuda_kernel *k) {
  return !only || strstr(k->name, only);
}

/* Sums of rows of the whole product, against those of weights as they were; `col` takes weights as they are. */
static bool sums_weights(const rdt_cuda_kernel *k) {
  return RDT_WGMMA_BY_ROWS(k->check) && strcmp(k->scheme, "col") != 0;
}

/* Does it multiply operands of this type, B's columns side by side or not? */
static bool multiplies(const rdt_cuda_kernel *k, rdt_dtype type, bool tf32, bool columns) {
  return wanted(k) && k->dtype == type && k->tf32 == tf32 && (columns ? k->family != RDT_CUDA_MMA : k->code[0] != NULL);
}

static void complain(const char *kernel, const gpu_case *c, const char *what) {
  if (++wrong > 40) return;
  printf("WRONG %s %lldx%lldx%lld: %s\n", kernel, (long long)c->all.shape[0], (long long)c->all.shape[1],
         (long long)c->k, what);
}

static rdt_cuda_gemm *ready_on(const rdt_cuda_device *on, const rdt_cuda_kernel *k, gpu_case *c, int sets,
                               double lambda, int splits, bool fixed) {
  rdt_cuda_gemm *g;
  rdt_reason why;
  c->p.in[1].data = fixed ? c->in[1].data : NULL;
  gpu_must(rdt_cuda_gemm_create_sets(k, on, &c->p, sets, lambda, splits, NULL, &g, &why), k->name, &why);
  return g;
}

static rdt_cuda_gemm *ready(const rdt_cuda_kernel *k, gpu_case *c, int sets, double lambda, int splits, bool fixed) {
  return ready_on(&device, k, c, sets, lambda, splits, fixed);
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
  const bool f8 = rdt_dtype_is_f8(k->dtype), gelu = c->epilogue.act.fn == RDT_FN_GELU,
             narrow = f8 || k->dtype == RDT_F16 || k->dtype == RDT_BF16, rounded = narrow && c->p.out.dtype != RDT_F32;
  const int64_t depth = c->k, chain = f8 && depth > k->k ? k->k : depth; /* promoted every stage */
  rdt_tolerance t = {.acc = narrow || k->tf32
                                ? rdt_accumulator_mma(device.major, device.minor, k->dtype)
                                : rdt_accumulator_of(k->dtype, rdt_dtype_is_float(k->dtype) ? c->p.out.dtype : RDT_S32),
                     .k = chain + 4, /* and alpha, bias, residual */
                     .splits = splits + k->tile->warps_k + (int)(depth / chain),
                     .u_out = rounded ? out->u : 0.0,
                     .eta_out = rounded ? out->min_normal * out->u * 2.0 : 0.0};
  t.acc.flush = 0.0;
  for (int64_t i = 0; i < c->all.shape[0]; i++)
    for (int64_t j = 0; j < c->all.shape[1]; j++) {
      const int64_t at = i * c->all.shape[1] + j;
      const double curve = gelu ? 1.2e-4 * (fabs(c->exact[at]) + 0.004) : 0.0, /* src/cuda/fast.h; its slope: 1.13 */
          bound = (k->dtype == RDT_F64 ? 2.0
                   : gelu              ? 1.13
                                       : 1.0) *
                      rdt_bound_element(&t, c->magnitude[at]) +
                  curve,
                   now = gpu_case_value(c, i, j);
      elements++;
      const bool beyond = c->p.out.dtype == RDT_F16 && isinf(now) && fabs(c->exact[at]) + bound > 65504.0;
      if (!(fabs(now - c->exact[at]) <= bound) && !(beyond && (now > 0.0) == (c->exact[at] > 0.0))) {
        char text[160];
        snprintf(text, sizeof text, "at %lld %lld: %.9g, not %.9g (bound %.3g)", (long long)i, (long long)j, now,
                 c->exact[at], bound);
        complain(k->name, c, text);
        return;
      }
    }
}

static void check_product(const rdt_cuda_device *on, const rdt_cuda_kernel *k, gpu_case *c, int sets, int splits,
                          bool fixed, void *first, bool *has_first) {
  const size_t bytes = c->bytes[2];
  rdt_cuda_gemm *g = ready_on(on, k, c, sets, 6.0, splits, fixed);
  const bool covers = rdt_cuda_gemm_cover(g, true, NULL) == RDT_OK;
  for (int turn = 0; turn < 2; turn++) {
    gpu_case_poison(c);
    const rdt_cuda_verdict v = run(g, c, k->name);
    gpu_case_fetch(c);
    products++;
    shared += k->family == RDT_CUDA_WGMMA && rdt_cuda_gemm_splits(g) > 1;
    if (v.suspect | v.certain | v.cannot) complain(k->name, c, "complains without a fault"), print_finding(&v);
    if (!gpu_case_gaps_kept(c)) complain(k->name, c, "writes between rows");
    if (turn == 0 && !*has_first) check_values(k, c, rdt_cuda_gemm_splits(g));
    /* the bits are those of the tile, whatever is checked, and of every run */
    if (*has_first && memcmp(first, c->host[2], bytes) != 0)
      complain(k->name, c, turn ? "other bits in the second run" : "other bits than unprotected");
    if (!*has_first) memcpy(first, c->host[2], bytes);
    *has_first = true;
  }
  if (covers) {
    uint64_t seed = (uint64_t)products;
    const char *what = gpu_stored(g, c, &seed);
    if (what) complain(k->name, c, what);
    covered++;
  }
  rdt_cuda_gemm_destroy(g);
}

/* Of families from this one on, whoever accepts it. */
static void check_shape(const gpu_shape *s, rdt_cuda_family least, int splits, bool fixed, uint64_t *seed) {
  int n;
  gpu_case c;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  bool any = false;
  for (int i = 0; i < n; i++) any |= multiplies(&table[i], s->in, s->tf32, s->columns) && table[i].family >= least;
  if (!any) return;
  gpu_case_make(&c, s, seed, true);
  void *first = malloc(c.bytes[2] + 1);
  if (!first) gpu_die("malloc", "out of memory");
  bool has_first = false;
  const rdt_cuda_tile *tile = NULL; /* whose bits the first are */
  for (int i = 0; i < n; i++) {
    if (!multiplies(&table[i], s->in, s->tf32, s->columns) || table[i].family < least ||
        rdt_cuda_gemm_accept(&table[i], &c.p, NULL) != RDT_OK)
      continue;
    if (table[i].tile != tile) has_first = false;
    tile = table[i].tile;
    /* where an address that is no multiple of 16 is known before */
    fixed |= table[i].family == RDT_CUDA_WGMMA && s->offset * (int)rdt_dtype_info(s->in)->bytes % 16 != 0;
    check_product(&device, &table[i], &c, 1, splits, fixed, first, &has_first);
    const int most = rdt_cuda_kernel_sets(&table[i]);
    if (most > 1)
      check_product(&device, &table[i], &c, 2 + (int)(gpu_random(seed) % 7), splits, fixed, first, &has_first);
    for (int j = 0; j < 2 && table[i].family != RDT_CUDA_MMA; j++)
      check_product(&few[j], &table[i], &c, 1, j ? splits : 2, fixed, first, &has_first);
  }
  free(first);
  gpu_case_free(&c);
}

static void check_results(void) {
  static const rdt_dtype types[] = {RDT_F16, RDT_BF16, RDT_S8, RDT_F64, RDT_F32};
  static const int lengths[] = {1, 7, 8, 9, 17, 31, 64, 127, 128, 129, 251};
  static const int depths[] = {1, 7, 8, 9, 16, 127, 128, 129, 251, 509, 1031};
  uint64_t seed = 7;
  for (int turn = 0; turn < (quick ? 12 : 120); turn++) {
    const uint64_t r = gpu_random(&seed);
    const bool held = turn == 5 || turn == 6; /* by all stages, in halves: none comes around again */
    gpu_shape s = {.m = lengths[r % 11],
                   .n = lengths[(r >> 8) % 11],
                   .k = depths[(r >> 16) % 11],
                   .gap = (r >> 24) % 4 == 0   ? 3
                          : (r >> 24) % 4 == 1 ? 8
                                               : 0,
                   .offset = (r >> 26) % 3 == 0 ? 1 : 0,
                   .in = types[turn % 5],
                   .bias = (r >> 30) % 2,
                   .residual = (r >> 31) % 2,
                   .relu = (r >> 34) % 4 == 0,
                   .alpha = (r >> 32) % 2 ? 1.0 : 0.75,
                   .beta = (r >> 33) % 2 ? 1.0 : -0.5,
                   .data = (gpu_data)((r >> 36) % GPU_SMALL)};
    const bool half = s.in == RDT_F16 || s.in == RDT_BF16;
    s.out = half ? (r >> 28) % 2 ? RDT_F32 : s.in : s.in == RDT_S8 ? RDT_S32 : s.in;
    if (s.in == RDT_S8) s.alpha = s.beta = 1.0;
    if (turn % 24 == 16) s.m = 1, s.n = 1, s.k = 1;
    if (quick) s.m %= 70, s.n %= 70, s.k %= 300, s.m += !s.m, s.n += !s.n, s.k += !s.k;
    if (turn < 5) { /* whole stages, each of which comes around again */
      s.m = 3, s.n = 16, s.gap = s.offset = 0;
      s.k = 6 * 512 / (int)rdt_dtype_size(s.in) + 16;
    }
    if (held) s.m = 11, s.n = 40, s.k = 1024, s.gap = s.offset = 0;
    check_shape(&s, RDT_CUDA_MMA, held ? 1 : (int)((r >> 40) % 4), (r >> 44) % 4 != 0, &seed);
  }
}

/* More tiles than multiprocessors, lengths about those of tiles, both ways that B may lie. */
static void check_wide(void) {
  static const int rows[] = {1, 127, 129, 300, 1000, 2560}, columns[] = {1, 70, 128, 129, 256, 520, 1100},
                   depths[] = {1, 63, 64, 65, 200, 515, 1030};
  static const rdt_dtype types[] = {RDT_F16, RDT_BF16, RDT_S8, RDT_F32, RDT_F8E4M3, RDT_F8E5M2, RDT_U8},
                         outs[] = {RDT_F16, RDT_BF16, RDT_F32};
  uint64_t seed = 29;
  for (int turn = 0; turn < (quick ? 7 : 140); turn++) {
    const uint64_t r = gpu_random(&seed);
    const rdt_dtype in = types[turn % 7];
    const bool half = turn % 7 < 2, integer = in == RDT_S8 || in == RDT_U8, f8 = rdt_dtype_is_f8(in);
    const int each = 16 / (int)rdt_dtype_info(in)->bytes; /* what copies are aligned to */
    gpu_shape s = {.m = rows[r % 6],
                   .n = columns[(r >> 8) % 7],
                   .k = depths[(r >> 16) % 7],
                   .gap = (r >> 24) % 3 == 0 ? each : 0,
                   .offset = (r >> 26) % 3 == 0 ? each : 0,
                   .in = in,
                   .tf32 = in == RDT_F32,
                   .bias = (r >> 30) % 2,
                   .residual = (r >> 31) % 2,
                   .relu = (r >> 34) % 4 == 0,
                   .columns = !half || (r >> 36) % 2,
                   .alpha = integer || (r >> 32) % 2 ? 1.0 : 0.75,
                   .beta = integer || (r >> 33) % 2 ? 1.0 : -0.5,
                   .data = (gpu_data)((r >> 38) % GPU_SMALL)};
    s.out = integer ? RDT_S32 : f8 ? outs[(r >> 28) % 3] : (r >> 28) % 2 ? RDT_F32 : s.in;
    if (quick) s.m = (s.m - 1) % 300 + 1, s.n = (s.n - 1) % 300 + 1, s.k = (s.k - 1) % 200 + 1;
    check_shape(&s, RDT_CUDA_WGMMA, (int)((r >> 50) % 3), (r >> 44) % 4 != 0, &seed);
  }
}

/* Both ways that A may lie, batches with a B each or one for all, gelu; lengths about those of boxes and tiles. */
static void check_forms(void) {
  static const int lengths[] = {1, 7, 8, 9, 64, 127, 128, 129, 251, 509}, some[] = {2, 3, 5, 7};
  static const rdt_dtype types[] = {RDT_F16, RDT_BF16, RDT_S8, RDT_F16, RDT_F32, RDT_U8, RDT_F8E4M3},
                         outs[] = {RDT_S32, RDT_S8, RDT_U8};
  uint64_t seed = 41;
  for (int turn = 0; turn < (quick ? 14 : 112); turn++) {
    const uint64_t r = gpu_random(&seed);
    const rdt_dtype in = types[turn % 7];
    const bool half = rdt_dtype_is_half(in), integer = !rdt_dtype_is_float(in), a_columns = half && (r >> 24) % 2;
    gpu_shape s = {.m = lengths[r % 10],
                   .n = lengths[(r >> 8) % 10],
                   .k = lengths[(r >> 16) % 10],
                   .in = in,
                   .out = integer                          ? outs[(r >> 42) % 3]
                          : in == RDT_F32 || (r >> 25) % 2 ? RDT_F32
                          : half                           ? in
                                                           : RDT_F16,
                   .tf32 = in == RDT_F32,
                   .a_columns = a_columns,
                   .columns = !half || (r >> 26) % 2,
                   .batches = a_columns && (r >> 27) % 2 ? 1 : some[(r >> 28) % 4],
                   .same_b = (r >> 30) % 3 == 0,
                   .bias = (r >> 32) % 2,
                   .residual = (r >> 33) % 2,
                   .alpha = integer || (r >> 34) % 2 ? 1.0 : 0.75,
                   .beta = integer || (r >> 35) % 2 ? 1.0 : -0.5,
                   .data = (gpu_data)((r >> 36) % GPU_SMALL)};
    s.gelu = rdt_dtype_is_half(s.out) && (r >> 40) % 2;
    if (integer && s.out != RDT_S32) s.residual = false, s.relu = false;
    if ((r >> 46) % 3 == 0) s.gap = 3, s.offset = (int)((r >> 48) % 2); /* rows that are copied first */
    if (quick) s.m = (s.m - 1) % 200 + 1, s.n = (s.n - 1) % 200 + 1, s.k = (s.k - 1) % 200 + 1;
    check_shape(&s, RDT_CUDA_WGMMA, (int)((r >> 50) % 3), (r >> 44) % 3 != 0, &seed);
  }
}

/* Tiles that two blocks share, for so few that some hand over, some go on, some do both; of one round of k and of many.
 * Their bits are those of tiles of one block. */
static void check_shared(void) {
  static const rdt_dtype types[] = {RDT_F16, RDT_BF16};
  static const int depths[] = {200, 64, 1030, 515}, sms[] = {4, 6, 10};
  uint64_t seed = 53;
  for (int turn = 0; turn < (quick ? 4 : 16); turn++) {
    const uint64_t r = gpu_random(&seed);
    if (gpu_daily(quick) && (turn == 1 || turn == 2)) continue; /* each type, depth, layout and result once */
    const gpu_shape s = {.m = quick ? 520 : 900,
                         .n = quick ? 130 : 400,
                         .k = quick ? depths[turn % 2] : depths[turn % 4],
                         .in = types[turn % 2],
                         .out = turn % 4 < 2 ? types[turn % 2] : RDT_F32,
                         .bias = r % 2,
                         .relu = (r >> 1) % 4 == 0,
                         .columns = (turn / 2 + turn / 4) % 2,
                         .alpha = 1.0,
                         .data = (gpu_data)((r >> 8) % GPU_SMALL)};
    gpu_case c;
    int n;
    const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
    gpu_case_make(&c, &s, &seed, true);
    void *first = malloc(c.bytes[2]);
    if (!first) gpu_die("malloc", "out of memory");
    for (int i = 0; i < n; i++) {
      bool has_first = false;
      const rdt_cuda_kernel *k = &table[i];
      if (!multiplies(k, s.in, false, s.columns) || k->family != RDT_CUDA_WGMMA) continue;
      if (rdt_cuda_gemm_accept(k, &c.p, NULL) != RDT_OK) continue;
      check_product(&device, k, &c, 1, 1, true, first, &has_first);
      const int64_t before = shared;
      for (int j = 0; j < 3; j++) {
        rdt_cuda_device on = device;
        on.sms = sms[j];
        check_product(&on, k, &c, 1, 2, true, first, &has_first);
      }
      if (shared == before && rdt_wide_shares(k, s.columns)) complain(k->name, &c, "no tile was shared");
    }
    free(first);
    gpu_case_free(&c);
  }
}

/* Rows for several tiles of each block, columns about those of tiles, B of any alignment. */
static void check_tall(void) {
  static const int rows[] = {1, 63, 65, 1000, 2048, 4099}, columns[] = {1, 8, 16, 31, 32, 33, 48, 64, 65, 96, 128},
                   depths[] = {1, 16, 32, 64, 65, 147, 363, 576, 640};
  uint64_t seed = 43;
  for (int turn = 0; turn < (quick ? 8 : 64); turn++) {
    const uint64_t r = gpu_random(&seed);
    const rdt_dtype in = turn % 2 ? RDT_BF16 : RDT_F16;
    gpu_shape s = {.m = rows[r % 6],
                   .n = columns[(r >> 8) % 11],
                   .k = depths[(r >> 16) % 9],
                   .gap = (r >> 24) % 3 == 0 ? 8 : 0,
                   .offset = (r >> 26) % 3 == 0 ? 8 : 0,
                   .in = in,
                   .out = (r >> 28) % 3 == 0 ? RDT_F32 : in,
                   .bias = (r >> 30) % 2,
                   .residual = (r >> 31) % 4 == 0,
                   .relu = (r >> 34) % 2,
                   .columns = (r >> 36) % 2,
                   .alpha = (r >> 32) % 2 ? 1.0 : 0.75,
                   .beta = (r >> 33) % 2 ? 1.0 : -0.5,
                   .data = (gpu_data)((r >> 38) % GPU_SMALL)};
    if (s.data == GPU_HEAVY) s.out = RDT_F32; /* f16 would not hold all of it */
    if (quick) s.m = (s.m - 1) % 700 + 1, s.k = (s.k - 1) % 200 + 1;
    check_shape(&s, RDT_CUDA_TALL, 0, (r >> 44) % 4 != 0, &seed);
  }
}

/* Rows of A that are columns of B, of kernels whose bounds take the squares of all columns: they are within half of
 * them. */
static void check_alike(void) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++) {
    const rdt_cuda_kernel *k = &table[i];
    if (k->family != RDT_CUDA_TALL || k->check == RDT_MMA_NONE || !wanted(k)) continue;
    const gpu_shape s = {.m = 4000,
                         .n = k->tile->columns,
                         .k = 576,
                         .in = k->dtype,
                         .out = RDT_F32,
                         .columns = true,
                         .alpha = 1.0,
                         .data = GPU_ALIKE};
    uint64_t seed = 47;
    gpu_case c;
    gpu_case_make(&c, &s, &seed, false);
    rdt_cuda_gemm *g = ready(k, &c, 1, 3.0, 0, true);
    const rdt_cuda_verdict v = run(g, &c, k->name);
    products++;
    if (v.suspect | v.certain | v.cannot) complain(k->name, &c, "rows like columns, three sigma"), print_finding(&v);
    rdt_cuda_gemm_destroy(g);
    gpu_case_free(&c);
  }
}

/* A copy with another byte in it is seen, by what compares it. */
static void check_copies(void) {
  enum { ROWS = 70, COLUMNS = 41, FROM = 43, TO = 48, BATCHES = 3, COUNT = BATCHES * ROWS };
  static unsigned char bytes[COUNT * TO * 4];
  uint64_t seed = 43;
  rdt_reason why;
  rdt_cuda_verdict v, *there;
  void *from, *to;
  gpu_must(rdt_cuda_alloc(sizeof bytes, &from, &why), "copies", &why);
  gpu_must(rdt_cuda_alloc(sizeof bytes, &to, &why), "copies", &why);
  gpu_must(rdt_cuda_alloc(sizeof v, (void **)&there, &why), "copies", &why);
  for (int size = 1; size <= 4; size *= 2) {
    rdt_pads p = {.of[0] = {.from_pitch = FROM,
                            .to_pitch = TO,
                            .from_next = FROM * ROWS,
                            .to_next = TO * ROWS,
                            .columns = COLUMNS,
                            .rows = ROWS,
                            .batches = BATCHES,
                            .size = size,
                            .of_c = 1},
                  .own[0] = to};
    void *const theirs[] = {from, NULL, NULL};
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)gpu_random(&seed);
    gpu_must(rdt_cuda_put(from, bytes, sizeof bytes, NULL, &why), "copies", &why);
    gpu_must(rdt_pads_run(&p, 1, false, theirs, there, NULL, &why), "copies", &why);
    for (int turn = 0; turn < 2; turn++) {
      const int row = (int)(gpu_random(&seed) % COUNT), byte = (int)(gpu_random(&seed) % (COLUMNS * (unsigned)size));
      const unsigned char other = (unsigned char)~bytes[row * FROM * size + byte];
      if (turn) gpu_must(rdt_cuda_put((char *)to + row * TO * size + byte, &other, 1, NULL, &why), "copies", &why);
      gpu_must(rdt_cuda_clear(there, sizeof v, NULL, &why), "copies", &why);
      gpu_must(rdt_pads_run(&p, 1, true, theirs, there, NULL, &why), "copies", &why);
      gpu_must(rdt_cuda_get(&v, there, sizeof v, NULL, &why), "copies", &why);
      if (v.certain != (unsigned)turn || v.suspect || v.cannot || (turn && v.list[0].row != row))
        wrong++, printf("WRONG copies of %d bytes: %u complaints of %d, at %d for %d\n", size, v.certain, turn,
                        v.list[0].row, row);
    }
  }
  rdt_cuda_free(from), rdt_cuda_free(to), rdt_cuda_free(there);
}

/* Fixed weights whose rows begin within lines of L2 are copied, and products check their copy. */
static void check_lines(void) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  uint64_t seed = 53;
  for (int columns = 0; columns < 2; columns++) {
    const gpu_shape s = {
        .m = 600, .n = 136, .k = 72, .in = RDT_BF16, .out = RDT_BF16, .columns = columns, .alpha = 1.0};
    gpu_case c;
    gpu_case_make(&c, &s, &seed, false);
    for (int i = 0; i < n; i++) {
      const rdt_cuda_kernel *k = &table[i];
      if (k->family != RDT_CUDA_WGMMA || !multiplies(k, s.in, false, columns) ||
          rdt_cuda_gemm_accept(k, &c.p, NULL) != RDT_OK)
        continue;
      rdt_reason why;
      const uint16_t large = 0x4300; /* 128 */
      rdt_cuda_gemm *g = ready(k, &c, 1, 6.0, 0, true);
      void *copy = rdt_cuda_gemm_copy(g, 5, 7);
      rdt_cuda_verdict v = run(g, &c, k->name);
      if (rdt_cuda_gemm_padded(g) != RDT_WIDE_B || !copy) complain(k->name, &c, "has no copy of whole lines");
      if (v.suspect | v.certain | v.cannot) complain(k->name, &c, "complains of its copy"), print_finding(&v);
      if (copy && k->check != RDT_MMA_NONE) {
        gpu_must(rdt_cuda_put(copy, &large, sizeof large, NULL, &why), k->name, &why);
        v = run(g, &c, k->name);
        if (!(v.suspect + v.certain)) complain(k->name, &c, "does not see its copy changed");
      }
      products++;
      rdt_cuda_gemm_destroy(g);
    }
    gpu_case_free(&c);
  }
}

/* ---- clean data, larger ---- */

static void check_clean(void) {
  static const struct {
    rdt_dtype type, out;
    bool wide, tf32; /* wide: products on wgmma alone, B with its columns side by side */
  } types[] = {{RDT_F16, RDT_F32, false, false},   {RDT_BF16, RDT_F32, false, false},  {RDT_F32, RDT_F32, true, true},
               {RDT_F8E4M3, RDT_F32, true, false}, {RDT_F8E5M2, RDT_F32, true, false}, {RDT_F64, RDT_F64, false, false},
               {RDT_F32, RDT_F32, false, false}};
  static const int shapes[][3] = {
      {16, 4096, 4096}, {32, 1024, 4096}, {200, 1000, 3000}, {384, 768, 768}, {20000, 60, 300}};
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  uint64_t seed = 11;
  for (int i = 0; i < (quick ? 0 : 5); i++)
    for (int kind = 0; kind < GPU_DATA_COUNT; kind++)
      for (int type = 0; type < (i < 2 || i == 4 ? 5 : 7); type++) { /* exact ones have no suspects */
        if (types[type].wide && device.major != 9) continue;
        const gpu_shape s = {.m = shapes[i][0],
                             .n = shapes[i][1],
                             .k = shapes[i][2],
                             .in = types[type].type,
                             .out = types[type].out,
                             .columns = types[type].wide,
                             .tf32 = types[type].tf32,
                             .alpha = 1.0,
                             .data = (gpu_data)kind};
        gpu_case c;
        gpu_case_make(&c, &s, &seed, false);
        for (int j = 0; j < n; j++) {
          if (!multiplies(&table[j], s.in, s.tf32, s.columns) || table[j].check == RDT_MMA_NONE ||
              table[j].check == RDT_MMA_REPLICATE || rdt_cuda_gemm_accept(&table[j], &c.p, NULL) != RDT_OK)
            continue;
          printf("clean %-10s %-32s %dx%dx%d suspects at lambda", gpu_data_name[kind], table[j].name, s.m, s.n, s.k);
          static const double lambdas[] = {6.0, 1.0, 0.3, 0.1};
          for (int l = 0; l < 4; l++) {
            rdt_cuda_gemm *g = ready(&table[j], &c, 1, lambdas[l], 0, true);
            const rdt_cuda_verdict v = run(g, &c, table[j].name);
            printf("  %.2f: %u%s", lambdas[l], v.suspect, v.certain | v.cannot ? " (!)" : "");
            if (l == 0 && (v.suspect | v.certain | v.cannot))
              complain(table[j].name, &c, gpu_data_name[kind]), print_finding(&v);
            if (l == 0) products++;
            rdt_cuda_gemm_destroy(g);
          }
          if (rdt_cuda_kernel_sets(&table[j]) > 1) {
            rdt_cuda_gemm *g = ready(&table[j], &c, rdt_cuda_kernel_sets(&table[j]), 6.0, 0, true);
            const rdt_cuda_verdict v = run(g, &c, table[j].name);
            products++;
            if (v.suspect | v.certain | v.cannot) complain(table[j].name, &c, "several checks"), print_finding(&v);
            rdt_cuda_gemm_destroy(g);
          }
          printf("\n");
        }
        gpu_case_free(&c);
      }
}

/* Inputs without a bound are told as such, and are no faults. */
static void check_unbounded(rdt_dtype type, bool tf32) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  const bool f8 = rdt_dtype_is_f8(type);
  uint64_t seed = 17, infinite = f8 ? 0x7f : 0; /* NaN */
  const gpu_shape s = {.m = 20,
                       .n = 40,
                       .k = 100,
                       .in = type,
                       .out = type == RDT_F64 ? RDT_F64 : RDT_F32,
                       .columns = tf32 || f8,
                       .tf32 = tf32,
                       .alpha = 1.0};
  gpu_case c;
  gpu_case_make(&c, &s, &seed, false);
  rdt_reason why;
  if (!f8) rdt_store(&infinite, type, 0, INFINITY);
  gpu_must(rdt_cuda_put(c.device[0], &infinite, rdt_dtype_info(type)->bytes, NULL, &why), "put", &why);
  gpu_must(rdt_cuda_wait(NULL, &why), "put", &why);
  for (int i = 0; i < n; i++) {
    if (!multiplies(&table[i], type, tf32, s.columns) || table[i].check == RDT_MMA_NONE ||
        table[i].check == RDT_MMA_REPLICATE || rdt_cuda_gemm_accept(&table[i], &c.p, NULL) != RDT_OK)
      continue;
    rdt_cuda_gemm *g = ready(&table[i], &c, rdt_cuda_kernel_sets(&table[i]), 6.0, 0, true);
    const rdt_cuda_verdict v = run(g, &c, table[i].name);
    if (!v.cannot) complain(table[i].name, &c, "an infinite input is not told");
    if (v.certain | v.suspect) complain(table[i].name, &c, "an infinite input is called a fault"), print_finding(&v);
    rdt_cuda_gemm_destroy(g);
  }
  gpu_case_free(&c);
}

/* Two global-classic products, the second of what the first stored after its relu: no pass over A between them, and
 * what changes there between them is seen. */
static void check_chain(rdt_dtype type) {
  char name[64];
  uint64_t seed = 19;
  rdt_reason why = {""};
  snprintf(name, sizeof name, "gemm_%s_mma_64x64_global-classic", rdt_dtype_name(type));
  const rdt_cuda_kernel *k = rdt_cuda_kernel_find(name);
  const gpu_shape s1 = {.m = 200, .n = 150, .k = 90, .in = type, .out = type, .alpha = 1.0, .relu = true},
                  s2 = {.m = 200, .n = 70, .k = 150, .in = type, .out = RDT_F32, .alpha = 1.0};
  gpu_case one, two;
  gpu_case_make(&one, &s1, &seed, false), gpu_case_make(&two, &s2, &seed, false);
  two.in[0] = two.p.in[0] = one.p.out;
  rdt_cuda_gemm *first = ready(k, &one, 1, 6.0, 1, true), *second = ready(k, &two, 1, 6.0, 2, true);
  if (rdt_cuda_gemm_follow(first, second, &why) == RDT_OK) complain(name, &one, "follows what it does not");
  gpu_must(rdt_cuda_gemm_follow(second, first, &why), name, &why);
  for (int turn = 0; turn < 2; turn++) {
    rdt_cuda_verdict v = run(first, &one, name);
    if (v.suspect | v.certain | v.cannot) complain(name, &one, "complains without a fault"), print_finding(&v);
    if (turn) { /* an activation, between the two */
      uint16_t large;
      rdt_store(&large, type, 0, 9.0);
      gpu_must(rdt_cuda_put((char *)one.device[2] + one.skip[2], &large, 2, NULL, &why), "put", &why);
      gpu_must(rdt_cuda_wait(NULL, &why), "put", &why);
    }
    v = run(second, &two, name);
    if ((v.suspect + v.certain > 0) != turn)
      complain(name, &two, turn ? "an activation changed unseen" : "complains in a chain"), print_finding(&v);
  }
  rdt_cuda_gemm_destroy(first), rdt_cuda_gemm_destroy(second);
  gpu_case_free(&one), gpu_case_free(&two);
}

/* A launch that begins while the one ahead of it ends reads what that one stores, and no sooner. */
static void check_early(const rdt_cuda_kernel *k) {
  uint64_t seed = 23;
  rdt_reason why = {""};
  const bool tall = k->family == RDT_CUDA_TALL;
  const int m = tall ? 3000 : 200, most = rdt_cuda_kernel_columns(k), middle = most < 1000 ? most : 1000,
            n = middle < 120 ? middle : 120, turns = gpu_daily(quick) ? 3 : 8;
  const gpu_shape s1 = {.m = m,
                        .n = middle,
                        .k = gpu_daily(quick) ? 130 : 500,
                        .in = RDT_F16,
                        .out = RDT_F16,
                        .alpha = 1.0},
                  s2 = {.m = m, .n = n, .k = middle, .in = RDT_F16, .out = RDT_F16, .alpha = 0.01};
  gpu_case one, two;
  gpu_case_make(&one, &s1, &seed, false), gpu_case_make(&two, &s2, &seed, false);
  two.in[0] = two.p.in[0] = one.p.out;
  rdt_cuda_gemm *first = ready(k, &one, 1, 6.0, 0, true), *second = ready(k, &two, 1, 6.0, 0, true);
  char *apart = malloc(two.bytes[2]);
  if (!apart) gpu_die("malloc", "out of memory");
  cudaStream_t stream;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) gpu_die("a stream", "refused");
  const bool mends = rdt_cuda_gemm_can_mend(first, &one.o, stream, NULL) == RDT_OK;
  for (int turn = 0; turn < turns; turn++) { /* the last in a graph, with a repair between them where there is one */
    cudaGraph_t graph;
    cudaGraphExec_t ready_graph;
    const bool captured = turn == turns - 1;
    gpu_case_poison(&one), gpu_case_poison(&two);
    gpu_must(rdt_cuda_wait(NULL, &why), k->name, &why);
    if (captured && cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
      gpu_die(k->name, "capture");
    gpu_must(rdt_cuda_gemm_run(first, &one.o, stream, &why), k->name, &why);
    if (captured && mends) gpu_must(rdt_cuda_gemm_mend(first, &one.o, stream, &why), k->name, &why);
    if (turn == 0) gpu_must(rdt_cuda_wait(stream, &why), k->name, &why);
    gpu_must(rdt_cuda_gemm_run(second, &two.o, stream, &why), k->name, &why);
    if (captured) {
      if (cudaStreamEndCapture(stream, &graph) != cudaSuccess ||
          cudaGraphInstantiate(&ready_graph, graph, 0) != cudaSuccess ||
          cudaGraphLaunch(ready_graph, stream) != cudaSuccess)
        gpu_die(k->name, "a graph");
      gpu_must(rdt_cuda_wait(stream, &why), k->name, &why);
      (void)cudaGraphExecDestroy(ready_graph), (void)cudaGraphDestroy(graph);
    }
    gpu_must(rdt_cuda_wait(stream, &why), k->name, &why);
    gpu_case_fetch(&two);
    products += 2;
    if (turn == 0) memcpy(apart, two.host[2], two.bytes[2]);
    if (memcmp(apart, two.host[2], two.bytes[2]) != 0) complain(k->name, &two, "right behind another: other bits");
  }
  free(apart);
  (void)cudaStreamDestroy(stream);
  rdt_cuda_gemm_destroy(first), rdt_cuda_gemm_destroy(second);
  gpu_case_free(&one), gpu_case_free(&two);
}

/* Complaints go where they are told to go, into the host's memory, and nowhere else. */
static void check_told(const rdt_cuda_kernel *k) {
  uint64_t seed = 29;
  uint16_t large;
  rdt_reason why = {""};
  rdt_cuda_verdict *told;
  const gpu_shape s = {.m = 100, .n = 136, .k = 200, .in = RDT_F16, .out = RDT_F16, .alpha = 1.0};
  gpu_case c;
  if (cudaMallocHost((void **)&told, sizeof *told) != cudaSuccess) gpu_die("cudaMallocHost", "out of memory");
  memset(told, 0, sizeof *told);
  gpu_case_make(&c, &s, &seed, false);
  rdt_cuda_gemm *g = ready(k, &c, 1, 6.0, 0, true);
  rdt_store(&large, RDT_F16, 0, 50.0);
  rdt_cuda_gemm_tell(g, told);
  for (int turn = 0; turn < 2; turn++) {
    if (turn) gpu_must(rdt_cuda_put(c.in[1].data, &large, sizeof large, NULL, &why), "put", &why);
    gpu_must(rdt_cuda_gemm_run(g, &c.o, NULL, &why), k->name, &why);
    const rdt_cuda_verdict own = run(g, &c, k->name); /* and settles */
    products += 2;
    if (own.suspect + own.certain) complain(k->name, &c, "complains where it was not told to");
    if ((told->suspect + told->certain > 0) != turn)
      complain(k->name, &c, "what it is told to is not there, or too much");
  }
  rdt_cuda_gemm_destroy(g);
  gpu_case_free(&c);
  (void)cudaFreeHost(told);
}

/* Sums of columns are compared by the next run: of weights that have changed meanwhile it names the column, and no
 * other. On few multiprocessors, too, whose blocks have several tiles, and strips. */
static void check_columns(const rdt_cuda_kernel *k) {
  for (int turn = 0; turn < 4; turn++) { /* weights that are not known before, whose rows do not begin at 16 bytes */
    uint64_t seed = 71 + (uint64_t)turn;
    bool has_first = false;
    const gpu_shape s = {.m = turn % 2 ? 129 : 40,
                         .n = 530,
                         .k = turn < 2 ? 60 : 515,
                         .gap = 3,
                         .in = k->dtype,
                         .out = RDT_F32,
                         .columns = turn % 2,
                         .alpha = 1.0,
                         .data = turn == 3 ? GPU_SMALL - 1 : (gpu_data)turn};
    gpu_case c;
    gpu_case_make(&c, &s, &seed, true);
    void *first = malloc(c.bytes[2]);
    if (!first) gpu_die("malloc", "out of memory");
    for (int j = 0; j < 2; j++) check_product(&few[j], k, &c, 1, 1, j, first, &has_first);
    free(first);
    gpu_case_free(&c);
  }
  enum { COLUMN = 587, DEPTH = 130 };
  for (int turn = 0; turn < 6; turn++) {
    if (gpu_daily(quick) && turn == 4 + (k->dtype == RDT_BF16)) continue; /* one layout of each type is large */
    uint64_t seed = 61 + (uint64_t)turn;
    uint16_t large;
    rdt_reason why = {""};
    rdt_cuda_verdict *told;
    const bool columns = turn % 2;
    const gpu_shape s = {.m = turn < 4 ? 300 : 1000,
                         .n = 1100,
                         .k = turn < 4 ? 200 : 770,
                         .in = k->dtype,
                         .out = turn % 4 < 2 ? RDT_F32 : k->dtype,
                         .columns = columns,
                         .alpha = 1.0};
    gpu_case c;
    if (cudaMallocHost((void **)&told, sizeof *told) != cudaSuccess) gpu_die("cudaMallocHost", "out of memory");
    gpu_case_make(&c, &s, &seed, false);
    rdt_cuda_gemm *g = ready_on(turn / 2 == 1 ? &few[0] : &device, k, &c, 1, 6.0, 1, true);
    void *const copy = rdt_cuda_gemm_copy(g, DEPTH, COLUMN), /* which `col` compares with what it was made of */
        *const at = copy ? copy : (char *)c.in[1].data + 2 * (DEPTH * c.in[1].stride[0] + COLUMN * c.in[1].stride[1]);
    const unsigned expected = 1 + (copy && strcmp(k->scheme, "col") == 0);
    rdt_store(&large, k->dtype, 0, 60.0);
    memset(told, 0, sizeof *told);
    rdt_cuda_gemm_tell(g, told);
    for (int run_ = 0; run_ < 4; run_++) { /* three with the weights that sums are of */
      if (run_ == 3) gpu_must(rdt_cuda_put(at, &large, sizeof large, NULL, &why), "put", &why);
      gpu_must(rdt_cuda_gemm_run(g, &c.o, NULL, &why), k->name, &why);
      gpu_must(rdt_cuda_wait(NULL, &why), k->name, &why);
      products++;
      if (run_ < 3 && told->suspect + told->certain + told->cannot)
        complain(k->name, &c, "columns of the run before: complains"), print_finding(told);
    }
    if (told->suspect + told->certain != expected || told->listed != expected || told->list[0].column != COLUMN ||
        told->list[0].columns != 1)
      complain(k->name, &c, "a weight that has changed is not what the next run's columns name"), print_finding(told);
    rdt_cuda_gemm_destroy(g);
    gpu_case_free(&c);
    (void)cudaFreeHost(told);
  }
}

static void check_handed(const rdt_cuda_kernel *k) {
  const gpu_chain_count c = gpu_chain(&few[0], quick ? NULL : &device, k, gpu_daily(quick));
  products += c.products, wrong += c.wrong;
}

/* What several products on wgmma have left is compared at once: of those whose weights are not what their sums were
 * formed of, each says so, and nobody else. */
static void check_settled(void) {
  enum { MOST = 3 * RDT_SETTLE_MOST };
  static gpu_case cases[MOST];
  const rdt_cuda_kernel *kernels[MOST];
  rdt_cuda_gemm *list[MOST];
  rdt_cuda_verdict v;
  rdt_reason why = {""};
  uint64_t seed = 31;
  int count = 0, n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < n && count < MOST; i++) {
      const rdt_cuda_kernel *k = &table[i];
      const rdt_dtype out = k->dtype == RDT_S8 ? RDT_S32 : RDT_F32;
      if (k->family != RDT_CUDA_WGMMA || !sums_weights(k) || k->least > device.major || k->tf32 || k->dtype == RDT_U8 ||
          !wanted(k))
        continue;
      const gpu_shape s = {
          .m = 100 + 40 * count, .n = 136, .k = 256, .in = k->dtype, .out = out, .columns = true, .alpha = 1.0};
      gpu_case *c = &cases[count];
      gpu_case_make(c, &s, &seed, false);
      kernels[count] = k, list[count++] = ready(k, c, 1, 6.0, 0, true);
    }
  for (int turn = 0; turn < 2; turn++) { /* then with every third one's weights changed */
    for (int i = 0; i < count; i++) {
      const uint64_t other = 0x4b4b; /* far from all others, whatever their type */
      if (turn && i % 3 == 0)
        gpu_must(rdt_cuda_put(cases[i].in[1].data, &other, rdt_dtype_info(cases[i].p.in[1].dtype)->bytes, NULL, &why),
                 "put", &why);
      gpu_must(rdt_cuda_gemm_run(list[i], &cases[i].o, NULL, &why), "settled", &why);
    }
    gpu_must(rdt_cuda_gemm_settle(list, count, NULL, &why), "settled", &why);
    for (int i = 0; i < count; i++) {
      rdt_cuda_verdict *const found = rdt_cuda_gemm_found(list[i]);
      gpu_must(rdt_cuda_get(&v, found, sizeof v, NULL, &why), "settled", &why);
      products++;
      if ((v.suspect + v.certain > 0) != (turn && i % 3 == 0))
        complain(kernels[i]->name, &cases[i],
                 turn ? "settled with others: not found, or too much" : "settled with others: complains");
    }
  }
  if (!only && count <= RDT_SETTLE_MOST) gpu_die("settled", "too few products for more than one launch");
  for (int i = 0; i < count; i++) rdt_cuda_gemm_destroy(list[i]), gpu_case_free(&cases[i]);
}

static void check_launches(void) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++) {
    if (!multiplies(&table[i], RDT_F16, false, false) || table[i].check == RDT_MMA_CLASSIC ||
        table[i].least > device.major)
      continue;
    check_early(&table[i]);
    if (sums_weights(&table[i])) check_told(&table[i]);
  }
  for (int i = 0; i < n; i++)
    if (table[i].check == RDT_WGMMA_ROWCOL && table[i].least == device.major && wanted(&table[i]))
      check_columns(&table[i]), check_handed(&table[i]);
  check_settled();
}

int main(int argc, char **argv) {
  rdt_reason why;
  quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  only = argc > 1 + quick ? argv[1 + quick] : NULL;
  if (rdt_cuda_count(&why) == 0) {
    printf("skip: %s\n", why.text);
    return 77;
  }
  gpu_must(rdt_cuda_open(0, &device, &why), "cuda:0", &why);
  few[0] = few[1] = device, few[0].sms = 4, few[1].sms = 10;
  printf("%s, compute capability %d.%d, %d SMs, driver %d\n", device.name, device.major, device.minor, device.sms,
         device.driver);
  for (int i = 0; i < 2; i++) {
    rdt_probed p;
    gpu_must(rdt_probe(&device, i ? RDT_BF16 : RDT_F16, &p, NULL, &why), "probe", &why);
    printf("%s: %d products at once, %d fraction bits, %s, %s\n", i ? "bf16" : "f16", p.kb, p.f,
           p.truncates ? "cut off" : "rounded", p.as_known ? "as known" : "not as known: bounds take the widest");
  }
  check_results();
  if (device.major == 9) check_wide(), check_forms(), check_shared(), check_tall(), check_copies(), check_lines();
  if (device.major == 9 && !quick) check_alike();
  static const rdt_dtype types[] = {RDT_F16, RDT_BF16, RDT_F64, RDT_F32};
  for (int i = 0; i < 4; i++) check_unbounded(types[i], false);
  if (device.major == 9)
    check_unbounded(RDT_F32, true), check_unbounded(RDT_F8E4M3, false), check_unbounded(RDT_F8E5M2, false);
  if (!only) check_chain(RDT_F16), check_chain(RDT_BF16);
  check_launches();
  check_clean();
  printf(
      "gpu-check: %lld products (%lld with tiles that blocks share), %lld of them covered, %lld elements: %lld wrong\n",
      (long long)products, (long long)shared, (long long)covered, (long long)elements, (long long)wrong);
  return wrong ? 1 : 0;
}
