/* redoubt bench checkpoints --device cuda:N, without a device: over copies that are told to lose. What it makes of
 * votes, and that it notices a wrong result that nobody speaks of, a result that differs without a fault, and faults
 * that did not come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench_checkpoints_gpu.h"
#include "core/memory.h"
#include "plan/plan.h"
#include "report/json.h"

enum lie { HONEST, SILENT, DIFFERS, ALIKE, UNTOLD, MISSES };
enum { STAGES = 32 };

struct rdt_voted {
  int team, votes, undecided, lost;
};

static struct {
  enum lie lie;
  double clock;
  int created;
} fake;

static rdt_status give(rdt_machine *m, size_t bytes, void **p, rdt_reason *why) {
  (void)m, (void)why;
  *p = rdt_calloc(bytes, 1);
  return *p ? RDT_OK : RDT_ERR_NOMEM;
}

static void take(rdt_machine *m, void *p) {
  (void)m;
  rdt_free(p);
}

static rdt_status copy(rdt_machine *m, rdt_lane l, void *to, const void *from, size_t bytes, rdt_reason *why) {
  (void)m, (void)l, (void)why;
  memcpy(to, from, bytes);
  return RDT_OK;
}

static rdt_status clear(rdt_machine *m, rdt_lane l, void *p, size_t bytes, rdt_reason *why) {
  (void)m, (void)l, (void)why;
  memset(p, 0, bytes);
  return RDT_OK;
}

static rdt_status nothing(rdt_machine *m, rdt_reason *why) {
  (void)m, (void)why;
  return RDT_OK;
}

static rdt_status recorded(rdt_machine *m, void **tape, rdt_reason *why) {
  (void)m, (void)why;
  *tape = &fake;
  return RDT_OK;
}

static rdt_status replay(rdt_machine *m, void *tape, rdt_reason *why) {
  (void)m, (void)tape, (void)why;
  fake.clock += 1.0;
  return RDT_OK;
}

static void erase(rdt_machine *m, void *tape) {
  (void)m, (void)tape;
}

static rdt_status mark(rdt_machine *m, rdt_lane l, int number, rdt_reason *why) {
  (void)m, (void)l, (void)number, (void)why;
  return RDT_OK;
}

static rdt_status between(rdt_machine *m, int from, int to, double *seconds, rdt_reason *why) {
  (void)m, (void)from, (void)to, (void)why;
  *seconds = fake.clock;
  fake.clock = 0.0;
  return RDT_OK;
}

static rdt_status linear_create(rdt_machine *m, const rdt_problem *p, const char *scheme, double lambda,
                                rdt_cuda_linear **l, rdt_reason *why) {
  (void)m, (void)p, (void)lambda, (void)why;
  assert_string_equal(scheme, "none");
  *l = (rdt_cuda_linear *)(void *)&fake;
  return RDT_OK;
}

static rdt_status linear_launch(rdt_machine *m, const rdt_cuda_linear_task *t, rdt_reason *why) {
  (void)m, (void)t, (void)why;
  return RDT_OK;
}

static const char *linear_kernel(const rdt_cuda_linear *l) {
  (void)l;
  return "plain";
}

static void linear_destroy(rdt_cuda_linear *l) {
  (void)l;
}

static rdt_status voted_create(rdt_machine *m, const rdt_problem *p, int team, int votes, rdt_voted **v,
                               rdt_reason *why) {
  (void)m, (void)p, (void)why;
  *v = rdt_calloc(1, sizeof **v);
  if (!*v) return RDT_ERR_NOMEM;
  **v = (rdt_voted){.team = team, .votes = votes};
  fake.created++;
  return RDT_OK;
}

static int voted_votes(const rdt_voted *v) {
  return v->votes;
}

static rdt_status voted_launch(rdt_machine *m, rdt_voted *v, const rdt_operands *o, rdt_reason *why) {
  (void)m, (void)why;
  memset(o->out.data, 1, rdt_tensor_bytes(&o->out));
  if (fake.lie == DIFFERS && v->team == RDT_VOTED_CLUSTER && v->votes == 5) ((char *)o->out.data)[9] = 2;
  return RDT_OK;
}

static int share_of(const rdt_voted *v, const rdt_voted_fault *f) {
  int share = 0;
  while (STAGES * (share + 1) / v->votes < f->behind) share++;
  return share;
}

/* Of an element and a share: one copy that was hit loses, two that were are undecided. */
static rdt_status voted_strike(rdt_machine *m, rdt_voted *v, const rdt_operands *o, rdt_voted_hit *hit,
                               rdt_reason *why) {
  assert_in_range(hit->n, 1, RDT_VOTED_FAULTS);
  (void)voted_launch(m, v, o, why);
  for (int i = 0; i < hit->n; i++) {
    const rdt_voted_fault *f = &hit->more[i];
    unsigned copies = 0;
    bool first = true;
    assert_int_equal(f->again, i >= hit->n / 2); /* these kernels compute nothing again */
    if (f->again) continue;
    assert_in_range(f->behind, 1, STAGES);
    assert_in_range(f->copy, 0, 2);
    assert_in_range(f->element[0], 0, o->out.shape[0] - 1);
    assert_in_range(f->element[1], 0, o->out.shape[1] - 1);
    for (int j = 0; j < hit->n / 2; j++) {
      const rdt_voted_fault *g = &hit->more[j];
      if (memcmp(f->element, g->element, sizeof f->element) != 0 || share_of(v, f) != share_of(v, g)) continue;
      assert_true(i == j || f->mask != g->mask);
      first = first && j >= i;
      copies |= 1u << g->copy;
    }
    if (!first) continue;
    if (copies & (copies - 1)) /* more than one */
      v->undecided++;
    else
      v->lost++;
  }
  hit->done = (unsigned)hit->n / 2 - (fake.lie == MISSES);
  if (fake.lie == SILENT || fake.lie == ALIKE) ((char *)o->out.data)[5] = 2;
  unsigned all = 0;
  for (int i = 0; i < hit->n / 2; i++) all |= 1u << hit->more[i].copy;
  if (fake.lie == UNTOLD && all == 7) ((char *)o->out.data)[5] = 2;
  if (fake.lie == SILENT || (fake.lie == UNTOLD && all == 7)) v->lost = v->undecided = 0;
  return RDT_OK;
}

