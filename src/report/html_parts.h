/* The parts of the page, and what they write with. */
#ifndef RDT_REPORT_HTML_PARTS_H
#define RDT_REPORT_HTML_PARTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A layer of the document in numbers; what is not known is NaN. */
typedef struct rdt_html_layer {
  const cJSON *json;
  const char *name, *scheme, *verdict;
  double seconds, check; /* mean of a run; of which checks, duplicates and repair */
  double ratio;          /* largest residual / bound; NaN: not finite */
  double floor, unit;    /* detection floor, and in units of the typical output */
  double checks;
  bool weights;
} rdt_html_layer;

typedef struct rdt_html {
  FILE *to;
  const cJSON *doc;
  rdt_html_layer *layers;
  int n;
  double slowest, seconds; /* of a layer; of all layers */
} rdt_html;

extern const char rdt_html_style[];

/* html_parts.c: text and numbers; whatever comes from the document goes through these */
void rdt_html_text(const rdt_html *h, const char *text);
void rdt_html_member(const rdt_html *h, const cJSON *o, const char *name); /* a text of the document */
/* Cut in the middle where it is too long for its place; a tooltip has all of it. */
void rdt_html_name(const rdt_html *h, const char *name);
void rdt_html_shape(const rdt_html *h, const cJSON *o);      /* 8 x 32 x 4 x 4 f32 */
void rdt_html_real(const rdt_html *h, double x, int digits); /* 7.45 x 10^37; digits that count */
void rdt_html_count(const rdt_html *h, double x);            /* 12 345 */
void rdt_html_seconds(const rdt_html *h, double x);          /* 1.23 ms */
void rdt_html_percent(const rdt_html *h, double part, double whole);
void rdt_html_badge(const rdt_html *h, const char *verdict);
void rdt_html_plural(const rdt_html *h, double n, const char *one, const char *many);
/* The verdict as a class: none where it is unknown. */
const char *rdt_html_class(const char *verdict);

/* html_layers.c, html_events.c, html_cover.c: sections */
void rdt_html_glance(const rdt_html *h);
void rdt_html_layers(const rdt_html *h);
void rdt_html_events(const rdt_html *h);
void rdt_html_coverage(const rdt_html *h);

#endif
