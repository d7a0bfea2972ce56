/* A study as one page that needs nothing else: no network, no script. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "campaign/study.h"
#include "report/json.h"
#include "report/text.h"

/* clang-format off: a rule a line */
static const char style[] =
    ":root{color-scheme:light "
    "dark;--bg:#f5f5f2;--card:#fff;--ink:#1c2733;--soft:#576472;--line:#dcdfde;--ok:#26734f;--bad:#ad3327}\n"
    "@media screen and "
    "(prefers-color-scheme:dark){:root{--bg:#12171c;--card:#1a2128;--ink:#e4e8eb;--soft:#9aa7b2;--line:#2d373f}\n"
    ":root{--ok:#5fc294;--bad:#f08573}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,'Segoe "
    "UI',Roboto,Helvetica,Arial,sans-serif}\n"
    "body{font-variant-numeric:tabular-nums;overflow-wrap:anywhere}\n"
    "main{max-width:1160px;margin:0 auto;padding:20px 16px 48px}\n"
    "h1{font-size:28px;line-height:1.2;margin:0 0 8px}h2{font-size:19px;margin:32px 0 6px}\n"
    ".ok{color:var(--ok)}.bad{color:var(--bad)}.soft{color:var(--soft);font-size:13px}\n"
    ".card,figure{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px;margin:0 0 "
    "14px}\n"
    ".wide{overflow-x:auto;padding:0}.pic{overflow-x:auto}\n"
    "figure svg{display:block;width:100%;height:auto;max-width:760px;margin:0 auto}\n"
    "figcaption{color:var(--soft);font-size:13px;margin-top:6px}\n"
    "table{border-collapse:collapse;width:100%;font-size:13px;overflow-wrap:normal}\n"
    "th,td{text-align:right;padding:6px 7px;border-top:1px solid var(--line);vertical-align:top}\n"
    "thead th{border-top:0;color:var(--soft);font-weight:400;vertical-align:bottom}\n"
    "th:first-child,td:first-child,.l{text-align:left}\n"
    "td small{display:block;color:var(--soft);white-space:nowrap}td.v{white-space:nowrap;font-size:inherit}\n"
    "td small.w{white-space:normal;overflow-wrap:anywhere;min-width:12em}\n"
    "code{font:12.5px/1.4 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}\n"
    "@media screen and (max-width:700px){main{padding:12px 10px}h1{font-size:23px}figure{padding:6px}\n"
    "figure svg{min-width:660px}}\n" /* smaller, its words could not be read */
    "@page{size:A4 landscape;margin:12mm}\n"
    "@media print{*{-webkit-print-color-adjust:exact;print-color-adjust:exact}body{background:#fff;font-size:9.5pt}\n"
    "figure,.card,tr{break-inside:avoid}h2{break-after:avoid}thead{display:table-header-group}table{font-size:8pt}main{"
    "max-width:none;padding:0}.wide{overflow:visible;break-inside:auto}\n"
    ".pics{display:grid;grid-template-columns:1fr 1fr;gap:8px;break-before:page}.pics "
    "h2{grid-column:1/-1}figure{margin:0;padding:6px}}\n";
/* clang-format on */

static void put_share(FILE *to, rdt_counted c) {
  if (isnan(c.at))
    fputs("<td>-</td>", to);
  else
    fprintf(to, "<td>%.4g\u00A0%%<small>%.4g to %.4g</small></td>", 100.0 * c.at, 100.0 * c.in.low, 100.0 * c.in.high);
}

/* The worst that a campaign of the study says, for all of them. */
static rdt_judgement judge(const rdt_study *s) {
  static const rdt_judgement order[] = {RDT_JUDGED_FAIL, RDT_JUDGED_MUTE, RDT_JUDGED_PASS, RDT_JUDGED_UNCLAIMED};
  for (size_t k = 0; k < sizeof order / sizeof *order; k++)
    for (int i = 0; i < s->n; i++)
      if (rdt_summary_judge(&s->list[i].tally) == order[k]) return order[k];
  return RDT_JUDGED_MUTE;
}

