#include "gpu_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/memory.h"
#include "ops.h"
#include "report/figures.h"

/* What is compared beside the plan: a check everywhere, by its fastest kernel. */
typedef struct single {
  const char *name;
  rdt_rival_kind kind;
  const char *scheme;
  bool may; /* it has a verdict, and says where: it might be the plan */
} single;
static const single singles[] = {{"row", RDT_RIVAL_OWN, "row", true},
                                 {"tile", RDT_RIVAL_OWN, "tile", true},
                                 {"col", RDT_RIVAL_OWN, "col", true},
                                 {"global", RDT_RIVAL_OWN, "global", false},
                                 {"thread1", RDT_RIVAL_OWN, "thread1", true},
                                 {"thread2", RDT_RIVAL_OWN, "thread2", true},
                                 {"replicate", RDT_RIVAL_OWN, "replicate", true},
                                 {"row apart", RDT_RIVAL_BOX, "row", true},
                                 {"global-classic", RDT_RIVAL_CHAINED, "global-classic", false},
                                 {"global-classic uncompared", RDT_RIVAL_UNCOMPARED, "global-classic", false}};
enum { SINGLES = sizeof singles / sizeof *singles, CLASSIC = 8 };
static const double least_overhead = 0.002; /* what is hardly to be measured counts as this */

typedef struct chosen {
  const rdt_timed *none, *library, *plan, *model, *single[SINGLES];
  char why[RDT_OFFER_TEXT];
} chosen;

typedef struct maker {
  const rdt_gpu_report *r;
  chosen *list; /* of each product */
  cJSON *tables;
  rdt_roof roof;
} maker;

static cJSON *add_table(maker *m, const char *name) {
  cJSON *t = cJSON_CreateObject();
  cJSON_AddStringToObject(t, "name", name);
  cJSON *rows = cJSON_AddArrayToObject(t, "rows");
  cJSON_AddItemToArray(m->tables, t);
  return rows;
}

static cJSON *add_row(cJSON *rows) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddItemToArray(rows, row);
  return row;
}

static double rounded(double x, double digits) {
  return isfinite(x) ? round(x * digits) / digits : x;
}

static void put_us(cJSON *row, const char *name, const rdt_timed *t) {
  rdt_json_number(row, name, rounded(1e6 * rdt_race_median(t), 1e3));
}

static void put_ratio(cJSON *row, const char *name, const char *interval, rdt_timing_ratio r) {
  char text[64];
  rdt_json_number(row, name, rounded(r.ratio, 1e4));
  snprintf(text, sizeof text, "low %s", interval);
  rdt_json_number(row, text, rounded(r.low, 1e4));
  snprintf(text, sizeof text, "high %s", interval);
  rdt_json_number(row, text, rounded(r.high, 1e4));
}

static rdt_timing_samples samples_of(const rdt_timed *t) {
  return t ? (rdt_timing_samples){t->seconds, t->n} : (rdt_timing_samples){NULL, 0};
}

/* ---- products ---- */

static rdt_status choose(const maker *m, int i, rdt_raced *x, rdt_reason *why) {
  const rdt_product *p = &m->r->products->list[i];
  chosen *c = &m->list[i];
  if (!p->entry)
    return rdt_fail(why, RDT_ERR_INTERNAL, "%lld x %lld x %lld was not measured", (long long)p->m, (long long)p->n,
                    (long long)p->k);
  c->none = rdt_race_best(p->entry, RDT_RIVAL_OWN, "none");
  c->library = rdt_race_best(p->entry, RDT_RIVAL_LIBRARY, NULL);
  for (int k = 0; k < SINGLES; k++) c->single[k] = rdt_race_best(p->entry, singles[k].kind, singles[k].scheme);
  for (int model = 1; model >= 0; model--) {
    x->o.words = true;
    rdt_race_choose(p->entry, &p->prob, &m->r->demand, m->r->track, model, x);
    const rdt_timed *taken = x->o.taken >= 0 ? x->timed[x->o.taken] : NULL;
    *(model ? &c->model : &c->plan) = taken && taken->n > 0 ? taken : NULL;
    if (taken && (model || !m->r->model)) snprintf(c->why, sizeof c->why, "%s", x->o.list[x->o.taken].text);
    if (!taken && (bool)model == m->r->model)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                      "%lld x %lld x %lld: no scheme finds %.4g %% of single faults and locates them; ask for less "
                      "with --min-coverage",
                      (long long)p->m, (long long)p->n, (long long)p->k, 100.0 * m->r->demand.min_coverage);
    if (taken && model && m->r->model) {
      c->plan = taken;
      return RDT_OK;
    }
  }
  return RDT_OK;
}

