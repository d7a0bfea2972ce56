/* redoubt run: a network, its inputs, its outputs and an honest verdict. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"
#include "inject/fault.h"
#include "net/model.h"
#include "net/tensor_file.h"
#include "progress.h"
#include "run_report.h"

/* "DIR/NAME.npy", with everything that a file name should not hold turned into '_'. */
static char *output_path(const char *dir, const char *name) {
  const size_t size = strlen(dir) + strlen(name) + sizeof "/.npy";
  char *path = rdt_alloc(size, 1);
  if (!path) return NULL;
  const int start = snprintf(path, size, "%s/", dir);
  char *p = path + start;
  for (; *name; name++, p++) {
    const bool kept = isalnum((unsigned char)*name) || strchr("-_+", *name) || (*name == '.' && p > path + start);
    *p = kept ? *name : '_';
  }
  memcpy(p, ".npy", sizeof ".npy");
  return path;
}

static rdt_status name_outputs(rdt_run_report *r) {
  rdt_session *s = r->session;
  const size_t n = rdt_model_output_count(s->model);
  rdt_io_info info;
  r->files = rdt_calloc(n, sizeof *r->files);
  if (!r->files) return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  for (size_t i = 0; i < n; i++) {
    RDT_TRY(rdt_model_output_info(s->model, i, &info));
    r->files[i] = output_path(r->settings->out, info.name);
    if (!r->files[i]) return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
    for (size_t j = 0; j < i && r->files[i]; j++) {
      rdt_io_info other;
      if (!r->files[j] || strcmp(r->files[i], r->files[j]) != 0) continue;
      RDT_TRY(rdt_model_output_info(s->model, j, &other));
      if (strcmp(info.name, other.name) != 0)
        return rdt_fail(&s->why, RDT_ERR_NAME, "outputs %zu and %zu of the model would both be written to %s", j, i,
                        r->files[i]);
      rdt_free(r->files[i]); /* the model lists it twice */
      r->files[i] = NULL;
    }
  }
  return RDT_OK;
}

/* Every output beside its place first, then all are moved there: a full disk leaves nothing behind. */
static rdt_status publish(rdt_run_report *r) {
  rdt_session *s = r->session;
  const size_t n = rdt_model_output_count(s->model);
  rdt_status status = RDT_OK;
  char **staged = rdt_calloc(n, sizeof *staged);
  if (!staged) return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  for (size_t i = 0; i < n; i++) {
    rdt_tensor t;
    if (!r->files[i]) continue;
    const size_t size = strlen(r->files[i]) + sizeof ".new";
    if ((status = rdt_model_output(s->model, i, &t)) != RDT_OK) {
      rdt_session_fail(s, status);
      goto done;
    }
    char *path = rdt_alloc(size, 1);
    if (!path) {
      status = rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
      goto done;
    }
    snprintf(path, size, "%s.new", r->files[i]);
    status = rdt_npy_write(path, &t, &s->why);
    if (status != RDT_OK) {
      rdt_free(path);
      goto done;
    }
    staged[i] = path;
  }
  for (size_t i = 0; i < n; i++)
    if (staged[i] && rename(staged[i], r->files[i]) != 0) {
      status = rdt_fail(&s->why, RDT_ERR_IO, "cannot write %s: %s; choose another folder with -o", r->files[i],
                        strerror(errno));
      goto done;
    }
done:
  for (size_t i = 0; i < n; i++) {
    if (staged[i] && status != RDT_OK) unlink(staged[i]);
    rdt_free(staged[i]);
  }
  rdt_free(staged);
  return status;
}

