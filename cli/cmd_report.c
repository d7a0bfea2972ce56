/* redoubt report: a report that --report wrote, as text again or as a page. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "campaign/study.h"
#include "campaign_text.h"
#include "core/file.h"
#include "core/memory.h"
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

/* ---- folders of campaigns ---- */

/* To a file, whole or not at all, or to standard output. */
static rdt_status put_text(const char *path, const char *text, rdt_reason *why) {
  if (strcmp(path, "-") != 0) return rdt_file_write(path, text, strlen(text), "", 0, why);
  fputs(text, stdout);
  return RDT_OK;
}

static rdt_status put_by(const rdt_study *study, bool (*write)(const rdt_study *s, FILE *to), const char *path,
                         rdt_reason *why) {
  char *text = NULL;
  size_t bytes;
  FILE *to = open_memstream(&text, &bytes);
  bool whole = to && write(study, to);
  if (to) whole = fclose(to) == 0 && whole;
  const rdt_status status = whole ? put_text(path, text, why) : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  free(text);
  return status;
}

static rdt_status put_pictures(const rdt_study *study, const char *dir, rdt_reason *why) {
  char path[4096];
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    return rdt_fail(why, RDT_ERR_IO, "%.300s: cannot be made: %s", dir, strerror(errno));
  for (int i = 0; i < RDT_STUDY_PLOTS; i++) {
    char *svg;
    RDT_TRY(rdt_study_plot(study, i, &svg, why));
    const int n = snprintf(path, sizeof path, "%s/%s.svg", dir, rdt_study_plot_name(i));
    const rdt_status status = svg && n < (int)sizeof path ? put_text(path, svg, why) : RDT_OK;
    free(svg);
    RDT_TRY(status);
  }
  return RDT_OK;
}

/* The rate without protection beside a campaign with it, or in what the campaign of none differs. */
static void add_bare(cJSON *row, const rdt_study *study, const rdt_found *f) {
  const char *differs;
  const rdt_found *bare = rdt_study_unprotected(study, f, &differs);
  if (bare == f || (!bare && !differs)) return;
  cJSON *o = cJSON_AddObjectToObject(row, "unprotected");
  if (!bare) {
    cJSON_AddStringToObject(o, "differs", differs);
    return;
  }
  const rdt_counted sdc = rdt_count_sdc(&bare->tally.data);
  rdt_json_number(o, "sdc_share", sdc.at);
  cJSON_AddNumberToObject(o, "sdc_share_low", sdc.in.low);
  cJSON_AddNumberToObject(o, "sdc_share_high", sdc.in.high);
  cJSON_AddBoolToObject(o, "whole", bare->whole);
}

static rdt_status put_document(const rdt_study *study, double fit, rdt_reason *why) {
  cJSON *doc = cJSON_CreateObject();
  cJSON_AddStringToObject(doc, "schema", "redoubt.campaigns/3");
  cJSON *rows = cJSON_AddArrayToObject(doc, "rows");
  for (int i = 0; i < study->n; i++) {
    const rdt_found *f = &study->list[i];
    cJSON *row = rdt_summary_json(f->head, &f->tally, fit, f->repairs);
    char shards[64];
    rdt_found_shards(f, shards, sizeof shards);
    cJSON_AddStringToObject(row, "shards_present", shards);
    add_bare(row, study, f);
    cJSON_AddItemToArray(rows, row);
  }
  const rdt_status status = rdt_json_print(doc, why);
  cJSON_Delete(doc);
  return status;
}

/* The rate beside it, where nothing was protected. */
static void put_bare(const rdt_study *study, const rdt_found *f) {
  const char *differs;
  const rdt_found *bare = rdt_study_unprotected(study, f, &differs);
  if (differs) printf("unprotected beside: none: the campaign of none on this target has another \"%s\"\n", differs);
  if (!bare || bare == f) return;
  const rdt_counted sdc = rdt_count_sdc(&bare->tally.data);
  printf("unprotected beside: %.4g %% of the faults in data are silent corruptions (95 %%: %.4g to %.4g %%)%s\n",
         100.0 * sdc.at, 100.0 * sdc.in.low, 100.0 * sdc.in.high, bare->whole ? "" : ", of a part of its trials");
}

static bool put_campaign(const rdt_study *study, int i, const rdt_settings *s) {
  const rdt_found *f = &study->list[i];
  char shards[64], part[160];
  rdt_found_shards(f, shards, sizeof shards);
  printf("%s%s: %s, seed %.0f, shard %s\n\n", i ? "\n" : "", rdt_json_string(f->head, "target"), f->label,
         rdt_json_real(f->head, "seed"), shards);
  if (*rdt_found_part(f, part, sizeof part)) printf("A PART, not the whole campaign: %s\n\n", part);
  if (!rdt_campaign_put(&f->tally, f->repairs, s->format == RDT_FORMAT_MD, true, s->fit)) return false;
  put_bare(study, f);
  return true;
}

static rdt_status show(const rdt_study *study, const rdt_settings *s, rdt_reason *why) {
  if (s->html) {
    char *text;
    RDT_TRY(rdt_study_page(study, &text, why));
    const rdt_status status = put_text(s->html, text, why);
    free(text);
    RDT_TRY(status);
  }
  if (s->svg) RDT_TRY(put_pictures(study, s->svg, why));
  if (s->csv) RDT_TRY(put_by(study, rdt_study_csv, s->csv, why));
  if (s->md) RDT_TRY(put_by(study, rdt_study_markdown, s->md, why));
  if (s->coverage) RDT_TRY(rdt_study_coverage(study, s->coverage, why));
  if (s->html || s->svg || s->csv || s->md || s->coverage) return RDT_OK;
  if (s->format == RDT_FORMAT_JSON) return put_document(study, s->fit, why);
  for (int i = 0; i < study->n; i++)
    if (!put_campaign(study, i, s)) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  return RDT_OK;
}