static rdt_work work_of(const maker *m, const rdt_product *p) {
  return rdt_work_of_mnk(p->m, p->n, p->k, 1, m->r->products->dtype, 1);
}

static void add_products(maker *m) {
  const rdt_products *all = m->r->products;
  cJSON *rows = add_table(m, "products");
  for (int i = 0; i < all->n; i++) {
    const rdt_product *p = &all->list[i];
    const chosen *c = &m->list[i];
    cJSON *row = add_row(rows);
    const rdt_work w = work_of(m, p);
    cJSON_AddNumberToObject(row, "m", (double)p->m);
    cJSON_AddNumberToObject(row, "n", (double)p->n);
    cJSON_AddNumberToObject(row, "k", (double)p->k);
    rdt_json_number(row, "intensity", rounded(rdt_work_intensity(w), 1e2));
    cJSON_AddStringToObject(row, "bound", rdt_roof_computes(m->roof, w) ? "compute" : "memory");
    rdt_json_number(row, "floor us", rounded(1e6 * rdt_roof_seconds(m->roof, w), 1e3));
    cJSON_AddStringToObject(row, "own kernel", c->none ? c->none->kernel : "");
    put_us(row, "own us", c->none);
    cJSON_AddStringToObject(row, "library", c->library ? c->library->kernel : "");
    put_us(row, "library us", c->library);
    cJSON_AddStringToObject(row, "plan kernel", c->plan ? c->plan->kernel : "");
    cJSON_AddStringToObject(row, "plan scheme", c->plan ? c->plan->scheme : "");
    put_us(row, "plan us", c->plan);
    cJSON_AddStringToObject(row, "why", c->why);
    cJSON_AddStringToObject(row, "model kernel", c->model ? c->model->kernel : "");
    cJSON_AddStringToObject(row, "model scheme", c->model ? c->model->scheme : "");
    put_us(row, "model us", c->model);
    for (int k = 0; k < SINGLES; k++) {
      char name[64];
      snprintf(name, sizeof name, "%s us", singles[k].name);
      put_us(row, name, c->single[k]);
    }
  }
}

/* ---- layers ---- */

static const rdt_product *product_of(const maker *m, const rdt_product_layer *l) {
  return &m->r->products->list[l->product];
}

static void add_result(const maker *m, cJSON *rows, const rdt_product_layer *l, const char *what, const rdt_timed *t,
                       const char *scheme) {
  const rdt_product *p = product_of(m, l);
  if (!t) return;
  cJSON *row = add_row(rows);
  cJSON_AddStringToObject(row, "workload", m->r->products->networks[l->network].name);
  cJSON_AddStringToObject(row, "layer", l->layer->name);
  cJSON_AddNumberToObject(row, "m", (double)p->m);
  cJSON_AddNumberToObject(row, "n", (double)p->n);
  cJSON_AddNumberToObject(row, "k", (double)p->k);
  cJSON_AddNumberToObject(row, "groups", 1);
  cJSON_AddNumberToObject(row, "times", (double)l->layer->times);
  cJSON_AddStringToObject(row, "dtype", rdt_dtype_name(m->r->products->dtype));
  cJSON_AddStringToObject(row, "what", what);
  cJSON_AddStringToObject(row, "scheme", scheme);
  rdt_json_number(row, "ms", rounded(1e3 * rdt_race_median(t), 1e6));
}

