/* What the black boxes promise beside their values: refusals with reasons, the same bits from any thread and from
 * inside a parallel region, one state run by two threads, own weights that can be packed again. */
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "cpu/epilogue.h"
#include "cpu/kernel.h"
#include "util_problem.h"

static const rdt_kernel *row(const char *name) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  for (int i = 0; i < n; i++) {
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  }
  fail_msg("no row %s", name);
  return NULL;
}

/* The job of a thread: one run of a state into its own output. */
typedef struct job {
  const rdt_kernel *k;
  void *state;
  rdt_operands o;
  rdt_status status;
} job;

static void *work(void *p) {
  job *j = p;
  j->status = j->k->run(j->state, &j->o, NULL);
  return NULL;
}

typedef struct layer { /* a convolution or product with room for several outputs */
  rdt_problem p;
  rdt_tensor in[2];
  float *out[4];
  size_t bytes;
} layer;

static float *fill(int64_t n, uint64_t seed) {
  util_random r = {seed};
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = (float)util_uniform(&r);
  return x;
}

static void layer_make(layer *l, bool conv) {
  const int64_t x[4] = {2, 32, 14, 14}, w[4] = {48, 32, 3, 3}, y[4] = {2, 48, 14, 14};
  memset(l, 0, sizeof *l);
  l->p = (rdt_problem){
      .op = conv ? RDT_KOP_CONV : RDT_KOP_GEMM, .n_in = 2, .in = l->in, .acc = RDT_F32, .epilogue = RDT_EPILOGUE_NONE};
  const int64_t n = conv ? 2 * 48 * 14 * 14 : 96 * 80;
  l->bytes = (size_t)n * sizeof(float);
  for (int i = 0; i < 4; i++) l->out[i] = malloc(l->bytes);
  if (conv) {
    l->p.window = (rdt_window){
        .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 1};
    l->in[0] = rdt_tensor_channels_last(fill(2 * 32 * 14 * 14, 1), RDT_F32, 4, x);
    l->in[1] = rdt_tensor_dense(fill(48 * 32 * 9, 2), RDT_F32, 4, w);
    l->p.out = rdt_tensor_channels_last(l->out[0], RDT_F32, 4, y);
  } else {
    l->in[0] = rdt_tensor_matrix(fill(96 * 300, 1), RDT_F32, 96, 300, 300, 0);
    l->in[1] = rdt_tensor_matrix(fill(300 * 80, 2), RDT_F32, 300, 80, 80, 0);
    l->p.out = rdt_tensor_matrix(l->out[0], RDT_F32, 96, 80, 80, 0);
  }
}

static void layer_free(layer *l) {
  for (int i = 0; i < 4; i++) free(l->out[i]);
  free(l->in[0].data);
  free(l->in[1].data);
}

static void *made(const rdt_kernel *k, const layer *l, int threads) {
  rdt_reason why = {""};
  void *state;
  if (k->create(&l->p, threads, &state, &why) != RDT_OK) fail_msg("%s: %s", k->name, why.text);
  return state;
}

static job job_of(const rdt_kernel *k, void *state, const layer *l, int out) {
  job j = {k, state, {.in = l->in, .n_in = 2, .out = l->p.out}, RDT_ERR_INTERNAL};
  j.o.out.data = l->out[out];
  memset(l->out[out], 0xff, l->bytes);
  return j;
}

static void test_same_bits_everywhere(void **unused) {
  static const char *const names[] = {"gemm_f32_onednn", "conv_f32_onednn"};
  (void)unused;
  for (int i = 0; i < 2; i++) {
    layer l;
    layer_make(&l, i == 1);
    const rdt_kernel *k = row(names[i]);
    for (int threads = 1; threads <= 2; threads++) {
      void *state = made(k, &l, threads);
      job here = job_of(k, state, &l, 0), there = job_of(k, state, &l, 1);
      pthread_t thread;
      work(&here);
      assert_int_equal(here.status, RDT_OK);
      assert_int_equal(pthread_create(&thread, NULL, work, &there), 0); /* another calling thread */
      pthread_join(thread, NULL);
      assert_int_equal(there.status, RDT_OK);
      assert_memory_equal(l.out[0], l.out[1], l.bytes);
      k->destroy(state);
    }
    void *state = made(k, &l, 1); /* one state, two copies at once, each on a thread of a parallel region */
    job jobs[3] = {job_of(k, state, &l, 0), job_of(k, state, &l, 1), job_of(k, state, &l, 2)};
    work(&jobs[2]);
    for (int again = 0; again < 50; again++) {
#pragma omp parallel for num_threads(2)
      for (int t = 0; t < 2; t++) work(&jobs[t]);
      for (int t = 0; t < 3; t++) assert_int_equal(jobs[t].status, RDT_OK);
      assert_memory_equal(l.out[0], l.out[2], l.bytes);
      assert_memory_equal(l.out[1], l.out[2], l.bytes);
    }
    k->destroy(state);
    layer_free(&l);
  }
}

