/* Own products of 8-bit integers against arithmetic written down here: every pair of datatypes, strides, zero points,
 * extremes, requantised or not; the checks of each are shown a fault. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants those above first */
#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "check/bitsum.h"
#include "cpu/native/int8.h"
#include "cpu/native/shares.h"
#include "plan/plan.h"
#include "util_problem.h"
#include "util_sample.h"

extern const rdt_kernel rdt_kernel_gemm_int8_native, rdt_kernel_gemm_generic;

/* The way of packing for VNNI, on any CPU. */
extern const rdt_int8_table util_int8_quads, util_int8_quads_inject;
static bool quads;
rdt_int8_tables __real_rdt_int8_tables_of(void);
rdt_int8_tables __wrap_rdt_int8_tables_of(void);
rdt_int8_tables __wrap_rdt_int8_tables_of(void) {
  if (!quads) return __real_rdt_int8_tables_of();
#if defined(__x86_64__)
  if (rdt_isa_detect() == RDT_ISA_AVX512 && !__builtin_cpu_supports("avx512f")) /* emulated */
    return (rdt_int8_tables){.plain = &rdt_int8_avx512_vnni, .inject = &rdt_int8_avx512_vnni_inject};
#endif
  return (rdt_int8_tables){.plain = &util_int8_quads, .inject = &util_int8_quads_inject};
}

enum { MOST_RANK = 4 };

typedef enum data_kind {
  RANDOM,
  LOWEST,
  HIGHEST,
  ENDS,
  ZEROS,
  SMALL,
  KINDS
} data_kind; /* SMALL: 64 beside the middle */

typedef struct job {
  rdt_problem p;
  rdt_tensor in[2], data[2], out; /* as planned: p.in */
  unsigned char *buffer[3];
  size_t bytes[3];
  float *factor;
  int32_t *bias;
  util_random r;
} job;

static int64_t draw(util_random *r, int64_t low, int64_t high) { /* both included */
  return low + (int64_t)(util_next(r) % (uint64_t)(high - low + 1));
}

/* A view with dimensions in any order in memory, gaps now and then, each dimension in either direction. */
static void *place(job *j, int which, rdt_tensor *t, bool output) {
  int order[MOST_RANK], rank = t->rank;
  int64_t stride = 1, first = 0;
  for (int d = 0; d < rank; d++) order[d] = rank - 1 - d;
  for (int d = rank - 1; d > 0 && draw(&j->r, 0, 2) == 0; d--) {
    const int other = (int)draw(&j->r, 0, d), swap = order[d];
    order[d] = order[other];
    order[other] = swap;
  }
  for (int i = 0; i < rank; i++) {
    const int d = order[i];
    const bool back = !output && draw(&j->r, 0, 5) == 0;
    if (draw(&j->r, 0, 3) == 0) stride += draw(&j->r, 1, 5);
    t->stride[d] = back ? -stride : stride;
    if (back) first += stride * (t->shape[d] - 1);
    stride *= t->shape[d] > 0 ? t->shape[d] : 1;
  }
  const size_t size = rdt_dtype_size(t->dtype);
  j->bytes[which] = (size_t)(stride + 1) * size;
  j->buffer[which] = malloc(j->bytes[which]);
  t->data = j->buffer[which] + (t->shape[0] > 0 && first > 0 ? (size_t)first * size : 0);
  return t->data;
}

static void fill(job *j, int which, data_kind kind) {
  const rdt_tensor *t = &j->data[which];
  const int64_t low = t->dtype == RDT_S8 ? -128 : 0, high = low + 255;
  rdt_iter it = rdt_iter_begin(t);
  while (rdt_iter_next(&it)) {
    const int64_t v = kind == RANDOM    ? draw(&j->r, low, high)
                      : kind == LOWEST  ? low
                      : kind == HIGHEST ? high
                      : kind == ENDS    ? (draw(&j->r, 0, 1) ? low : high)
                      : kind == SMALL
                          ? low + 128 + (draw(&j->r, 0, 1) ? draw(&j->r, -64, 64) : draw(&j->r, 0, 1) * 128 - 64)
                          : 0;
    rdt_store(t->data, t->dtype, it.offset, (double)v);
  }
}

