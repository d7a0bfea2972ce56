/* A study as Markdown and as comma-separated values. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "campaign/study.h"
#include "report/json.h"
#include "report/table.h"
#include "report/text.h"

static void share(char *buf, size_t size, rdt_counted c) {
  if (isnan(c.at))
    snprintf(buf, size, "-");
  else
    snprintf(buf, size, "%.4g %% (%.4g to %.4g)", 100.0 * c.at, 100.0 * c.in.low, 100.0 * c.in.high);
}

static void put_campaign(rdt_table *t, const rdt_study *s, const rdt_found *f) {
  char text[96];
  const char *differs;
  const rdt_count *data = &f->tally.data, *checker = &f->tally.checker;
  const rdt_found *bare = rdt_study_unprotected(s, f, &differs);
  rdt_table_cell(t, "%s", rdt_json_string(f->head, "target"));
  rdt_table_cell(t, "%s", f->label);
  rdt_table_cell(t, "%s", rdt_judgement_name(rdt_summary_judge(&f->tally)));
  rdt_table_cell(t, "%s", rdt_json_string(f->head, "fault"));
  rdt_table_cell(t, "%" PRId64, f->tally.trials);
  rdt_table_cell(t, "%" PRId64, rdt_count_planted(data));
  share(text, sizeof text, rdt_count_coverage(data));
  rdt_table_cell(t, "%s", f->clean ? "-" : text);
  share(text, sizeof text, rdt_count_sdc(data));
  rdt_table_cell(t, "%s", f->clean ? "-" : text);
  share(text, sizeof text, bare ? rdt_count_sdc(&bare->tally.data) : (rdt_counted){.at = NAN});
  rdt_table_cell(t, "%s%s", text, bare && !bare->whole ? " (a part)" : "");
  rdt_table_cell(t, "%" PRId64, rdt_count_above(data));
  rdt_table_cell(t, "%" PRId64, data->missed);
  rdt_table_cell(t, "%" PRId64, data->cancelled);
  rdt_table_cell(t, "%" PRId64, data->uncovered);
  if (rdt_count_planted(checker))
    rdt_table_cell(t, "%" PRId64 " of %" PRId64, rdt_count_noticed(checker), rdt_count_dangerous(checker));
  else
    rdt_table_cell(t, "-");
  rdt_table_cell(t, "%" PRId64, f->tally.reports);
  const double overhead = rdt_found_overhead(f);
  rdt_table_cell(t, isnan(overhead) ? "-" : "%.1f %%", 100.0 * overhead);
  rdt_table_cell(t, f->tally.floor_most > 0.0 ? "%.3g" : "-", f->tally.floor_most);
}

/* A name or a story from a file, within a line. */
static void put_text(FILE *to, const char *text) {
  char escaped[2 * 512];
  rdt_text_markdown(text, escaped, sizeof escaped);
  fputs(escaped, to);
}

/* What the table does not say: parts, unprotected campaigns of other faults. */
static void put_notes(FILE *to, const rdt_study *s) {
  char part[160];
  const char *differs;
  for (int i = 0; i < s->n; i++) {
    const rdt_found *f = &s->list[i];
    if (*rdt_found_part(f, part, sizeof part)) {
      fputs("\n**A part, not the whole campaign**: ", to);
      put_text(to, f->label);
      fprintf(to, ": %s.\n", part);
    }
    if (!rdt_study_unprotected(s, f, &differs) && differs) {
      fputs("\nNothing unprotected stands beside ", to);
      put_text(to, f->label);
      fprintf(to, ": the campaign of none on its target has another \"%s\".\n", differs);
    }
  }
}

static void put_misses(FILE *to, const rdt_study *s) {
  char again[1024];
  for (int i = 0; i < s->n; i++) {
    const rdt_found *f = &s->list[i];
    const rdt_trial *m = &f->tally.miss;
    if (!f->tally.has_miss) continue;
    fputs("\nWorst that nobody noticed in ", to);
    put_text(to, f->label);
    fprintf(to, ": trial %" PRId64 ", %s the floor, %s a claim: ", m->id,
            m->effect == RDT_EFFECT_ABOVE ? "above" : "not above", m->claimed ? "inside" : "outside of");
    put_text(to, m->did);
    rdt_found_again(f, m->id, again, sizeof again);
    fprintf(to, "\n\n    %s\n", again);
  }
}

