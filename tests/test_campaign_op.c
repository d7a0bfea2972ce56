/* Campaigns' targets that are ops: what a trial comes to depends on its number and the seed, and on nothing that was
 * run before it; families, workloads, lanes; what planning makes of what was measured. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "campaign/campaign.h"
#include "campaign/families.h"
#include "campaign/summary.h"
#include "core/context.h"
#include "core/file.h"
#include "core/memory.h"
#include "plan/coverage.h"
#include "plan/offers.h"
#include "plan/sealed_json.h"
#include "util_onnx.h"

typedef struct range {
  rdt_context *ctx;
  rdt_target *target;
  rdt_campaign c;
} range;

static void open_range_at(range *r, const char *scheme, double lambda, const char *target, rdt_target_data data) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_reason why = {""};
  policy.scheme = scheme;
  policy.lambda = lambda;
  memset(r, 0, sizeof *r);
  r->c = (rdt_campaign){.seed = 5};
  rdt_mix_default(&r->c.mix);
  assert_int_equal(rdt_context_create(&r->ctx, 1), RDT_OK);
  assert_int_equal(rdt_context_set_policy(r->ctx, &policy), RDT_OK);
  data.seed = 5;
  if (rdt_target_op(r->ctx, target, &data, &r->target, &why) != RDT_OK) fail_msg("%s", why.text);
}

static void open_range(range *r, const char *scheme, const char *target, rdt_target_data data) {
  const rdt_policy usual = RDT_POLICY_DEFAULT;
  open_range_at(r, scheme, usual.lambda, target, data);
}

static void close_range(range *r) {
  rdt_target_destroy(r->target);
  rdt_context_destroy(r->ctx);
}

static void shoot(range *r, int64_t id, rdt_trial *t) {
  char spec[256];
  rdt_reason why = {""};
  if (rdt_campaign_shoot(&r->c, r->target, id, spec, t, &why) != RDT_OK) fail_msg("%s", why.text);
}

/* Forwards, and backwards from the end: other neighbours before each, the schedule at other places. */
static void a_trial_knows_nothing_of_those_before(void **state) {
  static const char *const schemes[] = {"none", "dup", "row", "rowcol", "replicate"};
  enum { TRIALS = 250 };
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++) {
    static rdt_trial first[TRIALS];
    range r;
    open_range(&r, schemes[s], "gemm:24x40x56", (rdt_target_data){.fresh = false});
    for (int i = 0; i < TRIALS; i++) shoot(&r, i, &first[i]);
    close_range(&r);
    open_range(&r, schemes[s], "gemm:24x40x56", (rdt_target_data){.fresh = false});
    for (int i = TRIALS - 1; i >= 0; i--) {
      rdt_trial t;
      shoot(&r, i, &t);
      char *a = rdt_trial_print(&first[i]), *b = rdt_trial_print(&t);
      assert_string_equal(a, b);
      cJSON_free(a);
      cJSON_free(b);
    }
    close_range(&r);
  }
}

/* Whatever a word of a plan holds: two of one target, at other addresses, come to the same. */
static void addresses_do_not_tell(void **state) {
  static const char *const faults[] = {"stuck0@plan", "stuck1@plan", "zero@plan", "random@plan", "bit@plan"};
  enum { TRIALS = 300 };
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    range r[2];
    int changed = 0;
    for (int k = 0; k < 2; k++) {
      rdt_reason why = {""};
      open_range(&r[k], "rowcol", "gemm:24x40x56", (rdt_target_data){.fresh = false});
      assert_int_equal(rdt_mix_one(faults[i], &r[k].c.mix, &why), RDT_OK);
    }
    for (int id = 0; id < TRIALS; id++) {
      char *lines[2];
      rdt_trial t;
      for (int k = 0; k < 2; k++) {
        shoot(&r[k], id, &t);
        lines[k] = rdt_trial_print(&t);
      }
      assert_string_equal(lines[0], lines[1]);
      changed += strstr(t.did, "bits have changed") != NULL;
      for (int k = 0; k < 2; k++) cJSON_free(lines[k]);
    }
    assert_true(changed > TRIALS / 50);
    for (int k = 0; k < 2; k++) close_range(&r[k]);
  }
}

