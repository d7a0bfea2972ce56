/* redoubt report: a report that --report wrote, as text again or as a page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "report/html.h"
#include "run_report.h"

static rdt_status put_page(const cJSON *doc, const char *path, rdt_reason *why) {
  char *text;
  RDT_TRY(rdt_html_page(doc, &text, why));
  rdt_status status = RDT_OK;
  if (strcmp(path, "-") == 0)
    fputs(text, stdout); /* main sees whether it arrived */
  else
    status = rdt_file_write(path, text, strlen(text), "", 0, why);
  free(text);
  return status;
}

static int run(const rdt_command *c, const rdt_settings *settings) {
  const bool pipe = strcmp(settings->operand, "-") == 0;
  rdt_reason why = {""};
  cJSON *doc = NULL;
  rdt_status status = RDT_OK;
  if (rdt_same_file(settings->operand, settings->html))
    status = rdt_fail(&why, RDT_ERR_ARG, "%s would be written over: give the page a file of its own", settings->html);
  if (status == RDT_OK) status = rdt_report_read(pipe ? "/dev/stdin" : settings->operand, &doc, &why);
  if (status == RDT_OK && settings->html)
    status = put_page(doc, settings->html, &why);
  else if (status == RDT_OK)
    status = rdt_run_report_print(doc, settings->format, &why);
  cJSON_Delete(doc);
  return status == RDT_OK ? RDT_EXIT_OK : rdt_cli_fail(c, status, why.text);
}

static const rdt_option_id options[] = {RDT_OPT_HTML, RDT_OPT_FORMAT, RDT_OPT_JSON, RDT_OPT_COUNT};
static const rdt_words files[] = {
    {"REPORT.json",
     "what `redoubt run --report` or `rdt_report_write` wrote (docs/schema/run-1.json); `-`: standard input"},
    {"FILE.html", "of `--html`: whole or not at all. It needs no other file, no network and no script"},
    {NULL, NULL}};
static const rdt_words examples[] = {
    {"redoubt report found.json", "the table and the sentences of that run again"},
    {"redoubt report found.json --html found.html", "a page for a browser, a phone or a printer"},
    {"redoubt report - --html -", "from standard input to standard output"},
    {NULL, NULL}};
const rdt_command rdt_cmd_report = {
    .name = "report",
    .run = run,
    .operand = "REPORT.json",
    .operand_needed = true,
    .options = options,
    .summary = "a report of a run: as text again, or as a page",
    .text =
        "Reads a report that `redoubt run --report` wrote, and prints what the run printed; or writes a page: the "
        "verdict, the "
        "story of every event, time, residuals and detection floors of every layer, what the plan covers and what "
        "not.\n"
        "\n"
        "The exit code tells of this command, not of the run: its own is in the report.",
    .good = "it was read and shown",
    .files = files,
    .examples = examples};
