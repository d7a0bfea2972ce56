#include "report/html_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "report/json.h"
#include "report/text.h"
#include "report/words.h"

void rdt_html_text(const rdt_html *h, const char *text) {
  rdt_text_xml(h->to, text);
}

void rdt_html_member(const rdt_html *h, const cJSON *o, const char *name) {
  rdt_html_text(h, rdt_json_string(o, name));
}

static void part(const rdt_html *h, const char *from, size_t length) {
  char buf[64];
  while (length > 0) {
    size_t n = 0;
    while (n < length) { /* whole characters */
      const size_t one = rdt_text_character(from + n) ? rdt_text_character(from + n) : 1;
      if (n + one >= sizeof buf) break;
      n += one;
    }
    memcpy(buf, from, n);
    buf[n] = '\0';
    rdt_html_text(h, buf);
    from += n;
    length -= n;
  }
}

/* The last characters of a name are a part that never gives way: names of layers differ at the end. */
void rdt_html_name(const rdt_html *h, const char *name) {
  enum { WHOLE = 18, TAIL = 12 };
  const size_t length = strlen(name);
  size_t head = length;
  if (length > WHOLE)
    for (head = 0; head < length - TAIL;) head += rdt_text_character(name + head) ? rdt_text_character(name + head) : 1;
  fputs("<span class=n title=\"", h->to);
  rdt_html_text(h, name);
  fputs("\"><bdi>", h->to);
  part(h, name, head);
  fputs("</bdi>", h->to);
  if (head < length) {
    fputs("<bdi>", h->to);
    part(h, name + head, length - head);
    fputs("</bdi>", h->to);
  }
  fputs("</span>", h->to);
}

void rdt_html_shape(const rdt_html *h, const cJSON *o) {
  char shape[256];
  fputs(rdt_json_shape_text(cJSON_GetObjectItemCaseSensitive(o, "shape"), "\u00D7", shape, sizeof shape), h->to);
  fputc(' ', h->to);
  rdt_html_member(h, o, "dtype");
}

void rdt_html_real(const rdt_html *h, double x, int digits) {
  char text[32];
  if (!isfinite(x)) {
    fputs("not finite", h->to);
  } else if (x == 0.0 || (fabs(x) >= 0.001 && fabs(x) < 99999.5)) {
    fprintf(h->to, "%.*g", fabs(x) < 999.5 ? digits : 5, x);
  } else {
    snprintf(text, sizeof text, "%.*e", digits - 1, x);
    char *e = strchr(text, 'e');
    *e = '\0';
    fprintf(h->to, "%s\u00B710<sup>%s%d</sup>", text, e[1] == '-' ? "\u2212" : "", atoi(e + 2));
  }
}

void rdt_html_count(const rdt_html *h, double x) {
  char digits[40];
  const int n = snprintf(digits, sizeof digits, "%.0f", isfinite(x) ? x : 0.0);
  for (int i = 0; i < n && i < (int)sizeof digits; i++) {
    fputc(digits[i], h->to);
    if (i + 1 < n && (n - i - 1) % 3 == 0 && digits[i] != '-') fputs("\u202F", h->to);
  }
}

void rdt_html_seconds(const rdt_html *h, double x) {
  static const struct {
    double unit;
    const char *name;
  } units[] = {{1.0, "s"}, {1e-3, "ms"}, {1e-6, "\u00B5s"}};
  if (!(x > 0.0)) {
    fputs(x == 0.0 ? "0" : "?", h->to);
    return;
  }
  int i = 0;
  while (i < 2 && x < units[i].unit) i++;
  const double value = x / units[i].unit;
  fprintf(h->to, "%.*f\u00A0%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[i].name);
}

void rdt_html_percent(const rdt_html *h, double part, double whole) {
  const double share = whole > 0.0 ? 100.0 * part / whole : 0.0;
  if (share > 0.0 && share < 0.05)
    fputs("&lt;\u00A00.1\u00A0%", h->to);
  else
    fprintf(h->to, share > 0.0 && share < 0.95 ? "%.1f\u00A0%%" : "%.0f\u00A0%%", share);
}

const char *rdt_html_class(const char *verdict) {
  const rdt_verdict v = rdt_verdict_find(verdict);
  return v <= RDT_DETECTED ? rdt_verdict_name(v) : "";
}

void rdt_html_badge(const rdt_html *h, const char *verdict) {
  const char *name = rdt_html_class(verdict);
  fprintf(h->to, "<span class=\"b %s\">%s</span>", name, name);
}

void rdt_html_plural(const rdt_html *h, double n, const char *one, const char *many) {
  rdt_html_count(h, n);
  fprintf(h->to, " %s", n == 1.0 ? one : many);
}