static rdt_status prepare(rdt_run_report *r) {
  rdt_session *s = r->session;
  const rdt_settings *settings = r->settings;
  RDT_TRY(rdt_session_spare(s, settings, settings->report));
  if (settings->report) RDT_TRY(rdt_file_try(settings->report, &s->why));
  if (settings->out) {
    if (mkdir(settings->out, 0777) != 0 && errno != EEXIST)
      return rdt_fail(&s->why, RDT_ERR_IO, "cannot make the folder %s: %s; choose another one with -o", settings->out,
                      strerror(errno));
    struct stat st;
    if (stat(settings->out, &st) == 0 && !S_ISDIR(st.st_mode))
      return rdt_fail(&s->why, RDT_ERR_IO,
                      "-o takes a folder, and %s is a file: every output is written to FOLDER/NAME.npy; name another "
                      "folder, or remove the file",
                      settings->out);
    if (access(settings->out, W_OK | X_OK) != 0)
      return rdt_fail(&s->why, RDT_ERR_IO, "cannot write into %s: %s; choose another folder with -o", settings->out,
                      strerror(errno));
    RDT_TRY(name_outputs(r));
    for (size_t i = 0; i < rdt_model_output_count(s->model); i++) RDT_TRY(rdt_session_spare(s, settings, r->files[i]));
  }
  if (settings->labels) {
    RDT_TRY(rdt_tensor_file_read(settings->labels, &r->labels, &s->why));
    const int64_t images = s->n_inputs > 0 && s->inputs[0].rank > 0 ? s->inputs[0].shape[0] : 1;
    if (rdt_dtype_is_float(r->labels.dtype) || rdt_tensor_count(&r->labels) != images)
      return rdt_fail(&s->why, RDT_ERR_SHAPE, "%s must hold one integer for each of the %lld images", settings->labels,
                      (long long)images);
  }
  rdt_session_divided(s, settings);
  RDT_TRY(rdt_session_fits(s, settings));
  const rdt_status status = rdt_model_plan(s->model, s->inputs, s->n_inputs);
  if (status != RDT_OK) return rdt_session_fail(s, status);
  return RDT_OK;
}

/* A run that found a fault which it could not repair has results all the same; everything else ends here. */
static rdt_status run_once(rdt_run_report *r, bool timed) {
  rdt_session *s = r->session;
  rdt_run_result one = {0};
  const rdt_status status = rdt_session_run(s, s->inputs, &one);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  if (timed || status != RDT_OK || one.faults > 0) /* a fault while warming up is a fault */
    rdt_report_book(s->report, status, &one, timed);
  return RDT_OK;
}

/* What the bar knows of a run: how many came before it. */
typedef struct runs {
  int64_t done, all;
} runs;

static void show_layer(size_t done, size_t all, const char *node, void *user) {
  const runs *r = user;
  const double part = ((double)r->done + (double)done / (double)all) / (double)r->all;
  if (r->all > 1)
    rdt_progress(part, "run %" PRId64 "/%" PRId64, r->done + 1, r->all);
  else
    rdt_progress(part, "layer %zu/%zu %s", done + 1, all, node);
}

static rdt_status blame_fault(const char *spec, rdt_reason *why) {
  rdt_fault f;
  RDT_TRY(rdt_fault_parse(spec, &f, why));
  const char *const reason = f.core >= 0 ? "core= names a core that computed nothing"
                             : f.site == RDT_SITE_VOTE && f.cores == 0
                                 ? "copies vote on three cores or more; cores=3 simulates them"
                                 : "at= lies outside of what the layer has there";
  return rdt_fail(why, RDT_ERR_ARG, "--fault %s hits nothing: %s", spec, reason);
}

static rdt_status run_all(rdt_run_report *r) {
  rdt_session *s = r->session;
  const rdt_settings *settings = r->settings;
  const int64_t repeat = settings->repeat ? settings->repeat : 1;
  runs progress = {0, settings->warmup + repeat};
  if (settings->layer_times) {
    s->run = 0;
    const rdt_status timed = rdt_model_time_layers(s->model, s->inputs, s->n_inputs);
    if (timed != RDT_OK) return rdt_session_fail(s, timed);
    s->report->layer_times = true;
  }
  if (rdt_progress_begin(settings, "running")) rdt_model_on_progress(s->model, show_layer, &progress);
  s->run = 0;
  for (; progress.done < settings->warmup && s->report->status == RDT_OK; progress.done++) RDT_TRY(run_once(r, false));
  const rdt_status armed = rdt_model_inject(s->model, settings->fault);
  if (armed != RDT_OK) return rdt_session_fail(s, armed);
  rdt_journal_plant(&s->journal, settings->fault);
  for (s->run = 1; s->run <= repeat && s->report->status == RDT_OK; s->run++, progress.done++) {
    RDT_TRY(run_once(r, true));
    rdt_journal_plant(&s->journal, NULL);
    if (s->run == 1 && settings->fault) {
      snprintf(r->injected, sizeof r->injected, "%s", rdt_model_injected(s->model));
      if (!*r->injected) return blame_fault(settings->fault, &s->why);
    }
  }
  rdt_model_on_progress(s->model, NULL, NULL);
  rdt_progress_end();
  r->has_outputs = s->report->status == RDT_OK || settings->on_fault == RDT_ON_FAULT_REPORT;
  return RDT_OK;
}

