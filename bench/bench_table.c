#include "bench_table.h"

#include <math.h>
#include <string.h>

/* CSV doubles quotes, JSON escapes them; control characters do not occur in names. */
static void quoted_part(const rdt_bench_out *o, const char *text, size_t n) {
  const bool csv = o->format == RDT_BENCH_CSV;
  fputc('"', o->to);
  for (; n > 0; text++, n--) {
    if (*text == '"' || (*text == '\\' && !csv)) fputc(csv ? '"' : '\\', o->to);
    fputc(*text, o->to);
  }
  fputc('"', o->to);
}

static void quoted(const rdt_bench_out *o, const char *text) {
  quoted_part(o, text, strlen(text));
}

static size_t key_length(const char *column) {
  return strcspn(column, "|");
}

static const char *heading(const char *column) {
  const char *bar = strchr(column, '|');
  return bar ? bar + 1 : column;
}

void rdt_bench_begin(rdt_bench_out *o, FILE *to, rdt_bench_format format, const char *kind, int version,
                     const char *head) {
  *o = (rdt_bench_out){.to = to, .format = format};
  if (format == RDT_BENCH_JSON) {
    fprintf(to, "{\"schema\": \"redoubt.bench-%s/%d\", \"settings\": ", kind, version);
    quoted(o, head);
    fputs(", \"tables\": [", to);
  } else if (format == RDT_BENCH_CSV) {
    fprintf(to, "# redoubt bench %s %s\n", kind, head);
  } else {
    fprintf(to, "`redoubt bench %s %s`\n", kind, head);
  }
}

static void close_table(rdt_bench_out *o) {
  if (o->tables > 0 && o->format == RDT_BENCH_JSON) fputs("]}", o->to);
}

static void table_head(rdt_bench_out *o, const char *const *columns, int count) {
  o->columns = columns;
  o->count = count;
  o->rows = o->cells = 0;
  if (o->format == RDT_BENCH_JSON) {
    fputs("\"rows\": [", o->to);
  } else if (o->format == RDT_BENCH_CSV) {
    for (int i = 0; i < count; i++) fprintf(o->to, "%s%.*s", i > 0 ? "," : "", (int)key_length(columns[i]), columns[i]);
    fputc('\n', o->to);
  } else {
    fputc('|', o->to);
    for (int i = 0; i < count; i++) fprintf(o->to, " %s |", heading(columns[i]));
    fputs("\n|", o->to);
    for (int i = 0; i < count; i++) fputs(" --- |", o->to);
    fputc('\n', o->to);
  }
}

void rdt_bench_table(rdt_bench_out *o, const char *name, const char *title, const char *const *columns, int count) {
  close_table(o);
  if (o->format == RDT_BENCH_JSON) {
    fputs(o->tables > 0 ? ",\n{\"name\": " : "\n{\"name\": ", o->to);
    quoted(o, name);
    fputs(", \"title\": ", o->to);
    quoted(o, title);
    fputs(", ", o->to);
  } else if (o->format == RDT_BENCH_CSV) {
    fprintf(o->to, "%s# %s: %s\n", o->tables > 0 ? "\n" : "", name, title);
  } else {
    fprintf(o->to, "\n%s\n\n", title);
  }
  table_head(o, columns, count);
  o->tables++;
}

/* What comes before a cell; the row's end comes with its last cell. */
static void before(rdt_bench_out *o) {
  if (o->format == RDT_BENCH_JSON) {
    fputs(o->cells > 0 ? ", " : o->rows > 0 ? ",\n  {" : "\n  {", o->to);
    quoted_part(o, o->columns[o->cells], key_length(o->columns[o->cells]));
    fputs(": ", o->to);
  } else if (o->format == RDT_BENCH_CSV) {
    if (o->cells > 0) fputc(',', o->to);
  } else {
    fputs(o->cells > 0 ? " " : "| ", o->to);
  }
}

static void after(rdt_bench_out *o) {
  if (o->format == RDT_BENCH_MD) fputs(" |", o->to);
  if (++o->cells < o->count) return;
  fputs(o->format == RDT_BENCH_JSON ? "}" : "\n", o->to);
  o->cells = 0;
  o->rows++;
  fflush(o->to);
}

void rdt_bench_text(rdt_bench_out *o, const char *text) {
  before(o);
  if (o->format == RDT_BENCH_MD) {
    fputs(text, o->to);
  } else {
    quoted(o, text);
  }
  after(o);
}

static void number(rdt_bench_out *o, double value, int digits, bool fixed) {
  before(o);
  if (!isfinite(value)) {
    fputs(o->format == RDT_BENCH_JSON ? "null" : o->format == RDT_BENCH_MD ? "-" : "", o->to);
  } else {
    fprintf(o->to, fixed ? "%.*f" : "%.*g", digits, value);
  }
  after(o);
}

void rdt_bench_number(rdt_bench_out *o, double value, int digits) {
  number(o, value, digits, false);
}

void rdt_bench_fixed(rdt_bench_out *o, double value, int digits) {
  number(o, value, digits, true);
}

void rdt_bench_integer(rdt_bench_out *o, long long value) {
  before(o);
  fprintf(o->to, "%lld", value);
  after(o);
}

bool rdt_bench_end(rdt_bench_out *o) {
  close_table(o);
  if (o->format == RDT_BENCH_JSON) fputs("\n]}\n", o->to);
  return fflush(o->to) == 0 && !ferror(o->to);
}