/* m, n, k; batches of two dimensions where b > 0; 0, 1 or 2 of: fixed weights, zero points, requantised to s8 or u8 */
typedef struct plan_of {
  int64_t m, n, k, b[2];
  bool fixed, zeros;
  int quantized; /* 0 no, else rdt_dtype */
  rdt_dtype a, w;
} plan_of;

static void make(job *j, const plan_of *x, uint64_t seed) {
  memset(j, 0, sizeof *j);
  j->r.state = seed;
  j->p = (rdt_problem){.op = RDT_KOP_GEMM, .n_in = 2, .in = j->in, .acc = RDT_S32, .epilogue = RDT_EPILOGUE_NONE};
  const int rank = x->b[0] > 0 ? 4 : 2;
  const rdt_dtype types[3] = {x->a, x->w, x->quantized ? (rdt_dtype)x->quantized : RDT_S32};
  const int64_t dims[3][2] = {{x->m, x->k}, {x->k, x->n}, {x->m, x->n}};
  for (int i = 0; i < 3; i++) {
    rdt_tensor *t = i < 2 ? &j->data[i] : &j->out;
    t->dtype = types[i];
    t->rank = rank;
    for (int d = 0; d < rank - 2; d++) t->shape[d] = x->b[d];
    for (int d = 0; d < 2; d++) t->shape[rank - 2 + d] = dims[i][d];
    place(j, i, t, i == 2);
    for (int d = 0, to = (int)draw(&j->r, 0, 2); i == 1 && rank == 4 && d < to; d++) t->stride[d] = 0; /* broadcast */
    const bool small = i == 1 && draw(&j->r, 0, 2) == 0;
    if (i < 2) fill(j, i, small ? SMALL : x->zeros ? RANDOM : (data_kind)draw(&j->r, 0, KINDS - 1));
    if (i < 2) j->in[i] = *t;
  }
  j->p.out = j->out;
  j->p.in[0].data = j->p.out.data = NULL;
  if (!x->fixed) j->p.in[1].data = NULL;
  for (int i = 0; i < 2 && x->zeros; i++)
    j->p.zero[i] = (int32_t)draw(&j->r, types[i] == RDT_S8 ? -128 : 0, types[i] == RDT_S8 ? 127 : 255);
  if (!x->quantized) return;
  rdt_epilogue *e = &j->p.epilogue;
  j->factor = malloc((size_t)(x->n + 1) * sizeof *j->factor);
  j->bias = malloc((size_t)(x->n + 1) * sizeof *j->bias);
  for (int64_t i = 0; i <= x->n; i++) {
    j->factor[i] = (float)(200.0 * (0.1 + fabs(util_uniform(&j->r))) / (30000.0 * sqrt((double)x->k + 1.0)));
    j->bias[i] = (int32_t)draw(&j->r, -100000, 100000);
  }
  if (draw(&j->r, 0, 9) == 0) j->factor[0] = NAN;
  if (draw(&j->r, 0, 3) == 0) j->factor[x->n / 2] = 0.5f; /* halves */
  e->factor = rdt_tensor_dense(j->factor, RDT_F32, 1, &x->n);
  if (draw(&j->r, 0, 3) == 0) e->factor.stride[0] = 0;
  if (draw(&j->r, 0, 1)) e->bias = rdt_tensor_dense(j->bias, RDT_S32, 1, &x->n);
  e->zero = (int32_t)draw(&j->r, types[2] == RDT_S8 ? -128 : 0, types[2] == RDT_S8 ? 127 : 255);
}

static void drop(job *j) {
  for (int i = 0; i < 3; i++) free(j->buffer[i]);
  free(j->factor);
  free(j->bias);
}

static int64_t at(const rdt_tensor *t, const int64_t *batch, int64_t r, int64_t c) {
  int64_t offset = r * t->stride[t->rank - 2] + c * t->stride[t->rank - 1];
  for (int d = 0; d < t->rank - 2; d++) offset += batch[d] * t->stride[d];
  return offset;
}

