/* Text from files and file systems on its way to people and to documents. */
#ifndef RDT_CORE_TEXT_H
#define RDT_CORE_TEXT_H

#include <stddef.h>

/* Bytes of the UTF-8 character at s, 0 where there is none: control characters, what is not UTF-8, the end. */
size_t rdt_text_character(const char *s);
/* Whatever rdt_text_character refuses becomes `by`: it would break a table or a document, or reach a terminal. */
void rdt_text_tame(char *s, char by);

#endif
