/* The story of every event, in sentences. */
#include <math.h>
#include <string.h>

#include "report/html_parts.h"
#include "report/json.h"
#include "report/words.h"

enum { OPEN_EVENTS = 20, MAX_RANK = 8 };

static bool is(const cJSON *o, const char *name, const char *value) {
  return strcmp(rdt_json_string(o, name), value) == 0;
}

/* Row-major number as an index: [2, 28, 0, 1] */
static void put_element(const rdt_html *h, const cJSON *event, double element) {
  double shape[MAX_RANK], index[MAX_RANK];
  int rank = 0;
  const cJSON *one;
  cJSON_ArrayForEach(one, rdt_json_list(event, "shape")) {
    if (rank == MAX_RANK || !cJSON_IsNumber(one) || one->valuedouble < 1.0) return;
    shape[rank++] = one->valuedouble;
  }
  double rest = element;
  for (int i = rank - 1; i >= 0; i--) {
    index[i] = fmod(rest, shape[i]);
    rest = floor(rest / shape[i]);
  }
  fputs("Element ", h->to);
  if (rest > 0.0 || rank == 0) {
    rdt_html_count(h, element);
    return;
  }
  for (int i = 0; i < rank; i++) fprintf(h->to, "%s%.0f", i ? ", " : "[", index[i]);
  fputs("]", h->to);
}

static void put_where(const rdt_html *h, const cJSON *e) {
  const double core = rdt_json_real(e, "core"), run = rdt_json_real(e, "run");
  fputs("<p class=soft>", h->to);
  if (run >= 1.0)
    fprintf(h->to, "Run %.0f", run);
  else
    fputs("A run that warmed up", h->to);
  const char *time = rdt_json_string(e, "time"); /* 2026-01-31T12:00:00.250Z */
  if (*time) {
    fputs(" \u00B7 ", h->to);
    rdt_html_text(h, time);
  }
  if (core >= 0.0) fprintf(h->to, " \u00B7 core %.0f", core);
  if (*rdt_json_string(e, "device")) {
    fputs(" \u00B7 ", h->to);
    rdt_html_member(h, e, "device");
    fprintf(h->to, " multiprocessor %.0f", rdt_json_real(e, "multiprocessor"));
  }
  fputs(" \u00B7 layer <bdi>", h->to);
  rdt_html_member(h, e, "layer");
  fputs("</bdi>, ", h->to);
  rdt_html_member(h, e, "op");
  fputs(" to ", h->to);
  rdt_html_shape(h, e);
  fputs(" \u00B7 scheme ", h->to);
  rdt_html_member(h, e, "scheme");
  fputs(" \u00B7 kernel ", h->to);
  rdt_html_member(h, e, "kernel");
  fputs("</p>", h->to);
}

/* What the check saw. */
static void put_seen(const rdt_html *h, const cJSON *e) {
  const double residual = rdt_json_real(e, "residual"), bound = rdt_json_real(e, "bound");
  const double rigorous = rdt_json_real(e, "bound_rigorous");
  if (is(e, "kind", "unchecked") || is(e, "kind", "fallback")) return;
  if (residual == 0.0 && bound == 0.0) {
    fputs("Bits that must be equal were not. ", h->to);
    return;
  }
  fputs("The check was off by <b>", h->to);
  if (isfinite(residual))
    rdt_html_real(h, residual, 3);
  else
    fputs("more than any number", h->to);
  fputs("</b>; rounding explains up to ", h->to);
  rdt_html_real(h, bound, 3);
  if (isfinite(rigorous) && rigorous > 0.0) {
    fputs(", and never more than ", h->to);
    rdt_html_real(h, rigorous, 3);
  }
  fputs(". ", h->to);
}

