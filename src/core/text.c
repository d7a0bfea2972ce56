#include "core/text.h"

#include <stdbool.h>
#include <stdint.h>

size_t rdt_text_character(const char *s) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char *p = (const unsigned char *)s;
  if (*p < 0x80) return *p >= 0x20 && *p != 0x7F;
  const size_t n = *p >= 0xF0 ? 4 : *p >= 0xE0 ? 3 : 2;
  uint32_t code = *p & (0xFFu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0; /* the end, too */
    code = code << 6 | (p[i] & 0x3F);
  }
  const bool control = code < 0xA0, surrogate = code >= 0xD800 && code < 0xE000, none = (code & 0xFFFE) == 0xFFFE;
  return *p < 0xC0 || *p > 0xF7 || code < least[n] || code > 0x10FFFF || control || surrogate || none ? 0 : n;
}

void rdt_text_tame(char *s, char by) {
  while (*s) {
    const size_t n = rdt_text_character(s);
    if (n == 0) *s = by;
    s += n ? n : 1;
  }
}
