#include "plan_report.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"

/* What the sums need of one layer. */
typedef struct line {
  double times;
  rdt_timing_samples planned, none, guess, best, single[RDT_SCHEME_COUNT]; /* guess: by estimates; best: as measured */
  bool agrees;                                                             /* these two have the same scheme */
  const cJSON *said;                                                       /* the layer in the document */
  int layer;
} line;

typedef struct sums {
  line *list;
  int n;
  rdt_work work, unfolded;
  bool may[RDT_SCHEME_COUNT]; /* could be chosen for some layer */
} sums;

static double median(rdt_timing_samples s) {
  return rdt_timing_samples_stat(s).median;
}

static void add_ratio(cJSON *o, const char *name, rdt_timing_ratio r) {
  cJSON *x = cJSON_AddObjectToObject(o, name);
  rdt_json_number(x, "ratio", r.ratio);
  rdt_json_number(x, "low", r.low);
  rdt_json_number(x, "high", r.high);
}

/* ---- one layer ---- */

static void add_candidate(const rdt_choice *c, void *user) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "kernel", c->kernel);
  cJSON_AddStringToObject(o, "scheme", c->scheme);
  cJSON_AddBoolToObject(o, "fused", c->fused);
  cJSON_AddStringToObject(o, "fate", c->taken ? "taken" : c->refused ? "refused" : "lost");
  rdt_json_number(o, "cost", c->cost);
  rdt_json_number(o, "seconds", c->seconds);
  rdt_json_number(o, "p10", c->spread[0]);
  rdt_json_number(o, "p90", c->spread[1]);
  rdt_json_number(o, "overhead", c->overhead);
  rdt_json_number(o, "low", c->interval[0]);
  rdt_json_number(o, "high", c->interval[1]);
  cJSON_AddStringToObject(o, "reason", c->reason);
  cJSON_AddItemToArray(user, o);
}

typedef struct lengths {
  int64_t m, n, k, groups; /* of one of so many products */
} lengths;

static lengths lengths_of(const rdt_problem *p) {
  lengths l = {.groups = 1};
  rdt_problem_mnk(p, &l.m, &l.n, &l.k);
  const int64_t one = l.m * l.n;
  if (p->op == RDT_KOP_GEMM) l.groups = one > 0 ? rdt_tensor_count(&p->out) / one : 1;
  if (p->op == RDT_KOP_CONV) l.groups = p->window.groups;
  if (p->op == RDT_KOP_CONV) l.n /= l.groups;
  return l;
}

static void sum_work(const rdt_problem *p, double times, sums *s) {
  const lengths l = lengths_of(p);
  s->work = rdt_work_sum(s->work, rdt_work_of(p), times);
  s->unfolded =
      rdt_work_sum(s->unfolded, rdt_work_of_mnk(l.m, l.n, l.k, l.groups, p->in[0].dtype, RDT_INTENSITY_PAD), times);
}

static void add_work(const rdt_plan_report *r, const rdt_problem *p, cJSON *o) {
  const lengths l = lengths_of(p);
  const rdt_work w = rdt_work_of(p);
  cJSON_AddNumberToObject(o, "m", (double)l.m);
  cJSON_AddNumberToObject(o, "n", (double)l.n);
  cJSON_AddNumberToObject(o, "k", (double)l.k);
  cJSON_AddNumberToObject(o, "groups", (double)l.groups);
  cJSON_AddNumberToObject(o, "flops", w.flops);
  cJSON_AddNumberToObject(o, "bytes", w.bytes);
  rdt_json_number(o, "intensity", rdt_work_intensity(w));
  const rdt_roof roof = r->device ? rdt_device_roof(r->device, p->in[0].dtype) : (rdt_roof){NAN, NAN};
  rdt_json_number(o, "cmr", r->device ? rdt_roof_ratio(roof) : NAN);
  cJSON_AddStringToObject(o, "bound", !r->device ? "" : rdt_roof_computes(roof, w) ? "compute" : "memory");
}