static rdt_status voted_read(rdt_machine *m, rdt_voted *v, rdt_thrice_ballot *b, rdt_vote_found *found,
                             rdt_reason *why) {
  (void)m, (void)found, (void)why;
  *b = (rdt_thrice_ballot){.lost = {0, v->lost, 0}, .undecided = v->undecided};
  v->lost = v->undecided = 0;
  return RDT_OK;
}

static void voted_destroy(rdt_voted *v) {
  rdt_free(v);
}

static rdt_machine machine_of(void) {
  return (rdt_machine){.alloc = give,
                       .release = take,
                       .put = copy,
                       .get = copy,
                       .clear = clear,
                       .wait = nothing,
                       .record = nothing,
                       .recorded = recorded,
                       .replay = replay,
                       .erase = erase,
                       .mark = mark,
                       .between = between,
                       .linear_create = linear_create,
                       .linear_launch = linear_launch,
                       .linear_kernel = linear_kernel,
                       .linear_destroy = linear_destroy,
                       .voted_create = voted_create,
                       .voted_votes = voted_votes,
                       .voted_launch = voted_launch,
                       .voted_strike = voted_strike,
                       .voted_read = voted_read,
                       .voted_destroy = voted_destroy};
}

static const rdt_bench_shape shape = {.m = 240, .n = 160, .k = 64 * STAGES};

static rdt_status study(enum lie lie, const char *path, bool *wrong, rdt_reason *why) {
  rdt_machine m = machine_of();
  const rdt_bench_checkpoints_job job = {
      .shape = &shape, .trials = 60, .format = RDT_BENCH_JSON, .output = path, .head = "of a test"};
  fake.lie = lie;
  fake.created = 0;
  why->text[0] = 0;
  return rdt_bench_checkpoints_on(&m, &job, wrong, why);
}

static cJSON *read_back(const char *path) {
  static char text[1 << 16];
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  remove(path);
  cJSON *doc = cJSON_Parse(text);
  assert_non_null(doc);
  return doc;
}

static const cJSON *rows_of(const cJSON *doc) {
  return cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(doc, "tables"), 0), "rows");
}

static void expect(double x, double wanted, double apart) {
  if (!(x >= wanted - apart && x <= wanted + apart)) fail_msg("%g, not %g", x, wanted);
}

