#include "results.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/cpu_info.h"
#include "plan/probe.h"
#include "schemes/scheme.h"

void rdt_bench_row_take(rdt_bench_row *row, const rdt_field *f, const rdt_timing *timing) {
  row->timing = *timing;
  row->count = f->count;
  row->none = f->none;
  row->best = -1;
  for (int i = 0; i < f->count; i++) {
    const rdt_contender *x = &f->list[i];
    rdt_bench_entry *e = &row->list[i];
    *e = (rdt_bench_entry){.asked = x->asked, .ours = !x->library, .worst = x->worst};
    e->checked = e->ours && i != f->none;
    e->kernel = x->plans ? rdt_plan_kernel(x->plans[0]) : x->kernel_name;
    snprintf(e->name, sizeof e->name, "%s", x->name);
    snprintf(e->scheme, sizeof e->scheme, "%s", x->plans ? rdt_plan_scheme(x->plans[0]) : "none");
    if (e->ours) continue;
    const double median = rdt_timing_stat_of(timing, i).median;
    if (row->best < 0 || median < rdt_timing_stat_of(timing, row->best).median) row->best = i;
  }
}

/* ---- where and with what ---- */

static void print_machine(rdt_bench_out *t) {
  static const char *const columns[] = {"redoubt", "commit", "date", "cpu", "isa", "cpus"};
  char cpu[128], date[16];
  const time_t now = time(NULL);
  struct tm utc;
  strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
  rdt_bench_table(t, "machine", "Where it was measured", columns, sizeof columns / sizeof *columns);
  rdt_bench_text(t, rdt_version());
  rdt_bench_text(t, rdt_bench_commit());
  rdt_bench_text(t, date);
  rdt_bench_text(t, rdt_cpu_name(cpu, sizeof cpu));
  rdt_bench_text(t, rdt_isa_name(rdt_isa_detect()));
  rdt_bench_integer(t, rdt_cpu_count());
}

static void print_libraries(const rdt_baselines *b, rdt_bench_out *t) {
  static const char *const columns[] = {"library", "version", "core", "status"};
  rdt_bench_table(t, "libraries", "Libraries, and whose code they chose", columns, sizeof columns / sizeof *columns);
  for (int i = 0; i < b->count; i++) {
    const rdt_baseline *x = &b->list[i];
    rdt_bench_text(t, x->name);
    rdt_bench_text(t, x->version);
    rdt_bench_text(t, x->core);
    rdt_bench_text(t, *x->status ? x->status : "compared");
  }
}

/* The highest of the rows with so many threads. */
static double highest(const rdt_bench_results *r, long long threads, bool peak) {
  double most = NAN;
  for (int i = 0; i < r->count; i++)
    if (r->rows[i].threads == threads) most = fmax(most, peak ? r->rows[i].peak : r->rows[i].bandwidth);
  return most;
}

static void print_limits(const rdt_bench_results *r, rdt_bench_out *t) {
  static const char *const columns[] = {"threads", "instruction", "GFLOP/s", "GB/s"};
  const rdt_bench_ask *ask = r->ops->ask;
  rdt_bench_table(t, "limits", "What the machine can do: multiply-adds from registers, reading from memory", columns,
                  sizeof columns / sizeof *columns);
  for (int i = 0; i < ask->n_threads; i++) {
    rdt_bench_integer(t, ask->threads[i]);
    rdt_bench_text(t, rdt_probe_name(ask->dtype));
    rdt_bench_fixed(t, 1e-9 * highest(r, ask->threads[i], true), 1);
    rdt_bench_fixed(t, 1e-9 * highest(r, ask->threads[i], false), 1);
  }
}

/* ---- rows ---- */

static const rdt_timing_ratio no_ratio = {NAN, NAN, NAN};

static void ratio_cells(rdt_bench_out *t, rdt_timing_ratio r) {
  rdt_bench_fixed(t, r.ratio, 3);
  rdt_bench_fixed(t, r.low, 3);
  rdt_bench_fixed(t, r.high, 3);
}

/* Not applicable to the base itself, or without one (-1). */
static rdt_timing_ratio ratio_of(const rdt_bench_row *row, int i, int base) {
  return base < 0 || base == i ? no_ratio : rdt_timing_ratio_of(&row->timing, i, base);
}