static const rdt_scheme_info *scheme_at(int i) {
  int n;
  return &rdt_scheme_table(&n)[i];
}

/* o: as planned; other: by the other policy */
static void book(sums *s, const rdt_offers *o, const rdt_offers *other, bool measured, line begun) {
  line *l = &s->list[s->n++];
  const int base = rdt_offers_baseline(o);
  *l = begun;
  l->planned = o->list[o->taken].times;
  if (base >= 0) l->none = o->list[base].times;
  if (other->taken >= 0) {
    const rdt_timing_samples times = other->list[other->taken].times;
    l->guess = measured ? times : l->planned;
    l->best = measured ? l->planned : times;
    l->agrees = other->list[other->taken].way.scheme == o->list[o->taken].way.scheme;
  }
  for (int i = 0; i < o->n; i++) {
    const rdt_offer *x = &o->list[i];
    if (x->refused || x->times.n == 0 || x->way.scheme->id == RDT_SCHEME_NONE) continue;
    const int id = x->way.scheme->id;
    s->may[id] = s->may[id] || x->eligible;
    if (l->single[id].n == 0 || median(x->times) < median(l->single[id])) l->single[id] = x->times;
  }
}

static void describe(const rdt_surveyed *l, cJSON *o) {
  rdt_json_text(o, "name", l->name);
  rdt_json_text(o, "op", l->label);
  cJSON_AddItemToObject(o, "shape", rdt_json_shape(l->prob.out.rank, l->prob.out.shape));
  cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(l->prob.out.dtype));
  cJSON_AddNumberToObject(o, "times", (double)l->times);
}

static rdt_status refuse(const rdt_plan_report *r, const rdt_surveyed *l, rdt_reason *why) {
  return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                  "layer %.100s: no scheme finds %.4g %% of single faults and locates them; ask for less with "
                  "--min-coverage",
                  l->name, 100.0 * r->ctx->policy.min_coverage);
}

/* The same problem as one before: everything but its name is said already. */
static bool repeat(const rdt_surveyed *l, cJSON *x, sums *s) {
  for (int i = 0; i < s->n; i++) {
    const cJSON *member;
    if (s->list[i].layer != l->same) continue;
    s->list[i].times += (double)l->times;
    cJSON_ArrayForEach(member, s->list[i].said) {
      if (!cJSON_GetObjectItemCaseSensitive(x, member->string))
        cJSON_AddItemToObject(x, member->string, cJSON_Duplicate(member, true));
    }
    return true;
  }
  return false;
}

/* Was the choice made without all who might have been chosen? */
static bool is_hurried(const rdt_offers *o) {
  bool left_out = false;
  for (int i = 0; i < o->n; i++) left_out = left_out || (o->list[i].eligible && o->list[i].times.n == 0);
  return o->measured && left_out;
}

