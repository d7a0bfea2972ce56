#include "util_native.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "cpu/epilogue.h"
#include "plan/plan.h"

enum { LAMBDA = 6 };

rdt_dtype util_native_real = RDT_F32;
bool util_native_dot;

bool util_native_has_dot(void) {
  return rdt_isa_detect() == RDT_ISA_AVX512 && rdt_cpu_has_fast_bf16();
}

bool util_native_can(const rdt_kernel *k) {
  return k->isa <= rdt_isa_detect() && (!strstr(k->name, "_bf16_native") || util_native_has_dot());
}

const util_native_layout util_native_layouts[UTIL_NATIVE_LAYOUTS] = {
    {UTIL_GEMM, {4, 1, 1}},
    {UTIL_GEMM, {4, 3, 5, 1, 2}},
    {UTIL_GEMM, {5, 17, 33, 0, 3, 1}},
    {UTIL_GEMM, {6, 16, 64, 3, 0}},
    {UTIL_GEMM, {7, 31, 100, 5, 1}},
    {UTIL_GEMM, {49, 70, 257, 0, 0, 1}},
    {UTIL_GEMM, {49, 129, 19, 2, 7}},
    {UTIL_GEMM, {23, 700, 40}},
    {UTIL_CONV, {1, 8, 6, 7, 16, 1, 1, 1, 1, 0, 0}},
    {UTIL_CONV, {2, 12, 9, 8, 20, 3, 3, 1, 1, 1, 3}},
    {UTIL_CONV, {1, 16, 11, 9, 33, 3, 3, 2, 1, 1, 0}},
    {UTIL_CONV, {1, 9, 10, 10, 40, 3, 2, 1, 2, 2, 1}},
    {UTIL_CONV, {2, 40, 2, 3, 8, 3, 3, 1, 1, 5, 0}},
    {UTIL_CONV, {3, 8, 13, 1, 5, 7, 1, 1, 1, 3, 2}},
    {UTIL_CONV, {1, 8, 9, 9, 24, 9, 9, 1, 1, 4, 0}},
    {UTIL_BATCH, {2, 3, 5, 7, 9, 0, 0}},
    {UTIL_BATCH, {1, 4, 17, 33, 20, 1, 1}},
    {UTIL_BATCH, {3, 1, 49, 16, 65, 0, 1}},
    {UTIL_BATCH, {2, 2, 6, 40, 31, 1, 0}},
    {UTIL_BATCH, {1, 1, 4, 200, 12, 1, 0}},
    /* several blocks of the reduction, several strips of rows */
    {UTIL_GEMM, {2, 37, 700}},
    {UTIL_GEMM, {15, 50, 1001, 7, 0, 1}},
    {UTIL_GEMM, {139, 33, 650, 0, 3}},
    {UTIL_CONV, {1, 45, 9, 8, 20, 3, 3, 1, 1, 1, 0}},
    {UTIL_BATCH, {2, 1, 9, 21, 400, 1, 0}},
    /* a single row: four panels at a time, two, one, a part of one */
    {UTIL_GEMM, {1, 5, 9}},
    {UTIL_GEMM, {1, 131, 13}},
    {UTIL_GEMM, {1, 240, 701, 0, 3, 1}},
};

size_t util_native_reach(int rank, const int64_t *shape, const int64_t *stride) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n += (shape[d] - 1) * stride[d];
  return (size_t)n * rdt_dtype_size(util_native_real);
}

/* Not a byte longer than it reaches. */
static rdt_tensor view(util_native *j, int rank, const int64_t *shape, const int64_t *stride) {
  rdt_tensor t = {.dtype = util_native_real, .rank = rank};
  const size_t bytes = util_native_reach(rank, shape, stride);
  void *x = malloc(bytes);
  for (size_t i = 0; i < bytes / rdt_dtype_size(t.dtype); i++)
    rdt_store(x, t.dtype, (int64_t)i, util_uniform(&j->random));
  memcpy(t.shape, shape, (size_t)rank * sizeof *shape);
  memcpy(t.stride, stride, (size_t)rank * sizeof *stride);
  t.data = j->buffers[j->n_buffers++] = x;
  return t;
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})

static rdt_tensor pixels(util_native *j, int64_t n, int64_t c, int64_t h, int64_t w, int64_t gap) {
  return view(j, 4, LIST(n, c, h, w), LIST(h * w * (c + gap), 1, w * (c + gap), c + gap));
}

static void make_gemm(util_native *j, const int64_t *s) {
  const int64_t m = s[0], n = s[1], k = s[2];
  j->data[0] = view(j, 2, LIST(m, k), LIST(k + s[3], 1));
  j->data[1] = view(j, 2, LIST(k, n), s[5] ? LIST(1, k) : LIST(n, 1));
  j->out = view(j, 2, LIST(m, n), LIST(n + s[4], 1));
}

static int64_t length_of(int64_t in, int64_t kernel, const int64_t *s) {
  return (in + 2 * s[9] - s[8] * (kernel - 1) - 1) / s[7] + 1;
}

