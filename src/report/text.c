#include "report/text.h"

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