/* The worst that a campaign says; a part says nothing good of the whole. */
static int exit_of(const rdt_study *study) {
  int code = RDT_EXIT_OK;
  for (int i = 0; i < study->n; i++) {
    const rdt_judgement j = rdt_summary_judge(&study->list[i].tally);
    if (j == RDT_JUDGED_FAIL) return RDT_EXIT_FAULT;
    if (j == RDT_JUDGED_MUTE || !study->list[i].whole) code = RDT_EXIT_NOTHING;
  }
  return code;
}

static int report_campaigns(const rdt_command *c, const rdt_settings *s) {
  rdt_reason why = {""};
  rdt_study *study = rdt_calloc(1, sizeof *study);
  if (!study) return rdt_cli_fail(c, RDT_ERR_NOMEM, NULL);
  study->fit = s->fit;
  int code = RDT_EXIT_OK;
  rdt_status status = rdt_study_add(study, s->operand, &why);
  for (int i = 0; i < s->more.count && status == RDT_OK; i++) status = rdt_study_add(study, s->more.at[i], &why);
  if (status == RDT_OK) {
    rdt_study_name(study);
    status = show(study, s, &why);
    code = exit_of(study);
  }
  rdt_study_clear(study);
  rdt_free(study);
  return status == RDT_OK ? code : rdt_cli_fail(c, status, why.text);
}

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int run(const rdt_command *c, const rdt_settings *settings) {
  if (is_folder(settings->operand)) return report_campaigns(c, settings);
  const bool pipe = strcmp(settings->operand, "-") == 0;
  rdt_reason why = {""};
  cJSON *doc = NULL;
  rdt_status status = RDT_OK;
  if (settings->more.count || settings->svg || settings->csv || settings->md || settings->coverage ||
      settings->fit > 0.0)
    status = rdt_fail(&why, RDT_ERR_ARG,
                      "%s is a report of a run: several, --svg, --csv, --md, --coverage-out and --fit are for the "
                      "folders of `redoubt inject -o DIR`",
                      settings->operand);
  else if (rdt_same_file(settings->operand, settings->html))
    status = rdt_fail(&why, RDT_ERR_ARG, "%s would be written over: give the page a file of its own", settings->html);
  if (status == RDT_OK) status = rdt_report_read(pipe ? "/dev/stdin" : settings->operand, &doc, &why);
  if (status == RDT_OK && settings->html)
    status = put_page(doc, settings->html, &why);
  else if (status == RDT_OK)
    status = rdt_run_report_print(doc, settings->format, &why);
  cJSON_Delete(doc);
  return status == RDT_OK ? RDT_EXIT_OK : rdt_cli_fail(c, status, why.text);
}

static const rdt_option_id options[] = {RDT_OPT_HTML,   RDT_OPT_PICTURES,     RDT_OPT_CSV,
                                        RDT_OPT_MD,     RDT_OPT_COVERAGE_OUT, RDT_OPT_FIT,
                                        RDT_OPT_FORMAT, RDT_OPT_JSON,         RDT_OPT_COUNT};
static const rdt_words files[] = {
    {"REPORT.json",
     "what `redoubt run --report` or `rdt_report_write` wrote (docs/schema/run-1.json); `-`: standard input"},
    {"DIR", "what `redoubt inject -o DIR` keeps; several side by side, shards of one campaign as one"},
    {"FILE.html", "of `--html`: whole or not at all. It needs no other file, no network and no script"},
    {NULL, NULL}};
static const rdt_words examples[] = {
    {"redoubt report found.json", "the table and the sentences of that run again"},
    {"redoubt report found.json --html found.html", "a page for a browser, a phone or a printer"},
    {"redoubt report none row rowcol --html coverage.html --svg pictures --csv counts.csv --md -",
     "campaigns side by side"},
    {"redoubt report - --html -", "from standard input to standard output"},
    {NULL, NULL}};
const rdt_command rdt_cmd_report = {
    .name = "report",
    .run = run,
    .operand = "REPORT.json|DIR",
    .operands = true,
    .operand_needed = true,
    .options = options,
    .summary = "a report of a run, or campaigns side by side: as text, or as a page",
    .text =
        "Reads a report that `redoubt run --report` wrote, and prints what the run printed; or writes a page: the "
        "verdict, the "
        "story of every event, time, residuals and detection floors of every layer, what the plan covers and what "
        "not.\n"
        "\n"
        "Of folders that `redoubt inject -o` wrote it counts the trials: coverage against overhead, by layer, bit and "
        "size, "
        "residuals against bounds, suspects over lambda, the floor, and the worst fault that nobody noticed with the "
        "number that shows it again.\n"
        "\n"
        "Of a run's report the exit code tells of this command: the run's own is in the report. Of campaigns it is "
        "what "
        "they came to; trials that are missing, as shards that are not given, are named in every form.",
    .good = "it was read and shown; of campaigns: none failed",
    .bad = "of campaigns: one failed",
    .nothing = "of campaigns: no verdict: trials are missing, or one hit nothing",
    .files = files,
    .examples = examples};