static void print_entry(const rdt_bench_row *row, int i, rdt_bench_out *t) {
  const rdt_bench_entry *e = &row->list[i];
  const rdt_timing_stat stat = rdt_timing_stat_of(&row->timing, i);
  rdt_bench_integer(t, row->threads);
  rdt_bench_text(t, e->name);
  rdt_bench_text(t, e->kernel);
  rdt_bench_text(t, e->scheme);
  rdt_bench_fixed(t, 1e3 * stat.median, 4);
  rdt_bench_fixed(t, 1e3 * stat.p10, 4);
  rdt_bench_fixed(t, 1e3 * stat.p90, 4);
  rdt_bench_fixed(t, row->flops / stat.median * 1e-9, 1);
  rdt_bench_fixed(t, row->flops / stat.median / row->peak, 3);
  rdt_bench_fixed(t, row->bytes / stat.median / row->bandwidth, 3);
  ratio_cells(t, ratio_of(row, i, row->best));
  rdt_bench_text(t, row->best < 0 ? "" : row->list[row->best].name);
  ratio_cells(t, ratio_of(row, i, row->none));
  rdt_bench_fixed(t, e->checked ? e->worst.ratio : NAN, 3);
  rdt_bench_fixed(t, e->checked ? (double)e->worst.suspects : NAN, 0);
  rdt_bench_text(t, rdt_verdict_name(e->checked ? e->worst.verdict : RDT_UNCHECKED));
}

static void print_rows(const rdt_bench_results *r, rdt_bench_out *t) {
  const rdt_bench_ops *o = r->ops;
  rdt_bench_table(t, "results",
                  "Medians; ratios of medians with 95 % bootstrap intervals; what is the same kernel with the same "
                  "scheme was run once",
                  o->columns, o->n_columns);
  for (int i = 0; i < r->count; i++)
    for (int j = 0; j < r->rows[i].count; j++) {
      o->cells(o->user, r->rows[i].which, t);
      print_entry(&r->rows[i], j, t);
    }
}

/* ---- sums ---- */

static int fastest_ours(const rdt_bench_row *row) {
  int best = -1;
  for (int i = 0; i < row->count; i++)
    if (row->list[i].checked &&
        (best < 0 || rdt_timing_stat_of(&row->timing, i).median < rdt_timing_stat_of(&row->timing, best).median))
      best = i;
  return best;
}

static int find_entry(const rdt_bench_row *row, const char *what, const char *asked) {
  for (int i = 0; i < row->count; i++)
    if (strcmp(row->list[i].name, what) == 0 && strcmp(row->list[i].asked, asked) == 0) return i;
  return -1;
}

/* The rows of a group at one number of threads; picks: one contender of each, -1: it was not there. */
typedef struct group {
  const rdt_bench_results *r;
  const rdt_bench_row *rows[RDT_BENCH_CASES];
  int picks[RDT_BENCH_CASES], count;
} group;

static int64_t times_of(const group *g, int i) {
  return g->r->ops->cases[g->rows[i]->which].times;
}

/* Sum of the picks over sum of the bases; not applicable where one lacks, or where they are the same. */
static rdt_timing_ratio sum_ratio(const group *g, bool to_none) {
  rdt_timing_pair pairs[RDT_BENCH_CASES];
  bool same = true;
  for (int i = 0; i < g->count; i++) {
    const int base = to_none ? g->rows[i]->none : g->rows[i]->best;
    if (g->picks[i] < 0 || base < 0) return no_ratio;
    same = same && base == g->picks[i];
    const rdt_timing *t = &g->rows[i]->timing;
    pairs[i] = (rdt_timing_pair){rdt_timing_samples_of(t, g->picks[i]), rdt_timing_samples_of(t, base),
                                 (double)times_of(g, i)};
  }
  return same ? no_ratio : rdt_timing_sum_ratio(pairs, g->count);
}

/* The median of a few samples from one on. */
static double block(const rdt_timing *t, int which, int from, int n) {
  return rdt_timing_samples_stat((rdt_timing_samples){t->cases[which].seconds + from, n}).median;
}