/* Which element, what it was and is. */
static void put_values(const rdt_html *h, const cJSON *e) {
  const cJSON *location = cJSON_GetObjectItemCaseSensitive(e, "location");
  const cJSON *actual = cJSON_GetObjectItemCaseSensitive(e, "actual");
  const double element = rdt_json_real(location, "element"), changed = rdt_json_real(e, "changed");
  const double row = rdt_json_real(location, "row"), column = rdt_json_real(location, "column");
  const double rebuilt = rdt_json_real(e, "corrected_bound");
  if (element >= 0.0) {
    put_element(h, e, element);
    if (actual) {
      fputs(" was <b>", h->to);
      rdt_html_real(h, rdt_json_real(e, "actual"), 3);
      fputs("</b> and should be <b>", h->to);
      rdt_html_real(h, rdt_json_real(e, "expected"), 3);
      fputs("</b>. ", h->to);
    } else {
      fputs(" was hit. ", h->to);
    }
  } else if (row >= 0.0 || column >= 0.0) {
    fputs("Place: ", h->to);
    if (row >= 0.0) fprintf(h->to, "row %.0f", row);
    if (column >= 0.0) fprintf(h->to, "%scolumn %.0f", row >= 0.0 ? ", " : "", column);
    fputs(". ", h->to);
  }
  if (rebuilt > 0.0) {
    fputs("No rebuilt value is further than <b>", h->to);
    rdt_html_real(h, rebuilt, 3);
    fputs("</b> from the one without the fault. ", h->to);
  }
  if (changed >= 1.0 && is(e, "action", "reported")) {
    rdt_html_plural(h, changed, "element differs", "elements differ");
    fputs(" from the result that was computed again; nothing was repaired.", h->to);
  } else if (changed >= 1.0) {
    fputs("The repair changed ", h->to);
    rdt_html_plural(h, changed, "element", "elements");
    fputs(" of the result.", h->to);
  } else if (changed == 0.0) {
    fputs("No element of the result had to change.", h->to);
  }
}

static const struct {
  const char *name, *text, *class_, *mark;
} outcomes[] = {
    {"intact", "as they should be", "good", "\u2713"},
    {"restored", "some had changed; they were put in order", "good", "\u2713"},
    {"lost", "some had changed and could not be put in order", "poor", "\u2717"},
    {"passed", "the new result passed its checks", "good", "\u2713"},
    {"failed", "the new result failed its checks", "poor", "\u2717"},
    {"agreed", "the same result as before", "good", "\u2713"},
    {"unchecked", "the new result could not be checked", "poor", "\u2013"},
    {"declined", "what was hit could not be located", "soft", "\u2013"},
};
enum { OUTCOMES = sizeof outcomes / sizeof *outcomes };

static void put_rungs(const rdt_html *h, const cJSON *e) {
  const cJSON *rungs = rdt_json_list(e, "rungs"), *rung;
  if (!rungs || !rungs->child) return;
  fputs("<ol class=rungs>", h->to);
  cJSON_ArrayForEach(rung, rungs) {
    const char *name = rdt_json_string(rung, "name"), *outcome = rdt_json_string(rung, "outcome");
    const char *meaning = rdt_rung_meaning(name);
    int i = 0;
    while (i < OUTCOMES && strcmp(outcomes[i].name, outcome) != 0) i++;
    fprintf(h->to, "<li><b class=%s>%s</b><span>", i < OUTCOMES ? outcomes[i].class_ : "soft",
            i < OUTCOMES ? outcomes[i].mark : "\u00B7");
    rdt_html_text(h, *meaning ? meaning : name);
    fputs(": ", h->to);
    rdt_html_text(h, i < OUTCOMES ? outcomes[i].text : outcome);
    fputs("</span><span class=t>", h->to);
    rdt_html_seconds(h, rdt_json_real(rung, "seconds"));
    fputs("</span></li>", h->to);
  }
  fputs("</ol>", h->to);
}

