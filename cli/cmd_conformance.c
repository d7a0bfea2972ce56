/* redoubt conformance: the cases of the ONNX backend suite, run with protection on. */
#include <errno.h>
#include <fnmatch.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "core/context.h"
#include "core/memory.h"
#include "core/text.h"
#include "progress.h"
#include "report/json.h"

/* ---- finding the cases ---- */

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool is_wanted(const rdt_settings *s, const char *name) {
  return !s->filter || fnmatch(s->filter, name, 0) == 0 || fnmatch(s->filter, last_part(name), 0) == 0;
}

/* name: the folder's path below the searched one, or its own name where it is that one. */
static rdt_status add(rdt_conformance *c, const char *folder, const char *name) {
  if (!is_wanted(c->settings, name)) return RDT_OK;
  if (c->n_cases == c->room) {
    const size_t room = c->room ? 2 * c->room : 256;
    rdt_case *grown = rdt_grow(c->cases, c->room, room, sizeof *grown);
    if (!grown) return rdt_fail(&c->why, RDT_ERR_NOMEM, "out of memory");
    c->cases = grown;
    c->room = room;
  }
  rdt_case *one = &c->cases[c->n_cases];
  *one = (rdt_case){.folder = rdt_strdup(folder), .name = rdt_strdup(name)};
  c->n_cases++;
  if (!one->folder || !one->name) return rdt_fail(&c->why, RDT_ERR_NOMEM, "out of memory");
  rdt_text_tame(one->name, '?');
  const char *slash = strrchr(one->name, '/');
  const size_t length = slash ? (size_t)(slash - one->name) : 0;
  snprintf(one->group, sizeof one->group, "%.*s", (int)(length < sizeof one->group ? length : sizeof one->group - 1),
           length ? one->name : ".");
  rdt_text_tame(one->group, '?'); /* a character may have been cut */
  return RDT_OK;
}

static rdt_status take(rdt_conformance *c, const char *root, const FTSENT *e) {
  switch (e->fts_info) {
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
      return rdt_fail(&c->why, RDT_ERR_IO, "%.300s: cannot be read: %s", e->fts_path, strerror(e->fts_errno));
    case FTS_F:
    case FTS_SL:
      break;
    default:
      return RDT_OK;
  }
  if (strcmp(e->fts_name, "model.onnx") != 0) return RDT_OK;
  char *folder = rdt_strdup(e->fts_path);
  if (!folder) return rdt_fail(&c->why, RDT_ERR_NOMEM, "out of memory");
  folder[strlen(folder) - strlen("/model.onnx")] = '\0';
  const char *below = folder + strlen(root);
  while (*below == '/') below++;
  const rdt_status status = add(c, folder, *below ? below : last_part(folder));
  rdt_free(folder);
  return status;
}

static int by_name(const FTSENT **a, const FTSENT **b) {
  return strcmp((*a)->fts_name, (*b)->fts_name);
}

static rdt_status find(rdt_conformance *c) {
  char *root = rdt_strdup(c->settings->operand);
  if (!root) return rdt_fail(&c->why, RDT_ERR_NOMEM, "out of memory");
  for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--) root[n - 1] = '\0';
  rdt_status status = RDT_OK;
  FTS *walk = fts_open((char *[]){root, NULL}, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
  if (!walk) status = rdt_fail(&c->why, RDT_ERR_IO, "%.300s: cannot be read: %s", root, strerror(errno));
  for (FTSENT *e; status == RDT_OK && walk && (e = fts_read(walk)) != NULL;) status = take(c, root, e);
  if (walk) fts_close(walk);
  rdt_free(root);
  if (status == RDT_OK && c->n_cases == 0)
    status = rdt_fail(&c->why, RDT_ERR_ARG, "%.300s: there is no folder with a model.onnx%s%s%s", c->settings->operand,
                      c->settings->filter ? " whose name matches '" : "",
                      c->settings->filter ? c->settings->filter : "", c->settings->filter ? "'" : "");
  return status;
}

/* ---- the command ---- */

static rdt_status open_context(rdt_conformance *c) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  const rdt_settings *s = c->settings;
  RDT_TRY(rdt_context_open(&c->ctx, (int)s->threads, &c->why));
  rdt_signals_watch(c->ctx);
  if (s->scheme) policy.scheme = s->scheme;
  if (s->lambda > 0.0) policy.lambda = s->lambda;
  const rdt_status status = rdt_context_set_policy(c->ctx, &policy);
  return status == RDT_OK ? RDT_OK : rdt_fail(&c->why, status, "%s", rdt_context_error(c->ctx));
}

