#include "campaign_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "campaign/summary.h"
#include "report/table.h"

/* "99.98 %": as many digits as tell it from all. */
static const char *percent(double share, char *buf, size_t size) {
  const double x = 100.0 * share;
  if (isnan(x)) return "-";
  int digits = 2;
  while (digits < 6 && x < 100.0 && x > 0.0 && fmin(x, 100.0 - x) < pow(10.0, -digits)) digits++;
  snprintf(buf, size, "%.*f %%", digits, x);
  return buf;
}

static void put_row(rdt_table *t, const char *name, const rdt_count *c) {
  char text[32];
  const rdt_counted coverage = rdt_count_coverage(c);
  rdt_table_cell(t, "%s", name);
  rdt_table_cell(t, "%" PRId64, rdt_count_planted(c));
  for (int f = 0; f < RDT_FATE_ABSENT; f++) rdt_table_cell(t, "%" PRId64, c->fate[f]);
  rdt_table_cell(t, "%" PRId64, c->missed);
  rdt_table_cell(t, "%" PRId64, c->uncovered);
  rdt_table_cell(t, "%s", percent(coverage.at, text, sizeof text));
}

static rdt_table *new_table(const char *first) {
  char columns[256];
  size_t used = (size_t)snprintf(columns, sizeof columns, "%s|>planted", first);
  for (int f = 0; f < RDT_FATE_ABSENT; f++)
    used += (size_t)snprintf(columns + used, sizeof columns - used, "|>%s", rdt_fate_name((rdt_fate)f));
  snprintf(columns + used, sizeof columns - used, "|>missed|>uncovered|>coverage");
  return rdt_table_create(columns);
}

/* Of faults in data: the rows with something in them. */
static bool put_table(const char *first, const rdt_count *rows, size_t step, int n,
                      void (*name)(const void *user, int i, char *buf, size_t size), const void *user, bool markdown) {
  char text[160];
  rdt_table *t = new_table(first);
  for (int i = 0; i < n; i++) {
    const rdt_count *c = (const rdt_count *)((const char *)rows + (size_t)i * step);
    if (!rdt_count_planted(c)) continue;
    name(user, i, text, sizeof text);
    put_row(t, text, c);
  }
  const bool good = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  puts("");
  return good;
}

static void kind_name(const void *user, int i, char *buf, size_t size) {
  (void)user;
  snprintf(buf, size, "%s", rdt_fault_kind_name((rdt_fault_kind)i));
}
static void bit_name(const void *user, int i, char *buf, size_t size) {
  (void)user;
  snprintf(buf, size, i < RDT_BITS - 1 ? "%d" : "-", i);
}
static void size_name(const void *user, int i, char *buf, size_t size) {
  (void)user;
  rdt_size_text(i, buf, size);
}
static void layer_name(const void *user, int i, char *buf, size_t size) {
  const rdt_tally *t = user;
  snprintf(buf, size, "%s", t->layers[i].name);
}

static void put_failures(const rdt_tally *t, bool repairs) {
  for (int i = 0; i < RDT_TALLY_FAILURES && i < t->failed; i++) {
    const rdt_trial *f = &t->failures[i];
    printf("- trial %" PRId64 ", %s: %s: %s (error %.3g, weighted %.3g, floor %.3g)\n", f->id,
           rdt_trial_reproach(f, repairs), f->spec, f->did, f->error, f->weighted, f->floor);
  }
  if (t->failed > RDT_TALLY_FAILURES) printf("- and %" PRId64 " more\n", t->failed - RDT_TALLY_FAILURES);
  if (t->failed > 0) puts("");
}

/* Where layers run alone: how often each is suspect, next to what lambda states. */
static bool put_suspects(const rdt_tally *t, bool markdown) {
  rdt_table *table = rdt_table_create("layer|scheme|>runs|>checks|>suspects|>share|>stated|>of stated|>reports");
  const double stated = rdt_stats_beyond(t->lambda);
  int rows = 0, no_rate = 0;
  for (int i = 0; i < t->n_layers; i++) {
    const rdt_layer_count *l = &t->layers[i];
    const double share = l->checks > 0 ? (double)l->suspects / (double)l->checks : 0.0;
    if (l->runs == 0) continue;
    rows++;
    rdt_table_cell(table, "%s", l->name);
    rdt_table_cell(table, "%s", l->scheme);
    rdt_table_cell(table, "%" PRId64, l->runs);
    rdt_table_cell(table, "%" PRId64, l->checks);
    rdt_table_cell(table, "%" PRId64, l->suspects);
    rdt_table_cell(table, "%.3g", share);
    rdt_table_cell(table, l->no_rate ? "none" : "%.3g", stated);
    rdt_table_cell(table, l->no_rate ? "(%.3g)" : "%.3g", share / stated);
    no_rate += l->no_rate;
    rdt_table_cell(table, "%" PRId64, l->reports);
  }
  const bool good = rows == 0 || rdt_table_print(table, stdout, markdown);
  rdt_table_destroy(table);
  if (rows > 0) puts("");
  if (no_rate > 0)
    puts(
        "In parentheses: of data whose partial sums cancel or whose columns repeat lambda states no share of suspects; "
        "they cost a computation each, and are no reports.\n");
  return good;
}

