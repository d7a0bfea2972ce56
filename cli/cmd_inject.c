/* redoubt inject: campaigns of single faults, and of none, each run compared bit by bit with a clean one. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "net/model.h"
#include "progress.h"
#include "report/json.h"
#include "report/report.h"
#include "report/table.h"
#include "report/words.h"

/* How a trial ended. A fault is above the floor when a check's weighted sum of its true errors, in the raw result of
 * its layer, exceeds the detection floor of the layer's checks (0 where bits are compared). Errors that are larger one
 * by one, but cancel in every check, are counted apart. */
#define OUTCOMES(X)                              \
  X(MASKED, "no effect", "no_effect", 0)         \
  X(REPAIRED, "repaired", "repaired", 0)         \
  X(CORRECTED, "corrected", "corrected", 0)      \
  X(UNREPAIRED, "not repaired", "unrepaired", 1) \
  X(BELOW, "below floor", "missed_below", 0)     \
  X(CANCELLED, "cancels", "missed_cancelled", 0) \
  X(ABOVE, "missed", "missed_above", 1)          \
  X(WORSE, "made worse", "worse", 1)             \
  X(ABSENT, "not planted", "absent", 0)
typedef enum outcome {
#define X(id, ...) id,
  OUTCOMES(X)
#undef X
      OUTCOME_COUNT
} outcome;
static const struct {
  const char *name, *key;
  bool bad; /* a miss inside the claim: exit code 1 */
} outcomes[] = {
#define X(id, name, key, bad) {name, key, bad},
    OUTCOMES(X)
#undef X
};

typedef struct tally {
  int64_t count[OUTCOME_COUNT];
} tally;

typedef struct target { /* a place that can be hit */
  size_t node;
  rdt_site site;
} target;

typedef struct failure {
  char spec[256], did[320];
  outcome how;
  double error, weighted, floor;
} failure;
enum { MAX_FAILURES = 20 };

typedef struct campaign {
  const rdt_settings *settings;
  rdt_session session;
  rdt_tensor *slice; /* the inputs of one trial */
  int64_t slices;
  uint8_t **clean; /* outputs of each slice without a fault */
  size_t clean_bytes;
  target *targets;
  int n_targets;
  int64_t trials, seed;
  tally sites[RDT_SITE_COUNT], *layers, all;
  int64_t checks, suspects, reports, unchecked, differing;
  double worst, largest; /* of rebuilt results: error in units of the stated bound; that bound */
  failure failures[MAX_FAILURES];
  int n_failures;
} campaign;

/* ---- inputs and outputs of a trial ---- */

static void choose_slices(campaign *c) {
  const rdt_session *s = &c->session;
  const int64_t batch = c->settings->batch ? c->settings->batch : 1;
  int64_t images = -1;
  for (size_t i = 0; i < s->n_inputs; i++) {
    rdt_io_info info;
    const rdt_tensor *t = &s->inputs[i];
    const bool open = rdt_model_input_info(s->model, i, &info) == RDT_OK && info.rank > 0 && info.shape[0] < 0;
    if (!open || t->rank < 1 || (images >= 0 && t->shape[0] != images)) images = -2;
    if (images == -2) break;
    images = t->shape[0];
  }
  c->slices = images > batch ? images / batch : 1;
  for (size_t i = 0; i < s->n_inputs; i++) {
    c->slice[i] = s->inputs[i];
    if (c->slices > 1) c->slice[i].shape[0] = batch;
  }
}

