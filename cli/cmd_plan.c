/* redoubt plan: which kernel and which scheme each layer gets, and why. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/memory.h"
#include "gpu_plan.h"
#include "net/model.h"
#include "plan/cache.h"
#include "plan/sealed_json.h"
#include "plan_report.h"
#include "progress.h"
#include "report/figures.h"

enum { MEASURED, MODEL }; /* the words of --policy */

typedef struct job {
  rdt_session session;
  const rdt_settings *settings;
  rdt_plan_report report;
  rdt_device device;
  const rdt_workload *workload; /* NULL: a model */
  int64_t batch;
  cJSON *doc;
  int measured; /* problems, not in the cache */
  int sizes;    /* of inputs */
  double begun; /* when */
  bool over;
} job;

/* What would be passed over in silence otherwise. */
static rdt_status check_words(const rdt_settings *s, rdt_reason *why) {
  if (!s->operand == !s->workload) return rdt_fail(why, RDT_ERR_ARG, "name a MODEL.onnx or a --workload, one of them");
  if (s->workload && (s->input_shapes.count || s->inputs.count))
    return rdt_fail(why, RDT_ERR_ARG, "a --workload has no inputs: its batch is in its name, as in %.60s:8",
                    s->workload);
  if (rdt_same_file(s->out, s->svg))
    return rdt_fail(why, RDT_ERR_ARG, "%.200s would be written for two purposes: give each a file of its own", s->svg);
  return RDT_OK;
}

static rdt_status open_job(job *j) {
  const rdt_settings *s = j->settings;
  rdt_session *session = &j->session;
  double most = 0.05;
  *session = (rdt_session){.told = true};
  RDT_TRY(check_words(s, &session->why));
  if (s->max_overhead) RDT_TRY(rdt_share_of("--max-overhead", s->max_overhead, INFINITY, &most, &session->why));
  if (s->workload) {
    RDT_TRY(rdt_session_begin(session, s));
    RDT_TRY(rdt_workload_find(s->workload, &j->workload, &j->batch, &session->why));
  } else {
    RDT_TRY(rdt_session_begin(session, s));
    RDT_TRY(rdt_session_load(session, s));
    rdt_session_divided(session, s);
  }
  const char *const written[] = {s->out, s->svg};
  for (int i = 0; i < 2; i++) { /* a path that cannot be written to shows before anything is measured */
    RDT_TRY(rdt_session_spare(session, s, written[i]));
    if (written[i]) RDT_TRY(rdt_file_try(written[i], &session->why));
  }
  if (!s->measure) rdt_session_cache(session, s);
  j->report = (rdt_plan_report){
      .ctx = session->ctx, .measured = s->policy == MEASURED, .explain = s->explain, .most_overhead = most};
  const int threads = rdt_context_threads(session->ctx);
  const rdt_device_how how = s->no_cache ? RDT_DEVICE_ONCE : RDT_DEVICE_KEPT;
  if (rdt_device_find(threads, how, &j->device, NULL) == RDT_OK) j->report.device = session->ctx->device = &j->device;
  return RDT_OK;
}

static cJSON *inputs_of(const rdt_session *s) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < s->n_inputs; i++) {
    rdt_io_info info;
    if (rdt_model_input_info(s->model, i, &info) != RDT_OK) continue;
    cJSON *o = cJSON_CreateObject();
    rdt_json_text(o, "name", info.name);
    cJSON_AddItemToObject(o, "shape", rdt_json_shape(s->inputs[i].rank, s->inputs[i].shape));
    cJSON_AddItemToArray(list, o);
  }
  return list;
}

static rdt_status survey_of(job *j, rdt_survey *survey) {
  rdt_session *s = &j->session;
  *survey = (rdt_survey){0};
  if (j->workload) return rdt_survey_workload(survey, j->workload, j->batch, rdt_options_dtype(j->settings), &s->why);
  rdt_session_forget(s);
  RDT_TRY(rdt_session_inputs(s, j->settings, RDT_INPUTS_SHAPES));
  const rdt_status status = rdt_model_survey(s->model, s->inputs, s->n_inputs, survey);
  return status == RDT_OK ? RDT_OK : rdt_session_fail(s, status);
}

/* What was measured until it is stopped stays in the cache. */
static rdt_status measure(job *j, const rdt_survey *survey) {
  rdt_session *s = &j->session;
  rdt_survey_watch watch = {.progress = rdt_bench_show};
  int measured;
  const double given =
      j->settings->max_seconds - (rdt_timing_now() - j->begun); /* what is left, to this size and others */
  watch.seconds = j->settings->max_seconds > 0.0 ? fmax(given / (j->sizes - (int)s->size), 1e-9)
                                                 : rdt_survey_patience(s->ctx, survey);
  watch.brief = j->settings->max_seconds > 0.0;
  rdt_progress_begin(j->settings, "measuring");
  RDT_TRY(rdt_cores_enter(s->ctx));
  rdt_status status = rdt_survey_measure(s->ctx, survey, &watch, &measured);
  rdt_cores_leave(s->ctx);
  rdt_progress_end();
  if (status != RDT_OK) rdt_session_fail(s, status);
  j->measured += measured;
  if (measured > 0 && !j->settings->no_cache && rdt_context_write_plans(s->ctx, NULL) != RDT_OK)
    fprintf(stderr, "redoubt plan: the cache was not written: %s\n", rdt_context_error(s->ctx));
  return status;
}