static void test_team_is_refused_when_nested(void **unused) {
  layer l;
  (void)unused;
  layer_make(&l, true);
  const rdt_kernel *k = row("conv_f32_onednn");
  void *state = made(k, &l, 2);
  job j = job_of(k, state, &l, 0);
#pragma omp parallel num_threads(2)
  {
#pragma omp single
    work(&j);
  }
  assert_int_equal(j.status, RDT_ERR_INTERNAL);
  k->destroy(state);
  layer_free(&l);
}

static void test_threads_are_given_back(void **unused) {
  layer l;
  (void)unused;
  layer_make(&l, false);
  omp_set_num_threads(3);
  const rdt_kernel *k = row("gemm_f32_onednn");
  void *state = made(k, &l, 2);
  job j = job_of(k, state, &l, 0);
  work(&j);
  assert_int_equal(omp_get_max_threads(), 3);
  omp_set_num_threads(2);
  k->destroy(state);
  layer_free(&l);
}

/* A flipped bit in the packed weights shows in the result until they are packed again. */
static void test_packed_weights(void **unused) {
  (void)unused;
  for (int conv = 0; conv < 2; conv++) {
    layer l;
    layer_make(&l, conv);
    const rdt_kernel *k = row(conv ? "conv_f32_onednn" : "gemm_f32_onednn");
    void *state = made(k, &l, 1), *data = NULL;
    job j = job_of(k, state, &l, 0), again = job_of(k, state, &l, 1), repaired = job_of(k, state, &l, 2);
    size_t bytes = 0;
    rdt_dtype dtype;
    work(&j);
    memset(l.in[1].data, 0, 16); /* the caller's weights are not read any more */
    work(&again);
    assert_memory_equal(l.out[0], l.out[1], l.bytes);
    k->packed(state, &data, &bytes, &dtype);
    assert_true(bytes >= (conv ? 48 * 32 * 9 : 300 * 80) * sizeof(float));
    assert_int_equal(dtype, RDT_F32);
    ((uint32_t *)data)[7] ^= 1u << 30;
    work(&again);
    assert_memory_not_equal(l.out[0], l.out[1], l.bytes);
    free(l.in[1].data);
    l.in[1].data = fill(conv ? 48 * 32 * 9 : 300 * 80, 2);
    assert_int_equal(k->pack(state, &l.in[1], NULL), RDT_OK);
    work(&repaired);
    assert_memory_equal(l.out[0], l.out[2], l.bytes);
    k->destroy(state);
    layer_free(&l);
  }
}