/* Each family is a layer; without a fault data are others each time, and checks are content with them. */
static void families_are_layers(void **state) {
  enum { ROUNDS = 3 };
  range r;
  rdt_trial t, again;
  (void)state;
  open_range(&r, "row", "gemm:40x24x56", (rdt_target_data){.family = "all", .fresh = true});
  assert_int_equal(r.target->n_layers, RDT_FAMILY_COUNT);
  r.c.clean = true;
  double bound[RDT_FAMILY_COUNT] = {0.0};
  for (int i = 0; i < ROUNDS * RDT_FAMILY_COUNT; i++) {
    char name[128];
    const int f = i % RDT_FAMILY_COUNT;
    shoot(&r, i, &t);
    snprintf(name, sizeof name, "gemm %s", rdt_family_name((rdt_family)f));
    assert_string_equal(t.layer, name);
    assert_int_equal(t.fate, RDT_FATE_MASKED);
    assert_int_equal(t.faults, 0);
    assert_int_equal(t.checks, 40);
    assert_true(t.bound != bound[f]); /* of other data; the largest of 40 residuals may be the same number again */
    bound[f] = t.bound;
  }
  shoot(&r, ROUNDS * RDT_FAMILY_COUNT - 1, &again);
  assert_memory_equal(&again.residual, &t.residual, sizeof t.residual);
  close_range(&r);
  open_range(&r, "fc", "conv:2x6x9x7:8x3x3:p1", (rdt_target_data){.family = "cancelling"});
  for (int i = 0; i < 60; i++) shoot(&r, i, &t);
  assert_string_equal(r.target->names[0], "conv cancelling");
  close_range(&r);
}

/* No more suspects than lambda states, twice over, where it states something; blocks, of which it does not, shows that
 * this is no empty claim. */
static void lambda_states_a_share_of_suspects(void **state) {
  enum { ROUNDS = 40, ROWS = 256 };
  static const double lambdas[] = {3.0, 4.0};
  (void)state;
  for (size_t l = 0; l < sizeof lambdas / sizeof *lambdas; l++) {
    range r;
    rdt_trial t;
    rdt_tally tally = {.trials = 0};
    rdt_reason why = {""};
    open_range_at(&r, "row", lambdas[l], "gemm:256x64x64", (rdt_target_data){.family = "all", .fresh = true});
    r.c.clean = true;
    cJSON *head = rdt_campaign_describe(&r.c, r.target, false, &why);
    cJSON_AddStringToObject(head, "family", "all");
    assert_int_equal(rdt_tally_expect(&tally, head, &why), RDT_OK);
    for (int i = 0; i < ROUNDS * RDT_FAMILY_COUNT; i++) {
      shoot(&r, i, &t);
      if (t.faults)
        fail_msg("%s i=%d residual %g bound? checks %lld fate %d", t.layer, i, t.residual, (long long)t.checks,
                 (int)t.fate);
      assert_int_equal(rdt_tally_add(&tally, &t, true, &why), RDT_OK);
    }
    assert_int_equal(tally.n_layers, RDT_FAMILY_COUNT);
    for (int f = 0; f < RDT_FAMILY_COUNT; f++) {
      const rdt_layer_count *c = &tally.layers[f];
      const double stated = rdt_stats_beyond(lambdas[l]) * (double)c->checks;
      assert_int_equal(c->checks, ROUNDS * ROWS);
      assert_int_equal(c->no_rate, !rdt_family_claimed((rdt_family)f));
      if (!c->no_rate && (double)c->suspects > 2.0 * stated + 1.0)
        fail_msg("%s: %lld suspects, %g stated", c->name, (long long)c->suspects, stated);
      if (f == RDT_FAMILY_BLOCKS) assert_true((double)c->suspects > 2.0 * stated);
    }
    rdt_tally_clear(&tally);
    cJSON_Delete(head);
    close_range(&r);
  }
}

