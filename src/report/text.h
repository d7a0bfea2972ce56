/* Text from files and file systems on its way to documents. */
#ifndef RDT_REPORT_TEXT_H
#define RDT_REPORT_TEXT_H

#include <stdio.h>

/* The text as content or attribute of XML, tamed and escaped. */
void rdt_text_xml(FILE *to, const char *s);

#endif