static void put_clean(const rdt_tally *t) {
  char a[32], b[32];
  printf("%s: %" PRId64 " reports, %" PRId64 " outputs that differ, %" PRId64 " suspects explained, %" PRId64
         " checks not possible, in %" PRId64 " checks of %" PRId64 " runs\n",
         rdt_judgement_name(rdt_summary_judge(t)), t->reports, t->differing, t->suspects, t->unchecked, t->checks,
         t->clean);
  printf("false reports, with 95 %% confidence: of at most %s of the runs, and of %s of the checks\n",
         percent(rdt_stats_upper(t->reports, t->clean, RDT_CONFIDENCE), a, sizeof a),
         percent(rdt_stats_upper(t->reports, t->checks, RDT_CONFIDENCE), b, sizeof b));
}

/* Nothing can be missed of them: they are told apart from what shares are made of. */
static void put_checker(const rdt_count *c) {
  if (!rdt_count_planted(c)) return;
  printf("detecting the detector: %" PRId64 " faults in what checks: %" PRId64 " without effect, %" PRId64
         " noticed, %" PRId64 " made a result wrong, %" PRId64 " ended without one\n",
         rdt_count_planted(c), c->fate[RDT_FATE_MASKED], rdt_count_noticed(c),
         rdt_count_silent(c) + c->fate[RDT_FATE_MISCORRECTED], c->fate[RDT_FATE_DUE]);
}

static void put_coverage(const rdt_tally *t, double fit) {
  const rdt_count *data = &t->data;
  const rdt_counted coverage = rdt_count_coverage(data), sdc = rdt_count_sdc(data);
  char a[32], b[32], c[32];
  put_checker(&t->checker);
  if (data->fate[RDT_FATE_OUTVOTED] > 0)
    printf("outvoted: %" PRId64
           " results are wrong because two of three copies were wrong alike: no scheme claims to "
           "find that\n",
           data->fate[RDT_FATE_OUTVOTED]);
  if (!rdt_count_planted(data)) {
    puts("no fault struck data: coverage is of those");
    return;
  }
  printf("coverage: %s of %" PRId64 " faults in data that were not masked (95 %%: %s to %s)\n",
         percent(coverage.at, a, sizeof a), rdt_count_dangerous(data), percent(coverage.in.low, b, sizeof b),
         percent(coverage.in.high, c, sizeof c));
  printf("silent corruptions: %" PRId64 " of %" PRId64 " faults in data, %s (95 %%: %s to %s)\n",
         rdt_count_silent(data), rdt_count_planted(data), percent(sdc.at, a, sizeof a),
         percent(sdc.in.low, b, sizeof b), percent(sdc.in.high, c, sizeof c));
  printf("above the floor: %" PRId64 " in data, of which not noticed inside claims %" PRId64
         ", outside (uncovered) "
         "%" PRId64 "\n",
         rdt_count_above(data), data->missed, data->uncovered);
  if (data->cancelled > 0)
    printf("cancelled inside claims: %" PRId64
           ": single errors above the floor whose sums in every check are below it\n",
           data->cancelled);
  for (int i = 0; i < RDT_STANDARDS; i++)
    printf("%s%.0f %% (%s): %s", i ? ", " : "", 100.0 * rdt_standards[i].share, rdt_standards[i].name,
           coverage.in.low >= rdt_standards[i].share ? "reached" : "not shown");
  puts("");
  if (fit > 0.0)
    printf("of %.4g raw faults in data in 10^9 hours (FIT): %.4g silent, at most %.4g\n", fit, fit * sdc.at,
           fit * sdc.in.high);
  printf("%s\n", rdt_campaign_caveat);
}

/* Sites of data, then those of what checks; below the line the sums of either. */
static bool put_sites(const rdt_tally *t, bool markdown) {
  rdt_table *table = new_table("site");
  for (int checks = 0; checks < 2; checks++)
    for (int i = 0; i < RDT_SITE_COUNT; i++)
      if (rdt_site_checks((rdt_site)i) == (bool)checks && rdt_count_planted(&t->site[i]))
        put_row(table, rdt_site_name((rdt_site)i), &t->site[i]);
  rdt_table_rule(table);
  put_row(table, "in data", &t->data);
  if (rdt_count_planted(&t->checker)) put_row(table, "in checks", &t->checker);
  const bool good = rdt_table_print(table, stdout, markdown);
  rdt_table_destroy(table);
  puts("");
  return good;
}