static void make_conv(util_native *j, const int64_t *s) {
  rdt_window *w = &j->p.window;
  for (int d = 0; d < 2; d++) {
    w->kernel[d] = s[5 + d];
    w->stride[d] = s[7];
    w->dilation[d] = s[8];
    w->before[d] = w->after[d] = s[9];
  }
  w->groups = 1;
  j->data[0] = pixels(j, s[0], s[1], s[2], s[3], s[10]);
  j->data[1] = view(j, 4, LIST(s[4], s[1], s[5], s[6]), LIST(s[1] * s[5] * s[6], s[5] * s[6], s[6], 1));
  j->out = pixels(j, s[0], s[4], length_of(s[2], s[5], s), length_of(s[3], s[6], s), s[10]);
}

static void make_batch(util_native *j, const int64_t *s) {
  const int64_t b = s[0], h = s[1], m = s[2], n = s[3], k = s[4];
  j->data[0] = view(j, 4, LIST(b, h, m, k), LIST(h * m * k, m * k, k, 1));
  j->data[1] = s[5] ? view(j, 4, LIST(b, h, k, n), LIST(h * n * k, n * k, 1, k))
                    : view(j, 4, LIST(b, h, k, n), LIST(h * n * k, n * k, n, 1));
  j->out = s[6] ? view(j, 4, LIST(b, h, m, n), LIST(m * h * n, n, h * n, 1))
                : view(j, 4, LIST(b, h, m, n), LIST(h * m * n, m * n, n, 1));
}

static bool is_half(void) {
  return util_native_real == RDT_BF16 || util_native_real == RDT_F16;
}

/* What is computed in more bits than its operands have may stay so: that of every other layout does. */
static void widen_result(util_native *j, const util_native_layout *l) {
  rdt_tensor *t = &j->out;
  if (is_half() && (l->s[0] + l->s[1]) % 2) t->dtype = RDT_F32;
  const size_t elements = util_native_reach(t->rank, t->shape, t->stride) / rdt_dtype_size(util_native_real);
  j->out_bytes = elements * rdt_dtype_size(t->dtype);
  t->data = j->buffers[2] = realloc(j->buffers[2], j->out_bytes);
}

void util_native_make(util_native *j, const util_native_layout *l) {
  util_native_layout as = *l;
  if (util_native_real == RDT_F64 && l->kind == UTIL_CONV) { /* there is none: a product of some such lengths */
    const int64_t *s = l->s;
    as = (util_native_layout){UTIL_GEMM, {s[0] * s[2] * s[3], s[4], s[1] * s[5] * s[6], s[10], s[9]}};
  }
  *j = (util_native){.kind = as.kind, .random = {7}};
  (as.kind == UTIL_GEMM ? make_gemm : as.kind == UTIL_CONV ? make_conv : make_batch)(j, as.s);
  j->p.op = as.kind == UTIL_CONV ? RDT_KOP_CONV : RDT_KOP_GEMM;
  widen_result(j, &as);
  j->p.acc = rdt_dtype_accumulator(util_native_real);
  j->p.n_in = 2;
  j->p.in = j->in;
  j->p.epilogue = RDT_EPILOGUE_NONE;
  memcpy(j->in, j->data, sizeof j->in);
  j->in[0].data = NULL;
  if (as.kind == UTIL_BATCH) j->in[1].data = NULL;
  j->p.out = j->out;
  j->p.out.data = NULL;
}

void util_native_drop(util_native *j) {
  for (int i = 0; i < j->n_buffers; i++) free(j->buffers[i]);
}

void util_native_epilogue(util_native *j, int which) {
  static const rdt_act acts[] = {
      {RDT_FN_NONE, {0}}, {RDT_FN_RELU, {0}}, {RDT_FN_CLIP, {-0.25, 0.5}}, {RDT_FN_GELU, {0}}};
  rdt_epilogue *e = &j->p.epilogue;
  const rdt_tensor *y = &j->out;
  const int64_t channels = y->shape[j->kind == UTIL_CONV ? 1 : y->rank - 1];
  *e = RDT_EPILOGUE_NONE;
  while (j->n_buffers > 3) free(j->buffers[--j->n_buffers]);
  if (which & UTIL_BIAS) e->bias = view(j, 1, &channels, LIST(1));
  if (which & UTIL_RESIDUAL && j->kind == UTIL_CONV)
    e->residual = pixels(j, y->shape[0], channels, y->shape[2], y->shape[3], 2);
  if (which & UTIL_RESIDUAL && j->kind == UTIL_GEMM) e->residual = view(j, 2, y->shape, LIST(channels + 1, 1));
  if (which & UTIL_RESIDUAL && j->kind == UTIL_BATCH) e->residual = view(j, 4, y->shape, LIST(0, 0, 0, 1));
  if (which & UTIL_RESIDUAL) e->beta = which & UTIL_SCALED ? 0.5 : 1.0;
  if (which & UTIL_SCALED) e->alpha = -0.75;
  e->act = acts[which / UTIL_ACTS];
}