static void put_end(const rdt_html *h, const cJSON *e) {
  const char *diagnosis = rdt_json_string(e, "diagnosis"), *meaning = rdt_diagnosis_meaning(diagnosis);
  fputs("<p>", h->to);
  if (!is(e, "diagnosis", "none")) {
    fputs("Diagnosis: <b>", h->to);
    rdt_html_text(h, diagnosis);
    fputs("</b>", h->to);
    if (*meaning) fprintf(h->to, " \u2013 %s", meaning);
    fputs(". ", h->to);
  }
  fputs("Verdict on the layer: ", h->to);
  rdt_html_badge(h, rdt_json_string(e, "verdict"));
  fputs("</p>", h->to);
}

static void put_body(const rdt_html *h, const cJSON *e) {
  put_where(h, e);
  fputs("<p>", h->to);
  put_seen(h, e);
  put_values(h, e);
  fputs("</p>", h->to);
  put_rungs(h, e);
  put_end(h, e);
}

/* One that is folded shows its sentence. */
static void put_event(const rdt_html *h, const cJSON *e, bool open) {
  const char *class_ = rdt_html_class(rdt_json_string(e, "verdict"));
  fprintf(h->to, open ? "<article class=\"card e %s\"><h3>" : "<details class=\"card e %s\"><summary>", class_);
  rdt_html_member(h, e, "text");
  fputs(open ? "</h3>" : "</summary>", h->to);
  put_body(h, e);
  fputs(open ? "</article>\n" : "</details>\n", h->to);
}

static void put_suspects(const rdt_html *h, int suspects) {
  const cJSON *e;
  fprintf(h->to,
          "<details class=\"card e CLEAN\"><summary>%d suspect%s that computing again explained as rounding</summary>",
          suspects, suspects == 1 ? "" : "s");
  fputs("<ul class=plain>", h->to);
  cJSON_ArrayForEach(e, rdt_json_list(h->doc, "events")) {
    if (!is(e, "kind", "suspect")) continue;
    fputs("<li>", h->to);
    rdt_html_member(h, e, "text");
    fputs("</li>", h->to);
  }
  fputs("</ul></details>\n", h->to);
}

static void put_summary(const rdt_html *h, int told, int suspects) {
  const double faults = rdt_json_real(h->doc, "faults"), missing = rdt_json_real(h->doc, "events_left_out");
  const cJSON *planted = cJSON_GetObjectItemCaseSensitive(h->doc, "fault");
  fputs("<p class=soft>", h->to);
  if (told == 0 && suspects == 0 && !(missing > 0.0))
    fputs(rdt_json_real(h->doc, "checks") > 0.0 ? "Nothing: no check complained." : "Nothing was checked.", h->to);
  else if (faults > 0.0) {
    rdt_html_plural(h, faults, "fault was found", "faults were found");
    fputs(". Each story says what a check saw, what was tried then and how long it took, and what settled it.", h->to);
  } else
    fputs("No fault was found.", h->to);
  if (missing > 0.0) {
    fputs(" Not all is told here: ", h->to);
    rdt_html_plural(h, missing, "more event was", "more events were");
    fputs(" counted only.", h->to);
  }
  fputs("</p>", h->to);
  if (!planted) return;
  fputs("<p class=soft>A fault was planted on purpose (<code>", h->to);
  rdt_html_member(h, planted, "spec");
  fputs("</code>): ", h->to);
  rdt_html_member(h, planted, "did");
  fputs("</p>", h->to);
}

void rdt_html_events(const rdt_html *h) {
  const cJSON *e;
  int told = 0, suspects = 0;
  cJSON_ArrayForEach(e, rdt_json_list(h->doc, "events")) {
    if (is(e, "kind", "suspect"))
      suspects++;
    else
      told++;
  }
  fputs("<section><h2>What happened</h2>", h->to);
  put_summary(h, told, suspects);
  int shown = 0;
  cJSON_ArrayForEach(e, rdt_json_list(h->doc, "events")) {
    if (!is(e, "kind", "suspect")) put_event(h, e, shown++ < OPEN_EVENTS);
  }
  if (suspects) put_suspects(h, suspects);
  fputs("</section>\n", h->to);
}
