/* Campaigns on a device, without one: over a machine that computes on the CPU (util_machine.h). Products by kernels
 * that strike themselves, networks that are struck between launches; what is noticed, what lies below the floor, what a
 * check that is deaf comes to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "campaign/campaign.h"
#include "campaign/summary.h"
#include "core/context.h"
#include "core/memory.h"
#include "cuda/kernel.h"
#include "net/remote.h"
#include "net/tensor_file.h"
#include "util_machine.h"
#include "util_sample.h"

#define MODEL TEST_DATA "/examples/digits/digits.onnx"
#define IMAGES TEST_DATA "/examples/digits/some.npy"

typedef struct range {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor images;
  util_machine_faults *faults;
  rdt_target *target;
  rdt_campaign c;
  rdt_tally tally;
} range;

static rdt_status run_net(void *user, int64_t id, const char *spec, const rdt_tensor *inputs, rdt_run_result *result,
                          rdt_reason *why) {
  const range *r = user;
  (void)id, (void)spec;
  const rdt_status status = rdt_model_run(r->model, inputs, 1, result);
  return status == RDT_OK || status == RDT_ERR_FAULT ? status : rdt_fail(why, status, "%s", rdt_context_error(r->ctx));
}

static void set_up(range *r, const char *scheme, rdt_on_fault on_fault) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  policy.on_fault = on_fault;
  memset(r, 0, sizeof *r);
  r->c = (rdt_campaign){.seed = 5};
  rdt_mix_default(&r->c.mix);
  assert_int_equal(rdt_context_create(&r->ctx, 1), RDT_OK);
  assert_int_equal(rdt_context_set_policy(r->ctx, &policy), RDT_OK);
  rdt_context_take_machine(r->ctx, util_machine_open(true, &r->faults));
}

static rdt_status open_product(range *r, const char *scheme, const char *target, bool fresh, rdt_reason *why) {
  const rdt_target_data data = {.seed = 5, .fresh = fresh};
  set_up(r, scheme, RDT_ON_FAULT_RECOMPUTE);
  return rdt_target_device(r->ctx, target, &data, &r->target, why);
}

static void open_network(range *r, double bound) {
  rdt_reason why = {""};
  set_up(r, "auto", RDT_ON_FAULT_RECOMPUTE);
  r->faults->bound = bound;
  if (rdt_model_load(r->ctx, MODEL, &r->model) != RDT_OK) fail_msg("%s", rdt_context_error(r->ctx));
  if (rdt_tensor_file_read(IMAGES, &r->images, &why) != RDT_OK) fail_msg("%s", why.text);
  const rdt_target_net asked = {
      .user = r, .model = &r->model, .inputs = &r->images, .n_inputs = 1, .batch = 2, .path = MODEL, .run = run_net};
  if (rdt_target_model(r->ctx, &asked, &r->target, &why) != RDT_OK) fail_msg("%s", why.text);
}

static void close_range(range *r) {
  rdt_target_destroy(r->target);
  rdt_model_free(r->model);
  rdt_free(r->images.data);
  rdt_tally_clear(&r->tally);
  rdt_context_destroy(r->ctx);
}

static void shoot(range *r, int64_t id, rdt_trial *t) {
  char spec[256];
  rdt_reason why = {""};
  if (rdt_campaign_shoot(&r->c, r->target, id, spec, t, &why) != RDT_OK) fail_msg("%s", why.text);
}

static void expect_judgement(const range *r, rdt_judgement j) {
  const rdt_tally *t = &r->tally;
  if (rdt_summary_judge(t) == j) return;
  for (int i = 0; i < t->failed && i < RDT_TALLY_FAILURES; i++)
    print_message("%s: %s; %s, floor %g\n", t->failures[i].spec, t->failures[i].did,
                  rdt_trial_reproach(&t->failures[i], true), t->failures[i].floor);
  fail_msg("judged %d", (int)rdt_summary_judge(t));
}

static void shoot_all(range *r, int64_t n) {
  rdt_reason why = {""};
  for (int64_t id = 0; id < n; id++) {
    rdt_trial t;
    shoot(r, id, &t);
    if (rdt_tally_add(&r->tally, &t, true, &why) != RDT_OK) fail_msg("%s", why.text);
  }
}

static bool built_in(void) {
  int n;
  rdt_cuda_kernels(&n);
  return n > 0;
}

static void products_are_struck(void **state) {
  static const char *const targets[][2] = {{"gemm:24x40x56:f32", "thread1"},    {"gemm:24x40x56:f32", "row"},
                                           {"gemm:24x40x56:s8", "row"},         {"gemm:9x17x5:f64", "auto"},
                                           {"gemm:24x40x56:f32", "tmr-kernel"}, {"gemm:24x40x56:s8", "tmr-kernel"},
                                           {"gemm:24x40x56:f32", "row:3"},      {"gemm:24x40x56:f32", "tmr-sm"}};
  (void)state;
  if (!built_in()) skip();
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    for (int deaf = 0; deaf < 2; deaf++) {
      range r;
      rdt_reason why = {""};
      if (open_product(&r, targets[i][1], targets[i][0], false, &why) != RDT_OK) fail_msg("%s", why.text);
      assert_string_equal(r.target->device, "a device that is none");
      if (strcmp(targets[i][1], "auto") != 0) assert_string_equal(r.target->layers[0].scheme, targets[i][1]);
      r.faults->deaf = deaf;
      const int one_in = util_one_in(2, 3);
      shoot_all(&r, 300 / one_in);
      assert_true(rdt_count_above(&r.tally.data) * one_in > 50);
      expect_judgement(&r, deaf ? RDT_JUDGED_FAIL : RDT_JUDGED_PASS);
      if (!deaf) assert_true(r.tally.data.fate[RDT_FATE_RECOMPUTED] * one_in > 50);
      close_range(&r);
    }
}

static void a_trial_knows_nothing_of_those_before(void **state) {
  range r;
  rdt_trial first, again;
  rdt_reason why = {""};
  (void)state;
  for (int network = 0; network < 2; network++) {
    if (!network && !built_in()) continue;
    if (network)
      open_network(&r, 1e-3);
    else if (open_product(&r, "row", "gemm:24x40x56", false, &why) != RDT_OK)
      fail_msg("%s", why.text);
    for (int64_t id = 0; id < 40; id++) {
      shoot(&r, id, &first);
      shoot(&r, 77, &again);
      shoot(&r, id, &again);
      char *a = rdt_trial_print(&first), *b = rdt_trial_print(&again);
      assert_string_equal(a, b);
      cJSON_free(a);
      cJSON_free(b);
    }
    close_range(&r);
  }
}

static void clean_products_have_data_of_their_own(void **state) {
  range r;
  rdt_reason why = {""};
  (void)state;
  if (!built_in()) skip();
  if (open_product(&r, "thread1", "gemm:24x40x56", true, &why) != RDT_OK) fail_msg("%s", why.text);
  r.c.clean = true;
  shoot_all(&r, 130);
  assert_true(r.tally.clean == 130 && r.tally.checks >= 130 && r.tally.reports == 0);
  expect_judgement(&r, RDT_JUDGED_PASS);
  close_range(&r);
}

typedef struct heard {
  int persistent, detected;
} heard;

static void hear(const rdt_event *e, void *user) {
  heard *h = user;
  if (e->kind != RDT_EVENT_FAULT) return;
  if (e->diagnosis == RDT_DIAG_PERSISTENT && e->device && e->multiprocessor == 7) h->persistent++;
  if (e->verdict == RDT_DETECTED) h->detected++;
}

/* One that is always wrong is avoided by the repair, named and counted; what no repair helps is never called repaired.
 */