static void what_is_no_family_is_refused(void **state) {
  static const struct {
    const char *target, *family, *says;
  } bad[] = {{"gemm:8x8x8", "wild", "normal relu"},
             {"gemm:8x8x8:s8", "all", "of real numbers"},
             {"dlrm-bottom:0", NULL, "a batch goes from"},
             {"gemm:8x8", NULL, "gemm:MxNxK"}};
  rdt_context *ctx;
  (void)state;
  assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const rdt_target_data data = {.family = bad[i].family};
    rdt_target *t;
    rdt_reason why = {""};
    assert_int_not_equal(rdt_target_op(ctx, bad[i].target, &data, &t, &why), RDT_OK);
    assert_null(t);
    if (!strstr(why.text, bad[i].says)) fail_msg("%s: %s", bad[i].target, why.text);
  }
  rdt_context_destroy(ctx);
}

/* The layers of a network that is built in, each hit by itself; a glob names one of them. */
static void a_workload_is_its_layers(void **state) {
  range r;
  rdt_trial t;
  int hits[3] = {0};
  (void)state;
  assert_true(rdt_target_is_op("dlrm-bottom"));
  assert_true(rdt_target_is_op("dlrm-bottom:4:bf16"));
  assert_false(rdt_target_is_op("dlrm-bottom.onnx"));
  open_range(&r, "row", "dlrm-bottom:4", (rdt_target_data){.fresh = false});
  assert_int_equal(r.target->n_layers, 3);
  for (int i = 0; i < 120; i++) {
    shoot(&r, i, &t);
    if (t.fate == RDT_FATE_ABSENT) continue;
    assert_false(rdt_trial_fails(&t, true));
    for (int l = 0; l < 3; l++) hits[l] += strcmp(t.layer, r.target->names[l]) == 0;
  }
  for (int l = 0; l < 3; l++) assert_true(hits[l] > 10);
  rdt_reason why = {""};
  assert_int_equal(rdt_mix_one("bit:30@accum,layer=*2", &r.c.mix, &why), RDT_OK);
  for (int i = 0; i < 10; i++) {
    shoot(&r, i, &t);
    assert_string_equal(t.layer, r.target->names[1]);
    assert_int_equal(t.fate, RDT_FATE_RECOMPUTED);
  }
  close_range(&r);
}

/* What was computed again is not believed either: hit as well, it is computed once more, or in another way. */
static void recovery_is_checked_too(void **state) {
  static const struct {
    const char *target, *scheme;
  } cases[] = {{"gemm:24x40x56", "row"},         {"gemm:24x40x56", "global-classic"}, {"gemm:24x40x56", "thread2"},
               {"gemm:24x40x56:bf16", "rowcol"}, {"gemm:24x40x56:s8", "row"},         {"gemm:24x40x56", "dup"},
               {"conv:2x6x9x7:8x3x3:p1", "fc"},  {"gemm:24x40x56", "replicate"}};
  enum { TRIALS = 40 };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    range r;
    rdt_trial t;
    rdt_reason why = {""};
    int above = 0;
    open_range(&r, cases[i].scheme, cases[i].target, (rdt_target_data){.fresh = false});
    assert_int_equal(rdt_mix_one("random@recovery", &r.c.mix, &why), RDT_OK);
    for (int id = 0; id < TRIALS; id++) {
      shoot(&r, id, &t);
      assert_true(t.claimed && t.noticed);
      assert_int_equal(t.site, RDT_SITE_RECOVERY);
      if (t.fate != RDT_FATE_RECOMPUTED) fail_msg("%s %s: %s", cases[i].target, cases[i].scheme, t.did);
      above += t.effect == RDT_EFFECT_ABOVE;
    }
    assert_true(above > TRIALS / 2);
    close_range(&r);
  }
}