static int64_t get(const rdt_tensor *t, int64_t offset) {
  return (int64_t)rdt_load(t->data, t->dtype, offset);
}

/* What an element must be, of its sum. */
static int64_t ended(const job *j, uint32_t sum, int64_t c) {
  const rdt_epilogue *e = &j->p.epilogue;
  if (e->factor.rank < 0) return (int32_t)sum;
  float x = (float)(int32_t)sum;
  if (e->bias.rank >= 0) x += (float)j->bias[c];
  x *= j->factor[c * e->factor.stride[0]];
  const int low = j->out.dtype == RDT_S8 ? -128 : 0, high = low + 255;
  if (!(x > (float)(low - e->zero))) return low;
  if (!(x < (float)(high - e->zero))) return high;
  return (int64_t)nearbyintf(x) + e->zero;
}

/* The numbers of a matrix without its zero point, line by line along k: an element by itself is slow to find. */
static int32_t *lines(const job *j, int which, const int64_t *batch) {
  const rdt_tensor *t = &j->data[which];
  const int64_t k = j->data[0].shape[j->data[0].rank - 1], count = t->shape[t->rank - (which ? 1 : 2)];
  int32_t *x = malloc((size_t)(count * k + 1) * sizeof *x);
  for (int64_t i = 0; i < count; i++)
    for (int64_t s = 0; s < k; s++)
      x[i * k + s] = (int32_t)get(t, which ? at(t, batch, s, i) : at(t, batch, i, s)) - j->p.zero[which];
  return x;
}

static void compare(const job *j, uint64_t seed, const char *what) {
  const rdt_tensor *c = &j->out;
  const int64_t b0 = c->rank > 2 ? c->shape[0] : 1, b1 = c->rank > 2 ? c->shape[1] : 1;
  const int64_t n = c->shape[c->rank - 1], m = c->shape[c->rank - 2], k = j->data[0].shape[c->rank - 1];
  for (int64_t b = 0; b < b0 * b1; b++) {
    const int64_t batch[2] = {b / b1, b % b1};
    int32_t *rows = lines(j, 0, batch), *columns = lines(j, 1, batch);
    for (int64_t e = 0; e < m * n; e++) {
      const int32_t *x = rows + e / n * k, *y = columns + e % n * k;
      uint32_t sum = 0;
      for (int64_t t = 0; t < k; t++) sum += (uint32_t)(x[t] * y[t]);
      const int64_t is = get(c, at(c, batch, e / n, e % n)), should = ended(j, sum, e % n);
      if (is != should)
        fail_msg("seed %llu, %s: element %lld is %lld, not %lld", (unsigned long long)seed, what,
                 (long long)(b * m * n + e), (long long)is, (long long)should);
    }
    free(rows);
    free(columns);
  }
}

/* Nothing is written but the elements of the result. */
static void check_gaps(const job *j, uint64_t seed) {
  unsigned char *covered = calloc(1, j->bytes[2]);
  const size_t size = rdt_dtype_size(j->out.dtype);
  rdt_iter it = rdt_iter_begin(&j->out);
  while (rdt_iter_next(&it)) memset(covered + (size_t)it.offset * size, 1, size);
  for (size_t i = 0; i < j->bytes[2]; i++)
    if (!covered[i] && j->buffer[2][i] != 0xa5)
      fail_msg("seed %llu: byte %zu between the elements was written", (unsigned long long)seed, i);
  free(covered);
}

static rdt_operands operands(const job *j) {
  return (rdt_operands){.in = j->data,
                        .n_in = 2,
                        .out = j->out,
                        .epilogue = rdt_epilogue_is_none(&j->p.epilogue) ? NULL : &j->p.epilogue};
}

static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 15, 16, 17, 24, 31, 33, 48, 65, 97};