static void put_head(FILE *to, const rdt_study *s) {
  static const char *const titles[] = {"No miss inside a claim", "A campaign failed", "Nothing was claimed",
                                       "A campaign has no verdict: it hit nothing"};
  int64_t data = 0, checker = 0, missed = 0, checks = 0, reports = 0, clean = 0;
  int parts = 0;
  for (int i = 0; i < s->n; i++) {
    const rdt_tally *t = &s->list[i].tally;
    data += rdt_count_planted(&t->data);
    checker += rdt_count_planted(&t->checker);
    missed += t->data.missed + t->checker.missed;
    checks += t->checks;
    reports += t->reports;
    clean += t->clean;
    parts += !s->list[i].whole;
  }
  const rdt_judgement j = judge(s);
  fprintf(to, "<header class=card><h1 class=%s>%s%s</h1><p>%d campaign%s, %" PRId64 " faults in data",
          j == RDT_JUDGED_PASS && !parts ? "ok" : "bad", titles[j], parts ? ", in a part of its trials" : "", s->n,
          s->n == 1 ? "" : "s", data);
  if (checker) fprintf(to, ", %" PRId64 " in what checks", checker);
  if (clean) fprintf(to, ", %" PRId64 " runs without a fault", clean);
  fprintf(to, "; %" PRId64 " checks. Missed inside claims: %" PRId64 ".", checks, missed);
  if (clean)
    fprintf(to, " False reports: %" PRId64 " (with 95\u00A0%% confidence of at most %.2g\u00A0%% of the runs).",
            reports, 100.0 * rdt_stats_upper(reports, clean, RDT_CONFIDENCE));
  fprintf(to, "</p><p class=soft>%s</p></header>\n", rdt_campaign_caveat);
}

/* Its share, or why there is none. */
static void put_bare(FILE *to, const rdt_study *s, const rdt_found *f) {
  const char *differs;
  const rdt_found *bare = rdt_study_unprotected(s, f, &differs);
  if (bare)
    put_share(to, rdt_count_sdc(&bare->tally.data));
  else if (differs)
    fprintf(to, "<td>-<small class=w>that of none has another %s</small></td>", differs);
  else
    fputs("<td>-</td>", to);
}

/* With the line of a standard that it reaches. */
static void put_coverage(FILE *to, rdt_counted c) {
  const char *reached = NULL;
  if (isnan(c.at)) {
    put_share(to, c);
    return;
  }
  for (int i = 0; i < RDT_STANDARDS; i++)
    if (c.in.low >= rdt_standards[i].share) reached = rdt_standards[i].name;
  fprintf(to, "<td>%.4g\u00A0%%<small>%.4g to %.4g</small>", 100.0 * c.at, 100.0 * c.in.low, 100.0 * c.in.high);
  fprintf(to, "%s%s%s</td>", reached ? "<small>" : "", reached ? reached : "", reached ? "</small>" : "");
}

static void put_campaign(FILE *to, const rdt_study *s, const rdt_found *f) {
  static const char *const looks[] = {"ok", "bad", "soft", "bad"};
  char part[160];
  const rdt_tally *t = &f->tally;
  const rdt_judgement j = rdt_summary_judge(t);
  const double overhead = rdt_found_overhead(f);
  fputs("<tr><td class=l>", to);
  rdt_text_xml(to, f->label);
  fputs("<small class=w>", to);
  rdt_text_xml(to, rdt_json_string(f->head, "target"));
  fputs("</small>", to);
  if (*rdt_found_part(f, part, sizeof part)) fprintf(to, "<small class=\"w bad\">%s</small>", part);
  fprintf(to, "</td><td class=\"l v %s\">%s</td><td>%" PRId64 "</td>", looks[j], rdt_judgement_name(j),
          f->clean ? t->clean : rdt_count_planted(&t->data));
  put_coverage(to, f->clean ? (rdt_counted){.at = NAN} : rdt_count_coverage(&t->data));
  put_share(to, f->clean ? (rdt_counted){.at = NAN} : rdt_count_sdc(&t->data));
  put_bare(to, s, f);
  fprintf(to, "<td>%" PRId64 "</td><td>%" PRId64 "</td><td>%" PRId64 "</td><td>%" PRId64 "</td>",
          rdt_count_above(&t->data), t->data.missed, t->data.cancelled, t->data.uncovered);
  if (rdt_count_planted(&t->checker))
    fprintf(to, "<td>%" PRId64 "<small>%" PRId64 " of %" PRId64 "</small></td>", rdt_count_planted(&t->checker),
            rdt_count_noticed(&t->checker), rdt_count_dangerous(&t->checker));
  else
    fputs("<td>-</td>", to);
  fprintf(to, isnan(overhead) ? "<td>-</td>" : "<td>%.1f\u00A0%%</td>", 100.0 * overhead);
  fprintf(to, t->floor_most > 0.0 ? "<td>%.3g</td>" : "<td>-</td>", t->floor_most);
  fprintf(to, "<td>%" PRId64 "</td></tr>\n", t->reports);
}