/* Three copies: what is claimed is found and repaired; two that are wrong alike are counted as what they are. */
static void models_of_three_copies(void **state) {
  static const struct {
    const char *fault;
    rdt_fate fate;
    rdt_judgement judged;
  } cases[] = {{"bit@accum,copies=apart,cores=3", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"bit@accum,copies=differ,cores=3", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"bit@accum,copies=alike,cores=3", RDT_FATE_OUTVOTED, RDT_JUDGED_UNCLAIMED},
               {"bit@accum,copies=alike,cores=2", RDT_FATE_RECOMPUTED, RDT_JUDGED_UNCLAIMED},
               {"bit@accum,core=2,cores=3", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"bit@accum,core=1,cores=3,rate=0.3", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"bit@accum,core=1,cores=2,rate=0.3", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS},
               {"random@vote,cores=3", RDT_FATE_RECOMPUTED, RDT_JUDGED_PASS}};
  enum { TRIALS = 40 };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    range r;
    rdt_trial t;
    rdt_tally tally = {0};
    rdt_reason why = {""};
    int planted = 0;
    open_range(&r, "tmr-sm", "gemm:24x40x56", (rdt_target_data){.fresh = false});
    assert_int_equal(rdt_mix_one(cases[i].fault, &r.c.mix, &why), RDT_OK);
    for (int id = 0; id < TRIALS; id++) {
      shoot(&r, id, &t);
      assert_int_equal(rdt_tally_add(&tally, &t, true, &why), RDT_OK);
      if (t.fate == RDT_FATE_ABSENT) continue;
      if (t.fate != cases[i].fate) fail_msg("%s: %s, %s", cases[i].fault, rdt_fate_name(t.fate), t.did);
      assert_int_equal(t.noticed, t.fate != RDT_FATE_OUTVOTED);
      assert_int_equal(t.claimed, strstr(cases[i].fault, "alike") == NULL);
      planted++;
    }
    assert_true(planted >= (strstr(cases[i].fault, "rate") ? TRIALS / 10 : TRIALS));
    assert_int_equal(rdt_summary_judge(&tally), cases[i].judged);
    assert_int_equal(tally.data.fate[RDT_FATE_OUTVOTED], cases[i].fate == RDT_FATE_OUTVOTED ? TRIALS : 0);
    assert_int_equal(tally.data.uncovered, tally.data.fate[RDT_FATE_OUTVOTED]);
    rdt_tally_clear(&tally);
    close_range(&r);
  }
  rdt_trial inside = {.fate = RDT_FATE_OUTVOTED, .claimed = true, .effect = RDT_EFFECT_ABOVE};
  assert_true(rdt_trial_fails(&inside, true)); /* were it claimed, it would fail */
}

/* A weight that no pixel is multiplied with may change as it likes: what counts is what becomes of the result. */
static void what_nothing_reads_does_no_harm(void **state) {
  static const char *const schemes[] = {"fc", "ic", "fic", "dup"};
  (void)state;
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    range r;
    rdt_trial t;
    rdt_reason why = {""};
    open_range(&r, schemes[i], "conv:1x4x1x1:6x3x3:p1", (rdt_target_data){.fresh = false});
    for (int site = 0; site < 2; site++) {
      assert_int_equal(rdt_mix_one(site ? "random@packed" : "random@weight", &r.c.mix, &why), RDT_OK);
      for (int id = 0; id < 40; id++) {
        shoot(&r, id, &t);
        assert_false(rdt_trial_fails(&t, true));
        if (t.changed == 0) assert_int_equal(t.effect, RDT_EFFECT_NONE);
      }
    }
    close_range(&r);
  }
}

typedef struct net {
  rdt_context *ctx;
  rdt_model *model;
} net;

static rdt_status run_net(void *user, int64_t id, const char *spec, const rdt_tensor *inputs, rdt_run_result *result,
                          rdt_reason *why) {
  const net *n = user;
  (void)id, (void)spec;
  const rdt_status status = rdt_model_run(n->model, inputs, 1, result);
  return status == RDT_OK || status == RDT_ERR_FAULT ? status : rdt_fail(why, status, "%s", rdt_context_error(n->ctx));
}

/* An index that a fault has changed names a row that is not there: without protection that is the end of the run, and
 * not of the campaign; with it the index is read again. */
