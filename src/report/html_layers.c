/* Layers: all of them at a glance, and one by one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/html_parts.h"
#include "report/json.h"
#include "report/words.h"

enum { WHOLE_TABLE = 60, GROUP = 25, SLOWEST = 8 };

/* Shares of a bar, 0 to 100. Up to the bound linear, beyond it by orders of magnitude. */
enum { BOUND_AT = 70 };
static double near_share(double ratio) {
  if (!isfinite(ratio)) return 100.0;
  if (ratio <= 1.0) return BOUND_AT * ratio;
  return fmin(100.0, BOUND_AT + (100.0 - BOUND_AT) * log10(ratio) / 12.0);
}

/* Floors from 1e-8 of the typical output to 100 times as much. */
enum { UNIT_AT = 80 };
static double floor_share(double unit) {
  if (!(unit > 0.0)) return 0.0;
  return fmin(100.0, fmax(1.0, UNIT_AT + 10.0 * log10(unit)));
}

static bool checked(const rdt_html_layer *l) {
  return l->checks > 0.0;
}

/* Checks by equal bits have neither a bound nor a floor. */
static bool by_bits(const rdt_html_layer *l) {
  return checked(l) && l->floor == 0.0;
}

/* ---- at a glance ---- */

typedef enum panel { TIME, NEAR, FLOOR } panel;

static void put_column(const rdt_html *h, const rdt_html_layer *l, panel p, double x, double wide) {
  double high = 0.0, check = 0.0;
  const char *class_ = p == NEAR ? "r" : p == FLOOR ? "f" : "c";
  if (p == TIME && h->slowest > 0.0) {
    high = 100.0 * l->seconds / h->slowest;
    check = 100.0 * fmin(l->check, l->seconds) / h->slowest;
  } else if (p == NEAR && checked(l)) {
    high = near_share(l->ratio);
    if (!(l->ratio <= 1.0)) class_ = "x";
  } else if (p == FLOOR) {
    high = floor_share(l->unit);
  }
  if (!(high > 0.0)) return;
  high = fmax(high, 0.8);
  fputs("<g><title>", h->to);
  rdt_html_text(h, l->name);
  if (p == TIME) fprintf(h->to, ": %.3g ms, of which checks %.3g ms", 1e3 * l->seconds, 1e3 * l->check);
  if (p == NEAR && isfinite(l->ratio)) fprintf(h->to, ": %.3g of the bound", l->ratio);
  if (p == FLOOR) fprintf(h->to, ": %.2g of its typical output", l->unit);
  fprintf(h->to, "</title><rect class=%s x=%.1f y=%.2f width=%.1f height=%.2f />", class_, x, 100.0 - high, wide,
          high - check);
  if (check > 0.0)
    fprintf(h->to, "<rect class=k x=%.1f y=%.2f width=%.1f height=%.2f />", x, 100.0 - check, wide, check);
  fputs("</g>", h->to);
}

static void put_columns(const rdt_html *h, panel p) {
  const int places = h->n > 12 ? h->n : 12;
  fprintf(h->to, "<svg viewBox=\"0 0 %d 100\" preserveAspectRatio=none role=img aria-label=\"%s\">", 10 * places,
          p == TIME   ? "time of each layer"
          : p == NEAR ? "residual against bound of each layer"
                      : "detection floor of each layer");
  for (int i = 0; i < h->n; i++) put_column(h, &h->layers[i], p, 10.0 * i + 1.0, 8.0);
  if (p != TIME) {
    const int y = 100 - (p == NEAR ? BOUND_AT : UNIT_AT);
    fprintf(h->to, "<path class=l d=\"M0 %dH%d\"/>", y, 10 * places);
  }
  fputs("</svg>", h->to);
}

