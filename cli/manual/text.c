/* Help on a terminal. */
#include <string.h>

#include "manual.h"

static void begin(rdt_page *p, const rdt_command *c) {
  char title[64];
  const bool program = c == &rdt_cmd_redoubt;
  rdt_command_title(c, ' ', title, sizeof title);
  fprintf(p->to, "%s%s%s: %s\n\nUsage: ", title, program ? " " : "", program ? rdt_version() : "", c->summary);
  rdt_page_synopsis(p, c);
}

static void section(rdt_page *p, const char *title) {
  fprintf(p->to, "\n%s:\n", title);
}

static void word(rdt_page *p, const char *text, size_t n, bool first) {
  (void)first;
  fwrite(text, 1, n, p->to);
}

static void paragraph(rdt_page *p, const char *text, size_t n) {
  fputc('\n', p->to);
  rdt_page_wrap(p, text, n, 0, 0, word);
}

static void lines(rdt_page *p, const char *text, size_t n) {
  fprintf(p->to, "\n%.*s\n", (int)n, text);
}

static void item(rdt_page *p, const char *name, const char *value, const char *text, int column) {
  const bool dashes = name[0] == '-' && name[1] == '-'; /* no letter: long names stand below each other */
  const int used =
      fprintf(p->to, "  %s%s%s%s", dashes ? "    " : "", name, value && *value ? " " : "", value ? value : "");
  const bool below = used + 1 > column;
  if (text && below) fprintf(p->to, "\n%*s", column, "");
  if (!text) {
    fputc('\n', p->to);
    return;
  }
  if (!below) fprintf(p->to, "%*s", column - used, "");
  rdt_page_wrap(p, text, strlen(text), column, column, word);
}

const rdt_page_style rdt_style_text = {
    .width = 100, .begin = begin, .section = section, .paragraph = paragraph, .lines = lines, .item = item};