static void an_error_is_an_outcome(void **state) {
  static const char path[] = "/tmp/redoubt-campaign-gather.onnx";
  static int64_t rows[3] = {5, 0, 7};
  const int64_t many[] = {8, 4}, few[] = {3}, out[] = {3, 4};
  float table[32];
  util_onnx m;
  (void)state;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "rows", RDT_S64, 1, few);
  util_fill(table, 32, 1);
  util_onnx_initializer(&m, "table", RDT_F32, 2, many, table);
  util_onnx_node(&m, "Gather", "pick", "table rows", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, out);
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  for (int bare = 0; bare < 2; bare++) {
    const rdt_tensor input = rdt_tensor_dense(rows, RDT_S64, 1, few);
    rdt_policy policy = RDT_POLICY_DEFAULT;
    rdt_reason why = {""};
    rdt_trial t, again;
    range r;
    net n;
    if (bare) policy.scheme = "none";
    memset(&r, 0, sizeof r);
    r.c = (rdt_campaign){.seed = 5};
    assert_int_equal(rdt_mix_one("bit:40@input,at=1", &r.c.mix, &why), RDT_OK);
    assert_int_equal(rdt_context_create(&n.ctx, 1), RDT_OK);
    assert_int_equal(rdt_context_set_policy(n.ctx, &policy), RDT_OK);
    assert_int_equal(rdt_model_load(n.ctx, path, &n.model), RDT_OK);
    rdt_run_result result;
    assert_int_equal(rdt_model_run(n.model, &input, 1, &result), RDT_OK);
    const rdt_target_net asked = {
        .user = &n, .model = &n.model, .inputs = &input, .n_inputs = 1, .batch = 1, .path = path, .run = run_net};
    if (rdt_target_model(n.ctx, &asked, &r.target, &why) != RDT_OK) fail_msg("%s", why.text);
    shoot(&r, 3, &t);
    assert_int_equal(t.fate, bare ? RDT_FATE_DUE : RDT_FATE_RECOMPUTED);
    assert_false(rdt_trial_fails(&t, true));
    if (bare) assert_non_null(strstr(t.did, "index 1099511627776"));
    r.c.clean = true; /* nothing of it stays */
    shoot(&r, 4, &again);
    assert_int_equal(again.fate, RDT_FATE_MASKED);
    rdt_target_destroy(r.target);
    rdt_model_free(n.model);
    rdt_context_destroy(n.ctx);
  }
  remove(path);
}

/* A lane of a core's vectors is wrong in all that goes through it; the code path without vectors is not. */
static void a_lane_is_wrong_for_the_whole_run(void **state) {
  range r;
  rdt_trial t;
  rdt_reason why = {""};
  char spec[64];
  int cores[CPU_SETSIZE];
  (void)state;
  const int n = rdt_cores_allowed(cores, CPU_SETSIZE);
  assert_true(n > 0);
  snprintf(spec, sizeof spec, "bit:30@accum,core=%d,lane=3", cores[0]);
  for (int s = 0; s < 2; s++) {
    open_range(&r, s ? "none" : "row", "gemm:24x40x56", (rdt_target_data){.fresh = false});
    assert_int_equal(rdt_mix_one(spec, &r.c.mix, &why), RDT_OK);
    shoot(&r, 1, &t);
    if (r.ctx->isa == RDT_ISA_GENERIC) {
      assert_int_equal(t.fate, RDT_FATE_ABSENT);
    } else if (s) {
      const int lanes = r.ctx->isa == RDT_ISA_AVX512 ? 16 : 8;
      assert_int_equal(t.fate == RDT_FATE_CRITICAL || t.fate == RDT_FATE_SDC, 1);
      assert_int_equal(t.wrong, 24 * ((40 - 3 + lanes - 1) / lanes));
    } else {
      assert_int_equal(t.fate, RDT_FATE_RECOMPUTED);
      assert_int_equal(t.diagnosis, RDT_DIAG_PERSISTENT);
      assert_int_equal(t.effect, RDT_EFFECT_ABOVE);
      assert_true(t.suspects == 24);
    }
    close_range(&r);
  }
  rdt_fault f;
  assert_int_equal(rdt_fault_parse("bit@accum,lane=3", &f, &why), RDT_ERR_ARG);
  assert_int_equal(rdt_fault_parse("bit@accum,core=0,lane=64", &f, &why), RDT_ERR_ARG);
}