static void put_campaigns(FILE *to, const rdt_study *s) {
  fputs(
      "<section><h2>Campaigns</h2><div class=\"card "
      "wide\"><table><thead><tr><th>campaign<th class=l><th>faults in data<th>coverage<th>silent<th>silent, "
      "unprotected<th>above floor<th>missed in claims<th>cancelled there<th>uncov\u00ADered<th>in "
      "checks<th>over\u00ADhead<th>"
      "floor<th>false reports</tr></thead><tbody>\n",
      to);
  for (int i = 0; i < s->n; i++) put_campaign(to, s, &s->list[i]);
  fputs(
      "</tbody></table></div><p class=soft>Shares are of faults in data: those in what checks cannot be missed. "
      "Coverage: noticed, of the faults that were not masked. Silent: further off than rounding can be, and nobody "
      "noticed. Cancelled: single errors are above the floor, but no sum that a check compares. In checks: faults in "
      "what "
      "checks, and of those with an effect the noticed ones. Small: 95\u00A0% Wilson intervals.</p></section>\n",
      to);
}

/* Rates, where the hardware's own is known from elsewhere. */
static void put_rates(FILE *to, const rdt_study *s) {
  if (!(s->fit > 0.0)) return;
  fprintf(
      to,
      "<section><h2>Rates</h2><div class=\"card wide\"><table><thead><tr><th>campaign<th>silent, of %.4g raw faults in "
      "data in 10<sup>9</sup> hours (FIT)<th>at most</tr></thead><tbody>\n",
      s->fit);
  for (int i = 0; i < s->n; i++) {
    const rdt_counted sdc = rdt_count_sdc(&s->list[i].tally.data);
    if (isnan(sdc.at)) continue;
    fputs("<tr><td class=l>", to);
    rdt_text_xml(to, s->list[i].label);
    fprintf(to, "</td><td>%.4g</td><td>%.4g</td></tr>\n", s->fit * sdc.at, s->fit * sdc.in.high);
  }
  fputs("</tbody></table></div></section>\n", to);
}

static void put_miss(FILE *to, const rdt_found *f) {
  const rdt_trial *m = &f->tally.miss;
  char again[1024];
  fputs("<div class=card><b>", to);
  rdt_text_xml(to, f->label);
  fprintf(to, "</b>: trial %" PRId64 ", %s, %s the floor, %s<br>", m->id, rdt_fate_name(m->fate),
          m->effect == RDT_EFFECT_ABOVE       ? "above"
          : m->effect == RDT_EFFECT_CANCELLED ? "cancelled: single errors above"
                                              : "below",
          m->claimed ? "inside a claim" : "outside of claims");
  rdt_text_xml(to, m->did);
  fprintf(to, "<br><span class=soft>weighted error %.4g, floor %.4g. Again:</span><br><code>", m->weighted, m->floor);
  rdt_found_again(f, m->id, again, sizeof again);
  rdt_text_xml(to, again);
  fputs("</code></div>\n", to);
}