static plan_of random_plan(util_random *r) {
  enum { COUNT = sizeof sizes / sizeof *sizes };
  static const int64_t long_k[] = {511, 600, 1025, 2100};
  plan_of x = {.m = util_pick(r, sizes, COUNT), .n = util_pick(r, sizes, COUNT), .k = util_pick(r, sizes, COUNT)};
  if (draw(r, 0, 4) == 0) x.k = util_pick(r, long_k, 4);
  if (draw(r, 0, 3) == 0) x.b[0] = draw(r, 1, 2), x.b[1] = draw(r, 1, 3);
  x.fixed = draw(r, 0, 1);
  x.zeros = draw(r, 0, 1);
  x.quantized = draw(r, 0, 2) ? (int)(draw(r, 0, 1) ? RDT_S8 : RDT_U8) : 0;
  x.a = draw(r, 0, 1) ? RDT_S8 : RDT_U8;
  x.w = draw(r, 0, 1) ? RDT_S8 : RDT_U8;
  return x;
}

/* By the kernel itself, for some numbers of threads, and by the reference. */
static void every_product_is_exact(void **state) {
  int64_t n;
  const uint64_t first = 1 + (uint64_t)util_part(250, util_one_in(1, 2), &n);
  (void)state;
  for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
    util_random r = {seed};
    const plan_of x = random_plan(&r);
    job j;
    rdt_reason why = {""};
    make(&j, &x, seed);
    if (rdt_problem_check(&j.p, &why) != RDT_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, why.text);
    for (int turn = 0; turn < 7; turn++) {
      const rdt_kernel *k = turn < 6 ? &rdt_kernel_gemm_int8_native : &rdt_kernel_gemm_generic;
      const rdt_operands o = operands(&j);
      void *s = NULL;
      quads = turn >= 3;
      assert_int_equal(k->accept(&j.p, &why), RDT_OK);
      assert_int_equal(k->create(&j.p, turn % 3 + 1, &s, &why), RDT_OK);
      memset(j.buffer[2], 0xa5, j.bytes[2]);
      assert_int_equal(k->run(s, &o, &why), RDT_OK);
      compare(&j, seed, k->name);
      check_gaps(&j, seed);
      k->destroy(s);
    }
    drop(&j);
  }
}

/* Two weights side by side along k, met by 255 twice: only what cannot saturate in 16 bits goes the faster way. */
static void only_small_weights_are_added_in_16_bits(void **state) {
  static const struct {
    int8_t w[2];
    bool small;
  } cases[] = {{{64, 64}, true},  {{-64, -64}, true},  {{127, 1}, true},   {{-128, 0}, true}, {{0, -128}, true},
               {{65, 64}, false}, {{-65, -64}, false}, {{127, -2}, false}, {{-128, 1}, false}};
  const rdt_int8_tables t = __real_rdt_int8_tables_of();
  const plan_of x = {.m = 7, .n = 18, .k = 6, .fixed = true, .a = RDT_U8, .w = RDT_S8};
  (void)state;
  if (!t.small) skip();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    job j;
    rdt_reason why = {""};
    void *s = NULL;
    quads = false;
    make(&j, &x, i + 1);
    fill(&j, 0, HIGHEST);
    fill(&j, 1, ZEROS);
    for (int u = 0; u < 2; u++) rdt_store(j.data[1].data, RDT_S8, at(&j.data[1], NULL, 4 + u, 17), cases[i].w[u]);
    assert_int_equal(rdt_kernel_gemm_int8_native.create(&j.p, 1, &s, &why), RDT_OK);
    assert_true((((rdt_int8 *)s)->table == t.small) == cases[i].small);
    const rdt_operands o = operands(&j);
    assert_int_equal(rdt_kernel_gemm_int8_native.run(s, &o, &why), RDT_OK);
    compare(&j, i + 1, "small or not");
    rdt_kernel_gemm_int8_native.destroy(s);
    drop(&j);
  }
}

/* ---- checks ---- */

static const rdt_policy NORMAL = RDT_POLICY_DEFAULT;

typedef struct house {
  job j;
  rdt_context *ctx;
  rdt_plan *plan;
  rdt_result r;
  unsigned char *clean;
} house;

static rdt_status execute(house *h) {
  const rdt_operands o = {.in = h->j.data, .n_in = 2, .out = h->j.out, .epilogue = &h->plan->prob.epilogue};
  memset(h->j.buffer[2], 0xa5, h->j.bytes[2]);
  return rdt_plan_run(h->plan, &o, &h->r);
}