static int exit_code(const rdt_run_report *r) {
  const rdt_run_result *t = &r->session->report->total;
  const bool bad = r->session->report->status == RDT_ERR_FAULT || t->verdict == RDT_DETECTED;
  const bool detected = (r->settings->fail_on & RDT_FAIL_ON_DETECTED) && t->faults > 0;
  const bool unchecked =
      (r->settings->fail_on & RDT_FAIL_ON_UNCHECKED) && (t->verdict == RDT_UNCHECKED || t->unchecked > 0);
  return bad || detected || unchecked ? RDT_EXIT_FAULT : RDT_EXIT_OK;
}

static rdt_status say(const rdt_run_report *r) {
  const rdt_settings *settings = r->settings;
  rdt_reason *why = &r->session->why;
  cJSON *doc = rdt_run_report_json(r);
  rdt_status status = settings->report ? rdt_json_write(doc, settings->report, why) : RDT_OK;
  if (status == RDT_OK && !settings->quiet) status = rdt_run_report_print(doc, settings->format, why);
  cJSON_Delete(doc);
  return status;
}

static rdt_status go(rdt_run_report *r, const rdt_settings *settings) {
  rdt_session *s = r->session;
  RDT_TRY(rdt_session_open(s, settings, RDT_INPUTS_FILES));
  rdt_session_cache(s, settings);
  const rdt_status status = rdt_report_create(s->model, &s->report);
  if (status != RDT_OK) return rdt_session_fail(s, status);
  RDT_TRY(prepare(r));
  RDT_TRY(run_all(r));
  if (rdt_signals_caught()) return RDT_ERR_CANCELLED; /* the last moment: what follows is finished */
  if (settings->out && r->has_outputs) RDT_TRY(publish(r));
  r->exit_code = exit_code(r);
  if (s->report->status == RDT_ERR_FAULT) /* before the table: the verdict is the last line */
    fprintf(stderr, "redoubt run: %s\n",
            *rdt_context_error(s->ctx) ? rdt_context_error(s->ctx) : rdt_status_text(RDT_ERR_FAULT));
  RDT_TRY(say(r));
  return rdt_session_tell(s);
}

static int run(const rdt_command *c, const rdt_settings *settings) {
  rdt_session session;
  rdt_run_report r = {.settings = settings, .session = &session};
  const rdt_status status = go(&r, settings);
  int code = r.exit_code;
  if (status != RDT_OK) {
    const int failed = rdt_cli_fail(c, status, session.why.text);
    if (code == RDT_EXIT_OK) code = failed; /* a fault weighs more than a report that could not be written */
  }
  for (size_t i = 0; r.files && i < rdt_model_output_count(session.model); i++) rdt_free(r.files[i]);
  rdt_free(r.files);
  rdt_free(r.labels.data);
  rdt_session_close(&session);
  return code;
}