static void put_misses(FILE *to, const rdt_study *s) {
  bool any = false;
  for (int i = 0; i < s->n; i++) {
    if (!s->list[i].tally.has_miss) continue;
    if (!any) fputs("<section><h2>The worst that nobody noticed</h2>\n", to);
    any = true;
    put_miss(to, &s->list[i]);
  }
  if (any) fputs("</section>\n", to);
}

static const rdt_count *layer_of(const rdt_found *f, const char *name) {
  for (int k = 0; k < f->tally.n_layers; k++)
    if (strcmp(f->tally.layers[k].name, name) == 0) return &f->tally.layers[k].count;
  return NULL;
}

static bool is_hit(const rdt_study *s, const char *layer) {
  for (int i = 0; i < s->n; i++) {
    const rdt_count *c = layer_of(&s->list[i], layer);
    if (c && rdt_count_planted(c)) return true;
  }
  return false;
}

/* What a layer is vulnerable to, and what each campaign leaves of it. */
static void put_layers(FILE *to, const rdt_study *s) {
  const rdt_tally *first = NULL;
  for (int i = 0; i < s->n && !first; i++)
    if (!s->list[i].clean && s->list[i].tally.n_layers > 1) first = &s->list[i].tally;
  if (!first) return;
  fputs("<section><h2>Layers: what stays silent</h2><div class=\"card wide\"><table><thead><tr><th>layer", to);
  for (int i = 0; i < s->n; i++) {
    if (s->list[i].clean) continue;
    fputs("<th>", to);
    rdt_text_xml(to, s->list[i].label);
  }
  fputs("</tr></thead><tbody>\n", to);
  for (int k = 0; k < first->n_layers; k++) {
    if (!is_hit(s, first->layers[k].name)) continue;
    fputs("<tr><td class=l>", to);
    rdt_text_xml(to, first->layers[k].name);
    fputs("</td>", to);
    for (int i = 0; i < s->n; i++) {
      if (s->list[i].clean) continue;
      const rdt_count *c = layer_of(&s->list[i], first->layers[k].name);
      put_share(to, c ? rdt_count_sdc(c) : (rdt_counted){.at = NAN});
    }
    fputs("</tr>\n", to);
  }
  fputs("</tbody></table></div></section>\n", to);
}

static rdt_status put_plots(FILE *to, const rdt_study *s, rdt_reason *why) {
  fputs("<section class=pics><h2>Pictures</h2>\n", to);
  for (int i = 0; i < RDT_STUDY_PLOTS; i++) {
    char *svg;
    RDT_TRY(rdt_study_plot(s, i, &svg, why));
    if (svg)
      fprintf(to, "<figure><div class=pic>%s</div><figcaption>%s</figcaption></figure>\n", svg,
              rdt_study_plot_caption(i));
    free(svg);
  }
  fputs("</section>\n", to);
  return RDT_OK;
}

/* The policy of the page forbids whatever is not in it: no script runs and nothing is fetched. */
static rdt_status put_page(FILE *to, const rdt_study *s, rdt_reason *why) {
  fprintf(to,
          "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
          "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
          "<title>Campaigns \u00B7 Redoubt</title>\n<style>%s</style></head>\n<body><main>\n",
          style);
  put_head(to, s);
  put_campaigns(to, s);
  put_rates(to, s);
  put_misses(to, s);
  RDT_TRY(put_plots(to, s, why));
  put_layers(to, s);
  fprintf(to, "<footer class=soft>Written by Redoubt %s.</footer>\n</main></body></html>\n", rdt_version());
  return RDT_OK;
}

rdt_status rdt_study_page(const rdt_study *s, char **text, rdt_reason *why) {
  size_t bytes;
  *text = NULL;
  FILE *to = open_memstream(text, &bytes);
  rdt_status status = to ? put_page(to, s, why) : RDT_OK;
  bool whole = to && !ferror(to);
  if (to) whole = fclose(to) == 0 && whole;
  if (status == RDT_OK && !whole) status = rdt_fail(why, RDT_ERR_NOMEM, "out of memory while writing a page");
  if (status != RDT_OK) {
    free(*text);
    *text = NULL;
  }
  return status;
}
