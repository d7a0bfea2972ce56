#include "plan/survey.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "plan/device.h"
#include "plan/plan.h"

/* Of the layers before this one; its own number where there is none. */
static int first_same(const rdt_survey *s, const rdt_surveyed *l) {
  const rdt_demand d = {.sets = 1};
  char key[RDT_KEY_TEXT], other[RDT_KEY_TEXT];
  if (!rdt_kop_is_linear(l->prob.op) || l->prob.n_in == 0 || !rdt_problem_key(&l->prob, false, &d, key)) return s->n;
  for (int i = 0; i < s->n; i++) {
    const rdt_surveyed *x = &s->list[i];
    if (x->same == i && x->prob.op == l->prob.op && x->prob.n_in > 0 &&
        rdt_tensor_same_shape(&x->prob.out, &l->prob.out) && rdt_tensor_same_shape(&x->prob.in[1], &l->prob.in[1]) &&
        rdt_problem_key(&x->prob, false, &d, other) && strcmp(key, other) == 0)
      return i;
  }
  return s->n;
}

rdt_status rdt_survey_add(rdt_survey *s, const char *name, const char *label, const rdt_problem *p, bool fixed,
                          int64_t times) {
  rdt_surveyed *grown = rdt_grow(s->list, (size_t)s->n, (size_t)s->n + 1, sizeof *grown);
  if (!grown) return RDT_ERR_NOMEM;
  s->list = grown;
  rdt_surveyed *l = &grown[s->n];
  *l = (rdt_surveyed){.times = times};
  snprintf(l->name, sizeof l->name, "%s", name);
  snprintf(l->label, sizeof l->label, "%s", label);
  if (p) RDT_TRY(rdt_problem_copy(&l->prob, p));
  for (int i = 0; i < l->prob.n_in; i++) l->prob.in[i].data = NULL;
  if (fixed) l->prob.in[1].data = rdt_weights_to_come;
  l->same = first_same(s, l);
  s->n++;
  return RDT_OK;
}

void rdt_survey_free(rdt_survey *s) {
  for (int i = 0; i < s->n; i++) rdt_problem_clear(&s->list[i].prob);
  rdt_free(s->list);
  *s = (rdt_survey){0};
}

static double weight_bytes(const rdt_surveyed *l) {
  const rdt_tensor *w = &l->prob.in[1];
  return (double)l->times * (double)rdt_tensor_count(w) * (double)rdt_dtype_size(w->dtype);
}

rdt_status rdt_survey_workload(rdt_survey *s, const rdt_workload *w, int64_t batch, rdt_dtype dtype, rdt_reason *why) {
  double bytes = 0.0;
  *s = (rdt_survey){0};
  for (int i = 0; i < w->count; i++) {
    rdt_problem p;
    RDT_TRY(rdt_layer_problem(&w->layers[i], batch, dtype, &p, why));
    const rdt_status status = rdt_survey_add(s, w->layers[i].name, rdt_kop_name(p.op), &p, true, w->layers[i].times);
    rdt_problem_clear(&p);
    if (status != RDT_OK) return rdt_fail(why, status, "out of memory");
    bytes += weight_bytes(&s->list[i]);
  }
  s->cold = rdt_weights_are_cold(bytes);
  return RDT_OK;
}

static bool key_of(const rdt_context *ctx, const rdt_survey *s, int i, char key[RDT_KEY_TEXT]) {
  const rdt_demand d = rdt_demand_of(ctx, ctx->scheme);
  const rdt_surveyed *l = &s->list[i];
  return !l->idle && rdt_kop_is_linear(l->prob.op) && rdt_problem_key(&l->prob, s->cold, &d, key);
}

bool rdt_context_has_choices(const rdt_context *ctx) {
  for (int i = 0; ctx->book && i < ctx->book->n; i++)
    if (ctx->book->list[i].choice >= 0) return true;
  return false;
}