/* Packing again writes every byte, gaps of the layout too: whatever has struck there, memory is as it was. */
static void test_packing_leaves_nothing(void **unused) {
  static const rdt_dtype dtypes[] = {RDT_F32, RDT_F64, RDT_BF16, RDT_F16, RDT_S8, RDT_U8};
  static const int64_t x[4] = {1, 20, 9, 9}, w[4] = {24, 20, 3, 3}, y[4] = {1, 24, 9, 9};
  enum { M = 96, N = 80, K = 72, MOST = N * K };
  static _Alignas(64) unsigned char weights[MOST * sizeof(double)];
  int n, packed = 0;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  (void)unused;
  for (size_t e = 0; e < sizeof weights; e++) weights[e] = (unsigned char)(1 + e % 50);
  for (int i = 0; i < 12 * n; i++) {
    const rdt_kernel *k = rows[i / 12];
    const rdt_dtype t = dtypes[i % 6];
    const bool conv = i % 12 / 6;
    rdt_tensor in[2];
    rdt_problem p = {.op = conv ? RDT_KOP_CONV : RDT_KOP_GEMM, .n_in = 2, .in = in, .epilogue = RDT_EPILOGUE_NONE};
    p.acc = rdt_dtype_accumulator(t);
    p.window = (rdt_window){
        .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 1};
    in[0] = conv ? rdt_tensor_channels_last(NULL, t, 4, x) : rdt_tensor_matrix(NULL, t, M, K, K, 0);
    const rdt_dtype of = t == RDT_U8 ? RDT_S8 : t;
    in[1] = conv ? rdt_tensor_dense(weights, of, 4, w) : rdt_tensor_matrix(weights, of, K, N, N, 0);
    p.out = conv ? rdt_tensor_channels_last(NULL, p.acc, 4, y) : rdt_tensor_matrix(NULL, p.acc, M, N, N, 0);
    if (k->op != p.op || k->isa > rdt_isa_detect() || !k->pack || !k->packed || k->accept(&p, NULL) != RDT_OK) continue;
    void *state, *data = NULL;
    size_t bytes = 0;
    rdt_dtype dtype;
    assert_int_equal(k->create(&p, 1, &state, NULL), RDT_OK);
    k->packed(state, &data, &bytes, &dtype);
    unsigned char *before = malloc(bytes + 1);
    if (data && ++packed) {
      memcpy(before, data, bytes);
      memset(data, 0x5a, bytes);
      assert_int_equal(k->pack(state, &in[1], NULL), RDT_OK);
      if (memcmp(before, data, bytes) != 0) fail_msg("%s, %s: other bytes", k->name, rdt_dtype_name(t));
    }
    free(before);
    k->destroy(state);
  }
  assert_true(packed > 6);
}

/* Weights unknown at create: read (and where need be packed) anew by every run. */
static void test_open_weights(void **unused) {
  (void)unused;
  for (int conv = 0; conv < 2; conv++) {
    layer l;
    layer_make(&l, conv);
    const rdt_kernel *k = row(conv ? "conv_f32_onednn" : "gemm_f32_onednn");
    void *const weights = l.in[1].data, *data = &l;
    size_t bytes = 1;
    rdt_dtype dtype;
    l.in[1].data = NULL;
    void *state = made(k, &l, 1);
    l.in[1].data = weights;
    k->packed(state, &data, &bytes, &dtype);
    assert_null(data);
    assert_int_equal(bytes, 0);
    job first = job_of(k, state, &l, 0), second = job_of(k, state, &l, 1);
    work(&first);
    assert_int_equal(first.status, RDT_OK);
    for (int i = 0; i < 300; i++) ((float *)weights)[i] = 0;
    work(&second);
    assert_int_equal(second.status, RDT_OK);
    assert_memory_not_equal(l.out[0], l.out[1], l.bytes);
    k->destroy(state);
    layer_free(&l);
  }
}

/* A batch that is done image by image has the bits of its images alone, residual and activation included. */
static void test_image_by_image(void **unused) {
  enum { IMAGES = 4, C = 32, SIDE = 33, ONE = C * SIDE * SIDE };
  const int64_t x[4] = {IMAGES, C, SIDE, SIDE}, w[4] = {C, C, 3, 3};
  rdt_tensor in[2] = {rdt_tensor_channels_last(fill(IMAGES * ONE, 5), RDT_F32, 4, x),
                      rdt_tensor_dense(fill(C * C * 9, 6), RDT_F32, 4, w)};
  float *const whole = fill(IMAGES * ONE, 7), *const alone = fill(IMAGES * ONE, 8),
               *const residual = fill(IMAGES * ONE, 9);
  rdt_problem p = {
      .op = RDT_KOP_CONV,
      .n_in = 2,
      .in = in,
      .out = rdt_tensor_channels_last(whole, RDT_F32, 4, x),
      .acc = RDT_F32,
      .window = {
          .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 1}};
  const rdt_kernel *k = row("conv_f32_onednn");
  (void)unused;
  for (int epilogue = 0; epilogue < 2; epilogue++) {
    p.epilogue = RDT_EPILOGUE_NONE;
    if (epilogue) p.epilogue.act = (rdt_act){RDT_FN_LEAKYRELU, {0.25}};
    if (epilogue) p.epilogue.beta = 1.0;
    if (epilogue) p.epilogue.residual = rdt_tensor_channels_last(residual, RDT_F32, 4, x);
    for (int threads = 1; threads <= 3; threads++) {
      layer batch = {.p = p}, single = {.p = p};
      rdt_tensor view[2] = {in[0], in[1]};
      view[0].shape[0] = single.p.out.shape[0] = 1;
      if (epilogue) single.p.epilogue.residual.shape[0] = 1;
      single.p.in = view;
      void *all = made(k, &batch, threads), *one = made(k, &single, 1);
      rdt_operands o = {.in = in, .n_in = 2, .out = batch.p.out, .epilogue = &batch.p.epilogue};
      rdt_operands part = {.in = view, .n_in = 2, .out = single.p.out, .epilogue = &single.p.epilogue};
      memset(whole, 0xff, IMAGES * ONE * sizeof *whole);
      assert_int_equal(k->run(all, &o, NULL), RDT_OK);
      for (int i = 0; i < IMAGES; i++) {
        view[0].data = (float *)in[0].data + i * ONE;
        part.out.data = alone + i * ONE;
        if (epilogue) single.p.epilogue.residual.data = residual + i * ONE;
        assert_int_equal(k->run(one, &part, NULL), RDT_OK);
      }
      assert_memory_equal(whole, alone, IMAGES * ONE * sizeof *whole);
      k->destroy(all);
      k->destroy(one);
    }
  }
  free(in[0].data);
  free(in[1].data);
  free(whole);
  free(alone);
  free(residual);
}