/* An automatic choice goes by a file of measured coverage; one with a flipped bit is refused. */
static void what_was_measured_counts(void **state) {
  static const char path[] = "/tmp/redoubt-coverage.json";
  rdt_context *ctx;
  rdt_reason why = {""};
  void *data;
  size_t bytes;
  (void)state;
  cJSON *doc = rdt_sealed_document(RDT_COVERAGE_SCHEMA, 1), *rows = cJSON_AddArrayToObject(doc, "rows");
  static const char *const weak[] = {"row", "col", "rowcol", "tile", "thread1", "thread2", "replicate1"};
  for (size_t i = 0; i < sizeof weak / sizeof *weak; i++) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "scheme", weak[i]);
    cJSON_AddStringToObject(row, "dtype", "f32");
    cJSON_AddNumberToObject(row, "coverage_low", 0.5);
    cJSON_AddNumberToObject(row, "coverage_high", 0.6);
    cJSON_AddItemToArray(rows, row);
  }
  cJSON *conv = cJSON_Duplicate(cJSON_GetArrayItem(rows, 0), true); /* of another op: the least counts */
  cJSON_SetNumberValue(cJSON_GetObjectItem(conv, "coverage_low"), 0.9);
  cJSON_SetNumberValue(cJSON_GetObjectItem(conv, "coverage_high"), 0.95);
  cJSON_AddItemToArray(rows, conv);
  assert_int_equal(rdt_sealed_write(doc, path, &why), RDT_OK);
  cJSON_Delete(doc);
  assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
  for (int given = 0; given < 2; given++) {
    const rdt_target_data none = {.fresh = false};
    rdt_target *t;
    if (given) assert_int_equal(rdt_coverage_read(ctx, path, &why), RDT_OK);
    assert_ptr_equal(rdt_demand_of(ctx, "auto").coverage, given ? ctx->coverage : &rdt_coverage_kept);
    assert_true(rdt_coverage_of(ctx->coverage, rdt_scheme_find("row"), RDT_F32).low == (given ? 0.5 : .999));
    const double other = rdt_coverage_kept.range[RDT_SCHEME_ROW][RDT_F64].low;
    assert_true(rdt_coverage_of(ctx->coverage, rdt_scheme_find("row"), RDT_F64).low == (given ? other : .999));
    if (rdt_target_op(ctx, "gemm:24x40x56", &none, &t, &why) != RDT_OK) fail_msg("%s", why.text);
    bool is_weak = false;
    for (size_t i = 0; i < sizeof weak / sizeof *weak; i++)
      is_weak = is_weak || strcmp(t->layers[0].scheme, weak[i]) == 0;
    assert_int_equal(is_weak, !given);
    rdt_target_destroy(t);
  }
  assert_int_equal(rdt_file_read(path, &data, &bytes, &why), RDT_OK);
  for (size_t i = 0; i < bytes; i++) {
    char *text = data;
    if (strchr(" \n\t", text[i])) continue;
    text[i] ^= (char)(1 << i % 7);
    assert_int_equal(rdt_file_write(path, text, bytes, NULL, 0, &why), RDT_OK);
    if (rdt_coverage_read(ctx, path, &why) == RDT_OK) fail_msg("taken with byte %zu flipped", i);
    text[i] ^= (char)(1 << i % 7);
  }
  rdt_free(data);
  remove(path);
  rdt_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_trial_knows_nothing_of_those_before),
      cmocka_unit_test(addresses_do_not_tell),
      cmocka_unit_test(families_are_layers),
      cmocka_unit_test(lambda_states_a_share_of_suspects),
      cmocka_unit_test(what_is_no_family_is_refused),
      cmocka_unit_test(a_workload_is_its_layers),
      cmocka_unit_test(an_error_is_an_outcome),
      cmocka_unit_test(recovery_is_checked_too),
      cmocka_unit_test(models_of_three_copies),
      cmocka_unit_test(what_nothing_reads_does_no_harm),
      cmocka_unit_test(a_lane_is_wrong_for_the_whole_run),
      cmocka_unit_test(what_was_measured_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