static void broken_multiprocessors_are_named(void **state) {
  (void)state;
  if (!built_in()) skip();
  for (int hopeless = 0; hopeless < 2; hopeless++) {
    range r;
    rdt_trial t;
    heard h = {0, 0};
    rdt_core_info list[4];
    rdt_reason why = {""};
    if (open_product(&r, "thread1", "gemm:24x40x56", false, &why) != RDT_OK) fail_msg("%s", why.text);
    rdt_context_on_event(r.ctx, hear, &h);
    r.faults->hopeless = hopeless;
    assert_int_equal(rdt_mix_one("bit:30@accum,core=7", &r.c.mix, &why), RDT_OK);
    for (int64_t id = 0; id < 20; id++) {
      shoot(&r, id, &t);
      assert_int_equal(t.verdict, hopeless ? RDT_DETECTED : RDT_RECOMPUTED);
    }
    assert_int_equal(h.detected, hopeless ? 20 : 0);
    if (!hopeless) {
      assert_int_equal(h.persistent, 20);
      assert_int_equal(rdt_context_multiprocessors(r.ctx, list, 4), 1);
      assert_true(list[0].core == 7 && list[0].suspects == 40 && list[0].faults[RDT_DIAG_PERSISTENT] == 20);
      assert_int_equal(rdt_context_cores(r.ctx, NULL, 0), 0);
    }
    close_range(&r);
  }
}