typedef struct refusals {
  int count;
  char first[256];
} refusals;

static void refused(const rdt_kernel *k, const char *reason, void *user) {
  refusals *r = user;
  if (r->count++ == 0) snprintf(r->first, sizeof r->first, "%s: %s", k->name, reason);
}

static void test_dispatch(void **unused) {
  layer l;
  refusals r = {0};
  (void)unused;
  layer_make(&l, true);
  assert_string_equal(rdt_cpu_dispatch(&l.p, rdt_isa_detect(), refused, &r)->name,
                      rdt_isa_detect() >= RDT_ISA_AVX2 ? "conv_f32_onednn" : "conv_f32_native");
  memset(&r, 0, sizeof r);
  assert_string_equal(rdt_cpu_dispatch(&l.p, RDT_ISA_GENERIC, refused, &r)->name, "conv_f32_native");
  assert_true(r.count >= 1);
  assert_string_equal(r.first, "conv_f32_onednn: needs avx2, but this run is limited to generic");
  l.p.epilogue.alpha = 2;
  memset(&r, 0, sizeof r);
  assert_string_equal(rdt_cpu_dispatch(&l.p, rdt_isa_detect(), refused, &r)->name, "conv_f32_native");
  assert_true(rdt_isa_detect() < RDT_ISA_AVX2 || strstr(r.first, "oneDNN"));
  layer_free(&l);
}

/* An epilogue that the state was not made for must not be dropped in silence. */
static void test_epilogue_mismatch(void **unused) {
  layer l;
  rdt_epilogue e = RDT_EPILOGUE_NONE;
  (void)unused;
  layer_make(&l, false);
  const rdt_kernel *k = row("gemm_f32_onednn");
  void *state = made(k, &l, 1);
  job j = job_of(k, state, &l, 0);
  j.o.epilogue = &e;
  work(&j);
  assert_int_equal(j.status, RDT_OK);
  e.act.fn = RDT_FN_RELU;
  work(&j);
  assert_int_equal(j.status, RDT_ERR_INTERNAL);
  k->destroy(state);
  layer_free(&l);
}

static void whole_numbers(const rdt_tensor *t, uint64_t seed) {
  util_random r = {seed};
  for (int64_t i = 0; i < rdt_tensor_count(t); i++) ((float *)t->data)[i] = (float)(int)(9.0 * util_uniform(&r));
}

/* A 1x1 window with a stride runs on a dense copy of the pixels it sees, in memory of its own or in lent one. Whole
 * numbers: exact, whatever the order. */