static void open_house(house *h, const plan_of *x, uint64_t seed, const char *scheme, int threads) {
  memset(h, 0, sizeof *h);
  quads = seed % 2;
  make(&h->j, x, seed);
  if (h->j.factor && isnan(h->j.factor[0])) h->j.factor[0] = 0.001f; /* it would hide every fault */
  rdt_policy policy = NORMAL;
  policy.scheme = scheme;
  assert_int_equal(rdt_context_create(&h->ctx, threads), RDT_OK);
  assert_int_equal(rdt_context_set_policy(h->ctx, &policy), RDT_OK);
  if (rdt_plan_create(h->ctx, &h->j.p, "layer", "op", NULL, &h->plan) != RDT_OK)
    fail_msg("%s", rdt_context_error(h->ctx));
  assert_string_equal(h->plan->scheme->name, scheme);
  if (execute(h) != RDT_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, rdt_context_error(h->ctx));
  if (h->r.verdict != RDT_CLEAN || h->r.suspects)
    fail_msg("seed %llu, %s: not clean", (unsigned long long)seed, scheme);
  compare(&h->j, seed, scheme);
  if (h->plan->out_sealed && rdt_tensor_is_packed(&h->j.out)) {
    const size_t bytes = (size_t)rdt_tensor_count(&h->j.out) * rdt_dtype_size(h->j.out.dtype);
    assert_true(h->plan->out_seal == rdt_bitsum(h->j.out.data, bytes));
  }
  h->clean = memcpy(malloc(h->j.bytes[2]), h->j.buffer[2], h->j.bytes[2]);
}

static void close_house(house *h) {
  rdt_plan_destroy(h->plan);
  rdt_context_destroy(h->ctx);
  free(h->clean);
  drop(&h->j);
}

static void strike(house *h, const char *spec, uint64_t seed) {
  if (rdt_plan_inject(h->plan, spec) != RDT_OK) fail_msg("%s: %s", spec, rdt_context_error(h->ctx));
  if (execute(h) != RDT_OK) fail_msg("seed %llu, %s: %s", (unsigned long long)seed, spec, rdt_context_error(h->ctx));
  if (!h->plan->injection->done) fail_msg("seed %llu: %s did not strike", (unsigned long long)seed, spec);
  if (memcmp(h->clean, h->j.buffer[2], h->j.bytes[2]) != 0)
    fail_msg("seed %llu: %s was not repaired", (unsigned long long)seed, spec);
}

static bool has_work(const plan_of *x) {
  return x->m > 0 && x->n > 0 && x->k > 0;
}

static const char *const schemes[] = {"row", "col", "rowcol", "global", "tile"};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

/* Where a check that rides along says that element e is: where it is, or where it hides in the epilogue all that the
 * check knows. */
static void expect_place(const house *h, int64_t e, uint64_t seed) {
  const rdt_tensor *c = &h->j.out;
  const int64_t n = c->shape[c->rank - 1], row = e / n, col = e % n;
  const char *scheme = h->plan->scheme->name;
  int64_t place[2] = {row, col};
  if (strcmp(scheme, "row") == 0 || strcmp(scheme, "global") == 0) place[1] = -1;
  if (strcmp(scheme, "col") == 0 || strcmp(scheme, "global") == 0) place[0] = -1;
  for (int i = 0; i < 2 && strcmp(scheme, "tile") == 0; i++) place[i] = place[i] / RDT_TILE_SIDE * RDT_TILE_SIDE;
  for (int i = 0; i < 2; i++)
    if (h->r.place[i] != place[i] && h->r.place[i] != (i ? col : row))
      fail_msg("seed %llu, %s: element %lld at %lld,%lld", (unsigned long long)seed, scheme, (long long)e,
               (long long)h->r.place[0], (long long)h->r.place[1]);
}

