/* What a command's table says, as help on a terminal, as a manual page, or as a page of docs/commands.md: one walk over
 * the table, a style for each. */
#ifndef RDT_CLI_MANUAL_H
#define RDT_CLI_MANUAL_H

#include "cli.h"

typedef struct rdt_page rdt_page;
typedef struct rdt_page_style {
  int width;  /* columns of a line */
  bool whole; /* a page that stands alone: environment and what else to read, too */
  void (*begin)(rdt_page *p, const rdt_command *c);
  void (*section)(rdt_page *p, const char *title);
  void (*paragraph)(rdt_page *p, const char *text, size_t n);
  void (*lines)(rdt_page *p, const char *text, size_t n); /* as they are */
  /* value may be NULL or "", so may text; it begins in this column where columns are meant. */
  void (*item)(rdt_page *p, const char *name, const char *value, const char *text, int column);
} rdt_page_style;
extern const rdt_page_style rdt_style_text, rdt_style_man, rdt_style_markdown;

struct rdt_page {
  FILE *to;
  const rdt_page_style *style;
  bool code;  /* between two backticks */
  bool fresh; /* a section has just begun */
};

void rdt_manual_write(FILE *to, const rdt_page_style *style, const rdt_command *c);

/* Words of text[0..n) in lines of at most the style's width; the first one begins at `column`, the others are
 * indented. `word` writes one; first: it begins a line. */
typedef void (*rdt_page_word_fn)(rdt_page *p, const char *word, size_t n, bool first);
void rdt_page_wrap(rdt_page *p, const char *text, size_t n, int column, int indent, rdt_page_word_fn word);

/* "redoubt bench model MODEL.onnx [options]" and the end of the line */
void rdt_page_synopsis(rdt_page *p, const rdt_command *c);
/* "redoubt bench model"; with '-' between the words: the name of its page */
const char *rdt_command_title(const rdt_command *c, char between, char *buf, size_t size);

#endif