/* Of one form. */
static double part(const cJSON *rows, const char *form, int checkpoints, int faults, int elements, const char *what) {
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) if (strcmp(rdt_json_string(row, "form"), form) == 0 &&
                                    (int)rdt_json_real(row, "checkpoints") == checkpoints &&
                                    (int)rdt_json_real(row, "faults") == faults &&
                                    (int)rdt_json_real(row, "elements") == elements) return rdt_json_real(row, what);
  fail_msg("no row of %s, %d, %d, %d", form, checkpoints, faults, elements);
  return 0.0;
}

static void test_survival(void **state) {
  static const char path[] = "test_bench_checkpoints.json";
  static const char *const forms[] = {"block", "grid", "clusters", "split"};
  bool wrong = true;
  rdt_reason why = {""};
  (void)state;
  assert_int_equal(study(HONEST, path, &wrong, &why), RDT_OK);
  assert_false(wrong);
  assert_int_equal(fake.created, 24);
  cJSON *doc = read_back(path);
  const cJSON *rows = rows_of(doc);
  assert_int_equal(cJSON_GetArraySize(rows), 120);
  for (int i = 0; i < 4; i++) {
    const char *const f = forms[i];
    expect(part(rows, f, 4, 0, 0, "survived"), 100.0, 0.0);
    expect(part(rows, f, 0, 1, 1, "survived"), 100.0, 0.0);
    expect(part(rows, f, 0, 4, 4, "survived"), 100.0, 0.0);
    expect(part(rows, f, 0, 0, 0, "time_ratio"), 1.0, 0.0);
    /* Both in one copy: a third. Or in different shares. */
    const double none = part(rows, f, 0, 2, 1, "survived"), many = part(rows, f, 16, 2, 1, "survived");
    assert_in_range((int)none, 12, 55);
    assert_in_range((int)many, 85, 100);
    expect(none + part(rows, f, 0, 2, 1, "restarted") + part(rows, f, 0, 2, 1, "detected"), 100.0, 0.2);
    assert_true(part(rows, f, 0, 2, 1, "restarted") > 0.0 && part(rows, f, 0, 2, 1, "detected") > 0.0);
    expect(part(rows, f, 0, 2, 1, "time_ratio"), 2.0 - none / 100.0, 0.011);
    assert_true(part(rows, f, 0, 4, 1, "survived") < none + 5.0);
  }
  cJSON_Delete(doc);
}

/* Nobody says so: exit 1. What a vote has said of the wrong copy is no such thing. */
static void test_noticed(void **state) {
  static const char path[] = "test_bench_checkpoints.json";
  bool wrong = false;
  rdt_reason why = {""};
  (void)state;
  assert_int_equal(study(SILENT, path, &wrong, &why), RDT_OK);
  assert_true(wrong);
  cJSON *doc = read_back(path);
  expect(part(rows_of(doc), "grid", 2, 1, 1, "wrong"), 60.0, 0.0);
  cJSON_Delete(doc);
  assert_int_equal(study(DIFFERS, path, &wrong, &why), RDT_OK);
  assert_true(wrong);
  doc = read_back(path);
  expect(part(rows_of(doc), "clusters", 4, 0, 0, "wrong"), 60.0, 0.0);
  expect(part(rows_of(doc), "clusters", 2, 0, 0, "wrong"), 0.0, 0.0);
  cJSON_Delete(doc);
  assert_int_equal(study(ALIKE, path, &wrong, &why), RDT_OK);
  assert_false(wrong);
  doc = read_back(path);
  expect(part(rows_of(doc), "block", 0, 1, 1, "outvoted"), 100.0, 0.0);
  cJSON_Delete(doc);
  assert_int_equal(study(UNTOLD, path, &wrong, &why), RDT_OK); /* all three were hit, and are alike */
  doc = read_back(path);
  assert_true(part(rows_of(doc), "split", 0, 4, 1, "outvoted") > 0.0);
  expect(part(rows_of(doc), "split", 0, 4, 1, "wrong"), 0.0, 0.0);
  assert_false(wrong);
  cJSON_Delete(doc);
  assert_int_equal(study(MISSES, path, &wrong, &why), RDT_ERR_FAULT);
  assert_non_null(strstr(why.text, "1 faults were planted, and 0 came about"));
  assert_null(fopen(path, "r"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_survival), cmocka_unit_test(test_noticed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