/* Clean data are clean with every scheme; any bit of any accumulator is found, exactly, and repaired. */
static void every_accumulator_is_covered(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 120; seed++) {
    util_random r = {seed};
    plan_of x = random_plan(&r);
    char spec[96];
    house h;
    if (!has_work(&x)) continue;
    open_house(&h, &x, seed, schemes[seed % SCHEMES], 1 + (int)(seed % 3));
    const bool one = x.b[0] == 0 || rdt_batch_is_one(&h.j.data[1]);
    assert_true((h.plan->fused != NULL) == (x.fixed ? one : seed % SCHEMES == 0));
    const int64_t n = rdt_tensor_count(&h.j.out);
    for (int i = 0; i < 4; i++) {
      const int64_t e = draw(&r, 0, n - 1);
      snprintf(spec, sizeof spec, "bit:%d@accum,at=%lld,seed=%d", (int)draw(&r, 0, 31), (long long)e, i);
      strike(&h, spec, seed);
      if (h.r.verdict != RDT_RECOMPUTED)
        fail_msg("seed %llu: %s: verdict %d", (unsigned long long)seed, spec, (int)h.r.verdict);
      if (h.plan->fused) expect_place(&h, e, seed);
    }
    if (x.quantized) {
      snprintf(spec, sizeof spec, "bit:%d@epilogue,at=%lld", (int)draw(&r, 0, 7), (long long)draw(&r, 0, n - 1));
      strike(&h, spec, seed);
      assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
    }
    assert_int_equal(execute(&h), RDT_OK);
    assert_int_equal(h.r.verdict, RDT_CLEAN);
    close_house(&h);
  }
}

/* More than one block, strip, panel and block of the reduction, whoever of the threads shares what; faults at each site
 * where it says that it has a check. */
static void every_form_covers_its_sites(void **state) {
  static const int64_t shapes[][3] = {{131, 150, 70}, {260, 24, 300}, {5, 300, 1100}, {200, 270, 33}, {131, 40, 2100}};
  (void)state;
  for (uint64_t seed = 0; seed < 4 * sizeof shapes / sizeof *shapes; seed++)
    for (int i = 0; i < SCHEMES; i++) {
      if (!util_takes((int64_t)(seed + seed / 4) + i, util_one_in(2, 4))) continue;
      const int64_t *const mnk = shapes[seed / 4];
      const plan_of x = {.m = mnk[0],
                         .n = mnk[1],
                         .k = mnk[2],
                         .fixed = true,
                         .zeros = true,
                         .a = RDT_U8,
                         .w = RDT_S8,
                         .quantized = seed % 2 ? RDT_U8 : 0};
      static const char *const sites[] = {"accum", "epilogue", "packed", "checksum", "sum", "bound", "comparison"};
      util_random r = {seed};
      house h;
      open_house(&h, &x, seed, schemes[i], 1 + (int)(seed / 2 % 2) + (i == 1));
      assert_non_null(h.plan->fused);
      for (size_t site = 0; site < sizeof sites / sizeof *sites; site++) {
        char spec[96];
        const int64_t e = draw(&r, 0, x.m * x.n - 1);
        const bool placed = site < 2;
        if (placed)
          snprintf(spec, sizeof spec, "bit:%d@%s,at=%lld", (int)draw(&r, 0, site ? 7 : 31), sites[site], (long long)e);
        else
          snprintf(spec, sizeof spec, "bit@%s,seed=%d", sites[site], (int)seed);
        if (rdt_plan_inject(h.plan, spec) != RDT_OK) { /* what a form does not have */
          assert_true(site > 1 || (site == 1 && !x.quantized));
          continue;
        }
        strike(&h, spec, seed);
        if (placed && h.r.verdict != RDT_RECOMPUTED)
          fail_msg("seed %llu, %s, %s: verdict %d", (unsigned long long)seed, schemes[i], spec, (int)h.r.verdict);
        if (site == 0) expect_place(&h, e, seed);
      }
      close_house(&h);
    }
}