static const rdt_option_id options[] = {
    RDT_OPT_INPUT,        RDT_OPT_OUT,      RDT_OPT_SCHEME,      RDT_OPT_ON_FAULT, RDT_OPT_FAIL_ON,
    RDT_OPT_FAULT,        RDT_OPT_REPORT,   RDT_OPT_EVENTS,      RDT_OPT_PROM,     RDT_OPT_PROM_EVERY,
    RDT_OPT_SYSLOG,       RDT_OPT_DEVICE,   RDT_OPT_LAYER_TIMES, RDT_OPT_THREADS,  RDT_OPT_LAMBDA,
    RDT_OPT_SUSPECT_RATE, RDT_OPT_SCRUB,    RDT_OPT_PLAN,        RDT_OPT_NO_CACHE, RDT_OPT_MIN_COVERAGE,
    RDT_OPT_REQUIRE,      RDT_OPT_COVERAGE, RDT_OPT_AVOID_CORE,  RDT_OPT_AVOID_SM, RDT_OPT_CHECKPOINTS,
    RDT_OPT_REPEAT,       RDT_OPT_WARMUP,   RDT_OPT_TOP,         RDT_OPT_LABELS,   RDT_OPT_FORMAT,
    RDT_OPT_JSON,         RDT_OPT_QUIET,    RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words files[] = {
    {"MODEL.onnx",
     "the network. It is mapped, with the files beside it that hold its weights, and must not be cut short "
     "while it is used: to replace it, write another file and rename"},
    {"DIR/NAME.npy",
     "an output, whole or not at all; DIR is made if it is not there (one level). In NAME, what is not a letter of "
     "ASCII, a digit or one of `.-_+` "
     "becomes `_`"},
    {"FILE.json", "of `--report`: the whole finding (docs/schema/run-1.json)"},
    {"FILE.jsonl",
     "of `--events`: one line an event (docs/schema/event-1.json); several processes may append to one file"},
    {"FILE.prom", "of `--prom`: counters, replaced as a whole; continued over runs"},
    {NULL, NULL}};
static const rdt_words examples[] = {
    {"redoubt run model.onnx --input image.npy", "one input needs no name"},
    {"redoubt run model.onnx -i ids=a.npy -i mask=b.npy -o out", "several do; outputs go to out/NAME.npy"},
    {"redoubt run model.onnx -i image.npy --report found.json", "the same for a program"},
    {"redoubt run model.onnx -i image.npy --fault bit:30@accum,layer=conv2,seed=1",
     "break one bit and watch it being repaired"},
    {"redoubt run model.onnx -i image.npy --plan plan.json", "kernels and schemes as `redoubt plan -o` chose them"},
    {"redoubt run model.onnx -i image.npy --device cuda:0", "on a GPU; what it has no kernel for, on the CPU"},
    {"redoubt run model.onnx -i image.npy --device cuda:0 --layer-times --repeat 100", "and what each layer takes"},
    {"redoubt run model.onnx -i image.npy --fail-on detected", "exit 1 even where the repair worked"},
    {"redoubt run model.onnx -i image.npy --repeat 100000 --events e.jsonl --prom r.prom --syslog",
     "watch a machine for a while (docs/fleet.md)"},
    {NULL, NULL}};
const rdt_command rdt_cmd_run = {
    .name = "run",
    .run = run,
    .operand = "MODEL.onnx",
    .operand_needed = true,
    .options = options,
    .summary = "run a network on inputs: outputs, a verdict for each layer",
    .text =
        "Loads an ONNX network, runs it with every layer protected, repairs what it finds wrong, and says what it "
        "found: a line for each layer, a sentence for each event, the verdict of the whole last. \"residual / bound\" "
        "is the largest difference of a check against what rounding alone explains.\n"
        "\n"
        "An input is a .npy or an ONNX .pb file, told apart by content. Without `NAME=` it goes to the first input "
        "that "
        "has none yet. An input with a value of its own (an initializer) is a constant, unless it is named.\n"
        "\n"
        "Kernels and schemes are those of `--plan`, or else by what `redoubt plan` has measured and kept in the cache, "
        "or else by estimates. Other ones may differ in the last bits of results: `--plan` or `--no-cache` make them "
        "independent of what was measured meanwhile.\n"
        "\n"
        "With `--device cuda:N` the network runs on a GPU: all that it computed is kept until its last check, the "
        "second "
        "run is recorded and later ones are played as a whole; so times are those of the network; `--layer-times` "
        "takes those of "
        "layers in runs of their own. "
        "Faults "
        "are planted there at the sites `input`, `weight`, `accum`, `nonlinear` and `output`.",
    .verdicts = true,
    .good = "no fault is left in the outputs; what is UNCHECKED is named",
    .bad = "a fault was found and not repaired, or what `--fail-on` says",
    .stopped =
        "stopped by signal N: no outputs and no report are written; `--events` has what happened until then, and "
        "`--prom` is written a last time. A second signal ends the program at once",
    .files = files,
    .examples = examples};