typedef struct named {
  int named, events;
} named_ones;

static void on_event(const rdt_event *e, void *user) {
  named_ones *h = user;
  h->events++;
  h->named += strstr(e->text, "multiprocessor 77 fails") != NULL && e->diagnosis == RDT_DIAG_PERSISTENT;
}

/* Copies on different multiprocessors: one that is wrong every time loses, again, and is named. */
static void a_bad_multiprocessor_is_outvoted(void **state) {
  range r;
  named_ones h = {0};
  rdt_reason why = {""};
  (void)state;
  if (!built_in()) skip();
  if (open_product(&r, "tmr-sm", "gemm:24x40x56:f32", false, &why) != RDT_OK) fail_msg("%s", why.text);
  rdt_context_on_event(r.ctx, on_event, &h);
  assert_int_equal(rdt_mix_one("bit@accum,core=77", &r.c.mix, &why), RDT_OK);
  shoot_all(&r, 20);
  expect_judgement(&r, RDT_JUDGED_PASS);
  assert_true(r.tally.data.fate[RDT_FATE_RECOMPUTED] > 10 && r.tally.data.missed == 0);
  assert_int_equal(h.named, r.tally.data.fate[RDT_FATE_RECOMPUTED]);
  close_range(&r);
}

/* Two copies of three: elsewhere, there with other bits, alike (once: the copies that are made to tell who lost are all
 * right, and so is what they elect; nobody claims that). One multiprocessor now and then: outvoted, where each copy has
 * its own; where it may compute two of them, it has two votes. */
static void models_of_three_copies(void **state) {
  static const struct {
    const char *scheme, *fault;
    rdt_fate fate;
    rdt_judgement judged;
  } cases[] = {{"tmr-kernel", "bit@accum,copies=apart", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-kernel", "bit@accum,copies=differ", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-kernel", "bit@accum,copies=alike", RDT_FATE_RECOMPUTED, RDT_JUDGED_UNCLAIMED},
               {"tmr-sm", "bit@accum,copies=alike", RDT_FATE_RECOMPUTED, RDT_JUDGED_UNCLAIMED},
               {"tmr-kernel", "random@vote", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-sm", "random@vote", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-kernel", "bit@accum,core=77,rate=0.6", RDT_FATE_OUTVOTED, RDT_JUDGED_UNCLAIMED},
               {"tmr-sm", "bit@accum,core=77,rate=0.5", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS}};
  (void)state;
  if (!built_in()) skip();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    range r;
    rdt_reason why = {""};
    if (open_product(&r, cases[i].scheme, "gemm:24x40x56:f32", false, &why) != RDT_OK) fail_msg("%s", why.text);
    assert_int_equal(rdt_mix_one(cases[i].fault, &r.c.mix, &why), RDT_OK);
    shoot_all(&r, 40);
    expect_judgement(&r, cases[i].judged);
    const rdt_count *c = strstr(cases[i].fault, "@vote") ? &r.tally.checker : &r.tally.data;
    const int64_t struck = rdt_count_planted(c), n = c->fate[cases[i].fate];
    const bool some = cases[i].fate == RDT_FATE_OUTVOTED;
    if (struck < 8 || (some ? n < 4 || c->fate[RDT_FATE_RECOMPUTED] < 4 || c->fate[RDT_FATE_MISCORRECTED] > 0
                            : n + c->fate[RDT_FATE_MASKED] != struck || n <= struck / 2))
      fail_msg("%s %s: %d struck, %d as they must, %d masked", cases[i].scheme, cases[i].fault, (int)struck, (int)n,
               (int)c->fate[RDT_FATE_MASKED]);
    close_range(&r);
  }
}