void rdt_html_glance(const rdt_html *h) {
  const rdt_html_layer *slow = NULL, *near = NULL, *wide = NULL;
  for (int i = 0; i < h->n; i++) {
    const rdt_html_layer *l = &h->layers[i];
    if (!slow || l->seconds > slow->seconds) slow = l;
    if (checked(l) && !by_bits(l) && (!near || !(l->ratio <= near->ratio))) near = l;
    if (l->unit > 0.0 && (!wide || l->unit > wide->unit)) wide = l;
  }
  fputs(
      "<section><h2>Layers at a glance</h2><p class=soft>From the first layer on the left to the last.</p>"
      "<div class=glance><figure class=card><figcaption>Time</figcaption>",
      h->to);
  put_columns(h, TIME);
  fputs(
      "<small><span class=key style=\"--k:var(--compute)\"></span>the layer itself "
      "<span class=key style=\"--k:var(--check)\"></span>checks, duplicates, repair",
      h->to);
  if (slow) {
    fputs("<br>tallest: ", h->to);
    rdt_html_text(h, slow->name);
    fputs(", ", h->to);
    rdt_html_seconds(h, slow->seconds);
  }
  fputs("</small></figure><figure class=card><figcaption>Residual / bound</figcaption>", h->to);
  put_columns(h, NEAR);
  fputs("<small>Linear up to the bound (dashed), by orders of magnitude beyond. ", h->to);
  if (near) {
    fputs("Largest: ", h->to);
    rdt_html_text(h, near->name);
    fputs(", ", h->to);
    rdt_html_real(h, near->ratio, 2);
  } else {
    fputs("No layer has a bound.", h->to);
  }
  fputs("</small></figure><figure class=card><figcaption>Detection floor / typical output</figcaption>", h->to);
  put_columns(h, FLOOR);
  fputs("<small>By orders of magnitude; dashed: as large as the output itself. ", h->to);
  if (wide) {
    fputs("Largest: ", h->to);
    rdt_html_text(h, wide->name);
    fputs(", ", h->to);
    rdt_html_real(h, wide->unit, 2);
  } else {
    fputs("No layer has a floor.", h->to);
  }
  fputs("</small></figure></div></section>\n", h->to);
}

/* ---- one by one ---- */

/* Where there is nothing to draw, its place stays empty. */
static void bar_begin(const rdt_html *h, bool drawn) {
  fputs(drawn ? "<svg class=bar" : "<svg class=\"bar off\"", h->to);
  fputs(" viewBox=\"0 0 100 7\" preserveAspectRatio=none aria-hidden=true>", h->to);
}

static void bar_part(const rdt_html *h, const char *class_, double from, double length) {
  if (length > 0.0) fprintf(h->to, "<rect class=%s x=%.2f width=%.2f height=7 />", class_, from, fmax(length, 0.6));
}

static void bar_end(const rdt_html *h, int mark) {
  if (mark) fprintf(h->to, "<path class=l d=\"M%d 0V7\"/>", mark);
  fputs("</svg><span class=g><span>", h->to);
}

static void put_time(const rdt_html *h, const rdt_html_layer *l) {
  const double scale = h->slowest > 0.0 ? 100.0 / h->slowest : 0.0, check = fmin(l->check, l->seconds);
  fputs("<td class=m data-h=time>", h->to);
  bar_begin(h, true);
  bar_part(h, "k", 0.0, scale * check);
  bar_part(h, "c", scale * check, scale * (l->seconds - check));
  bar_end(h, 0);
  rdt_html_seconds(h, l->seconds);
  fputs("</span><span>", h->to);
  if (l->seconds > 0.0) {
    rdt_html_percent(h, l->check, l->seconds);
    fputs("<span class=more> checks</span>", h->to);
  }
  fputs("</span></span></td>", h->to);
}

static void put_near(const rdt_html *h, const rdt_html_layer *l) {
  fputs("<td class=m data-h=bound>", h->to);
  const bool bounded = checked(l) && !by_bits(l), over = bounded && !(l->ratio <= 1.0);
  bar_begin(h, bounded);
  if (bounded) bar_part(h, over ? "x" : "r", 0.0, near_share(l->ratio));
  bar_end(h, bounded ? BOUND_AT : 0);
  if (!checked(l)) {
    fputs("no check", h->to);
  } else if (by_bits(l)) {
    fputs(l->ratio == 0.0 ? "equal bits" : "bits differed", h->to);
  } else {
    fputs(over ? "<span class=over>" : "<span>", h->to);
    rdt_html_real(h, l->ratio, 2);
    fputs("</span>", h->to);
  }
  fputs("</span><span class=more>", h->to);
  if (checked(l)) rdt_html_plural(h, l->checks, "check", "checks");
  fputs("</span></span></td>", h->to);
}

static void put_floor(const rdt_html *h, const rdt_html_layer *l) {
  fputs("<td class=m data-h=floor>", h->to);
  bar_begin(h, l->unit > 0.0);
  bar_part(h, "f", 0.0, floor_share(l->unit));
  bar_end(h, l->unit > 0.0 ? UNIT_AT : 0);
  if (!checked(l))
    fputs("\u2013", h->to);
  else if (by_bits(l))
    fputs("every bit", h->to);
  else if (l->unit > 0.0)
    rdt_html_real(h, l->unit, 2);
  else
    fputs("?", h->to);
  fputs("</span><span class=more>", h->to);
  if (checked(l) && !by_bits(l)) {
    fputs("= ", h->to);
    rdt_html_real(h, l->floor, 2);
  }
  fputs("</span></span></td>", h->to);
}