static rdt_status say(rdt_conformance *c) {
  const rdt_settings *s = c->settings;
  if (!s->quiet && s->format != RDT_FORMAT_JSON && !rdt_conformance_text(c, s->format == RDT_FORMAT_MD))
    return rdt_fail(&c->why, RDT_ERR_NOMEM, "out of memory while writing the table");
  if (s->junit) RDT_TRY(rdt_conformance_junit(c, s->junit, &c->why));
  if (s->report || s->format == RDT_FORMAT_JSON) {
    cJSON *doc = rdt_conformance_json(c);
    rdt_status status = doc ? RDT_OK : rdt_fail(&c->why, RDT_ERR_NOMEM, "out of memory");
    if (status == RDT_OK && s->format == RDT_FORMAT_JSON && !s->quiet) status = rdt_json_print(doc, &c->why);
    if (status == RDT_OK && s->report) status = rdt_json_write(doc, s->report, &c->why);
    cJSON_Delete(doc);
    RDT_TRY(status);
  }
  return RDT_OK;
}

static rdt_status go(rdt_conformance *c) {
  RDT_TRY(open_context(c));
  RDT_TRY(find(c));
  rdt_progress_begin(c->settings, "conformance");
  for (size_t i = 0; i < c->n_cases; i++) {
    RDT_TRY(rdt_case_run(c->ctx, &c->cases[i]));
    if (rdt_signals_caught()) return RDT_ERR_CANCELLED;
    rdt_text_tame(c->cases[i].why.text, '?');
    rdt_text_tame(c->cases[i].op, '?');
    rdt_progress((double)(i + 1) / (double)c->n_cases, "case %zu/%zu %s", i + 1, c->n_cases, c->cases[i].name);
  }
  rdt_progress_end();
  c->ended = true;
  return say(c);
}

static int run(const rdt_command *command, const rdt_settings *settings) {
  rdt_conformance c = {.settings = settings};
  const rdt_status status = go(&c);
  int code = status != RDT_OK ? rdt_cli_fail(command, status, c.why.text) : RDT_EXIT_OK;
  if (c.ended && rdt_conformance_count(&c, RDT_CASE_FAILED)) code = RDT_EXIT_FAULT;
  rdt_signals_default();
  for (size_t i = 0; i < c.n_cases; i++) {
    rdt_free(c.cases[i].folder);
    rdt_free(c.cases[i].name);
  }
  rdt_free(c.cases);
  rdt_context_destroy(c.ctx);
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_FILTER,  RDT_OPT_JUNIT,       RDT_OPT_REPORT, RDT_OPT_SCHEME,
                                        RDT_OPT_THREADS, RDT_OPT_LAMBDA,      RDT_OPT_FORMAT, RDT_OPT_JSON,
                                        RDT_OPT_QUIET,   RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words files[] = {
    {"DIR/.../model.onnx", "a case; beside it a folder test_data_set_N for each set of inputs"},
    {"input_K.pb, output_K.pb", "in that folder: what goes in, in the model's order, and what must come out"},
    {NULL, NULL}};
static const rdt_words examples[] = {
    {"redoubt conformance /usr/share/libonnx-testdata/data", "Debian's package libonnx-testdata"},
    {"redoubt conformance data --filter 'test_conv*'", "by the folder's name"},
    {"redoubt conformance data --filter 'pytorch-*' --junit found.xml", "or its path below DIR"},
    {NULL, NULL}};
const rdt_command rdt_cmd_conformance = {
    .name = "conformance",
    .run = run,
    .operand = "DIR",
    .operand_needed = true,
    .options = options,
    .summary = "the cases of the ONNX backend suite, with protection on",
    .text =
        "Every folder below DIR with a model.onnx is a case: the model runs on test_data_set_N/input_K.pb with "
        "protection on, its outputs must be those of output_K.pb: shape and datatype exactly, floating-point values "
        "within the suite's tolerances (docs/cli.md), everything else exactly. A fault that is reported fails the case "
        "too: none was planted. \"unsupported\" is what the engine refuses by name (an operator, a datatype, a mode).",
    .good = "no case failed",
    .bad = "a case failed",
    .stopped = "stopped by signal N: no report is written",
    .files = files,
    .examples = examples};