/* Those that pictures are of. */
static void add_results(maker *m) {
  const rdt_products *all = m->r->products;
  cJSON *rows = add_table(m, "results");
  for (int i = 0; i < all->n_layers; i++) {
    const rdt_product_layer *l = &all->layers[i];
    const chosen *c = &m->list[l->product];
    add_result(m, rows, l, "cuBLAS", c->library, "none");
    add_result(m, rows, l, "redoubt none", c->none, "none");
    for (int k = 0; k < SINGLES; k++)
      if (strcmp(singles[k].name, "thread1") == 0 || strcmp(singles[k].name, "global") == 0)
        add_result(m, rows, l, "redoubt", c->single[k], singles[k].name);
    add_result(m, rows, l, "redoubt plan", c->plan, c->plan ? c->plan->scheme : "");
  }
}

/* ---- sums ---- */

typedef struct pick {
  size_t at;    /* of a chosen's member */
  size_t other; /* where that is none */
} pick;
#define MEMBER(x) offsetof(chosen, x)
static const pick planned = {MEMBER(plan), MEMBER(plan)}, unprotected = {MEMBER(none), MEMBER(none)},
                  by_library = {MEMBER(library), MEMBER(library)}, by_model = {MEMBER(model), MEMBER(model)};

static const rdt_timed *picked(const chosen *c, pick p) {
  const rdt_timed *const *of = (const void *)((const char *)c + p.at), *const * or
                                                                       = (const void *)((const char *)c + p.other);
  return *of ? *of : * or ;
}

/* Everywhere where there is such a check; elsewhere as planned. */
static pick everywhere(int k) {
  return (pick){MEMBER(single) + (size_t)k * sizeof(const rdt_timed *), MEMBER(plan)};
}

typedef struct span { /* layers, of one network or of several */
  int first, end;
} span;

static span span_of(const rdt_product_network *n) {
  return (span){n->first, n->first + n->count};
}

static double seconds_of(const maker *m, span s, pick p) {
  double sum = 0.0;
  for (int i = s.first; i < s.end; i++) {
    const rdt_product_layer *l = &m->r->products->layers[i];
    sum += (double)l->layer->times * rdt_race_median(picked(&m->list[l->product], p));
  }
  return sum;
}

static rdt_timing_ratio ratio_of(const maker *m, span s, pick of, pick base) {
  rdt_timing_ratio r = {NAN, NAN, NAN};
  const int n = s.end - s.first;
  rdt_timing_pair *pairs = rdt_alloc((size_t)n, sizeof *pairs);
  for (int i = 0; pairs && i < n; i++) {
    const rdt_product_layer *l = &m->r->products->layers[s.first + i];
    const chosen *c = &m->list[l->product];
    pairs[i] = (rdt_timing_pair){samples_of(picked(c, of)), samples_of(picked(c, base)), (double)l->layer->times};
  }
  if (pairs) r = rdt_timing_sum_ratio(pairs, n);
  rdt_free(pairs);
  return r;
}

/* Of all trials the least and the greatest ratio, as the literature's whiskers; NaN where they are not as many. */
static void extremes(const maker *m, span s, pick of, pick base, double *least, double *most) {
  int trials = -1;
  *least = *most = NAN;
  for (int i = s.first; i < s.end; i++) {
    const chosen *c = &m->list[m->r->products->layers[i].product];
    const rdt_timed *both[2] = {picked(c, of), picked(c, base)};
    for (int k = 0; k < 2; k++) {
      if (!both[k]) return;
      if (trials < 0 || both[k]->n < trials) trials = both[k]->n;
    }
  }
  for (int k = 0; k < trials; k++) {
    double above = 0.0, below = 0.0;
    for (int i = s.first; i < s.end; i++) {
      const rdt_product_layer *l = &m->r->products->layers[i];
      const chosen *c = &m->list[l->product];
      above += (double)l->layer->times * picked(c, of)->seconds[k];
      below += (double)l->layer->times * picked(c, base)->seconds[k];
    }
    *least = fmin(*least, above / below), *most = fmax(*most, above / below);
  }
}