static rdt_status plan_size(job *j) {
  rdt_survey survey;
  rdt_status status = survey_of(j, &survey);
  if (status == RDT_OK && j->report.measured) status = measure(j, &survey);
  if (status == RDT_OK && rdt_signals_caught()) status = RDT_ERR_CANCELLED;
  cJSON *inputs = j->workload ? cJSON_CreateArray() : inputs_of(&j->session);
  if (status == RDT_OK)
    status = rdt_plan_report_size(&j->report, &survey, inputs, &j->session.why);
  else
    cJSON_Delete(inputs);
  rdt_survey_free(&survey);
  return status;
}

/* Only now does the book have all choices: the document of plan files comes first, what people want to know behind. */
static void complete(job *j) {
  rdt_session *s = &j->session;
  char name[80] = "";
  if (j->workload) rdt_workload_name(j->workload, j->batch, name, sizeof name);
  if (s->ctx->book) s->ctx->book->checkpoints = rdt_context_checkpoints(s->ctx);
  j->doc = rdt_book_document(s->ctx->book, rdt_context_threads(s->ctx), true);
  rdt_json_text(j->doc, "model", j->workload ? name : j->settings->operand);
  cJSON_AddStringToObject(j->doc, "policy", j->report.measured ? "measured" : "model");
  cJSON_AddStringToObject(j->doc, "scheme", s->ctx->scheme);
  cJSON_AddNumberToObject(j->doc, "min_coverage", s->ctx->policy.min_coverage);
  cJSON_AddNumberToObject(j->doc, "max_overhead", j->report.most_overhead);
  cJSON_AddItemToObject(j->doc, "sizes", j->report.sizes);
  j->report.sizes = NULL;
}

static rdt_status draw(job *j) {
  const rdt_settings *s = j->settings;
  rdt_reason *why = &j->session.why;
  if (!s->svg) return RDT_OK;
  if (!j->report.device) return rdt_fail(why, RDT_ERR_NOMEM, "--svg: out of memory while the device was measured");
  const rdt_roof roof = rdt_device_roof(&j->device, j->workload ? rdt_options_dtype(s) : RDT_F32);
  return rdt_figure_plan_write(j->doc, s->svg, roof, s->svg, why);
}

static rdt_status plan(job *j) {
  rdt_session *s = &j->session;
  j->begun = rdt_timing_now();
  RDT_TRY(open_job(j));
  RDT_TRY(rdt_session_sizes(s, j->settings, &j->sizes));
  j->report.sizes = cJSON_CreateArray();
  for (s->size = 0; s->size < j->sizes; s->size++) RDT_TRY(plan_size(j));
  complete(j);
  RDT_TRY(draw(j));
  return j->settings->out ? rdt_sealed_write(j->doc, j->settings->out, &s->why) : RDT_OK;
}

/* The layers that the report calls so, on stderr. false: there are none. */
static bool name_layers(const job *j, const char *what, const char *sentence) {
  char names[512];
  rdt_plan_report_names(j->doc, what, names, sizeof names);
  if (*names && !j->settings->quiet) fprintf(stderr, "redoubt plan: %s: %s\n", sentence, names);
  return *names != '\0';
}

static rdt_status say(job *j) {
  rdt_session *s = &j->session;
  const rdt_settings *settings = j->settings;
  if (settings->format == RDT_FORMAT_JSON) {
    RDT_TRY(rdt_json_print(j->doc, &s->why));
  } else if (!settings->quiet && !rdt_plan_report_print(j->doc, settings->format)) {
    return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory while writing the table");
  }
  if (*s->cache.text && !settings->quiet) fprintf(stderr, "redoubt plan: the cache was not used: %s\n", s->cache.text);
  name_layers(j, "noisy",
              "times vary by more than on a quiet machine, more trials notwithstanding; --measure takes them anew");
  name_layers(j, "hurried",
              "there was no time to measure every candidate (--max-seconds; --measure takes the times anew)");
  char text[96];
  snprintf(text, sizeof text, "protection takes more than %.3g %% of the unprotected time in",
           100.0 * j->report.most_overhead);
  j->over = name_layers(j, "over", text);
  return RDT_OK;
}

