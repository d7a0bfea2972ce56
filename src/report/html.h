/* A report as a page that needs nothing else: no network, no script. */
#ifndef RDT_REPORT_HTML_H
#define RDT_REPORT_HTML_H

#include <cjson/cJSON.h>

#include "core/error.h"

/* Of a document that rdt_report_document made or rdt_report_read accepted. The text is freed with free(). */
rdt_status rdt_html_page(const cJSON *doc, char **text, rdt_reason *why);

#endif