bool rdt_study_markdown(const rdt_study *s, FILE *to) {
  rdt_table *t = rdt_table_create(
      "target|campaign|verdict|fault|>trials|>faults in data|>coverage|>silent|>silent, unprotected|>above the "
      "floor|>missed|>cancelled|>uncovered|>in checks, noticed|>false reports|>overhead|>floor");
  for (int i = 0; i < s->n; i++) put_campaign(t, s, &s->list[i]);
  fputs(
      "# Campaigns\n\nShares are of faults in data; of those in what checks, which cannot be missed, so many were "
      "noticed as had an effect. In parentheses: 95 % Wilson intervals.\n\n",
      to);
  const bool good = rdt_table_print(t, to, true);
  rdt_table_destroy(t);
  put_notes(to, s);
  put_misses(to, s);
  const char *before = "\n"; /* a list begins behind an empty line */
  for (int i = 0; i < s->n && s->fit > 0.0; i++) {
    const rdt_counted sdc = rdt_count_sdc(&s->list[i].tally.data);
    if (isnan(sdc.at)) continue;
    fprintf(to, "%s- Of %.4g raw faults in data in 10^9 hours (FIT), in ", before, s->fit);
    before = "";
    put_text(to, s->list[i].label);
    fprintf(to, ": %.4g silent, at most %.4g\n", s->fit * sdc.at, s->fit * sdc.in.high);
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

typedef struct csv_line {
  const char *of, *name, *hits;
} csv_line;

static void csv_share(FILE *to, rdt_counted c, bool any) {
  if (isnan(c.at) || !any)
    fputs(",,,", to);
  else
    fprintf(to, ",%.9g,%.9g,%.9g", c.at, c.in.low, c.in.high);
}

static void csv_row(FILE *to, const rdt_found *f, csv_line line, const rdt_count *c) {
  char part[160];
  const bool data = strcmp(line.hits, "data") == 0;
  if (!rdt_count_planted(c)) return;
  quoted(to, rdt_json_string(f->head, "target"));
  fputc(',', to);
  quoted(to, f->label);
  fputc(',', to);
  quoted(to, rdt_found_part(f, part, sizeof part));
  fprintf(to, ",%s,", line.of);
  quoted(to, line.name);
  fprintf(to, ",%s,%" PRId64, line.hits, rdt_count_planted(c));
  for (int k = 0; k < RDT_FATE_ABSENT; k++) fprintf(to, ",%" PRId64, c->fate[k]);
  fprintf(to, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, rdt_count_above(c), c->missed, c->cancelled,
          c->uncovered);
  csv_share(to, rdt_count_coverage(c), data);
  csv_share(to, rdt_count_sdc(c), data);
  fputc('\n', to);
}

static void csv_campaign(FILE *to, const rdt_found *f) {
  char text[48];
  const rdt_tally *t = &f->tally;
  csv_row(to, f, (csv_line){"all", "data", "data"}, &t->data);
  csv_row(to, f, (csv_line){"all", "checks", "checks"}, &t->checker);
  for (int k = 0; k < RDT_SITE_COUNT; k++)
    csv_row(to, f, (csv_line){"site", rdt_site_name((rdt_site)k), rdt_site_checks((rdt_site)k) ? "checks" : "data"},
            &t->site[k]);
  for (int k = 0; k < t->n_layers; k++)
    csv_row(to, f, (csv_line){"layer", t->layers[k].name, "data"}, &t->layers[k].count);
  for (int k = 0; k < RDT_FAULT_KIND_COUNT; k++)
    csv_row(to, f, (csv_line){"kind", rdt_fault_kind_name((rdt_fault_kind)k), "data"}, &t->kind[k]);
  for (int k = 0; k < RDT_BITS; k++) {
    snprintf(text, sizeof text, k < RDT_BITS - 1 ? "%d" : "none", k);
    csv_row(to, f, (csv_line){"bit", text, "data"}, &t->bit[k]);
  }
  for (int k = 0; k < RDT_SIZES; k++) {
    rdt_size_text(k, text, sizeof text);
    csv_row(to, f, (csv_line){"size", text, "data"}, &t->size[k]);
  }
}

bool rdt_study_csv(const rdt_study *s, FILE *to) {
  fputs("target,campaign,part,of,name,hits,planted", to);
  for (int k = 0; k < RDT_FATE_ABSENT; k++) fprintf(to, ",%s", rdt_fate_name((rdt_fate)k));
  fputs(",above_floor,missed,cancelled,uncovered,coverage,coverage_low,coverage_high,sdc,sdc_low,sdc_high\n", to);
  for (int i = 0; i < s->n; i++) csv_campaign(to, &s->list[i]);
  return !ferror(to);
}