static int run(const rdt_command *c, const rdt_settings *settings) {
  if (settings->device && strcmp(settings->device, "cpu") != 0) return rdt_gpu_plan(c, settings);
  job j = {.settings = settings};
  rdt_status status = plan(&j);
  if (status == RDT_OK) status = say(&j);
  int code = RDT_EXIT_OK;
  if (status != RDT_OK)
    code = rdt_cli_fail(c, status, j.session.why.text);
  else if (j.over && settings->max_overhead)
    code = RDT_EXIT_FAULT;
  cJSON_Delete(j.doc);
  cJSON_Delete(j.report.sizes);
  rdt_session_close(&j.session);
  return code;
}

static const rdt_option_id options[] = {
    RDT_OPT_WORKLOAD,     RDT_OPT_WORKLOAD_DTYPE, RDT_OPT_PLAN_DEVICE,  RDT_OPT_INPUT,        RDT_OPT_INPUT_SIZES,
    RDT_OPT_PROTOCOL,     RDT_OPT_POLICY,         RDT_OPT_SCHEME,       RDT_OPT_MIN_COVERAGE, RDT_OPT_REQUIRE,
    RDT_OPT_CHECKPOINTS,  RDT_OPT_COVERAGE,       RDT_OPT_MAX_OVERHEAD, RDT_OPT_PLAN_OUTPUT,  RDT_OPT_SVG,
    RDT_OPT_PLAN_SECONDS, RDT_OPT_MEASURE_ANEW,   RDT_OPT_NO_CACHE,     RDT_OPT_THREADS,      RDT_OPT_LAMBDA,
    RDT_OPT_AVOID_CORE,   RDT_OPT_EXPLAIN,        RDT_OPT_PLAN_FORMAT,  RDT_OPT_JSON,         RDT_OPT_QUIET,
    RDT_OPT_NO_PROGRESS,  RDT_OPT_COUNT};
static const rdt_words files[] = {
    {"FILE.json",
     "of `-o`: the plan, with all measurements (docs/schema/plan-2.json); sealed, and good for this "
     "processor, ISA, number of threads and version only"},
    {"GPU.json", "of `-o` with --device cuda:N: what was measured and chosen there (docs/schema/plan-gpu-1.json)"},
    {"$XDG_CACHE_HOME/redoubt/plan-*.json", "what was measured before; several processes may add to it"},
    {NULL, NULL}};
static const rdt_words examples[] = {
    {"redoubt plan model.onnx -o plan.json", "measure, choose, and keep the plan for `redoubt run --plan plan.json`"},
    {"redoubt plan model.onnx --explain", "every candidate: its time, taken, lost, refused, and why"},
    {"redoubt plan model.onnx --policy model", "by estimates alone; open dimensions are taken as 1"},
    {"redoubt plan model.onnx --input batch.npy", "the shapes of real inputs"},
    {"redoubt plan model.onnx --input-shape '1x3x224x224;8x3x224x224'", "two sizes in one plan"},
    {"redoubt plan --workload resnet50-224 --format csv", "a network that is built in"},
    {"redoubt plan --device cuda:0 --workload all -o gpu.json", "a GPU: all built-in networks, two minutes"},
    {"REDOUBT_ISA=generic redoubt plan model.onnx", "what the plain C kernels would do"},
    {NULL, NULL}};
const rdt_command rdt_cmd_plan = {
    .name = "plan",
    .run = run,
    .operand = "MODEL.onnx|--workload NAME",
    .options = options,
    .summary = "which kernel and scheme each layer gets, measured, and why",
    .text =
        "Chooses for each product and convolution of a network the kernel and the scheme that take the least time, "
        "checks included, among those that find the asked-for share of single faults and locate them; within noise "
        "the one that covers more, as campaigns have measured it, then the one that comes first in the tables. Every "
        "pair is timed, interleaved with "
        "the others, on random data, through the same code that a network runs; weights are fetched from memory where "
        "those of the whole network would not stay in the caches. Clearly slower ones are dropped after a few trials. "
        "What was measured is kept in the cache.\n"
        "\n"
        "On a GPU (--device cuda:N) the products of a --workload are planned, several with commas, a group, or all: "
        "every "
        "own kernel with every check, beside cuBLAS and the published check, each a graph of launches that is timed in "
        "turn; overheads are over the own unprotected candidate, and a run that was stopped goes on.\n"
        "\n"
        "FLOP, bytes and FLOP/B (arithmetic intensity) are those of the layer as it lies in memory, CMR is the "
        "intensity at which this processor computes as fast as it reads (`redoubt info`): below it memory bounds. "
        "Overhead is the time over that of the fastest unprotected candidate, with its 95 % bootstrap interval. Below "
        "the table: the "
        "sums, each scheme everywhere, and what the estimates alone would have chosen.",
    .good = "a plan was made",
    .bad = "layers are above the given `--max-overhead`",
    .files = files,
    .examples = examples};
