/* A study as Markdown and as comma-separated values. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "campaign/study.h"
#include "report/json.h"
#include "report/table.h"

static void share(char *buf, size_t size, rdt_counted c) {
  if (isnan(c.at))
    snprintf(buf, size, "-");
  else
    snprintf(buf, size, "%.4g %% (%.4g to %.4g)", 100.0 * c.at, 100.0 * c.in.low, 100.0 * c.in.high);
}

static void put_campaign(rdt_table *t, const rdt_study *s, const rdt_found *f) {
  char text[96];
  const rdt_count *all = &f->tally.all;
  const rdt_found *bare = rdt_study_unprotected(s, f);
  rdt_table_cell(t, "%s", rdt_json_string(f->head, "target"));
  rdt_table_cell(t, "%s", f->label);
  rdt_table_cell(t, "%s", rdt_json_string(f->head, "fault"));
  rdt_table_cell(t, "%" PRId64, f->tally.trials);
  share(text, sizeof text, rdt_count_coverage(all));
  rdt_table_cell(t, "%s", f->clean ? "-" : text);
  share(text, sizeof text, rdt_count_sdc(all));
  rdt_table_cell(t, "%s", f->clean ? "-" : text);
  share(text, sizeof text, bare ? rdt_count_sdc(&bare->tally.all) : (rdt_counted){.at = NAN});
  rdt_table_cell(t, "%s", f->clean ? "-" : text);
  rdt_table_cell(t, "%" PRId64, rdt_count_above(all));
  rdt_table_cell(t, "%" PRId64, all->missed);
  rdt_table_cell(t, "%" PRId64, all->uncovered);
  rdt_table_cell(t, "%" PRId64, f->tally.reports);
  const double overhead = rdt_found_overhead(f);
  rdt_table_cell(t, isnan(overhead) ? "-" : "%.1f %%", 100.0 * overhead);
  rdt_table_cell(t, f->tally.floor_most > 0.0 ? "%.3g" : "-", f->tally.floor_most);
}

bool rdt_study_markdown(const rdt_study *s, FILE *to) {
  rdt_table *t = rdt_table_create(
      "target|campaign|fault|>trials|>coverage|>silent|>silent, unprotected|>above the floor|>missed|>uncovered|>false "
      "reports|>overhead|>floor");
  for (int i = 0; i < s->n; i++) put_campaign(t, s, &s->list[i]);
  fputs("# Campaigns\n\nIn parentheses: 95 % Wilson intervals.\n\n", to);
  const bool good = rdt_table_print(t, to, true);
  rdt_table_destroy(t);
  for (int i = 0; i < s->n; i++) {
    const rdt_found *f = &s->list[i];
    if (f->tally.has_miss)
      fprintf(to, "\nWorst that nobody noticed in %s: trial %" PRId64 " (`--replay %" PRId64 " -o %s`): %s\n", f->label,
              f->tally.miss.id, f->tally.miss.id, f->dir, f->tally.miss.did);
  }
  for (int i = 0; i < s->n && s->fit > 0.0; i++) {
    const rdt_counted sdc = rdt_count_sdc(&s->list[i].tally.all);
    if (!isnan(sdc.at))
      fprintf(to, "%s- Of %.4g raw faults in 10^9 hours (FIT), in %s: %.4g silent, at most %.4g\n", i ? "" : "\n",
              s->fit, s->list[i].label, s->fit * sdc.at, s->fit * sdc.in.high);
  }
  fprintf(to, "\n%s\n", rdt_campaign_caveat);
  return good && !ferror(to);
}

/* A name in quotes, as RFC 4180 has them. */
static void quoted(FILE *to, const char *text) {
  fputc('"', to);
  for (; *text; text++) {
    if (*text == '"') fputc('"', to);
    fputc((unsigned char)*text < 0x20 ? ' ' : *text, to);
  }
  fputc('"', to);
}

static void csv_row(FILE *to, const rdt_found *f, const char *of, const char *name, const rdt_count *c) {
  const rdt_counted coverage = rdt_count_coverage(c), sdc = rdt_count_sdc(c);
  if (!rdt_count_planted(c)) return;
  quoted(to, rdt_json_string(f->head, "target"));
  fputc(',', to);
  quoted(to, f->label);
  fprintf(to, ",%s,", of);
  quoted(to, name);
  fprintf(to, ",%" PRId64, rdt_count_planted(c));
  for (int k = 0; k < RDT_FATE_ABSENT; k++) fprintf(to, ",%" PRId64, c->fate[k]);
  fprintf(to, ",%" PRId64 ",%" PRId64 ",%" PRId64, rdt_count_above(c), c->missed, c->uncovered);
  if (isnan(coverage.at))
    fputs(",,,", to);
  else
    fprintf(to, ",%.9g,%.9g,%.9g", coverage.at, coverage.in.low, coverage.in.high);
  fprintf(to, ",%.9g,%.9g,%.9g\n", sdc.at, sdc.in.low, sdc.in.high);
}

bool rdt_study_csv(const rdt_study *s, FILE *to) {
  char text[48];
  fputs("target,campaign,of,name,planted", to);
  for (int k = 0; k < RDT_FATE_ABSENT; k++) fprintf(to, ",%s", rdt_fate_name((rdt_fate)k));
  fputs(",above_floor,missed,uncovered,coverage,coverage_low,coverage_high,sdc,sdc_low,sdc_high\n", to);
  for (int i = 0; i < s->n; i++) {
    const rdt_found *f = &s->list[i];
    const rdt_tally *t = &f->tally;
    csv_row(to, f, "all", "all", &t->all);
    for (int k = 0; k < RDT_SITE_COUNT; k++) csv_row(to, f, "site", rdt_site_name((rdt_site)k), &t->site[k]);
    for (int k = 0; k < t->n_layers; k++) csv_row(to, f, "layer", t->layers[k].name, &t->layers[k].count);
    for (int k = 0; k < RDT_FAULT_KIND_COUNT; k++)
      csv_row(to, f, "kind", rdt_fault_kind_name((rdt_fault_kind)k), &t->kind[k]);
    for (int k = 0; k < RDT_BITS; k++) {
      snprintf(text, sizeof text, k < RDT_BITS - 1 ? "%d" : "none", k);
      csv_row(to, f, "bit", text, &t->bit[k]);
    }
    for (int k = 0; k < RDT_SIZES; k++) {
      rdt_size_text(k, text, sizeof text);
      csv_row(to, f, "size", text, &t->size[k]);
    }
  }
  return !ferror(to);
}