/* The sum of the picks over the sum of our own without protection, in up to ten blocks of trials: the least and the
 * most. A block is three trials, where there are enough of them, so that it is not one interruption that shows. */
static void span_of(const group *g, double span[2]) {
  int trials = INT_MAX;
  span[0] = span[1] = NAN;
  for (int i = 0; i < g->count; i++) {
    if (g->picks[i] < 0 || g->rows[i]->none < 0 || g->picks[i] == g->rows[i]->none) return;
    if (g->rows[i]->timing.trials < trials) trials = g->rows[i]->timing.trials;
  }
  const int n = trials < 9 ? 1 : trials < 30 ? 3 : trials / 10;
  for (int k = 0; k + n <= trials; k += n) {
    double above = 0.0, below = 0.0;
    for (int i = 0; i < g->count; i++) {
      const rdt_timing *t = &g->rows[i]->timing;
      above += (double)times_of(g, i) * block(t, g->picks[i], k, n);
      below += (double)times_of(g, i) * block(t, g->rows[i]->none, k, n);
    }
    span[0] = fmin(span[0], above / below);
    span[1] = fmax(span[1], above / below);
  }
}

static double geometric_mean(const group *g) {
  double sum = 0.0;
  for (int i = 0; i < g->count; i++) {
    if (g->picks[i] < 0 || g->rows[i]->best < 0) return NAN;
    const rdt_timing *t = &g->rows[i]->timing;
    sum += log(rdt_timing_stat_of(t, g->picks[i]).median / rdt_timing_stat_of(t, g->rows[i]->best).median);
  }
  return exp(sum / g->count);
}

static void print_sum(const group *g, int64_t number, const char *what, const char *scheme, rdt_bench_out *t) {
  double seconds = 0.0, flops = 0.0, least = 0.0, span[2];
  int there = 0;
  for (int i = 0; i < g->count; i++) {
    const rdt_bench_row *row = g->rows[i];
    if (g->picks[i] < 0) continue;
    there++;
    seconds += (double)times_of(g, i) * rdt_timing_stat_of(&row->timing, g->picks[i]).median;
    flops += (double)times_of(g, i) * row->flops;
    least += (double)times_of(g, i) * row->flops / row->peak;
  }
  const rdt_bench_ops *o = g->r->ops;
  if (o->group && o->group_text)
    rdt_bench_text(t, o->group_text(o->user, number));
  else if (o->group)
    rdt_bench_integer(t, number);
  rdt_bench_integer(t, g->rows[0]->threads);
  rdt_bench_text(t, what);
  rdt_bench_text(t, scheme);
  rdt_bench_integer(t, there);
  rdt_bench_fixed(t, 1e3 * seconds, 3);
  rdt_bench_fixed(t, flops / seconds * 1e-9, 1);
  rdt_bench_fixed(t, least / seconds, 3);
  ratio_cells(t, sum_ratio(g, false));
  ratio_cells(t, sum_ratio(g, true));
  span_of(g, span);
  rdt_bench_fixed(t, span[0], 3);
  rdt_bench_fixed(t, span[1], 3);
  rdt_bench_fixed(t, geometric_mean(g), 3);
}

/* Rows of the same network and number of threads as row i; false: they were seen before. */
static bool take_group(const rdt_bench_results *r, int i, group *g) {
  const int64_t number = r->ops->cases[r->rows[i].which].group;
  g->count = 0;
  for (int j = 0; j < r->count; j++) {
    const rdt_bench_row *row = &r->rows[j];
    if (row->threads != r->rows[i].threads || r->ops->cases[row->which].group != number) continue;
    if (j < i) return false;
    g->rows[g->count++] = row;
  }
  return true;
}