static void test_skipped_pixels(void **unused) {
  static const struct {
    int64_t stride[2], y[2];
  } cases[] = {{{2, 2}, {7, 7}}, {{1, 3}, {14, 5}}, {{3, 1}, {5, 14}}, {{13, 14}, {2, 1}}};
  const rdt_kernel *k = row("conv_f32_onednn"), *reference = row("conv_generic");
  (void)unused;
  for (int i = 0; i < 8; i++) {
    const int threads = 1 + i / 4;
    layer l;
    layer_make(&l, true);
    l.p.window = (rdt_window){
        .kernel = {1, 1}, .stride = {cases[i % 4].stride[0], cases[i % 4].stride[1]}, .dilation = {1, 1}, .groups = 1};
    l.in[1] = rdt_tensor_dense(l.in[1].data, RDT_F32, 4, (const int64_t[]){48, 32, 1, 1});
    l.p.out =
        rdt_tensor_channels_last(l.out[0], RDT_F32, 4, (const int64_t[]){2, 48, cases[i % 4].y[0], cases[i % 4].y[1]});
    whole_numbers(&l.in[0], 3);
    whole_numbers(&l.in[1], 4);
    const size_t bytes = (size_t)rdt_tensor_count(&l.p.out) * sizeof(float);
    assert_int_equal(k->accept(&l.p, NULL), RDT_OK);
    void *state = made(k, &l, threads), *oracle = made(reference, &l, 1);
    job expected = job_of(reference, oracle, &l, 0), got = job_of(k, state, &l, 1);
    work(&expected);
    work(&got);
    assert_int_equal(got.status, RDT_OK);
    assert_memory_equal(l.out[0], l.out[1], bytes);
    const size_t need = k->scratch(state, NULL), copy = 2 * 32 * (size_t)(cases[i % 4].y[0] * cases[i % 4].y[1]) * 4;
    char *memory = aligned_alloc(64, need + 64);
    assert_true(need >= copy);
    k->scratch(state, memory);
    for (int again = 0; again < 2; again++) {
      memset(memory, 0xff, need);
      memset(memory + need, 0x11, 64);
      got = job_of(k, state, &l, 2);
      work(&got);
      assert_int_equal(got.status, RDT_OK);
      assert_memory_equal(l.out[0], l.out[2], bytes);
      for (int b = 0; b < 64; b++) assert_int_equal(memory[need + (size_t)b], 0x11);
    }
    k->destroy(state);
    reference->destroy(oracle);
    free(memory);
    layer_free(&l);
  }
}

/* ---- what activations make of numbers that are none ---- */

enum { VALUES = 12, WIDE = 18, DEEP = 8 };
static const float values[VALUES] = {INFINITY, -INFINITY, NAN,   3e38f,  -3e38f, -1e30f,
                                     0.0f,     -200.0f,   -1e5f, 100.0f, 0.5f,   -0.5f};

static bool alike(float x, float y) {
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  return x == y || fabsf(x - y) <= 1e-4f * fmaxf(1.0f, fabsf(y));
}

/* Each value, unchanged, in every column (channel) of a row (pixel) of its own. groups 0: a product. */
static void act_layer(rdt_problem *p, rdt_tensor *in, float *x, float *w, float *y, int groups) {
  const bool conv = groups > 0;
  const int deep = conv ? DEEP / groups : DEEP;
  memset(x, 0, VALUES * DEEP * sizeof *x);
  memset(w, 0, WIDE * DEEP * sizeof *w);
  for (int i = 0; i < VALUES; i++)
    for (int k = 0; k < DEEP; k += deep) x[i * DEEP + k] = values[i];
  for (int j = 0; j < WIDE; j++) w[conv ? j * deep : j] = 1.0f;
  *p = (rdt_problem){
      .op = conv ? RDT_KOP_CONV : RDT_KOP_GEMM, .n_in = 2, .in = in, .acc = RDT_F32, .epilogue = RDT_EPILOGUE_NONE};
  if (conv) {
    p->window = (rdt_window){.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = groups};
    in[0] = rdt_tensor_channels_last(x, RDT_F32, 4, (const int64_t[]){1, DEEP, 3, VALUES / 3});
    in[1] = rdt_tensor_dense(w, RDT_F32, 4, (const int64_t[]){WIDE, deep, 1, 1});
    p->out = rdt_tensor_channels_last(y, RDT_F32, 4, (const int64_t[]){1, WIDE, 3, VALUES / 3});
  } else {
    in[0] = rdt_tensor_matrix(x, RDT_F32, VALUES, DEEP, DEEP, 0);
    in[1] = rdt_tensor_matrix(w, RDT_F32, DEEP, WIDE, WIDE, 0);
    p->out = rdt_tensor_matrix(y, RDT_F32, VALUES, WIDE, WIDE, 0);
  }
}

/* Whatever kernel takes an activation gives what the functions of the house give, NaN and Inf included: results do not
 * depend on the scheme. */