static void take_slice(campaign *c, int64_t which) {
  for (size_t i = 0; i < c->session.n_inputs; i++) {
    rdt_tensor *t = &c->slice[i];
    const size_t bytes = (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
    t->data = (uint8_t *)c->session.inputs[i].data + (size_t)which * bytes;
  }
}

/* All outputs one after the other, into to or, where to is NULL, only measured; or compared with like. */
static rdt_status outputs(rdt_session *s, uint8_t *to, const uint8_t *like, size_t *bytes, bool *same) {
  size_t used = 0;
  for (size_t i = 0; i < rdt_model_output_count(s->model); i++) {
    rdt_tensor t;
    const rdt_status status = rdt_model_output(s->model, i, &t);
    if (status != RDT_OK) return rdt_session_fail(s, status);
    const size_t n = (size_t)rdt_tensor_count(&t) * rdt_dtype_size(t.dtype);
    if (to) memcpy(to + used, t.data, n);
    if (like && memcmp(like + used, t.data, n) != 0) *same = false;
    used += n;
  }
  if (bytes) *bytes = used;
  return RDT_OK;
}

/* What the outputs are without a fault; a machine that finds one here cannot be used for a campaign. */
static rdt_status run_clean(campaign *c) {
  rdt_session *s = &c->session;
  s->run = 0;
  c->clean = rdt_calloc((size_t)c->slices, sizeof *c->clean);
  if (!c->clean) return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  for (int64_t i = 0; i < c->slices; i++) {
    rdt_run_result result = {0};
    take_slice(c, i);
    const rdt_status status = rdt_session_run(s, c->slice, &result);
    if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
    if (status == RDT_ERR_FAULT || result.faults > 0)
      return rdt_fail(&s->why, RDT_ERR_FAULT, "a run without planted fault reports one: %s", s->last_event);
    RDT_TRY(outputs(s, NULL, NULL, &c->clean_bytes, NULL));
    c->clean[i] = rdt_alloc(c->clean_bytes, 1);
    if (!c->clean[i]) return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
    RDT_TRY(outputs(s, c->clean[i], NULL, NULL, NULL));
  }
  return RDT_OK;
}

/* ---- planting ---- */

/* A glob that names the node; characters with a meaning in specs become '?'. */
static void layer_glob(const char *name, char *glob, size_t size) {
  snprintf(glob, size, "%s", name);
  for (; *glob; glob++)
    if (strchr(",*?[]\\", *glob)) *glob = '?';
}

static void spec_for(campaign *c, size_t node, rdt_site site, uint64_t seed, char *spec, size_t size) {
  char glob[128];
  rdt_node_info info;
  if (rdt_model_node_info(c->session.model, node, &info) != RDT_OK) info.name = "*";
  layer_glob(info.name, glob, sizeof glob);
  snprintf(spec, size, "bit@%s,layer=%s,seed=%" PRIu64, rdt_site_name(site), glob, seed);
}

static uint64_t draw(const campaign *c, int64_t trial, int which) {
  const rdt_fault f = {.seed = (uint64_t)c->seed};
  return rdt_fault_random(&f, 2 * (uint64_t)trial + (uint64_t)which);
}

/* The model as it lies in its file: after a fault in memory that nobody found. */
static rdt_status load_again(campaign *c) {
  rdt_session *s = &c->session;
  rdt_model_free(s->model);
  s->model = NULL;
  RDT_TRY(rdt_session_load(s, c->settings));
  const rdt_status status = rdt_model_plan(s->model, c->slice, s->n_inputs);
  return status == RDT_OK ? RDT_OK : rdt_session_fail(s, status);
}

static bool at_rest(rdt_site site) {
  return site == RDT_SITE_WEIGHT || site == RDT_SITE_PACKED || site == RDT_SITE_CHECKSUM;
}

/* Checks that compare bits have no floor. */
static double floor_of(campaign *c, const rdt_injection *hit, size_t *node) {
  rdt_node_info info;
  rdt_result result;
  *node = 0;
  for (size_t i = 0; i < rdt_model_node_count(c->session.model); i++) {
    if (rdt_model_node_info(c->session.model, i, &info) != RDT_OK || strcmp(info.name, hit->node) != 0) continue;
    *node = i;
    const bool sums = hit->site == RDT_SITE_ACCUM || hit->site == RDT_SITE_WEIGHT || hit->site == RDT_SITE_PACKED;
    return sums && rdt_model_node_result(c->session.model, i, &result) == RDT_OK ? result.floor : 0.0;
  }
  return 0.0;
}

static outcome judge(const rdt_injection *hit, double floor, bool found, bool unrepaired, bool same) {
  if (!hit->done) return ABSENT;
  if (unrepaired) return UNREPAIRED;
  if (found && hit->left >= 0.0 && !(hit->left <= hit->stated)) return WORSE;
  if (found && hit->rebuilt) return CORRECTED;
  if (found) return same ? REPAIRED : hit->left >= 0.0 ? BELOW : WORSE;
  if (rdt_site_checks(hit->site)) return same ? MASKED : WORSE;
  if (hit->changed < 0 && hit->site == RDT_SITE_ACCUM && same) return MASKED; /* rounding swallowed it */
  if (!(hit->weighted <= floor)) return ABOVE;
  if (!(hit->error <= floor)) return CANCELLED;
  return same ? MASKED : BELOW;
}

static void book(campaign *c, const char *spec, const rdt_injection *hit, outcome how, size_t node, double floor) {
  c->all.count[how]++;
  if (hit->done) {
    c->sites[hit->site].count[how]++;
    c->layers[node].count[how]++;
  }
  if (!outcomes[how].bad || c->n_failures == MAX_FAILURES) return;
  failure *f = &c->failures[c->n_failures++];
  snprintf(f->spec, sizeof f->spec, "%s", spec);
  snprintf(f->did, sizeof f->did, "%s", hit->text);
  f->how = how;
  f->error = hit->error;
  f->weighted = hit->weighted;
  f->floor = floor;
}

static void book_rebuilt(campaign *c, const rdt_injection *hit) {
  const double ratio = hit->stated > 0.0 ? hit->left / hit->stated : hit->left > 0.0 ? INFINITY : 0.0;
  if (!(ratio <= c->worst)) c->worst = ratio;
  if (!(hit->stated <= c->largest)) c->largest = hit->stated;
}

static rdt_status trial(campaign *c, int64_t number, const char *spec) {
  rdt_session *s = &c->session;
  rdt_run_result result = {0};
  const int64_t slice = number % c->slices;
  bool same = true;
  size_t node;
  take_slice(c, slice);
  const rdt_status armed = rdt_model_inject(s->model, spec);
  if (armed != RDT_OK) return rdt_session_fail(s, armed);
  s->run = number + 1;
  rdt_journal_plant(&s->journal, spec);
  const rdt_status status = rdt_session_run(s, c->slice, &result);
  rdt_journal_plant(&s->journal, NULL);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  if (status == RDT_OK) RDT_TRY(outputs(s, NULL, c->clean[slice], NULL, &same));
  const rdt_injection hit = *rdt_model_injection(s->model);
  const bool unrepaired = status == RDT_ERR_FAULT, found = unrepaired || result.faults > 0;
  const double floor = floor_of(c, &hit, &node);
  book(c, spec, &hit, judge(&hit, floor, found, unrepaired, same), node, floor);
  if (hit.done && hit.rebuilt) book_rebuilt(c, &hit);
  c->checks += result.checks;
  c->suspects += result.suspects;
  return hit.done && !found && at_rest(hit.site) ? load_again(c) : RDT_OK;
}

/* Every place that a layer of this model has. */
static rdt_status find_targets(campaign *c) {
  const rdt_model *m = c->session.model;
  const size_t nodes = rdt_model_node_count(m);
  c->targets = rdt_calloc(nodes * RDT_SITE_COUNT, sizeof *c->targets);
  if (!c->targets) return rdt_fail(&c->session.why, RDT_ERR_NOMEM, "out of memory");
  for (size_t node = 0; node < nodes; node++)
    for (int site = 0; site < RDT_SITE_COUNT; site++)
      if (rdt_plan_has_site(rdt_model_step(m, node)->plan, (rdt_site)site))
        c->targets[c->n_targets++] = (target){node, (rdt_site)site};
  return c->n_targets ? RDT_OK : rdt_fail(&c->session.why, RDT_ERR_ARG, "no layer of this model can be hit anywhere");
}

static void show_trial(const campaign *c, int64_t done) {
  rdt_progress((double)done / (double)c->trials, "trial %" PRId64 "/%" PRId64, done, c->trials);
}

static rdt_status run_faults(campaign *c) {
  const char *fixed = c->settings->fault;
  char spec[256];
  if (!fixed) RDT_TRY(find_targets(c));
  for (int64_t t = 0; t < c->trials; t++) {
    if (!fixed) {
      const target *at = &c->targets[draw(c, t, 0) % (uint64_t)c->n_targets];
      spec_for(c, at->node, at->site, draw(c, t, 1) >> 16, spec, sizeof spec);
    } else if (strstr(fixed, ",seed=")) {
      snprintf(spec, sizeof spec, "%s", fixed);
    } else {
      snprintf(spec, sizeof spec, "%s,seed=%" PRIu64, fixed, draw(c, t, 1) >> 16);
    }
    RDT_TRY(trial(c, t, spec));
    show_trial(c, t + 1);
  }
  return RDT_OK;
}

static rdt_status run_none(campaign *c) {
  rdt_session *s = &c->session;
  for (int64_t t = 0; t < c->trials; t++) {
    rdt_run_result result = {0};
    bool same = true;
    s->run = t + 1;
    take_slice(c, t % c->slices);
    const rdt_status status = rdt_session_run(s, c->slice, &result);
    if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
    if (status == RDT_OK) RDT_TRY(outputs(s, NULL, c->clean[t % c->slices], NULL, &same));
    c->checks += result.checks;
    c->suspects += result.suspects;
    c->reports += result.faults > 0 ? result.faults : status == RDT_ERR_FAULT;
    c->unchecked += result.unchecked;
    c->differing += !same;
    show_trial(c, t + 1);
  }
  return RDT_OK;
}

/* ---- telling ---- */

static int64_t planted_of(const tally *t) {
  int64_t n = 0;
  for (int o = 0; o < ABSENT; o++) n += t->count[o];
  return n;
}

static void put_row(rdt_table *t, const char *name, const tally *row) {
  rdt_table_cell(t, "%s", name);
  rdt_table_cell(t, "%" PRId64, planted_of(row));
  for (int o = 0; o < ABSENT; o++) rdt_table_cell(t, "%" PRId64, row->count[o]);
}

static rdt_table *new_table(const char *first) {
  char columns[256];
  size_t used = (size_t)snprintf(columns, sizeof columns, "%s|>planted", first);
  for (int o = 0; o < ABSENT; o++)
    used += (size_t)snprintf(columns + used, sizeof columns - used, "|>%s", outcomes[o].name);
  return rdt_table_create(columns);
}

static bool put_faults(const campaign *c, bool markdown) {
  rdt_node_info info;
  rdt_table *t = new_table("site");
  for (int i = 0; i < RDT_SITE_COUNT; i++)
    if (planted_of(&c->sites[i])) put_row(t, rdt_site_name((rdt_site)i), &c->sites[i]);
  rdt_table_rule(t);
  put_row(t, "all", &c->all);
  bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  if (!printed) return false;
  puts("");
  t = new_table("layer");
  for (size_t i = 0; i < rdt_model_node_count(c->session.model); i++)
    if (planted_of(&c->layers[i]) && rdt_model_node_info(c->session.model, i, &info) == RDT_OK)
      put_row(t, info.name, &c->layers[i]);
  printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  for (int i = 0; i < c->n_failures; i++) {
    const failure *f = &c->failures[i];
    printf("%s- %s: %s: %s (error %.3g, weighted %.3g, floor %.3g)\n", i ? "" : "\n", outcomes[f->how].name, f->spec,
           f->did, f->error, f->weighted, f->floor);
  }
  return printed;
}

static int exit_code(const campaign *c) {
  bool bad = c->reports > 0 || c->differing > 0;
  for (int o = 0; o < OUTCOME_COUNT; o++) bad = bad || (outcomes[o].bad && c->all.count[o] > 0);
  return bad ? RDT_EXIT_FAULT : RDT_EXIT_OK;
}

static bool is_clean(const rdt_settings *s) {
  return s->fault && strcmp(s->fault, "none") == 0;
}

static bool corrects(const campaign *c) {
  return c->settings->on_fault == RDT_ON_FAULT_CORRECT;
}

static bool put_text(const campaign *c, bool markdown) {
  const rdt_context *ctx = c->session.ctx;
  const bool clean = is_clean(c->settings), bad = exit_code(c) != RDT_EXIT_OK;
  printf("%s: %" PRId64 " %s, %" PRId64 " different inputs, seed %" PRId64 "; %s, %d threads\n\n", c->settings->operand,
         c->trials, clean ? "clean inferences" : "inferences with a fault each", c->slices, c->seed,
         rdt_context_isa(ctx), rdt_context_threads(ctx));
  if (!clean && !put_faults(c, markdown)) return false;
  const int64_t absent = c->all.count[ABSENT];
  if (!clean && absent) printf("\n%" PRId64 " fault%s found nothing to hit\n", absent, absent == 1 ? "" : "s");
  if (clean)
    printf("%s: %" PRId64 " reports, %" PRId64 " outputs that differ, %" PRId64 " suspects explained, %" PRId64
           " checks not possible, in %" PRId64 " checks\n",
           bad ? "FAIL" : "PASS", c->reports, c->differing, c->suspects, c->unchecked, c->checks);
  else
    printf("\n%s: %s; %" PRId64 " suspects in %" PRId64 " checks\n", bad ? "FAIL" : "PASS",
           bad ? "see the rows above"
           : corrects(c)
               ? "every fault above the floor was found, every found one repaired bit by bit or rebuilt within "
                 "the bound that was stated"
               : "every fault above the floor was found, every found one repaired bit by bit, none made worse",
           c->suspects, c->checks);
  if (!clean && corrects(c))
    printf("rebuilt: %" PRId64 " results, the worst off by %.3g of its stated bound, the largest bound %.3g\n",
           c->all.count[CORRECTED], c->worst, c->largest);
  return true;
}

static void add_tally(cJSON *list, const char *key, const char *name, const tally *t) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, key, name);
  cJSON_AddNumberToObject(o, "planted", (double)planted_of(t));
  for (int i = 0; i < OUTCOME_COUNT; i++) cJSON_AddNumberToObject(o, outcomes[i].key, (double)t->count[i]);
  cJSON_AddItemToArray(list, o);
}