/* Weights that have rotted, as the caller keeps them or packed, and checksums, are noticed where they change a sum. */
static void data_at_rest_is_covered(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    util_random r = {seed};
    plan_of x = random_plan(&r);
    house h;
    x.fixed = true;
    x.b[0] = 0;
    x.zeros = false;
    if (!has_work(&x)) continue;
    open_house(&h, &x, seed, "row", 2);
    assert_true(h.plan->fused);
    for (int i = 0; i < 3; i++) {
      static const char *const sites[] = {"packed", "checksum", "sum"};
      char spec[96];
      snprintf(spec, sizeof spec, "bit@%s,seed=%d", sites[i], (int)seed);
      fill(&h.j, 0, HIGHEST); /* of s8 or u8: nothing of A is 0, so every weight counts */
      assert_int_equal(execute(&h), RDT_OK);
      memcpy(h.clean, h.j.buffer[2], h.j.bytes[2]);
      strike(&h, spec, seed);
      const bool padding = i == 0 && h.r.verdict == RDT_CLEAN;
      if (!padding) assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
    }
    close_house(&h);
  }
}

/* A packed weight that counts. */
static void a_packed_weight_cries(void **state) {
  (void)state;
  const plan_of x = {.m = 30, .n = 32, .k = 64, .fixed = true, .a = RDT_U8, .w = RDT_S8};
  house h;
  open_house(&h, &x, 7, "row", 1);
  fill(&h.j, 0, HIGHEST);
  assert_int_equal(execute(&h), RDT_OK);
  memcpy(h.clean, h.j.buffer[2], h.j.bytes[2]);
  for (int at = 0; at < 32 * 64; at += 37) {
    char spec[64];
    snprintf(spec, sizeof spec, "bit:0@packed,at=%d", at);
    strike(&h, spec, 7);
    assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
    assert_int_equal(h.r.diagnosis, RDT_DIAG_MEMORY);
  }
  close_house(&h);
}

/* ---- convolutions ---- */

extern const rdt_kernel rdt_kernel_conv_int8_native, rdt_kernel_conv_generic;

/* Zero points, and a requantised result in one of two layouts where `to` is s8 or u8; its memory is the caller's. */
static void shape_conv(util_case *c, util_random *r, rdt_dtype to, float *factor, int32_t *bias) {
  rdt_problem *p = &c->p;
  for (int i = 0; i < 2; i++) {
    const bool is_signed = p->in[i].dtype == RDT_S8;
    p->zero[i] = (int32_t)draw(r, is_signed ? -128 : 0, is_signed ? 127 : 255);
  }
  if (to == RDT_S32) return;
  const int64_t channels = p->out.shape[1];
  for (int64_t i = 0; i < channels; i++) {
    factor[i] = (float)(0.001 * (0.1 + fabs(util_uniform(r))));
    bias[i] = (int32_t)draw(r, -1000, 1000);
  }
  p->epilogue.factor = rdt_tensor_dense(factor, RDT_F32, 1, &channels);
  p->epilogue.bias = rdt_tensor_dense(bias, RDT_S32, 1, &channels);
  p->epilogue.zero = (int32_t)draw(r, 0, 127);
  p->out = draw(r, 0, 1) ? rdt_tensor_channels_last(c->out_base, to, p->out.rank, p->out.shape)
                         : rdt_tensor_dense(c->out_base, to, p->out.rank, p->out.shape);
}

/* Against the reference, bit by bit. */
static void convolutions_are_exact(void **state) {
  (void)state;
  static float factor[4096];
  static int32_t bias[4096];
  int taken = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    util_random r = {seed};
    util_case c;
    rdt_reason why = {""};
    const rdt_dtype a = draw(&r, 0, 1) ? RDT_S8 : RDT_U8, b = draw(&r, 0, 1) ? RDT_S8 : RDT_U8;
    static const rdt_dtype results[] = {RDT_S32, RDT_S8, RDT_U8};
    util_case_make(&c, &r, RDT_KOP_CONV, a, b, RDT_S32, seed % 2);
    shape_conv(&c, &r, results[draw(&r, 0, 2)], factor, bias);
    if (rdt_problem_check(&c.p, &why) != RDT_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, why.text);
    if (rdt_kernel_conv_int8_native.accept(&c.p, &why) == RDT_OK) {
      unsigned char *should = NULL;
      taken++;
      for (int turn = 0; turn < 5; turn++) {
        const rdt_kernel *k = turn ? &rdt_kernel_conv_int8_native : &rdt_kernel_conv_generic;
        const rdt_operands o = {.in = c.p.in, .n_in = 2, .out = c.p.out, .epilogue = &c.p.epilogue};
        void *s = NULL;
        quads = turn > 2;
        memset(c.out_base, 0xa5, c.out_bytes);
        assert_int_equal(k->create(&c.p, 1 + turn % 2, &s, &why), RDT_OK);
        assert_int_equal(k->run(s, &o, &why), RDT_OK);
        if (!turn) should = memcpy(malloc(c.out_bytes + 1), c.out_base, c.out_bytes);
        if (memcmp(should, c.out_base, c.out_bytes) != 0)
          fail_msg("seed %llu: turn %d", (unsigned long long)seed, turn);
        k->destroy(s);
      }
      free(should);
    }
    util_case_free(&c);
  }
  assert_true(taken > 40);
}

