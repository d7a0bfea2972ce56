/* Duplicated ops slice by slice: the bits are those of the kernel alone, whatever the number of threads, and a slice
 * that comes out otherwise, the first or the second time, is noticed and repaired. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "plan/plan.h"

enum { RANK = 3 };
static const int64_t shape[RANK] = {6, 300, 200}; /* several slices; the last ones of a dimension are shorter */

typedef struct house {
  rdt_context *ctx;
  rdt_plan *plan;
  rdt_tensor in[3], out;
  float *x, *gain, *y, *clean;
  size_t count;
  int events;
  char what[64];
} house;

static void on_event(const rdt_event *e, void *user) {
  house *h = user;
  h->events += e->kind == RDT_EVENT_FAULT;
  snprintf(h->what, sizeof h->what, "%s", e->what);
}

typedef enum op { ADD, SOFTMAX, LAYER, HEADS, OPS } op;

static rdt_problem problem_of(house *h, op which) {
  h->in[0] = rdt_tensor_dense(h->x, RDT_F32, RANK, shape);
  h->in[1] = h->in[0];
  h->in[1].data = h->gain;
  h->in[1].stride[0] = h->in[1].stride[1] = 0;
  h->in[2] = h->in[1];
  h->out = rdt_tensor_dense(h->y, RDT_F32, RANK, shape);
  rdt_problem p = {.in = h->in, .out = h->out, .acc = RDT_F32, .epilogue = RDT_EPILOGUE_NONE};
  switch (which) {
    case ADD:
      p.op = RDT_KOP_MAP, p.fn = RDT_FN_ADD, p.n_in = 2;
      break;
    case SOFTMAX:
      p.op = RDT_KOP_SOFTMAX, p.n_in = 1, p.axis = 2;
      break;
    case LAYER:
      p.op = RDT_KOP_NORM, p.fn = RDT_FN_NORM_LAYER, p.n_in = 3, p.axis = 2, p.epsilon = 1e-5;
      break;
    default: /* heads: the first two dimensions change places */
      p.op = RDT_KOP_COPY, p.n_in = 1;
      h->in[0].stride[0] = shape[2];
      h->in[0].stride[1] = shape[0] * shape[2];
  }
  return p;
}

static rdt_status execute(house *h, rdt_result *r) {
  const rdt_operands o = {.in = h->in, .n_in = h->plan->prob.n_in, .out = h->out, .epilogue = &h->plan->prob.epilogue};
  memset(h->y, 0xff, h->count * sizeof *h->y);
  h->events = 0;
  return rdt_plan_run(h->plan, &o, r);
}

static void open_house(house *h, op which, int threads) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_reason why;
  void *made;
  *h = (house){.count = (size_t)(shape[0] * shape[1] * shape[2])};
  h->x = rdt_alloc(h->count, sizeof *h->x);
  h->y = rdt_alloc(h->count, sizeof *h->y);
  h->clean = rdt_alloc(h->count, sizeof *h->clean);
  h->gain = rdt_alloc((size_t)shape[2], sizeof *h->gain);
  for (size_t i = 0; i < h->count; i++) h->x[i] = sinf((float)i) * 3.0f;
  for (int64_t i = 0; i < shape[2]; i++) h->gain[i] = cosf((float)i);
  h->x[7] = NAN;
  rdt_problem p = problem_of(h, which);
  policy.scheme = "dup";
  assert_int_equal(rdt_context_create(&h->ctx, threads), RDT_OK);
  assert_int_equal(rdt_context_set_policy(h->ctx, &policy), RDT_OK);
  rdt_context_on_event(h->ctx, on_event, h);
  if (rdt_plan_create(h->ctx, &p, "layer", "op", NULL, &h->plan) != RDT_OK) fail_msg("%s", rdt_context_error(h->ctx));
  const rdt_kernel *k = h->plan->kernel;
  assert_true(k->slices != RDT_SLICES_NONE);
  rdt_operands o = {.in = h->in, .n_in = p.n_in, .out = h->out};
  o.out.data = h->clean;
  assert_int_equal(k->create(&p, 1, &made, &why), RDT_OK);
  assert_int_equal(k->run(made, &o, &why), RDT_OK);
  k->destroy(made);
}

static void close_house(house *h) {
  rdt_plan_destroy(h->plan);
  rdt_context_destroy(h->ctx);
  rdt_free(h->x), rdt_free(h->y), rdt_free(h->clean), rdt_free(h->gain);
}

static void slices_have_the_bits_of_the_whole(void **state) {
  (void)state;
  for (int i = 0; i < 3 * OPS; i++) {
    house h;
    rdt_result r;
    open_house(&h, (op)(i % OPS), 1 + i / OPS);
    assert_int_equal(execute(&h, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_int_equal(h.events, 0);
    assert_int_equal(r.checks, (int64_t)h.count);
    assert_memory_equal(h.y, h.clean, h.count * sizeof *h.y);
    assert_true(h.plan->out_sealed);
    assert_true(h.plan->out_seal == rdt_bitsum(h.y, h.count * sizeof *h.y));
    close_house(&h);
  }
}

/* A kernel that computes one bit wrong at one of its calls. */
static const rdt_kernel *sound;
static atomic_int calls;
static int wrong_at;

static rdt_status run_wrong(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_status status = sound->run(state, o, why);
  if (atomic_fetch_add(&calls, 1) != wrong_at) return status;
  uint32_t *word = (uint32_t *)o->out.data + (rdt_tensor_count(&o->out) - 1);
  *word ^= 1u;
  return status;
}

static void a_slice_that_differs_is_repaired(void **state) {
  (void)state;
  for (int i = 0; i < 2 * OPS; i++) {
    house h;
    open_house(&h, (op)(i % OPS), 1 + i / OPS);
    rdt_kernel wrong = *h.plan->kernel;
    sound = h.plan->kernel;
    wrong.run = run_wrong;
    h.plan->kernel = &wrong;
    assert_int_equal(rdt_plan_seal(h.plan, NULL, 0), RDT_OK);
    for (wrong_at = 0; wrong_at < 14; wrong_at++) {
      rdt_result r;
      atomic_store(&calls, 0);
      assert_int_equal(execute(&h, &r), RDT_OK);
      assert_true(atomic_load(&calls) > 14);
      if (r.verdict != RDT_RECOMPUTED || r.diagnosis != RDT_DIAG_TRANSIENT)
        fail_msg("op %d, call %d: %s, %s, %s", i, wrong_at, rdt_verdict_name(r.verdict),
                 rdt_diagnosis_name(r.diagnosis), h.what);
      assert_int_equal(h.events, 1);
      assert_memory_equal(h.y, h.clean, h.count * sizeof *h.y);
    }
    h.plan->kernel = sound;
    close_house(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(slices_have_the_bits_of_the_whole),
                                     cmocka_unit_test(a_slice_that_differs_is_repaired)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