static void test_activations_keep_what_is_no_number(void **unused) {
  static const rdt_act acts[] = {
      {RDT_FN_RELU, {0}},  {RDT_FN_CLIP, {-0.25, 6}}, {RDT_FN_LEAKYRELU, {0.1}}, {RDT_FN_LEAKYRELU, {0}},
      {RDT_FN_ELU, {1.5}}, {RDT_FN_GELU, {0}},        {RDT_FN_GELU_TANH, {0}},   {RDT_FN_SIGMOID, {0}},
      {RDT_FN_TANH, {0}},  {RDT_FN_SILU, {0}},        {RDT_FN_MISH, {0}},        {RDT_FN_HARDSWISH, {1.0 / 6, 0.5}}};
  static float x[VALUES * DEEP], w[WIDE * DEEP], y[2][VALUES * WIDE];
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  (void)unused;
  for (size_t a = 0; a < sizeof acts / sizeof *acts; a++)
    for (int groups = 0; groups < 3; groups++)
      for (int i = 0; i < n; i++) {
        rdt_problem p;
        rdt_tensor in[2];
        void *state;
        act_layer(&p, in, x, w, y[0], groups);
        p.epilogue.act = acts[a];
        if (rows[i]->op != p.op || rows[i]->isa > rdt_isa_detect() || rows[i]->accept(&p, NULL) != RDT_OK) continue;
        assert_int_equal(rows[i]->create(&p, 1, &state, NULL), RDT_OK);
        const rdt_operands o = {.in = in, .n_in = 2, .out = p.out, .epilogue = &p.epilogue};
        assert_int_equal(rows[i]->run(state, &o, NULL), RDT_OK);
        rows[i]->destroy(state);
        rdt_tensor raw = p.out, expected = p.out;
        float identity[VALUES * WIDE];
        for (int e = 0; e < VALUES * WIDE; e++) identity[e] = values[e / WIDE];
        raw.data = identity;
        expected.data = y[1];
        rdt_epilogue_apply(&p.epilogue, &raw, &expected, 1, 1);
        for (int e = 0; e < VALUES * WIDE; e++)
          if (!alike(y[0][e], y[1][e]))
            fail_msg("%s: %s(%g) is %g, not %g", rows[i]->name, rdt_fn_info(acts[a].fn)->name, (double)values[e / WIDE],
                     (double)y[0][e], (double)y[1][e]);
      }
}

/* Nothing times NaN is NaN. */
static void test_a_factor_of_zero_keeps_nan(void **unused) {
  static float x[VALUES * DEEP], w[WIDE * DEEP], y[VALUES * WIDE];
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  (void)unused;
  for (int groups = 0; groups < 3; groups++)
    for (int i = 0; i < n; i++) {
      rdt_problem p;
      rdt_tensor in[2];
      void *state;
      act_layer(&p, in, x, w, y, groups);
      p.epilogue.alpha = 0.0;
      if (rows[i]->op != p.op || rows[i]->isa > rdt_isa_detect() || rows[i]->accept(&p, NULL) != RDT_OK) continue;
      assert_int_equal(rows[i]->create(&p, 1, &state, NULL), RDT_OK);
      const rdt_operands o = {.in = in, .n_in = 2, .out = p.out, .epilogue = &p.epilogue};
      assert_int_equal(rows[i]->run(state, &o, NULL), RDT_OK);
      rows[i]->destroy(state);
      for (int e = 0; e < VALUES * WIDE; e++)
        if (isfinite(values[e / WIDE]) ? y[e] != 0.0f : !isnan(y[e]))
          fail_msg("%s: 0 times %g is %g", rows[i]->name, (double)values[e / WIDE], (double)y[e]);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dispatch),
                                     cmocka_unit_test(test_same_bits_everywhere),
                                     cmocka_unit_test(test_packed_weights),
                                     cmocka_unit_test(test_packing_leaves_nothing),
                                     cmocka_unit_test(test_open_weights),
                                     cmocka_unit_test(test_image_by_image),
                                     cmocka_unit_test(test_skipped_pixels),
                                     cmocka_unit_test(test_epilogue_mismatch),
                                     cmocka_unit_test(test_activations_keep_what_is_no_number),
                                     cmocka_unit_test(test_a_factor_of_zero_keeps_nan),
                                     cmocka_unit_test(test_threads_are_given_back),
                                     cmocka_unit_test(test_team_is_refused_when_nested)};
  const struct CMUnitTest generic[] = {cmocka_unit_test(test_dispatch),
                                       cmocka_unit_test(test_activations_keep_what_is_no_number),
                                       cmocka_unit_test(test_a_factor_of_zero_keeps_nan)};
  if (rdt_isa_detect() < RDT_ISA_AVX2) return cmocka_run_group_tests(generic, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