static rdt_status add_layer(rdt_plan_report *r, const rdt_survey *survey, int i, rdt_offers *o, cJSON *layers, sums *s,
                            rdt_reason *why) {
  const rdt_surveyed *l = &survey->list[i];
  cJSON *x = cJSON_CreateObject();
  cJSON_AddItemToArray(layers, x);
  describe(l, x);
  if (l->idle) {
    cJSON_AddStringToObject(x, "kernel", l->idle);
    cJSON_AddStringToObject(x, "scheme", "");
    cJSON_AddStringToObject(x, "why", "nothing is left to compute; what reads it verifies the memory behind it");
    return RDT_OK;
  }
  if (rdt_kop_is_linear(l->prob.op)) sum_work(&l->prob, (double)l->times, s);
  if (l->same < i && repeat(l, x, s)) return RDT_OK;
  o[0].words = true;
  o[1].words = false;
  rdt_survey_choose(r->ctx, survey, i, r->measured, &o[0]);
  if (o->taken < 0) return refuse(r, l, why);
  const rdt_offer *t = &o->list[o->taken];
  char scheme[RDT_SCHEME_TEXT];
  rdt_scheme_name(t->way.scheme, t->way.sets, scheme);
  cJSON_AddStringToObject(x, "kernel", t->way.kernel->name);
  cJSON_AddStringToObject(x, "scheme", scheme);
  cJSON_AddBoolToObject(x, "fused", t->way.fused);
  cJSON_AddStringToObject(x, "why", t->text);
  if (rdt_kop_is_linear(l->prob.op)) {
    add_work(r, &l->prob, x);
    const int base = rdt_offers_baseline(o);
    cJSON_AddBoolToObject(x, "noisy",
                          rdt_timing_is_noisy(t->times) || (base >= 0 && rdt_timing_is_noisy(o->list[base].times)));
    cJSON_AddBoolToObject(x, "hurried", is_hurried(o));
    rdt_json_number(x, "seconds", median(t->times));
    rdt_json_number(x, "unprotected", base >= 0 ? median(o->list[base].times) : NAN);
    const rdt_timing_pair pair = {t->times, base >= 0 ? o->list[base].times : t->times, 1.0};
    add_ratio(x, "overhead",
              t->times.n > 0 && base >= 0 ? rdt_timing_sum_ratio(&pair, 1) : (rdt_timing_ratio){NAN, NAN, NAN});
    rdt_survey_choose(r->ctx, survey, i, !r->measured, &o[1]);
    const rdt_offers *guess = r->measured ? &o[1] : &o[0];
    cJSON_AddStringToObject(x, "model", guess->taken >= 0 ? guess->list[guess->taken].way.scheme->name : "");
    book(s, o, &o[1], r->measured, (line){.times = (double)l->times, .said = x, .layer = i});
    RDT_TRY(rdt_survey_note(r->ctx, survey, i, o));
  }
  if (r->explain) rdt_offers_tell(o, add_candidate, cJSON_AddArrayToObject(x, "candidates"));
  return RDT_OK;
}

/* ---- sums ---- */

/* One over the other, of all layers; NaN where one of them was not measured. */
typedef rdt_timing_samples (*pick_fn)(const line *l, int scheme);
static rdt_timing_samples pick_planned(const line *l, int scheme) {
  (void)scheme;
  return l->planned;
}
static rdt_timing_samples pick_none(const line *l, int scheme) {
  (void)scheme;
  return l->none;
}
static rdt_timing_samples pick_guess(const line *l, int scheme) {
  (void)scheme;
  return l->guess;
}
static rdt_timing_samples pick_best(const line *l, int scheme) {
  (void)scheme;
  return l->best;
}
static rdt_timing_samples pick_classic(const line *l, int scheme) {
  const rdt_timing_samples s = l->single[RDT_SCHEME_GLOBAL_CLASSIC];
  (void)scheme;
  return s.n > 0 ? s : l->single[RDT_SCHEME_FIC];
}
/* Everywhere where there is such a scheme; elsewhere as planned. */
static rdt_timing_samples pick_single(const line *l, int scheme) {
  return l->single[scheme].n > 0 ? l->single[scheme] : l->planned;
}

static rdt_timing_ratio ratio_of(const sums *s, pick_fn of, pick_fn base, int scheme) {
  rdt_timing_ratio r = {NAN, NAN, NAN};
  rdt_timing_pair *pairs = rdt_alloc((size_t)s->n, sizeof *pairs);
  bool good = pairs && s->n > 0;
  for (int i = 0; good && i < s->n; i++) {
    pairs[i] = (rdt_timing_pair){of(&s->list[i], scheme), base(&s->list[i], scheme), s->list[i].times};
    good = pairs[i].of.n > 0 && pairs[i].base.n > 0;
  }
  if (good) r = rdt_timing_sum_ratio(pairs, s->n);
  rdt_free(pairs);
  return r;
}