/* Of the planned time the share of layers that can have it: where that is little, "everywhere" says nothing. */
static double share_of(const maker *m, span s, int k) {
  double has = 0.0, all = 0.0;
  for (int i = s.first; i < s.end; i++) {
    const rdt_product_layer *l = &m->r->products->layers[i];
    const chosen *c = &m->list[l->product];
    const double t = (double)l->layer->times * rdt_race_median(c->plan);
    all += t;
    has += c->single[k] ? t : 0.0;
  }
  return has / all;
}

static void add_sum(const maker *m, cJSON *rows, const char *name, span s, const char *what, const char *scheme,
                    pick p) {
  double least, most;
  cJSON *row = add_row(rows);
  cJSON_AddStringToObject(row, "workload", name);
  cJSON_AddStringToObject(row, "what", what);
  cJSON_AddStringToObject(row, "scheme", scheme);
  rdt_json_number(row, "ms", rounded(1e3 * seconds_of(m, s, p), 1e6));
  put_ratio(row, "/ none", "none", ratio_of(m, s, p, unprotected));
  extremes(m, s, p, unprotected, &least, &most);
  rdt_json_number(row, "least / none", rounded(least, 1e4));
  rdt_json_number(row, "most / none", rounded(most, 1e4));
}

static void add_sums(maker *m) {
  const rdt_products *all = m->r->products;
  cJSON *rows = add_table(m, "sums");
  for (int i = 0; i < all->n_networks; i++) {
    const rdt_product_network *n = &all->networks[i];
    const span s = span_of(n);
    add_sum(m, rows, n->name, s, "cuBLAS", "none", by_library);
    add_sum(m, rows, n->name, s, "redoubt none", "none", unprotected);
    add_sum(m, rows, n->name, s, "redoubt plan", "plan", planned);
    add_sum(m, rows, n->name, s, "by estimates", "model", by_model);
    for (int k = 0; k < SINGLES; k++)
      if (share_of(m, s, k) >= 0.5) add_sum(m, rows, n->name, s, "redoubt", singles[k].name, everywhere(k));
  }
}

static int best_single(const maker *m, span s) {
  int best = -1;
  for (int k = 0; k < SINGLES; k++) {
    if (!singles[k].may || !(share_of(m, s, k) >= 0.5)) continue;
    if (best < 0 || seconds_of(m, s, everywhere(k)) < seconds_of(m, s, everywhere(best))) best = k;
  }
  return best;
}

static double worst_layer(const maker *m, span s, pick base) {
  double most = NAN;
  for (int i = s.first; i < s.end; i++) {
    const chosen *c = &m->list[m->r->products->layers[i].product];
    most = fmax(most, rdt_race_median(c->plan) / rdt_race_median(picked(c, base)));
  }
  return most;
}

static double classic_to_plan(const maker *m, span s) {
  const double none = seconds_of(m, s, unprotected), classic = seconds_of(m, s, everywhere(CLASSIC)) / none - 1.0,
               plan = seconds_of(m, s, planned) / none - 1.0;
  return isnan(classic) || isnan(plan) ? NAN : fmax(classic, least_overhead) / fmax(plan, least_overhead);
}

static double agreement(const maker *m, span s) {
  double same = 0.0, all = 0.0;
  for (int i = s.first; i < s.end; i++) {
    const rdt_product_layer *l = &m->r->products->layers[i];
    const chosen *c = &m->list[l->product];
    if (!c->plan || !c->model) return NAN;
    all += (double)l->layer->times;
    same += strcmp(c->plan->scheme, c->model->scheme) == 0 ? (double)l->layer->times : 0.0;
  }
  return same / all;
}