static cJSON *to_json(const campaign *c) {
  rdt_node_info info;
  cJSON *doc = rdt_document("inject"), *list;
  cJSON_AddStringToObject(doc, "model", c->settings->operand);
  cJSON_AddStringToObject(doc, "isa", rdt_context_isa(c->session.ctx));
  cJSON_AddNumberToObject(doc, "threads", rdt_context_threads(c->session.ctx));
  cJSON_AddStringToObject(doc, "fault", c->settings->fault ? c->settings->fault : "random");
  cJSON_AddStringToObject(doc, "on_fault", rdt_on_fault_name((rdt_on_fault)c->settings->on_fault));
  cJSON_AddNumberToObject(doc, "trials", (double)c->trials);
  cJSON_AddNumberToObject(doc, "inputs", (double)c->slices);
  cJSON_AddNumberToObject(doc, "seed", (double)c->seed);
  cJSON_AddNumberToObject(doc, "checks", (double)c->checks);
  cJSON_AddNumberToObject(doc, "suspects", (double)c->suspects);
  cJSON_AddNumberToObject(doc, "exit", exit_code(c));
  cJSON_AddItemToObject(doc, "cores", rdt_report_cores(c->session.ctx));
  if (is_clean(c->settings)) {
    cJSON_AddNumberToObject(doc, "reports", (double)c->reports);
    cJSON_AddNumberToObject(doc, "unchecked", (double)c->unchecked);
    cJSON_AddNumberToObject(doc, "differing", (double)c->differing);
    return doc;
  }
  list = cJSON_AddArrayToObject(doc, "sites");
  for (int i = 0; i < RDT_SITE_COUNT; i++)
    if (planted_of(&c->sites[i])) add_tally(list, "site", rdt_site_name((rdt_site)i), &c->sites[i]);
  list = cJSON_AddArrayToObject(doc, "layers");
  for (size_t i = 0; i < rdt_model_node_count(c->session.model); i++)
    if (rdt_model_node_info(c->session.model, i, &info) == RDT_OK) add_tally(list, "layer", info.name, &c->layers[i]);
  add_tally(cJSON_AddArrayToObject(doc, "total"), "of", "all", &c->all);
  if (corrects(c)) {
    cJSON *rebuilt = cJSON_AddObjectToObject(doc, "rebuilt");
    cJSON_AddNumberToObject(rebuilt, "results", (double)c->all.count[CORRECTED]);
    rdt_json_number(rebuilt, "worst_of_bound", c->worst);
    rdt_json_number(rebuilt, "largest_bound", c->largest);
  }
  list = cJSON_AddArrayToObject(doc, "failures");
  for (int i = 0; i < c->n_failures; i++) {
    const failure *f = &c->failures[i];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "outcome", outcomes[f->how].name);
    cJSON_AddStringToObject(o, "spec", f->spec);
    cJSON_AddStringToObject(o, "did", f->did);
    rdt_json_number(o, "error", f->error);
    rdt_json_number(o, "weighted", f->weighted);
    rdt_json_number(o, "floor", f->floor);
    cJSON_AddItemToArray(list, o);
  }
  return doc;
}

