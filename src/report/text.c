#include "report/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "core/text.h"

void rdt_text_xml(FILE *to, const char *s) {
  static const char special[] = "&<>\"'";
  static const char *const escaped[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
  while (*s) {
    const size_t n = rdt_text_character(s);
    const char *mark = n == 1 ? strchr(special, *s) : NULL;
    if (mark)
      fputs(escaped[mark - special], to);
    else if (n)
      fwrite(s, 1, n, to);
    else
      fputc('?', to);
    s += n ? n : 1;
  }
}

/* An underline within a word is none to Markdown, and names are full of them. */
static bool is_mark(const char *s, char before) {
  if (*s == '_') return !isalnum((unsigned char)before) || !isalnum((unsigned char)s[1]);
  return *s != '\0' && strchr("\\`*<|[]~&", *s) != NULL;
}

void rdt_text_markdown(const char *s, char *to, size_t room) {
  char before = ' ';
  while (*s) {
    const size_t n = rdt_text_character(s);
    const bool mark = n == 1 && is_mark(s, before);
    if (room < (n ? n : 1) + mark + 1) break;
    if (mark) *to++ = '\\';
    if (n)
      memcpy(to, s, n);
    else
      *to = '?';
    to += n ? n : 1;
    room -= (n ? n : 1) + mark;
    before = *s;
    s += n ? n : 1;
  }
  if (room > 0) *to = '\0';
}