static void add_line(const maker *m, cJSON *rows, const char *name, span s) {
  const rdt_timing_ratio unknown = {NAN, NAN, NAN};
  const int best = best_single(m, s);
  rdt_work work = {0};
  double floor = 0.0;
  for (int i = s.first; i < s.end; i++) {
    const rdt_product_layer *l = &m->r->products->layers[i];
    const rdt_work w = work_of(m, product_of(m, l));
    work = rdt_work_sum(work, w, (double)l->layer->times);
    floor += (double)l->layer->times * rdt_roof_seconds(m->roof, w);
  }
  cJSON *row = add_row(rows);
  cJSON_AddStringToObject(row, "workload", name);
  rdt_json_number(row, "intensity", rounded(rdt_work_intensity(work), 1e2));
  rdt_json_number(row, "floor ms", rounded(1e3 * floor, 1e6));
  rdt_json_number(row, "none ms", rounded(1e3 * seconds_of(m, s, unprotected), 1e6));
  rdt_json_number(row, "library ms", rounded(1e3 * seconds_of(m, s, by_library), 1e6));
  rdt_json_number(row, "plan ms", rounded(1e3 * seconds_of(m, s, planned), 1e6));
  put_ratio(row, "plan / none", "none", ratio_of(m, s, planned, unprotected));
  rdt_json_number(row, "worst layer", rounded(worst_layer(m, s, unprotected), 1e4));
  put_ratio(row, "plan / best library", "library", ratio_of(m, s, planned, by_library));
  rdt_json_number(row, "worst layer / library", rounded(worst_layer(m, s, by_library), 1e4));
  cJSON_AddStringToObject(row, "best single", best >= 0 ? singles[best].name : "");
  put_ratio(row, "plan / single", "single", best >= 0 ? ratio_of(m, s, planned, everywhere(best)) : unknown);
  rdt_json_number(row, "classic overhead",
                  rounded(seconds_of(m, s, everywhere(CLASSIC)) / seconds_of(m, s, unprotected) - 1.0, 1e4));
  rdt_json_number(row, "uncompared overhead",
                  rounded(seconds_of(m, s, everywhere(CLASSIC + 1)) / seconds_of(m, s, unprotected) - 1.0, 1e4));
  rdt_json_number(row, "classic overhead / plan overhead", rounded(classic_to_plan(m, s), 1e2));
  put_ratio(row, "model / plan", "model", ratio_of(m, s, by_model, planned));
  rdt_json_number(row, "model agrees", rounded(agreement(m, s), 1e3));
}

/* Geometric mean of a column; worst: its greatest. */
static double over_rows(const cJSON *rows, int n, const char *name, bool worst) {
  double logs = 0.0, most = NAN;
  int count = 0;
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) {
    const double x = rdt_json_real(row, name);
    if (count == n || isnan(x)) break;
    logs += log(x), most = fmax(most, x), count++;
  }
  return count < n ? NAN : worst ? most : exp(logs / count);
}

static void add_mean(cJSON *rows, bool worst) {
  static const char *const columns[] = {"plan / none",           "worst layer",   "plan / best library",
                                        "worst layer / library", "plan / single", "classic overhead / plan overhead",
                                        "model / plan"};
  const int n = cJSON_GetArraySize(rows) - worst;
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "workload", worst ? "worst" : "geometric mean");
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    rdt_json_number(row, columns[i], rounded(over_rows(rows, n, columns[i], worst), 1e4));
  cJSON_AddItemToArray(rows, row);
}

/* Squares are one line, as they are one workload of the literature. */
static void add_planned(maker *m) {
  const rdt_products *all = m->r->products;
  cJSON *rows = add_table(m, "planned");
  for (int i = 0; i < all->n_networks; i++) {
    span s = span_of(&all->networks[i]);
    const bool square = strcmp(all->networks[i].workload->group, "square") == 0;
    while (square && i + 1 < all->n_networks && strcmp(all->networks[i + 1].workload->group, "square") == 0)
      s.end += all->networks[++i].count;
    add_line(m, rows, square ? "squares" : all->networks[i].name, s);
  }
  add_mean(rows, false);
  add_mean(rows, true);
}