const rdt_kernel *util_native_kernel(const util_native *j) {
  const char *of = util_native_dot ? "bf16" : is_half() ? "half" : util_native_real == RDT_F64 ? "f64" : "f32";
  char name[32];
  snprintf(name, sizeof name, "%s_%s_native", j->kind == UTIL_CONV ? "conv" : "gemm", of);
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  for (int i = 0; i < n; i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  fail_msg("no %s", name);
  return NULL;
}

/* A problem without epilogue into a packed result, as plans make states. */
static rdt_problem raw_problem(const util_native *j) {
  rdt_problem raw = j->p;
  raw.epilogue = RDT_EPILOGUE_NONE;
  const rdt_plan plan = {.prob = j->p};
  raw.out = rdt_raw_view(&plan.prob);
  return raw;
}

void *util_native_state(const util_native *j, int threads) {
  const rdt_problem raw = raw_problem(j);
  const rdt_kernel *k = util_native_kernel(j);
  rdt_reason why = {""};
  void *state;
  if (k->accept_fused(&j->p, &why) != RDT_OK || k->create(&raw, threads, &state, &why) != RDT_OK)
    fail_msg("%s: %s", k->name, why.text);
  return state;
}

rdt_tensor util_native_raw(const util_native *j, void *state, rdt_kernel_hit *hit) {
  const rdt_kernel *k = util_native_kernel(j);
  rdt_reason why = {""};
  rdt_operands o = {.in = j->data, .n_in = 2, .out = raw_problem(j).out};
  const size_t bytes = (size_t)rdt_tensor_count(&o.out) * rdt_dtype_size(o.out.dtype);
  o.out.data = malloc(bytes);
  memset(o.out.data, 0xff, bytes);
  assert_int_equal(hit ? k->run_inject(state, &o, hit, &why) : k->run(state, &o, &why), RDT_OK);
  return o.out;
}

void util_native_expect(const util_native *j, const rdt_tensor *raw, const char *what) {
  rdt_tensor want = j->out;
  want.data = malloc(j->out_bytes);
  memset(want.data, 0xff, j->out_bytes);
  rdt_epilogue_apply(&j->p.epilogue, raw, &want, rdt_problem_channel(&j->p), 1);
  const char *x = want.data, *y = j->out.data;
  const size_t size = rdt_dtype_size(want.dtype);
  for (size_t i = 0; i < j->out_bytes / size; i++)
    if (memcmp(x + i * size, y + i * size, size) != 0)
      fail_msg("%s: word %zu is %.17g, not %.17g", what, i, rdt_load(y, want.dtype, (int64_t)i),
               rdt_load(x, want.dtype, (int64_t)i));
  free(want.data);
}

void util_native_fill(util_native *j, const util_native_data *d) {
  for (int i = 0; i < 2; i++) {
    const rdt_tensor *t = &j->data[i];
    const size_t n = util_native_reach(t->rank, t->shape, t->stride) / rdt_dtype_size(t->dtype);
    for (size_t e = 0; e < n; e++) {
      const double u = util_uniform(&j->random), v = d->scale[i] * (i == 0 ? d->offset + u : u);
      rdt_store(j->buffers[i], t->dtype, (int64_t)e,
                i == 0 && d->share < 1.0 ? (util_uniform(&j->random) < 2.0 * d->share - 1.0 ? fabs(v) : 0.0) : v);
    }
  }
}

int64_t util_native_row(const util_native *j, int64_t element) {
  const rdt_tensor *y = &j->out;
  if (j->kind != UTIL_CONV) return element / y->shape[y->rank - 1];
  const int64_t plane = rdt_tensor_pixels(y);
  return element / (y->shape[1] * plane) * plane + element % plane;
}

rdt_fused_check *util_native_check(const util_native *j, unsigned forms) {
  rdt_fused_check *c;
  rdt_reason why;
  assert_int_equal(rdt_fused_create(&j->p, util_native_kernel(j), forms, LAMBDA, &c, &why), RDT_OK);
  return c;
}

rdt_fused util_native_fuse(const util_native *j, void *state, rdt_fused_check *c, unsigned beside, rdt_kernel_hit *hit,
                           bool stored, rdt_findings *found) {
  rdt_fused f = rdt_fused_ask(c);
  rdt_reason why = {""};
  const rdt_operands o = {.in = j->data, .n_in = 2, .out = j->out, .epilogue = &j->p.epilogue};
  f.seal = true;
  f.forms |= beside;
  f.hit = hit;
  f.hit_stored = stored;
  memset(j->out.data, 0xff, j->out_bytes);
  assert_int_equal(util_native_kernel(j)->run_fused(state, &o, &f, &why), RDT_OK);
  rdt_findings_init(found);
  rdt_fused_judge(c, &f, found);
  return f;
}