static void on_event_again(const rdt_event *e, void *user) {
  int *again = user;
  *again += strstr(e->text, "computed again from an earlier vote") != NULL && e->verdict == RDT_RECOMPUTED &&
            e->diagnosis == RDT_DIAG_TRANSIENT && !e->device;
}

/* Of two copies that are hit differently, and one that is not, nobody knows: kernels that vote on the way compute it
 * again themselves. Nobody is named for it. */
static void what_all_differ_in_is_computed_again_on_the_way(void **state) {
  range r;
  int again = 0;
  rdt_reason why = {""};
  const rdt_target_data data = {.seed = 5};
  (void)state;
  if (!built_in()) skip();
  set_up(&r, "tmr-block", RDT_ON_FAULT_RECOMPUTE);
  r.ctx->machine->device.votes = 4;
  r.faults->on_the_way = true;
  if (rdt_target_device(r.ctx, "gemm:24x40x56:f16", &data, &r.target, &why) != RDT_OK) fail_msg("%s", why.text);
  rdt_context_on_event(r.ctx, on_event_again, &again);
  assert_int_equal(rdt_mix_one("bit@accum,copies=differ", &r.c.mix, &why), RDT_OK);
  shoot_all(&r, 20);
  expect_judgement(&r, RDT_JUDGED_PASS);
  assert_true(r.tally.data.fate[RDT_FATE_RECOMPUTED] > 10 && r.tally.data.missed == 0);
  assert_int_equal(again, r.tally.data.fate[RDT_FATE_RECOMPUTED]);
  close_range(&r);
}

/* The same of kernels that vote on the way; of tmr-sm there are two, a layer each. Nobody sees what a multiprocessor
 * has done to all copies alike. */
static void models_of_copies_that_vote_on_the_way(void **state) {
  static const struct {
    const char *scheme, *fault;
    int layers;
    rdt_fate fate;
    rdt_judgement judged;
  } cases[] = {{"tmr-block", "bit@accum", 1, RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-split", "bits:3@accum", 1, RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-sm", "burst:4@accum,layer=clusters", 2, RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-block", "bit@accum,copies=differ", 1, RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-sm", "bit@accum,copies=alike", 2, RDT_FATE_RECOMPUTED, RDT_JUDGED_UNCLAIMED},
               {"tmr-sm", "bit:29@accum,core=77", 2, RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"tmr-block", "bit:29@accum,core=77", 1, RDT_FATE_SDC, RDT_JUDGED_UNCLAIMED}};
  (void)state;
  if (!built_in()) skip();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    range r;
    rdt_reason why = {""};
    const rdt_target_data data = {.seed = 5};
    set_up(&r, cases[i].scheme, RDT_ON_FAULT_RECOMPUTE);
    r.ctx->machine->device.votes = 4;
    if (rdt_target_device(r.ctx, "gemm:24x40x56:f16", &data, &r.target, &why) != RDT_OK) fail_msg("%s", why.text);
    assert_int_equal(r.target->n_layers, cases[i].layers);
    assert_int_equal(rdt_mix_one(cases[i].fault, &r.c.mix, &why), RDT_OK);
    shoot_all(&r, 40);
    expect_judgement(&r, cases[i].judged);
    const rdt_count *c = &r.tally.data;
    const int64_t struck = rdt_count_planted(c), n = c->fate[cases[i].fate] + c->fate[RDT_FATE_CRITICAL];
    if (struck < 30 || n + c->fate[RDT_FATE_MASKED] != struck || n <= struck / 4)
      fail_msg("%s %s: %d struck, %d as they must, %d masked", cases[i].scheme, cases[i].fault, (int)struck, (int)n,
               (int)c->fate[RDT_FATE_MASKED]);
    close_range(&r);
  }
}