static double seconds_of(const sums *s, pick_fn of, int scheme) {
  double sum = 0.0;
  for (int i = 0; i < s->n; i++) sum += s->list[i].times * median(of(&s->list[i], scheme));
  return s->n > 0 ? sum : NAN;
}

/* Of the planned time the share of layers that can have the scheme: where it is little, "everywhere" says nothing. */
static double share_of(const sums *s, int scheme) {
  double has = 0.0, all = 0.0;
  for (int i = 0; i < s->n; i++) {
    const double t = s->list[i].times * median(s->list[i].planned);
    all += t;
    has += s->list[i].single[scheme].n > 0 ? t : 0.0;
  }
  return has / all;
}

static void add_singles(const sums *s, cJSON *totals) {
  cJSON *list = cJSON_AddArrayToObject(totals, "singles");
  int best = -1;
  for (int i = 0; i < RDT_SCHEME_COUNT; i++) {
    if (!(share_of(s, i) >= 0.5)) continue;
    cJSON *x = cJSON_CreateObject();
    cJSON_AddStringToObject(x, "scheme", scheme_at(i)->name);
    cJSON_AddBoolToObject(x, "eligible", s->may[i]);
    rdt_json_number(x, "seconds", seconds_of(s, pick_single, i));
    add_ratio(x, "overhead", ratio_of(s, pick_single, pick_none, i));
    cJSON_AddItemToArray(list, x);
    if (s->may[i] && (best < 0 || seconds_of(s, pick_single, i) < seconds_of(s, pick_single, best))) best = i;
  }
  cJSON_AddStringToObject(totals, "best_single", best >= 0 ? scheme_at(best)->name : "");
  add_ratio(totals, "to_best_single",
            best >= 0 ? ratio_of(s, pick_planned, pick_single, best) : (rdt_timing_ratio){NAN, NAN, NAN});
}

/* Over the layers, each as often as it occurs; NaN where one was not measured. */
static double mean_of(const sums *s, pick_fn of, pick_fn base) {
  double sum = 0.0, layers = 0.0;
  for (int i = 0; i < s->n; i++) {
    sum += s->list[i].times * log(median(of(&s->list[i], 0)) / median(base(&s->list[i], 0)));
    layers += s->list[i].times;
  }
  return exp(sum / layers);
}

static void add_worst(const sums *s, cJSON *totals) {
  const line *worst = NULL;
  double most = 0.0;
  for (int i = 0; i < s->n; i++) {
    const double ratio = median(s->list[i].planned) / median(s->list[i].none);
    if (!(ratio > most)) continue;
    most = ratio;
    worst = &s->list[i];
  }
  cJSON *x = cJSON_AddObjectToObject(totals, "worst");
  rdt_json_text(x, "layer", worst ? rdt_json_string(worst->said, "name") : "");
  rdt_json_number(x, "ratio", worst ? most : NAN);
}

/* What one scalar for each product costs that is compared in passes of its own (a convolution's: for each image), and
 * how many times that is what planning costs. An overhead that is hardly to be measured counts as this one. */
static void add_classic(const sums *s, cJSON *totals) {
  const double least = 0.002;
  const double classic = ratio_of(s, pick_classic, pick_none, 0).ratio - 1.0;
  const double planned = ratio_of(s, pick_planned, pick_none, 0).ratio - 1.0;
  cJSON *x = cJSON_AddObjectToObject(totals, "classic");
  rdt_json_number(x, "overhead", classic);
  rdt_json_number(x, "to_planned", isnan(classic) ? NAN : fmax(classic, least) / fmax(planned, least));
}

/* How often the estimates choose as measurement does, and what it costs where they do not: as far as that is known. */
static void add_model(const sums *s, cJSON *totals) {
  double agree = 0.0;
  for (int i = 0; i < s->n; i++) agree += s->list[i].best.n > 0 ? s->list[i].times * s->list[i].agrees : NAN;
  cJSON *x = cJSON_AddObjectToObject(totals, "model");
  rdt_json_number(x, "agree", agree);
  rdt_json_number(x, "seconds", seconds_of(s, pick_guess, 0));
  add_ratio(x, "to_measured", ratio_of(s, pick_guess, pick_best, 0));
  rdt_json_number(x, "mean", mean_of(s, pick_guess, pick_best));
}