void rdt_planned_add(rdt_planned *x, const rdt_context *ctx, const rdt_problem *p, int64_t times) {
  const char *choice;
  const bool taken = rdt_offers_planned(ctx, p, ctx->scheme, &choice);
  x->all += times;
  x->known += choice ? times : 0;
  x->taken += taken ? times : 0;
  if (choice && !taken && !*x->other) snprintf(x->other, sizeof x->other, "%s", choice);
}

rdt_planned rdt_survey_planned(rdt_context *ctx, const rdt_survey *s) {
  rdt_planned x = {.all = 0};
  const bool cold = ctx->cold;
  ctx->cold = s->cold;
  for (int i = 0; i < s->n; i++) {
    char key[RDT_KEY_TEXT];
    if (key_of(ctx, s, i, key)) rdt_planned_add(&x, ctx, &s->list[i].prob, s->list[i].times);
  }
  ctx->cold = cold;
  return x;
}

rdt_status rdt_planned_fits(const rdt_planned *x, const char *plan, rdt_reason *why) {
  if (x->all == 0 || x->taken > 0) return RDT_OK;
  if (x->known > 0)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%.200s: plans %s, and that is not what is asked for here: none of its choices can be taken; "
                    "--scheme %s takes them, or make it anew with the same --scheme, --require and --min-coverage",
                    plan, x->other, x->other);
  return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                  "%.200s: is a plan of another network, of other input shapes or datatypes: it knows none of the "
                  "%lld products and convolutions here; make it anew with `redoubt plan`",
                  plan, (long long)x->all);
}

/* An entry counts where it knows all candidates that there are today. */
static bool is_known(const rdt_context *ctx, const rdt_survey *s, int i, const char *key, rdt_offers *o) {
  const rdt_demand d = rdt_demand_of(ctx, ctx->scheme);
  const rdt_entry *e = rdt_book_find(ctx->book, key);
  bool complete = false;
  if (!e) return false;
  o->words = false;
  rdt_offers_list(&s->list[i].prob, ctx->isa, &d, o);
  rdt_entry_consult(e, o, &complete);
  return complete;
}

/* Which layers stand for all that is to be measured. */
static int list_unknown(const rdt_context *ctx, const rdt_survey *s, int *list, rdt_offers *o) {
  int n = 0;
  for (int i = 0; i < s->n; i++) {
    char key[RDT_KEY_TEXT];
    if (key_of(ctx, s, i, key) && s->list[i].same == i && !is_known(ctx, s, i, key, o)) list[n++] = i;
  }
  return n;
}

/* At least, by the device's limits or, where nobody has measured them, by usual ones. */
static double seconds_of(const rdt_context *ctx, const rdt_problem *p) {
  const rdt_device *d = ctx->device;
  const rdt_roof usual = {.flops = 50e9, .bandwidth = 10e9};
  return rdt_roof_seconds(d ? rdt_device_roof(d, p->in[0].dtype) : usual, rdt_work_of(p));
}

/* Trials of small layers last a millisecond each, however short a run is. */
static double need_of(const rdt_context *ctx, const rdt_problem *p) {
  return 0.3 + 60.0 * seconds_of(ctx, p);
}

double rdt_survey_patience(const rdt_context *ctx, const rdt_survey *s) {
  const double least = 50.0;
  double all = 0.0;
  for (int i = 0; i < s->n; i++)
    if (s->list[i].same == i && !s->list[i].idle && rdt_kop_is_linear(s->list[i].prob.op))
      all += need_of(ctx, &s->list[i].prob);
  return fmax(least, all);
}