static void print_group(group *g, int64_t number, rdt_bench_out *t) {
  bool libraries = true, ours = true;
  for (int i = 0; i < g->count; i++) /* every contender, where it comes first */
    for (int j = 0; j < g->rows[i]->count; j++) {
      const rdt_bench_entry *e = &g->rows[i]->list[j];
      bool seen = false;
      for (int k = 0; k < i; k++) seen = seen || find_entry(g->rows[k], e->name, e->asked) >= 0;
      if (seen) continue;
      for (int k = 0; k < g->count; k++) g->picks[k] = find_entry(g->rows[k], e->name, e->asked);
      print_sum(g, number, e->name, e->asked, t);
    }
  for (int i = 0; i < g->count; i++) libraries = (g->picks[i] = g->rows[i]->best) >= 0 && libraries;
  if (libraries) print_sum(g, number, "fastest library of each", "none", t);
  for (int i = 0; i < g->count; i++) ours = (g->picks[i] = fastest_ours(g->rows[i])) >= 0 && ours;
  if (ours) print_sum(g, number, "redoubt fastest", "fastest of each", t);
}

/* Each group at each number of threads, where there is more than one row to sum. */
static void print_sums(const rdt_bench_results *r, rdt_bench_out *t) {
  static const char *const columns[] = {"group",
                                        "threads",
                                        "what",
                                        "scheme",
                                        "cases",
                                        "ms",
                                        "GFLOP/s",
                                        "of peak",
                                        "/ best",
                                        "low",
                                        "high",
                                        "/ none",
                                        "low none",
                                        "high none",
                                        "least / none",
                                        "most / none",
                                        "geometric mean / best"};
  const char *own[sizeof columns / sizeof *columns];
  const bool grouped = r->ops->group != NULL;
  group g = {.r = r};
  bool begun = false;
  memcpy(own, columns, sizeof own);
  own[0] = r->ops->group;
  for (int i = 0; i < r->count; i++) {
    const int64_t number = r->ops->cases[r->rows[i].which].group;
    if (!take_group(r, i, &g) || (g.count < 2 && !r->ops->group_text)) continue;
    if (!begun)
      rdt_bench_table(t, "sums", "Summed, each as often as it occurs; best: the fastest library of each",
                      own + !grouped, sizeof columns / sizeof *columns - !grouped);
    begun = true;
    print_group(&g, number, t);
  }
}

/* ---- what was planned ---- */

/* Sums of one contender over sums of another. */
static rdt_timing_ratio ratio_of_picks(const group *g, const int *of, const int *base) {
  rdt_timing_pair pairs[RDT_BENCH_CASES];
  for (int i = 0; i < g->count; i++) {
    if (of[i] < 0 || base[i] < 0) return no_ratio;
    const rdt_timing *t = &g->rows[i]->timing;
    pairs[i] =
        (rdt_timing_pair){rdt_timing_samples_of(t, of[i]), rdt_timing_samples_of(t, base[i]), (double)times_of(g, i)};
  }
  return rdt_timing_sum_ratio(pairs, g->count);
}

static bool pick(const group *g, const char *what, const char *asked, int *list) {
  bool all = true;
  for (int i = 0; i < g->count; i++) all = (list[i] = find_entry(g->rows[i], what, asked)) >= 0 && all;
  return all;
}

/* The scheme that was asked for by name, says where a fault is, and takes the least time everywhere; NULL: none was. */
static const char *best_single(const group *g, const int *none, int *best) {
  const rdt_bench_ask *ask = g->r->ops->ask;
  const char *name = NULL;
  double least = INFINITY;
  int picks[RDT_BENCH_CASES], sets;
  for (int i = 0; i < ask->n_schemes; i++) {
    const rdt_scheme_info *s = rdt_scheme_parse(ask->schemes[i], &sets);
    if (!s || !s->locates || s->id == RDT_SCHEME_DUP || !pick(g, "redoubt", ask->schemes[i], picks)) continue;
    const double ratio = ratio_of_picks(g, picks, none).ratio;
    if (!(ratio < least)) continue;
    least = ratio;
    name = ask->schemes[i];
    memcpy(best, picks, sizeof picks);
  }
  return name;
}

static double worst_layer(const group *g, const int *of, const int *base) {
  double worst = NAN;
  for (int i = 0; i < g->count; i++)
    worst = fmax(worst, rdt_timing_stat_of(&g->rows[i]->timing, of[i]).median /
                            rdt_timing_stat_of(&g->rows[i]->timing, base[i]).median);
  return worst;
}

/* Of a network; sums: logarithms of the ratios to none, to the libraries, of the overheads; count and worst. */
typedef struct planned_sums {
  double log_none, log_best, log_classic, worst;
  int networks, libraries, classics;
} planned_sums;