/* Each scheme, with its check in the kernel and in passes apart. */
static void convolutions_are_covered(void **state) {
  (void)state;
  static const char *const checks[] = {"fc", "ic", "fic"};
  static float factor[4096];
  static int32_t bias[4096];
  int fused = 0;
  int64_t n;
  const int one_in = util_one_in(1, 2);
  const uint64_t first = 1 + (uint64_t)util_part(250, one_in, &n);
  for (uint64_t seed = first; seed < first + (uint64_t)n; seed++) {
    util_random r = {seed};
    house h;
    util_case c;
    rdt_policy policy = NORMAL;
    memset(&h, 0, sizeof h);
    policy.scheme = checks[seed % 3];
    quads = seed % 2;
    util_case_make(&c, &r, RDT_KOP_CONV, RDT_U8, RDT_S8, RDT_S32, true);
    shape_conv(&c, &r, draw(&r, 0, 1) ? RDT_U8 : RDT_S32, factor, bias);
    if (rdt_tensor_count(&c.p.out) > 0 && rdt_tensor_count(&c.p.in[1]) > 0 && rdt_tensor_count(&c.p.in[0]) > 0) {
      assert_int_equal(rdt_context_create(&h.ctx, 2), RDT_OK);
      assert_int_equal(rdt_context_set_policy(h.ctx, &policy), RDT_OK);
      if (rdt_plan_create(h.ctx, &c.p, "layer", "op", NULL, &h.plan) != RDT_OK)
        fail_msg("%s", rdt_context_error(h.ctx));
      fused += h.plan->fused != NULL;
      const rdt_operands o = {.in = c.p.in, .n_in = 2, .out = c.p.out, .epilogue = &c.p.epilogue};
      for (int i = 0; i < 4; i++) {
        char spec[96];
        snprintf(spec, sizeof spec, "bit@accum,seed=%d", i);
        if (i > 0 && rdt_plan_inject(h.plan, spec) != RDT_OK) fail_msg("%s", rdt_context_error(h.ctx));
        memset(c.out_base, 0xa5, c.out_bytes);
        if (rdt_plan_run(h.plan, &o, &h.r) != RDT_OK) fail_msg("%s", rdt_context_error(h.ctx));
        if (h.r.verdict != (i ? RDT_RECOMPUTED : RDT_CLEAN))
          fail_msg("seed %llu, %s, %d: verdict %d", (unsigned long long)seed, policy.scheme, i, (int)h.r.verdict);
        if (!i) h.clean = memcpy(malloc(c.out_bytes + 1), c.out_base, c.out_bytes);
        if (memcmp(h.clean, c.out_base, c.out_bytes) != 0)
          fail_msg("seed %llu: not repaired", (unsigned long long)seed);
      }
      rdt_plan_destroy(h.plan);
      rdt_context_destroy(h.ctx);
      free(h.clean);
    }
    util_case_free(&c);
  }
  assert_true(fused * one_in > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_product_is_exact),       cmocka_unit_test(only_small_weights_are_added_in_16_bits),
      cmocka_unit_test(every_accumulator_is_covered), cmocka_unit_test(every_form_covers_its_sites),
      cmocka_unit_test(data_at_rest_is_covered),      cmocka_unit_test(a_packed_weight_cries),
      cmocka_unit_test(convolutions_are_exact),       cmocka_unit_test(convolutions_are_covered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