static rdt_status measure(rdt_context *ctx, const rdt_survey *s, int i, const rdt_profile *how) {
  const rdt_demand d = rdt_demand_of(ctx, ctx->scheme);
  rdt_book *b;
  rdt_entry e;
  rdt_reason why = {""};
  RDT_TRY(rdt_context_book(ctx, &b));
  rdt_status status = rdt_problem_profile(ctx, &s->list[i].prob, &d, how, &e, &why);
  if (status == RDT_OK) status = rdt_book_put(b, &e);
  rdt_entry_clear(&e);
  if (status == RDT_OK) return RDT_OK;
  return rdt_fail(&ctx->error, status, "node %.100s: %s", s->list[i].name,
                  *why.text ? why.text : rdt_status_text(status));
}

rdt_status rdt_survey_measure(rdt_context *ctx, const rdt_survey *s, const rdt_survey_watch *w, int *measured) {
  int *list = rdt_alloc((size_t)s->n, sizeof *list);
  rdt_offers *o = rdt_alloc(1, sizeof *o);
  *measured = 0;
  rdt_status status = list && o ? RDT_OK : rdt_fail(&ctx->error, RDT_ERR_NOMEM, "out of memory");
  const int n = status == RDT_OK ? list_unknown(ctx, s, list, o) : 0;
  const double begun = rdt_timing_now();
  double due = 0.0;
  for (int i = 0; i < n; i++) due += need_of(ctx, &s->list[list[i]].prob);
  for (int i = 0; i < n && status == RDT_OK; i++) {
    const rdt_surveyed *l = &s->list[list[i]];
    const double need = need_of(ctx, &l->prob), left = w->seconds - (rdt_timing_now() - begun);
    rdt_profile how = {
        .cold = s->cold, .brief = w->brief, .progress = w->progress, .turn = i, .turns = n, .what = l->name};
    /* what one does not need the next ones have; nothing is left: each candidate in question once */
    if (w->seconds > 0.0) how.seconds = fmax(left * need / due, 1e-9);
    due -= need;
    if (w->each) w->each((size_t)i, (size_t)n, l->name, w->user);
    status = measure(ctx, s, list[i], &how);
    if (status == RDT_OK) ++*measured;
  }
  rdt_free(list);
  rdt_free(o);
  return status;
}

static void guess(const rdt_context *ctx, const rdt_survey *s, int i, rdt_offers *o) {
  const rdt_demand d = rdt_demand_of(ctx, ctx->scheme);
  char key[RDT_KEY_TEXT];
  bool complete;
  rdt_offers_list(&s->list[i].prob, ctx->isa, &d, o);
  rdt_offers_decide(&s->list[i].prob, &d, o);
  const rdt_entry *e = key_of(ctx, s, i, key) ? rdt_book_find(ctx->book, key) : NULL;
  if (e) rdt_entry_consult(e, o, &complete);
}

void rdt_survey_choose(rdt_context *ctx, const rdt_survey *s, int i, bool measured, rdt_offers *o) {
  const bool cold = ctx->cold;
  ctx->cold = s->cold;
  if (measured)
    rdt_offers_choose(ctx, &s->list[i].prob, ctx->scheme, o);
  else
    guess(ctx, s, i, o);
  ctx->cold = cold;
}

rdt_status rdt_survey_note(rdt_context *ctx, const rdt_survey *s, int i, const rdt_offers *o) {
  char key[RDT_KEY_TEXT];
  rdt_book *b;
  if (o->taken < 0 || !key_of(ctx, s, i, key)) return RDT_OK;
  RDT_TRY(rdt_context_book(ctx, &b));
  rdt_entry *e = rdt_book_find(b, key), fresh = {.choice = -1};
  rdt_status status = RDT_OK;
  if (!e) {
    status = (fresh.key = rdt_strdup(key)) ? rdt_book_put(b, &fresh) : RDT_ERR_NOMEM;
    e = rdt_book_find(b, key);
  }
  if (status == RDT_OK) status = rdt_entry_choose(e, &o->list[o->taken].way);
  rdt_entry_clear(&fresh);
  return status == RDT_OK ? RDT_OK : rdt_fail(&ctx->error, status, "out of memory");
}