static void put_row(const rdt_html *h, const rdt_html_layer *l) {
  const char *verdict = rdt_html_class(l->verdict);
  fprintf(h->to, "<tr class=%s><th scope=row>", verdict);
  rdt_html_name(h, l->name);
  fputs("<small>", h->to);
  rdt_html_member(h, l->json, "op");
  fputs(" \u00B7 ", h->to);
  rdt_html_shape(h, l->json);
  fputs("</small></th><td class=s>", h->to);
  rdt_html_text(h, l->scheme);
  fputs("</td><td class=v>", h->to);
  rdt_html_badge(h, l->verdict);
  fputs("</td>", h->to);
  if (!checked(l) && l->seconds == 0.0) {
    fputs("<td class=z colspan=3>nothing to compute</td>", h->to);
  } else {
    put_time(h, l);
    put_near(h, l);
    put_floor(h, l);
  }
  fputs("</tr>\n", h->to);
}

static void table_begin(const rdt_html *h) {
  fputs(
      "<table><colgroup><col class=w1><col class=w2><col class=w3><col><col><col></colgroup><thead><tr><th "
      "scope=col>Layer"
      "<th scope=col>Scheme<th scope=col>Verdict<th scope=col>Time<th scope=col>Residual / bound"
      "<th scope=col>Floor / typical output</tr></thead><tbody>\n",
      h->to);
}

static void put_table(const rdt_html *h, int from, int to) {
  table_begin(h);
  for (int i = from; i < to; i++) put_row(h, &h->layers[i]);
  fputs("</tbody></table>", h->to);
}

static bool eventful(const rdt_html_layer *l) {
  const rdt_verdict v = rdt_verdict_find(l->verdict);
  return v != RDT_CLEAN && v != RDT_UNCHECKED;
}

/* A line that tells what is inside. */
static void put_group(const rdt_html *h, int from, int to) {
  double seconds = 0.0;
  rdt_verdict worst = RDT_CLEAN;
  bool open = from == 0;
  for (int i = from; i < to; i++) {
    const rdt_verdict v = rdt_verdict_find(h->layers[i].verdict);
    seconds += h->layers[i].seconds;
    if (v > worst) worst = v;
    open = open || eventful(&h->layers[i]);
  }
  fprintf(h->to, "<details class=group%s><summary><b>Layers %d\u2013%d</b>", open ? " open" : "", from + 1, to);
  rdt_html_name(h, h->layers[from].name);
  fputs("<small>", h->to);
  rdt_html_percent(h, seconds, h->seconds);
  fputs(" of the time</small>", h->to);
  rdt_html_badge(h, rdt_verdict_name(worst));
  fputs("</summary>", h->to);
  put_table(h, from, to);
  fputs("</details>\n", h->to);
}

static int by_time(const void *a, const void *b) {
  const rdt_html_layer *x = *(const rdt_html_layer *const *)a, *y = *(const rdt_html_layer *const *)b;
  return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static void put_slowest(const rdt_html *h) {
  const rdt_html_layer **order = calloc((size_t)h->n, sizeof *order);
  if (!order) return;
  for (int i = 0; i < h->n; i++) order[i] = &h->layers[i];
  qsort(order, (size_t)h->n, sizeof *order, by_time);
  fprintf(h->to, "<h2>The %d slowest layers</h2><div class=\"card layers\">", SLOWEST);
  table_begin(h);
  for (int i = 0; i < SLOWEST; i++) put_row(h, order[i]);
  fputs("</tbody></table></div>", h->to);
  free(order);
}

void rdt_html_layers(const rdt_html *h) {
  fputs("<section>", h->to);
  if (h->n > WHOLE_TABLE) put_slowest(h);
  fputs("<h2>Every layer</h2><p class=soft>", h->to);
  rdt_html_plural(h, h->n, "layer", "layers");
  fputs(", in the order in which they run", h->to);
  if (rdt_json_real(h->doc, "runs") > 1.0) fputs("; times are means of the runs", h->to);
  fputs(".</p><div class=\"card layers\">", h->to);
  if (h->n <= WHOLE_TABLE)
    put_table(h, 0, h->n);
  else
    for (int i = 0; i < h->n; i += GROUP) put_group(h, i, i + GROUP < h->n ? i + GROUP : h->n);
  fputs("</div></section>\n", h->to);
}