/* ---- the document ---- */

static void add_head(const maker *m, cJSON *doc) {
  const rdt_gpu_report *r = m->r;
  const rdt_track *t = r->track;
  char text[64];
  const time_t now = time(NULL);
  struct tm utc;
  cJSON_AddStringToObject(doc, "schema", "redoubt.plan-gpu/1");
  cJSON_AddStringToObject(doc, "redoubt", rdt_version());
  cJSON_AddStringToObject(doc, "commit", rdt_bench_commit());
  strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &utc));
  cJSON_AddStringToObject(doc, "date", text);
  cJSON *d = cJSON_AddObjectToObject(doc, "gpu");
  cJSON_AddStringToObject(d, "name", t->name);
  snprintf(text, sizeof text, "%d.%d", t->major, t->minor);
  cJSON_AddStringToObject(d, "compute", text);
  cJSON_AddNumberToObject(d, "multiprocessors", t->sms);
  cJSON_AddNumberToObject(d, "driver", t->driver);
  cJSON_AddNumberToObject(d, "cublaslt", t->library);
  for (int i = 0; i < 2; i++) {
    rdt_json_number(d, i ? "mhz after" : "mhz before", r->mhz[i]);
    rdt_json_number(d, i ? "celsius after" : "celsius before", r->celsius[i]);
  }
  rdt_json_number(d, "bandwidth", t->bandwidth);
  rdt_json_number(d, "flops", t->flops);
  rdt_json_number(d, "cmr", rounded(rdt_roof_ratio(m->roof), 1e2));
  cJSON_AddStringToObject(doc, "protocol", rdt_protocol_name(r->protocol));
  cJSON_AddStringToObject(doc, "dtype", rdt_dtype_name(r->products->dtype));
  cJSON_AddStringToObject(doc, "policy", r->model ? "model" : "measured");
  cJSON_AddStringToObject(doc, "scheme", r->demand.wanted ? r->demand.wanted->name : "auto");
  cJSON_AddNumberToObject(doc, "min_coverage", r->demand.min_coverage);
  cJSON_AddNumberToObject(doc, "complaints", r->complaints);
}

static void add_machine(maker *m) {
  const rdt_track *t = m->r->track;
  char text[32];
  cJSON *row = add_row(add_table(m, "machine"));
  snprintf(text, sizeof text, "sm_%d%d", t->major, t->minor);
  cJSON_AddStringToObject(row, "cpu", t->name);
  cJSON_AddStringToObject(row, "isa", text);
  row = add_row(add_table(m, "limits"));
  rdt_json_number(row, "GFLOP/s", rounded(1e-9 * t->flops, 1.0));
  rdt_json_number(row, "GB/s", rounded(1e-9 * t->bandwidth, 1.0));
}

rdt_status rdt_gpu_report_make(const rdt_gpu_report *r, cJSON **doc, rdt_reason *why) {
  rdt_raced *x = rdt_alloc(1, sizeof *x);
  maker m = {.r = r, .roof = {.flops = r->track->flops, .bandwidth = r->track->bandwidth}};
  m.list = rdt_calloc((size_t)r->products->n, sizeof *m.list);
  rdt_status s = x && m.list ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int i = 0; i < r->products->n && s == RDT_OK; i++) s = choose(&m, i, x, why);
  *doc = NULL;
  if (s == RDT_OK) {
    *doc = cJSON_CreateObject();
    add_head(&m, *doc);
    m.tables = cJSON_AddArrayToObject(*doc, "tables");
    add_machine(&m);
    add_planned(&m);
    add_sums(&m);
    add_products(&m);
    add_results(&m);
  }
  rdt_free(m.list);
  rdt_free(x);
  return s;
}
