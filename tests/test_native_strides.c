/* The own products take any strides and lengths: small integers, whose sums are exact, against the reference bit by
 * bit; with the check, which stays silent, and a fault anywhere in the reduction, which it finds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "cpu/kernel.h"
#include "schemes/fused_check.h"
#include "util_problem.h"

enum { TRIES = 2400, ROOM = 3 };

typedef struct field { /* memory of a matrix, which may run either way */
  char *memory;
  size_t bytes;
} field;

typedef struct job {
  rdt_problem p;
  rdt_tensor in[2], data[2], out, residual;
  field fields[5];
  int n_fields;
  bool fixed, dot;
  util_random random;
} job;

static int64_t draw(job *j, int64_t n) {
  return (int64_t)((util_uniform(&j->random) + 1.0) * 0.5 * (double)n) % n;
}

static int64_t pick(job *j, const int64_t *list, int n) {
  return list[draw(j, n)];
}

/* Rows or columns side by side, gaps, either direction. */
static rdt_tensor matrix(job *j, rdt_dtype real, int64_t m, int64_t n) {
  const bool columns = draw(j, 3) == 0;
  const int64_t inner = draw(j, 4) == 0 ? ROOM : 1, gap = draw(j, 2) * 5;
  const int64_t most = ((columns ? m : n) * inner + gap + 1) * ((columns ? n : m) + 1);
  rdt_tensor t = {.dtype = real, .rank = 2, .shape = {m, n}};
  t.stride[0] = columns ? inner : n * inner + gap;
  t.stride[1] = columns ? m * inner + gap : inner;
  field *f = &j->fields[j->n_fields++];
  f->bytes = (size_t)most * rdt_dtype_size(real);
  f->memory = malloc(f->bytes);
  for (int64_t i = 0; i < most; i++) rdt_store(f->memory, real, i, (double)(draw(j, 7) - 3));
  int64_t first = 0;
  for (int d = 0; d < 2; d++)
    if (t.shape[d] > 0 && draw(j, 4) == 0) {
      first += (t.shape[d] - 1) * t.stride[d];
      t.stride[d] = -t.stride[d];
    }
  t.data = f->memory + first * (int64_t)rdt_dtype_size(real);
  return t;
}

static void make(job *j, int number, rdt_dtype real) {
  static const int64_t rows[] = {0, 1, 2, 5, 6, 7, 13, 70, 140}, cols[] = {0, 1, 3, 8, 16, 17, 40, 100},
                       depths[] = {0, 1, 2, 7, 8, 33, 330, 700};
  static const rdt_fn fns[] = {RDT_FN_NONE, RDT_FN_RELU, RDT_FN_CLIP};
  *j = (job){.random = {(uint64_t)number * 2 + 1}};
  const int64_t m = pick(j, rows, 9), n = pick(j, cols, 8), k = pick(j, depths, 8);
  j->p = (rdt_problem){
      .op = RDT_KOP_GEMM, .acc = rdt_dtype_accumulator(real), .n_in = 2, .in = j->in, .epilogue = RDT_EPILOGUE_NONE};
  j->data[0] = matrix(j, real, m, k);
  j->data[1] = matrix(j, real, k, n);
  j->out = matrix(j, real == RDT_F64 || draw(j, 2) ? real : RDT_F32, m, n); /* of 16 bits or of the accumulators */
  j->fixed = draw(j, 2);
  j->dot = draw(j, 2) && real == RDT_BF16 && rdt_isa_detect() == RDT_ISA_AVX512 && rdt_cpu_has_fast_bf16();
  memcpy(j->in, j->data, sizeof j->in);
  j->in[0].data = NULL;
  if (!j->fixed) j->in[1].data = NULL;
  j->p.out = j->out;
  j->p.out.data = NULL;
  rdt_epilogue *e = &j->p.epilogue;
  if (draw(j, 2)) e->alpha = -0.5;
  if (draw(j, 2)) {
    e->residual = matrix(j, real, m, n);
    e->beta = draw(j, 2) ? 2.0 : 1.0;
  }
  if (draw(j, 2)) {
    e->bias = matrix(j, real, 1, n);
    e->bias = rdt_tensor_dense(j->fields[j->n_fields - 1].memory, real, 1, &n);
  }
  e->act = (rdt_act){fns[draw(j, 3)], {-3.0, 5.0}};
}

static void drop(job *j) {
  for (int i = 0; i < j->n_fields; i++) free(j->fields[i].memory);
}

