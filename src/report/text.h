/* Text from files and file systems on its way to documents. */
#ifndef RDT_REPORT_TEXT_H
#define RDT_REPORT_TEXT_H

#include <stdio.h>

/* The text as content or attribute of XML, tamed and escaped. */
void rdt_text_xml(FILE *to, const char *s);
/* The text as it stands within a line or a cell of Markdown: no mark of it is one. Cut where there is no room. */
void rdt_text_markdown(const char *s, char *to, size_t room);

#endif