static void add_totals(const sums *s, cJSON *size) {
  cJSON *t = cJSON_AddObjectToObject(size, "totals");
  double layers = 0.0;
  for (int i = 0; i < s->n; i++) layers += s->list[i].times;
  cJSON_AddNumberToObject(t, "layers", layers);
  cJSON_AddNumberToObject(t, "distinct", s->n);
  cJSON_AddNumberToObject(t, "flops", s->work.flops);
  cJSON_AddNumberToObject(t, "bytes", s->work.bytes);
  rdt_json_number(t, "intensity", rdt_work_intensity(s->work));
  rdt_json_number(t, "intensity_unfolded", rdt_work_intensity(s->unfolded));
  rdt_json_number(t, "seconds", seconds_of(s, pick_planned, 0));
  rdt_json_number(t, "unprotected", seconds_of(s, pick_none, 0));
  add_ratio(t, "overhead", ratio_of(s, pick_planned, pick_none, 0));
  rdt_json_number(t, "mean", mean_of(s, pick_planned, pick_none));
  add_worst(s, t);
  add_singles(s, t);
  add_classic(s, t);
  add_model(s, t);
}

rdt_status rdt_plan_report_size(rdt_plan_report *r, const rdt_survey *survey, cJSON *inputs, rdt_reason *why) {
  sums s = {.list = rdt_calloc((size_t)survey->n, sizeof *s.list)};
  rdt_offers *o = rdt_alloc(2, sizeof *o);
  rdt_status status = s.list && o ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  cJSON *size = cJSON_CreateObject();
  cJSON_AddItemToArray(r->sizes, size);
  cJSON_AddItemToObject(size, "inputs", inputs);
  cJSON_AddBoolToObject(size, "cold", survey->cold);
  cJSON *layers = cJSON_AddArrayToObject(size, "layers"), *over = cJSON_AddArrayToObject(size, "over");
  cJSON *noisy = cJSON_AddArrayToObject(size, "noisy"), *hurried = cJSON_AddArrayToObject(size, "hurried");
  for (int i = 0; i < survey->n && status == RDT_OK; i++) status = add_layer(r, survey, i, o, layers, &s, why);
  const cJSON *x;
  cJSON_ArrayForEach(x, layers) {
    const double ratio = rdt_json_real(cJSON_GetObjectItemCaseSensitive(x, "overhead"), "ratio");
    if (ratio > 1.0 + r->most_overhead) cJSON_AddItemToArray(over, cJSON_CreateString(rdt_json_string(x, "name")));
    if (rdt_json_true(x, "noisy")) cJSON_AddItemToArray(noisy, cJSON_CreateString(rdt_json_string(x, "name")));
    if (rdt_json_true(x, "hurried")) cJSON_AddItemToArray(hurried, cJSON_CreateString(rdt_json_string(x, "name")));
  }
  if (status == RDT_OK) add_totals(&s, size);
  rdt_free(s.list);
  rdt_free(o);
  return status;
}

void rdt_plan_report_names(const cJSON *doc, const char *list, char *text, size_t size) {
  const cJSON *s, *x;
  size_t used = 0;
  *text = '\0';
  cJSON_ArrayForEach(s, rdt_json_list(doc, "sizes")) {
    cJSON_ArrayForEach(x, rdt_json_list(s, list)) {
      const int n = snprintf(text + used, size - used, "%s%s", used ? ", " : "", x->valuestring);
      used += n > 0 ? (size_t)n : 0;
      if (used >= size - 4) {
        strcpy(text + size - 4, "...");
        return;
      }
    }
  }
}