static const rdt_kernel *kernel_of(const job *j) {
  const rdt_dtype real = j->in[0].dtype;
  const char *name = real == RDT_F64   ? "gemm_f64_native"
                     : real == RDT_F32 ? "gemm_f32_native"
                     : j->dot          ? "gemm_bf16_native"
                                       : "gemm_half_native";
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  for (int i = 0; i < n; i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}

/* The memory of C after a run; raw: what a plan has between. */
static char *result(job *j, const rdt_kernel *k, const rdt_problem *p, int threads) {
  const field *c = &j->fields[2];
  char *kept = memcpy(malloc(c->bytes), c->memory, c->bytes), *now;
  rdt_reason why = {""};
  void *state;
  const rdt_operands o = {.in = j->data, .n_in = 2, .out = j->out, .epilogue = &p->epilogue};
  if (k->accept(p, &why) != RDT_OK || k->create(p, threads, &state, &why) != RDT_OK)
    fail_msg("%s: %s", k->name, why.text);
  assert_int_equal(k->run(state, &o, &why), RDT_OK);
  k->destroy(state);
  now = memcpy(malloc(c->bytes), c->memory, c->bytes);
  memcpy(c->memory, kept, c->bytes);
  free(kept);
  return now;
}

/* Zeros may differ in sign: the reference adds to +0. */
static void expect_same(const job *j, const char *is, const char *want, int number) {
  const rdt_dtype real = j->out.dtype;
  for (size_t i = 0; i < j->fields[2].bytes / rdt_dtype_size(real); i++) {
    const double x = rdt_load(is, real, (int64_t)i), y = rdt_load(want, real, (int64_t)i);
    if (x != y)
      fail_msg("try %d, %s, m %d n %d k %d: word %zu is %g, not %g", number, rdt_dtype_name(real), (int)j->out.shape[0],
               (int)j->out.shape[1], (int)j->data[0].shape[1], i, x, y);
  }
}

static void try_check(job *j, unsigned forms, int number, int threads, const char *want) {
  const rdt_kernel *k = kernel_of(j);
  const field *c = &j->fields[2];
  rdt_problem raw = j->p;
  rdt_reason why = {""};
  rdt_fused_check *check;
  rdt_findings found;
  void *state;
  raw.epilogue = RDT_EPILOGUE_NONE;
  if (k->accept_fused(&j->p, &why) != RDT_OK) return;
  assert_int_equal(rdt_fused_create(&j->p, k, forms, 6, &check, &why), RDT_OK);
  assert_int_equal(k->create(&raw, threads, &state, &why), RDT_OK);
  const rdt_operands o = {.in = j->data, .n_in = 2, .out = j->out, .epilogue = &j->p.epilogue};
  for (int hits = 0; hits < 2; hits++) {
    rdt_kernel_hit hit = {.element = draw(j, rdt_tensor_count(&j->out)),
                          .position = (util_uniform(&j->random) + 1.0) * 0.5,
                          .mask = j->out.dtype == RDT_F64 ? 1ull << 62 : 1ull << 30};
    char *kept = memcpy(malloc(c->bytes), c->memory, c->bytes);
    rdt_fused f = rdt_fused_ask(check);
    f.seal = true;
    f.hit = hits ? &hit : NULL;
    assert_int_equal(k->run_fused(state, &o, &f, &why), RDT_OK);
    rdt_findings_init(&found);
    rdt_fused_judge(check, &f, &found);
    assert_false(f.differ);
    if (!hits) {
      if (found.suspects > 0) fail_msg("try %d, forms %u: suspects in clean data", number, forms);
      expect_same(j, c->memory, want, number);
    } else {
      assert_true(hit.done);
      if (found.suspects + found.cannot < 1)
        fail_msg("try %d, forms %u: %g became %g, and nobody cried", number, forms, hit.before, hit.after);
    }
    memcpy(c->memory, kept, c->bytes);
    free(kept);
  }
  k->destroy(state);
  rdt_fused_destroy(check);
}

/* Of rows, and another one where the kernel has it. */
static void try_checks(job *j, int number, int threads, const char *want) {
  static const unsigned forms[] = {RDT_FORM_COLUMNS,   RDT_FORM_ROWS | RDT_FORM_COLUMNS,
                                   RDT_FORM_BLOCKS,    RDT_FORM_PRODUCT,
                                   RDT_FORM_ONE_SIDED, RDT_FORM_TWO_SIDED,
                                   RDT_FORM_TWICE,     RDT_FORM_SUMMED};
  const unsigned other = forms[number / 2 % 8];
  try_check(j, RDT_FORM_ROWS, number, threads, want);
  if (j->fixed && (other & ~kernel_of(j)->fuses) == 0) try_check(j, other, number, threads, want);
}

static void any_product_is_the_reference(void **state) {
  static const rdt_dtype types[] = {RDT_F32, RDT_F64, RDT_BF16, RDT_F16};
  (void)state;
  for (int number = 0; number < TRIES; number++) {
    job j;
    make(&j, number, types[number % 4]);
    char *want = result(&j, rdt_cpu_reference(&j.p), &j.p, 1);
    const int threads = 1 + number % 3;
    char *is = result(&j, kernel_of(&j), &j.p, threads);
    expect_same(&j, is, want, number);
    try_checks(&j, number, threads, want);
    free(is);
    free(want);
    drop(&j);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_product_is_the_reference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
