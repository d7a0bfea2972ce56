/* Manual pages: the man(7) macros. */
#include <ctype.h>
#include <string.h>

#include "manual.h"

/* Text between backticks is bold; dashes that somebody types stay dashes; no line begins with a control character. */
static void word(rdt_page *p, const char *text, size_t n, bool first) {
  const size_t start = strspn(text, "([`\"'");
  const bool option = start < n && text[start] == '-';
  if (first && (*text == '.' || *text == '\'')) fputs("\\&", p->to);
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '`') {
      p->code = !p->code;
      fputs(p->code ? "\\fB" : "\\fR", p->to);
    } else if (text[i] == '-' && (p->code || option)) {
      fputs("\\-", p->to);
    } else if (text[i] == '\\') {
      fputs("\\e", p->to);
    } else {
      fputc(text[i], p->to);
    }
  }
}

/* A whole text as one font, every dash a dash. */
static void typed(rdt_page *p, char font, const char *text, size_t n) {
  fprintf(p->to, "\\f%c", font);
  for (size_t i = 0; i < n; i++)
    fputs(text[i] == '-' ? "\\-" : text[i] == '\\' ? "\\e" : (const char[]){text[i], '\0'}, p->to);
  fputs("\\fR", p->to);
}

static void begin(rdt_page *p, const rdt_command *c) {
  char title[64], upper[64];
  rdt_command_title(c, '-', title, sizeof title);
  for (size_t i = 0; i < sizeof title; i++) upper[i] = (char)toupper((unsigned char)title[i]);
  fprintf(p->to, ".\\\" written by redoubt_manual from the tables in cli/; change those\n");
  fprintf(p->to, ".TH %s 1 \"\" \"redoubt %s\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n", upper, rdt_version());
  word(p, title, strlen(title), true);
  fputs(" \\- ", p->to);
  rdt_page_wrap(p, c->summary, strlen(c->summary), 0, 0, word);
  fputs(".SH SYNOPSIS\n", p->to);
  rdt_command_title(c, ' ', title, sizeof title);
  typed(p, 'B', title, strlen(title));
  if (c->operand) {
    fputc(' ', p->to);
    typed(p, 'I', c->operand, strlen(c->operand));
  }
  fputs(c->commands ? " [\\fIarguments\\fR]" : " [\\fIoptions\\fR]", p->to);
  if (c->text) fputs("\n.SH DESCRIPTION", p->to);
  fputc('\n', p->to);
  p->fresh = true;
}

static void section(rdt_page *p, const char *title) {
  fputs(".SH \"", p->to);
  for (; *title; title++) fputc(toupper((unsigned char)*title), p->to);
  fputs("\"\n", p->to);
  p->fresh = true;
}

static void new_block(rdt_page *p) {
  if (!p->fresh) fputs(".PP\n", p->to);
  p->fresh = false;
}

static void paragraph(rdt_page *p, const char *text, size_t n) {
  new_block(p);
  rdt_page_wrap(p, text, n, 0, 0, word);
}

static void lines(rdt_page *p, const char *text, size_t n) {
  new_block(p);
  fputs(".nf\n", p->to);
  for (const char *line = text; line < text + n;) {
    const size_t left = (size_t)(text + n - line);
    size_t length = strcspn(line, "\n");
    if (length > left) length = left;
    typed(p, 'R', line, length);
    fputc('\n', p->to);
    line += length + 1;
  }
  fputs(".fi\n", p->to);
}

static void item(rdt_page *p, const char *name, const char *value, const char *text, int column) {
  (void)column;
  if (text)
    fputs(".TP\n", p->to);
  else
    new_block(p);
  p->fresh = false;
  typed(p, 'B', name, strlen(name));
  if (value && *value) {
    fputc(' ', p->to);
    typed(p, 'I', value, strlen(value));
  }
  fputc('\n', p->to);
  if (text) rdt_page_wrap(p, text, strlen(text), 0, 0, word);
}

const rdt_page_style rdt_style_man = {.width = 78,
                                      .whole = true,
                                      .begin = begin,
                                      .section = section,
                                      .paragraph = paragraph,
                                      .lines = lines,
                                      .item = item};
