/* The walk over a command's table. */
#include "manual.h"

#include <string.h>

const char *rdt_command_title(const rdt_command *c, char between, char *buf, size_t size) {
  snprintf(buf, size, *c->name ? "redoubt %s" : "redoubt", c->name);
  for (char *p = buf; *p; p++)
    if (*p == ' ') *p = between;
  return buf;
}

void rdt_page_synopsis(rdt_page *p, const rdt_command *c) {
  char title[64];
  fputs(rdt_command_title(c, ' ', title, sizeof title), p->to);
  if (c->operand) fprintf(p->to, " %s", c->operand);
  fputs(c->commands ? " [arguments]\n" : " [options]\n", p->to);
}

void rdt_page_wrap(rdt_page *p, const char *text, size_t n, int column, int indent, rdt_page_word_fn word) {
  const char *const end = text + n;
  bool first = true;
  while (text < end) {
    const size_t space = strspn(text, " \n");
    text += space < (size_t)(end - text) ? space : (size_t)(end - text);
    size_t length = strcspn(text, " \n");
    if (length > (size_t)(end - text)) length = (size_t)(end - text);
    if (!length) break;
    const bool fits = column + 1 + (int)length <= p->style->width;
    if (!first && fits) fputc(' ', p->to);
    if (!first && !fits) fprintf(p->to, "\n%*s", indent, "");
    word(p, text, length, first || !fits);
    column = (first ? column : fits ? column + 1 : indent) + (int)length;
    first = false;
    text += length;
  }
  fputc('\n', p->to);
}

/* Blocks of lines: those that begin with a space stay as they are, others are one paragraph. */
static void put_text(rdt_page *p, const char *text) {
  while (text && *text) {
    const bool kept = *text == ' ';
    const char *end = text;
    while (*end && *end != '\n' && (*end == ' ') == kept) {
      end += strcspn(end, "\n");
      if (*end) end++;
    }
    const size_t n = (size_t)(end - text) - (end > text && end[-1] == '\n');
    (kept ? p->style->lines : p->style->paragraph)(p, text, n);
    while (*end == '\n') end++;
    text = end;
  }
}

static void put_words(rdt_page *p, const char *title, const rdt_words *words, int most) {
  int column = 0;
  if (!words) return;
  for (const rdt_words *w = words; w->name; w++)
    if ((int)strlen(w->name) + 5 > column) column = (int)strlen(w->name) + 5;
  p->style->section(p, title);
  for (const rdt_words *w = words; w->name; w++)
    p->style->item(p, w->name, NULL, w->text, column < most ? column : most);
}

static void put_commands(rdt_page *p, const rdt_command *c) {
  p->style->section(p, "Commands");
  for (const rdt_command *const *sub = c->commands; *sub; sub++) {
    const char *last = strrchr((*sub)->name, ' ');
    p->style->item(p, last ? last + 1 : (*sub)->name, (*sub)->operand, (*sub)->summary, 32);
  }
}

static void put_option(void *user, const rdt_option_words *o) {
  rdt_page *p = user;
  char name[64];
  const char letter[] = {'-', o->letter, ',', ' ', '\0'};
  snprintf(name, sizeof name, "%s--%s", o->letter ? letter : "", o->name);
  p->style->item(p, name, o->placeholder, o->help, 32);
}

static void put_exits(rdt_page *p, const rdt_command *c) {
  const rdt_words all[] = {{"0", c->good ? c->good : "done"},
                           {"1", c->bad},
                           {"2", "usage, or it could not run: the message says why, and what to do"},
                           {"3", "there is no GPU, or it was lost; a vendor's library failed"},
                           {"4", c->nothing},
                           {"128+N", c->stopped ? c->stopped : "stopped by signal N"}};
  p->style->section(p, "Exit status");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].text) p->style->item(p, all[i].name, NULL, all[i].text, 10);
}

static void put_verdicts(rdt_page *p) {
  p->style->section(p, "Verdicts");
  for (int v = RDT_CLEAN; v <= RDT_DETECTED; v++)
    p->style->item(p, rdt_verdict_name((rdt_verdict)v), NULL, rdt_verdict_meaning((rdt_verdict)v), 15);
}

static void put_environment(rdt_page *p) {
  static const rdt_words environment[] = {
      {"REDOUBT_ISA=generic|avx2|avx512",
       "use no more than this instruction set; refused where the CPU does not have it"},
      {NULL, NULL}};
  put_words(p, "Environment", environment, 40);
}

static size_t add_page(char *text, size_t used, size_t size, const rdt_command *c) {
  char title[64];
  return used + (size_t)snprintf(text + used, size - used, "%s`%s`(1)", used ? ", " : "",
                                 rdt_command_title(c, '-', title, sizeof title));
}

/* The page above, and those below or beside. */
static void put_see(rdt_page *p, const rdt_command *c) {
  char text[1024] = "";
  const rdt_command *const *list = c->commands ? c->commands : rdt_cmd_redoubt.commands;
  size_t used = c == &rdt_cmd_redoubt ? 0 : add_page(text, 0, sizeof text, &rdt_cmd_redoubt);
  for (; *list && used < sizeof text; list++)
    if (*list != c) used = add_page(text, used, sizeof text, *list);
  p->style->section(p, "See also");
  p->style->paragraph(p, text, strlen(text));
}

void rdt_manual_write(FILE *to, const rdt_page_style *style, const rdt_command *c) {
  rdt_page page = {.to = to, .style = style}, *p = &page;
  style->begin(p, c);
  put_text(p, c->text);
  if (c->commands) put_commands(p, c);
  if (c->options) {
    style->section(p, "Options");
    rdt_options_each(c, put_option, p);
  }
  if (c->verdicts) put_verdicts(p);
  put_exits(p, c);
  put_words(p, "Files", c->files, 32);
  if (style->whole || c == &rdt_cmd_redoubt) put_environment(p);
  put_words(p, "Examples", c->examples, 64);
  if (style->whole) put_see(p, c);
}
