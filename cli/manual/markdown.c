/* The page docs/commands.md. */
#include <string.h>

#include "manual.h"

static void begin(rdt_page *p, const rdt_command *c) {
  char title[64];
  rdt_command_title(c, ' ', title, sizeof title);
  fprintf(p->to, "\n## %s\n\n%s\n\n    ", title, c->summary);
  rdt_page_synopsis(p, c);
}

static void section(rdt_page *p, const char *title) {
  fprintf(p->to, "\n**%s**\n\n", title);
}

static void paragraph(rdt_page *p, const char *text, size_t n) {
  fputc('\n', p->to);
  for (size_t i = 0; i < n; i++) fputc(text[i] == '\n' ? ' ' : text[i], p->to);
  fputc('\n', p->to);
}

static void lines(rdt_page *p, const char *text, size_t n) {
  fputs("\n    ", p->to);
  for (size_t i = 0; i < n; i++) {
    fputc(text[i], p->to);
    if (text[i] == '\n') fputs("    ", p->to);
  }
  fputc('\n', p->to);
}

static void item(rdt_page *p, const char *name, const char *value, const char *text, int column) {
  (void)column;
  fprintf(p->to, "- `%s%s%s`%s%s\n", name, value && *value ? " " : "", value ? value : "", text ? ": " : "",
          text ? text : "");
}

const rdt_page_style rdt_style_markdown = {
    .begin = begin, .section = section, .paragraph = paragraph, .lines = lines, .item = item};