static void print_planned(const group *g, int64_t number, planned_sums *s, rdt_bench_out *t) {
  const double least = 0.002; /* an overhead that is hardly to be measured counts as this one */
  int planned[RDT_BENCH_CASES], none[RDT_BENCH_CASES], best[RDT_BENCH_CASES], single[RDT_BENCH_CASES];
  int classic[RDT_BENCH_CASES];
  if (!pick(g, "redoubt plan", "plan", planned)) return;
  for (int i = 0; i < g->count; i++) {
    none[i] = g->rows[i]->none;
    best[i] = g->rows[i]->best;
  }
  const char *name = best_single(g, none, single);
  const rdt_timing_ratio to_single = name ? ratio_of_picks(g, planned, single) : no_ratio;
  const rdt_timing_ratio to_none = ratio_of_picks(g, planned, none), to_best = ratio_of_picks(g, planned, best);
  double times = NAN;
  if (pick(g, "redoubt", "global-classic", classic))
    times = fmax(ratio_of_picks(g, classic, none).ratio - 1.0, least) / fmax(to_none.ratio - 1.0, least);
  const rdt_bench_ops *o = g->r->ops;
  rdt_bench_text(t, o->group_text(o->user, number));
  rdt_bench_integer(t, g->rows[0]->threads);
  rdt_bench_text(t, name ? name : "");
  ratio_cells(t, to_single);
  ratio_cells(t, to_none);
  rdt_bench_fixed(t, worst_layer(g, planned, none), 3);
  ratio_cells(t, to_best);
  rdt_bench_fixed(t, times, 2);
  s->networks++;
  s->log_none += log(to_none.ratio);
  s->worst = fmax(s->worst, to_none.ratio);
  if (!isnan(to_best.ratio)) s->log_best += log(to_best.ratio), s->libraries++;
  if (!isnan(times)) s->log_classic += log(times), s->classics++;
}

static void print_planned_all(const planned_sums *s, rdt_bench_out *t) {
  rdt_bench_text(t, "geometric mean; worst");
  rdt_bench_text(t, "");
  rdt_bench_text(t, "");
  ratio_cells(t, no_ratio);
  ratio_cells(t, (rdt_timing_ratio){exp(s->log_none / s->networks), NAN, NAN});
  rdt_bench_fixed(t, s->worst, 3);
  ratio_cells(t, (rdt_timing_ratio){s->libraries ? exp(s->log_best / s->libraries) : NAN, NAN, NAN});
  rdt_bench_fixed(t, s->classics ? exp(s->log_classic / s->classics) : NAN, 2);
}

static void print_plans(const rdt_bench_results *r, rdt_bench_out *t) {
  static const char *const columns[] = {"workload",
                                        "threads",
                                        "best single",
                                        "plan / single",
                                        "low single",
                                        "high single",
                                        "plan / none",
                                        "low none",
                                        "high none",
                                        "worst layer",
                                        "plan / best library",
                                        "low library",
                                        "high library",
                                        "classic overhead / plan overhead"};
  group g = {.r = r};
  planned_sums s = {.worst = 0.0};
  bool asked = false;
  for (int i = 0; i < r->ops->ask->n_schemes; i++) asked = asked || strcmp(r->ops->ask->schemes[i], "plan") == 0;
  if (!asked || !r->ops->group_text) return;
  rdt_bench_table(t, "planned",
                  "What was planned: against the best scheme alone, no protection, and each layer's fastest library; "
                  "global-classic's overhead over the plan's (0.2 % at least, both)",
                  columns, sizeof columns / sizeof *columns);
  for (int i = 0; i < r->count; i++)
    if (take_group(r, i, &g)) print_planned(&g, r->ops->cases[r->rows[i].which].group, &s, t);
  if (s.networks > 1) print_planned_all(&s, t);
}

void rdt_bench_print(const rdt_bench_results *r, rdt_bench_out *t) {
  print_machine(t);
  print_libraries(r->ops->ask->baselines, t);
  print_limits(r, t);
  print_rows(r, t);
  print_sums(r, t);
  print_plans(r, t);
}