static rdt_status go(campaign *c) {
  rdt_session *s = &c->session;
  RDT_TRY(rdt_session_open(s, c->settings, RDT_INPUTS_FILES));
  RDT_TRY(rdt_session_spare(s, c->settings, c->settings->report));
  c->slice = rdt_calloc(s->n_inputs, sizeof *c->slice);
  c->layers = rdt_calloc(rdt_model_node_count(s->model), sizeof *c->layers);
  if (!c->slice || !c->layers) return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  choose_slices(c);
  RDT_TRY(run_clean(c));
  rdt_progress_begin(c->settings, is_clean(c->settings) ? "running" : "injecting");
  RDT_TRY(is_clean(c->settings) ? run_none(c) : run_faults(c));
  rdt_progress_end();
  if (c->settings->report) {
    cJSON *doc = to_json(c);
    const rdt_status status = rdt_json_write(doc, c->settings->report, &s->why);
    cJSON_Delete(doc);
    RDT_TRY(status);
  }
  const bool print = !c->settings->quiet && c->settings->format != RDT_FORMAT_JSON;
  if (print && !put_text(c, c->settings->format == RDT_FORMAT_MD))
    return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  return rdt_session_tell(s);
}

static int run(const rdt_command *command, const rdt_settings *settings) {
  campaign *c = rdt_calloc(1, sizeof *c);
  if (!c) return rdt_cli_fail(command, RDT_ERR_NOMEM, NULL);
  c->settings = settings;
  c->trials = settings->n ? settings->n : 2000;
  c->seed = settings->seed >= 0 ? settings->seed : 1;
  const rdt_status status = go(c);
  int code = exit_code(c);
  if (status != RDT_OK)
    code = rdt_cli_fail(command, status, c->session.why.text);
  else if (settings->format == RDT_FORMAT_JSON && !settings->quiet &&
           rdt_document_print(command, to_json(c)) != RDT_EXIT_OK)
    code = RDT_EXIT_USAGE;
  for (int64_t i = 0; c->clean && i < c->slices; i++) rdt_free(c->clean[i]);
  rdt_free(c->clean);
  rdt_free(c->slice);
  rdt_free(c->layers);
  rdt_free(c->targets);
  rdt_session_close(&c->session);
  rdt_free(c);
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_PLAN,       RDT_OPT_INPUT,        RDT_OPT_FAULT,    RDT_OPT_N,
                                        RDT_OPT_SEED,       RDT_OPT_BATCH,        RDT_OPT_SCHEME,   RDT_OPT_THREADS,
                                        RDT_OPT_LAMBDA,     RDT_OPT_SUSPECT_RATE, RDT_OPT_ON_FAULT, RDT_OPT_SCRUB,
                                        RDT_OPT_AVOID_CORE, RDT_OPT_REPORT,       RDT_OPT_EVENTS,   RDT_OPT_PROM,
                                        RDT_OPT_PROM_EVERY, RDT_OPT_SYSLOG,       RDT_OPT_FORMAT,   RDT_OPT_JSON,
                                        RDT_OPT_QUIET,      RDT_OPT_NO_PROGRESS,  RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt inject model.onnx -i images.npy --n 2000", "random faults over all sites and layers"},
    {"redoubt inject model.onnx -i images.npy --fault none --n 10000", "clean inferences: how many false reports?"},
    {"redoubt inject model.onnx -i images.npy --fault bit:30@accum,layer=conv* --n 100",
     "one kind of fault; each trial its own seed"},
    {"redoubt inject model.onnx -i images.npy --fault bit@accum,count=1:16 --on-fault correct",
     "up to 16 in one row or column, rebuilt from checksums"},
    {"redoubt inject model.onnx -i images.npy --n 100 --events e.jsonl",
     "every event, with the spec and seed of its fault"},
    {NULL, NULL}};
const rdt_command rdt_cmd_inject = {
    .name = "inject",
    .run = run,
    .operand = "MODEL.onnx",
    .operand_needed = true,
    .options = options,
    .summary = "a campaign of planted faults, or of none, against clean runs",
    .text =
        "Plants one fault an inference, by default a random bit in a random layer and site, and compares the outputs "
        "bit "
        "by bit with those of a clean run. A fault above the floor that was not found, a found one that was not "
        "repaired, or a result that was made worse ends in exit code 1 and is listed with the spec that shows it "
        "again. "
        "\"Above the floor\": the fault changed a raw result of its layer by more than the layer's checks promise to "
        "see.\n"
        "\n"
        "Where the model leaves the first dimension open, each trial takes the next images of the inputs.",
    .good = "every fault above the floor was found and repaired; with `--fault none`: nothing was reported",
    .bad =
        "a fault above the floor was missed, or not repaired, or a result was made worse; with `--fault none`: a "
        "report, "
        "or an output that differs",
    .stopped = "stopped by signal N: no report is written; `--events` and `--prom` have what happened until then",
    .examples = examples};