static void put_verdict(const rdt_tally *t, bool repairs) {
  const rdt_judgement j = rdt_summary_judge(t);
  const char *text = j == RDT_JUDGED_FAIL        ? "see the trials above"
                     : j == RDT_JUDGED_MUTE      ? "nothing was hit"
                     : j == RDT_JUDGED_UNCLAIMED ? "no scheme claims what was hit; none made worse"
                     : repairs                   ? "no miss inside a claim, every found fault repaired, none made worse"
                                                 : "no miss inside a claim, none made worse";
  printf("%s: %s; %" PRId64 " suspects in %" PRId64 " checks\n", rdt_judgement_name(j), text, t->suspects, t->checks);
}

bool rdt_campaign_put(const rdt_tally *t, bool repairs, bool markdown, bool all, double fit) {
  const rdt_count sum = rdt_tally_all(t);
  if (t->clean > 0) {
    const bool listed = put_suspects(t, markdown);
    put_failures(t, repairs);
    put_clean(t);
    return listed;
  }
  bool good = !rdt_count_planted(&sum) || put_sites(t, markdown);
  if (rdt_count_planted(&t->data) && (t->n_layers > 1 || all))
    good = good && put_table("layer", &t->layers->count, sizeof *t->layers, t->n_layers, layer_name, t, markdown);
  if (rdt_count_planted(&t->data) && all) {
    good = good && put_table("kind", t->kind, sizeof *t->kind, RDT_FAULT_KIND_COUNT, kind_name, NULL, markdown);
    good = good && put_table("highest bit", t->bit, sizeof *t->bit, RDT_BITS, bit_name, NULL, markdown);
    good = good && put_table("size", t->size, sizeof *t->size, RDT_SIZES, size_name, NULL, markdown);
  }
  if (!good) return false;
  put_failures(t, repairs);
  const int64_t absent = sum.fate[RDT_FATE_ABSENT];
  if (absent) printf("%" PRId64 " fault%s found nothing to hit\n", absent, absent == 1 ? "" : "s");
  put_verdict(t, repairs);
  if (!rdt_count_planted(&sum)) return true;
  put_coverage(t, fit);
  if (t->rebuilt_bound > 0.0)
    printf("rebuilt: %" PRId64 " results, the worst off by %.3g of its stated bound, the largest bound %.3g\n",
           sum.fate[RDT_FATE_CORRECTED], t->rebuilt_worst, t->rebuilt_bound);
  if (t->has_miss)
    printf("worst that nobody noticed: trial %" PRId64 " (--replay %" PRId64 "): %s\n", t->miss.id, t->miss.id,
           t->miss.did);
  return true;
}

void rdt_trial_tell(const rdt_trial *t, bool repairs) {
  const char *reproach = rdt_trial_reproach(t, repairs);
  const bool clean = strcmp(t->spec, "none") == 0;
  printf("trial %" PRId64 ": %s\n", t->id, t->spec);
  if (*t->did) printf("  it hit %s\n", t->did);
  if (*t->layer)
    printf("  layer %s, protected by %s%s\n", t->layer, *t->scheme ? t->scheme : "-",
           clean        ? ""
           : t->claimed ? ", which claims this site"
                        : ", which does not claim this site");
  if (!clean)
    printf("  effect: %s; largest error %.9g, weighted in a check %.9g, floor %.9g", rdt_effect_name(t->effect),
           t->error, t->weighted, t->floor);
  if (t->changed >= 0) printf(", %" PRId64 " elements of the raw result", t->changed);
  printf("%s  worst check there: residual %.9g, bound %.9g, ratio %.6g\n", clean ? "" : "\n", t->residual, t->bound,
         t->ratio);
  printf("  %" PRId64 " checks, %" PRId64 " suspects, %" PRId64 " faults; verdict %s, diagnosis %s\n", t->checks,
         t->suspects, t->faults, rdt_verdict_name(t->verdict), rdt_diagnosis_name(t->diagnosis));
  if (t->stated >= 0.0) printf("  rebuilt within %.9g; it is off by %.9g\n", t->stated, t->left);
  printf("  elements of the result beyond rounding: %" PRId64 "\n", t->wrong);
  printf("  outcome: %s (%s)%s%s\n", rdt_fate_name(t->fate), rdt_fate_text(t->fate), *reproach ? ": " : "", reproach);
}
