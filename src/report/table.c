#include "report/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/text.h"
#include "report/text.h"

enum { MAX_COLUMNS = 24, CELL = 1024 };

struct rdt_table {
  char *headings; /* cut into heading[] */
  const char *heading[MAX_COLUMNS];
  bool right[MAX_COLUMNS];
  int columns;
  char **cell; /* row by row */
  size_t cells, room;
  size_t rule; /* row before which a line is drawn; 0: none */
  bool failed;
};

/* Columns on a terminal: code points, which is right for the scripts of layer names and units used here. */
static int width(const char *s) {
  int n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
  return n;
}

rdt_table *rdt_table_create(const char *columns) {
  rdt_table *t = rdt_calloc(1, sizeof *t);
  if (!t) return NULL;
  t->headings = rdt_strdup(columns);
  if (!t->headings) {
    rdt_free(t);
    return NULL;
  }
  char *rest = t->headings;
  for (char *one; t->columns < MAX_COLUMNS && (one = strsep(&rest, "|")) != NULL; t->columns++) {
    t->right[t->columns] = *one == '>';
    t->heading[t->columns] = one + t->right[t->columns];
  }
  return t;
}

void rdt_table_cell(rdt_table *t, const char *format, ...) {
  char text[CELL];
  va_list args;
  if (!t || t->failed) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  rdt_text_tame(text, '?'); /* a name from a file must not break the table, or reach a terminal */
  if (t->cells == t->room) {
    const size_t room = t->room ? 2 * t->room : 128;
    char **grown = rdt_grow(t->cell, t->room, room, sizeof *grown);
    if (!grown) {
      t->failed = true;
      return;
    }
    t->cell = grown;
    t->room = room;
  }
  t->cell[t->cells] = rdt_strdup(text);
  if (t->cell[t->cells])
    t->cells++;
  else
    t->failed = true;
}

void rdt_table_rule(rdt_table *t) {
  if (t) t->rule = t->cells / (size_t)t->columns;
}

/* What a cell looks like where it is printed. */
static const char *shown(const char *cell, bool markdown, char room[2 * CELL]) {
  if (!markdown) return cell;
  rdt_text_markdown(cell, room, 2 * CELL);
  return room;
}

static void put(FILE *to, const char *s, int pad, bool right) {
  fprintf(to, "%*s%s%*s", right ? pad : 0, "", s, right ? 0 : pad, "");
}

static void put_row(const rdt_table *t, FILE *to, const char *const *cells, const int *wide, bool markdown) {
  char room[2 * CELL];
  if (markdown) fputs("| ", to);
  for (int c = 0; c < t->columns; c++) {
    const char *s = shown(cells[c], markdown, room);
    if (c) fputs(markdown ? " | " : "  ", to);
    const bool last = c == t->columns - 1 && !t->right[c] && !markdown; /* no trailing blanks */
    put(to, s, last ? 0 : wide[c] - width(s), t->right[c]);
  }
  fputs(markdown ? " |\n" : "\n", to);
}

static void put_line(const rdt_table *t, FILE *to, const int *wide, bool markdown) {
  if (markdown) fputs("|", to);
  for (int c = 0; c < t->columns; c++) {
    if (c && !markdown) fputs("  ", to);
    if (markdown) fputs(" ", to);
    for (int i = 0; i < wide[c] - (markdown && t->right[c]); i++) fputc('-', to);
    if (markdown) fputs(t->right[c] ? ": |" : " |", to);
  }
  fputc('\n', to);
}

bool rdt_table_print(const rdt_table *t, FILE *to, bool markdown) {
  int wide[MAX_COLUMNS];
  char room[2 * CELL];
  if (!t || t->failed) return false;
  const size_t columns = (size_t)t->columns, rows = t->cells / columns;
  for (size_t c = 0; c < columns; c++) {
    wide[c] = width(t->heading[c]) > 3 ? width(t->heading[c]) : 3;
    for (size_t r = 0; r < rows; r++) {
      const int w = width(shown(t->cell[r * columns + c], markdown, room));
      if (w > wide[c]) wide[c] = w;
    }
  }
  put_row(t, to, t->heading, wide, markdown);
  put_line(t, to, wide, markdown);
  for (size_t r = 0; r < rows; r++) {
    if (t->rule && r == t->rule && !markdown) put_line(t, to, wide, false);
    put_row(t, to, (const char *const *)t->cell + r * columns, wide, markdown);
  }
  return true;
}

void rdt_table_destroy(rdt_table *t) {
  if (!t) return;
  for (size_t i = 0; i < t->cells; i++) rdt_free(t->cell[i]);
  rdt_free(t->cell);
  rdt_free(t->headings);
  rdt_free(t);
}