static void what_a_device_cannot_do_is_refused(void **state) {
  static const struct {
    const char *target, *scheme, *fault, *says;
  } cases[] = {{"gemm:8x8x8", "row", "ber:1e-4@accum", "no ber on a GPU"},
               {"gemm:8x8x8", "row", "bit@accum,count=3", "no count on a GPU"},
               {"gemm:8x8x8", "row", "bit@accum,core=1,lane=2", "no lane on a GPU"},
               {"gemm:8x8x8", "row", "bit@accum,core=1,rate=0.5", "no rate on a GPU"},
               {"gemm:8x8x8", "row", "bit@accum,copies=alike", "no copies or cores on a GPU"},
               {"gemm:8x8x8", "tmr-sm", "bit@accum,core=1,cores=3", "no copies or cores on a GPU"},
               {"gemm:8x8x8", "row", "bit@accum,core=500", "multiprocessors 0 to 131"},
               {"gemm:8x8x8", "row", "bit@weight", "has no weight"},
               {"gemm:8x8x8:f16", "tmr-block", "bit@packed", "has no packed"},
               {"gemm:8x8x8:f32", "tmr-block", NULL, "where these are of f16, not of f32"},
               {"gemm:8x8x8:f16", "tmr-block", "stuck1:3@accum", "no fault that depends on what is there"},
               {"gemm:8x8x8:f16", "tmr-block", "bit@accum,copies=apart", "no copies=apart"},
               {"gemm:8x8x8", "thread1", "bit@packed", "has no packed"},
               {"gemm:8x8x8", "none", NULL, "checked by none; such kernels are there for: thread1 row"},
               {"gemm:8x8x8:u8", "row", NULL, "nothing of this datatype"},
               {"gemm:8x8x8:s8", "row:2", NULL, "up to 1 checks of a line, not row:2"},
               {"gemm:8x8", "row", NULL, "gemm:MxNxK"}};
  (void)state;
  if (!built_in()) skip();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    range r;
    rdt_trial t;
    char spec[256];
    rdt_reason why = {""};
    rdt_status status = open_product(&r, cases[i].scheme, cases[i].target, false, &why);
    if (status == RDT_OK) {
      if (rdt_mix_one(cases[i].fault, &r.c.mix, &why) != RDT_OK) fail_msg("%s: %s", cases[i].fault, why.text);
      status = rdt_campaign_shoot(&r.c, r.target, 1, spec, &t, &why);
    }
    if (status == RDT_OK || !strstr(why.text, cases[i].says)) fail_msg("%s: %s", cases[i].says, why.text);
    close_range(&r);
  }
}

/* Every kind of memory and op; a check with a bound lets go what is below it, and that is no miss; one that is deaf
 * misses. */
static void networks_are_struck(void **state) {
  static const char *const sites[] = {"accum", "weight"};
  range r;
  rdt_reason why = {""};
  (void)state;
  open_network(&r, 0.0);
  shoot_all(&r, 300);
  expect_judgement(&r, RDT_JUDGED_PASS);
  for (int s = 0; s < RDT_SITE_COUNT; s++) {
    const bool has = s == RDT_SITE_INPUT || s == RDT_SITE_WEIGHT || s == RDT_SITE_ACCUM || s == RDT_SITE_NONLINEAR ||
                     s == RDT_SITE_OUTPUT;
    assert_true(has == (rdt_count_planted(&r.tally.site[s]) > 0));
  }
  close_range(&r);
  for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
    char text[64];
    open_network(&r, 1e-3);
    snprintf(text, sizeof text, "bit@%s", sites[i]);
    assert_int_equal(rdt_mix_one(text, &r.c.mix, &why), RDT_OK);
    shoot_all(&r, 200);
    expect_judgement(&r, RDT_JUDGED_PASS);
    if (i == 0) assert_true(r.tally.data.effect[RDT_EFFECT_BELOW] > 20 && rdt_count_above(&r.tally.data) > 20);
    close_range(&r);
  }
  open_network(&r, 1e-3);
  r.faults->deaf = true;
  assert_int_equal(rdt_mix_one("bit:28@accum", &r.c.mix, &why), RDT_OK);
  shoot_all(&r, 40);
  assert_true(r.tally.data.missed > 0);
  expect_judgement(&r, RDT_JUDGED_FAIL);
  close_range(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_struck),
                                     cmocka_unit_test(a_trial_knows_nothing_of_those_before),
                                     cmocka_unit_test(clean_products_have_data_of_their_own),
                                     cmocka_unit_test(what_a_device_cannot_do_is_refused),
                                     cmocka_unit_test(a_bad_multiprocessor_is_outvoted),
                                     cmocka_unit_test(what_all_differ_in_is_computed_again_on_the_way),
                                     cmocka_unit_test(models_of_three_copies),
                                     cmocka_unit_test(models_of_copies_that_vote_on_the_way),
                                     cmocka_unit_test(networks_are_struck),
                                     cmocka_unit_test(broken_multiprocessors_are_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
