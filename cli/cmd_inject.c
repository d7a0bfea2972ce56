/* redoubt inject: campaigns of planted faults, and of none. The engine is src/campaign; here are the command line, the
 * target that a child process opens, and what is printed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "campaign/campaign.h"
#include "campaign/summary.h"
#include "campaign_text.h"
#include "check/bitsum.h"
#include "cli.h"
#include "core/context.h"
#include "core/cpu_info.h"
#include "core/file.h"
#include "core/memory.h"
#include "inject/fault.h"
#include "net/file.h"
#include "plan/cache.h"
#include "plan/identity.h"
#include "progress.h"

typedef struct shooting {
  const rdt_settings *given;
  rdt_settings settings; /* of a child: its share of the threads */
  rdt_session session;   /* of a child */
  bool opened, op;
  bool ended;       /* what the campaign came to is known */
  char target[256]; /* with its datatype */
  const char *names[32];
  rdt_campaign campaign;
} shooting;

/* ---- in a child process ---- */

static rdt_status run_model(void *user, int64_t id, const char *spec, const rdt_tensor *inputs, rdt_run_result *result,
                            rdt_reason *why) {
  shooting *s = user;
  s->session.run = id + 1;
  rdt_journal_plant(&s->session.journal, spec);
  const rdt_status status = rdt_session_run(&s->session, inputs, result);
  rdt_journal_plant(&s->session.journal, NULL);
  if (status != RDT_OK && status != RDT_ERR_FAULT) *why = s->session.why;
  return status;
}

static rdt_status make_target(shooting *s, rdt_target **out, rdt_reason *why) {
  rdt_session *session = &s->session;
  const rdt_target_data data = {
      .seed = (uint64_t)s->campaign.seed, .family = s->given->family, .fresh = s->campaign.clean};
  if (s->op && session->ctx->machine) return rdt_target_device(session->ctx, s->target, &data, out, why);
  if (s->op) return rdt_target_op(session->ctx, s->target, &data, out, why);
  const rdt_target_net net = {.user = s,
                              .model = &session->model,
                              .inputs = session->inputs,
                              .n_inputs = session->n_inputs,
                              .batch = s->settings.batch ? s->settings.batch : 1,
                              .path = s->target,
                              .named = (const char *const *)session->named,
                              .n_named = session->n_named,
                              .run = run_model};
  return rdt_target_model(session->ctx, &net, out, why);
}

static rdt_status open_target(void *user, rdt_target **out, rdt_reason *why) {
  shooting *s = user;
  s->opened = true;
  rdt_status status = s->op ? rdt_session_begin(&s->session, &s->settings)
                            : rdt_session_open(&s->session, &s->settings, RDT_INPUTS_FILES);
  if (s->op && status == RDT_OK) status = rdt_session_watch(&s->session, &s->settings);
  if (status != RDT_OK) {
    *why = s->session.why;
    return status;
  }
  status = make_target(s, out, why);
  s->session.run = 0;
  return status;
}

/* The story of a trial is that of its own run. */
static void watch_trial(void *user, bool runs) {
  shooting *s = user;
  const bool told = s->campaign.only >= 0 && !s->settings.quiet && s->settings.format != RDT_FORMAT_JSON;
  s->session.aloud = told && runs;
}

static rdt_status close_target(void *user, cJSON **cores, rdt_reason *why) {
  shooting *s = user;
  rdt_status status = RDT_OK;
  if (!s->opened) return status;
  if (s->session.ctx) { /* one list of both */
    cJSON *more = rdt_report_multiprocessors(s->session.ctx);
    *cores = rdt_report_cores(s->session.ctx);
    for (cJSON *one; (one = cJSON_DetachItemFromArray(more, 0));) cJSON_AddItemToArray(*cores, one);
    cJSON_Delete(more);
  }
  if (!s->op) status = rdt_session_tell(&s->session);
  if (status != RDT_OK) *why = s->session.why;
  rdt_session_close(&s->session);
  return status;
}

/* ---- the command line ---- */

static bool progress(void *user, int64_t done, int64_t all) {
  (void)user;
  rdt_progress((double)done / (double)(all > 0 ? all : 1), "trial %" PRId64 "/%" PRId64, done, all);
  return rdt_signals_caught() == 0;
}

static rdt_status take_shard(const char *text, rdt_campaign *c, rdt_reason *why) {
  int used = 0;
  c->shard = c->shards = 1;
  if (!text || (sscanf(text, "%d/%d%n", &c->shard, &c->shards, &used) == 2 && !text[used] && c->shard >= 1 &&
                c->shards <= 1 << 20 && c->shard <= c->shards))
    return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG, "--shard takes I/N, with I from 1 to N, not '%s'", text);
}

static rdt_status take_until(const char *text, rdt_campaign *c, rdt_reason *why) {
  char *end;
  if (!text) return RDT_OK;
  c->until = strtod(text, &end) / 100.0;
  if (end == text || strcmp(end, "%") != 0 || !(c->until > 0.0 && c->until < 0.5))
    return rdt_fail(why, RDT_ERR_ARG, "--until-ci takes percent above 0 and below 50, as in 0.5%%, not '%s'", text);
  if (c->shards > 1)
    return rdt_fail(
        why, RDT_ERR_ARG,
        "--until-ci stops by what it has seen, and a shard sees only its own trials: no sum of such shards is "
        "one run; give --n with --shard");
  return RDT_OK;
}

static rdt_status take_mix(const rdt_settings *s, rdt_campaign *c, rdt_reason *why) {
  void *text;
  size_t bytes;
  c->clean = s->fault && strcmp(s->fault, "none") == 0;
  rdt_mix_default(&c->mix);
  if (c->clean) return RDT_OK;
  if (s->fault) return rdt_mix_one(s->fault, &c->mix, why);
  if (!s->mix) return RDT_OK;
  RDT_TRY(rdt_file_read(s->mix, &text, &bytes, why));
  const rdt_status status = rdt_mix_parse(text, bytes, s->mix, &c->mix, why);
  rdt_free(text);
  return status;
}

static bool on_device(const rdt_settings *g) {
  return g->device && strcmp(g->device, "cpu") != 0;
}

/* How layers are protected beyond a scheme's name. A plan file counts by what is in it. */
static rdt_status add_protection(const rdt_settings *g, cJSON *head, rdt_reason *why) {
  const rdt_policy usual = RDT_POLICY_DEFAULT;
  int scrub = usual.scrub_every;
  void *plan;
  size_t bytes;
  char sum[20] = "";
  if (g->scrub) RDT_TRY(rdt_scrub_of(g->scrub, &scrub, why));
  if (g->plan) {
    RDT_TRY(rdt_file_read(g->plan, &plan, &bytes, why));
    snprintf(sum, sizeof sum, "%016" PRIx64, rdt_bitsum(plan, bytes));
    rdt_free(plan);
  }
  cJSON_AddNumberToObject(head, "scrub_every", scrub);
  cJSON_AddItemToObject(head, "plan", g->plan ? cJSON_CreateString(sum) : cJSON_CreateNull());
  cJSON *cores = cJSON_AddArrayToObject(head, "avoid_cores");
  for (int i = 0; i < g->avoid_cores.count; i++) cJSON_AddItemToArray(cores, cJSON_CreateString(g->avoid_cores.at[i]));
  return RDT_OK;
}

/* What the folder keeps of the command line: the same trials come of the same. */
static rdt_status make_head(shooting *s, rdt_reason *why) {
  const rdt_settings *g = s->given;
  rdt_campaign *c = &s->campaign;
  const rdt_policy usual = RDT_POLICY_DEFAULT;
  rdt_context *ctx;
  cJSON *head = c->head = rdt_document("campaign");
  cJSON_AddStringToObject(head, "build", rdt_build_identity());
  RDT_TRY(rdt_context_open(&ctx, (int)s->settings.threads, why));
  rdt_json_text(head, "target", s->target);
  if (g->family) rdt_json_text(head, "family", g->family);
  if (on_device(g)) rdt_json_text(head, "device", g->device);
  int64_t checkpoints = g->checkpoints;
  rdt_book *book = NULL;
  if (g->plan && !checkpoints) { /* those of the plan are what networks are divided by */
    const rdt_status read = rdt_book_read(g->plan, rdt_context_threads(ctx), &book, why);
    checkpoints = read == RDT_OK ? book->checkpoints : 0;
    rdt_book_free(book);
    if (read != RDT_OK) return rdt_context_destroy(ctx), read;
  }
  if (checkpoints) cJSON_AddNumberToObject(head, "checkpoints", (double)checkpoints);
  if (g->avoid_sm >= 0) cJSON_AddNumberToObject(head, "avoid_sm", (double)g->avoid_sm);
  cJSON_AddStringToObject(head, "fault", g->fault ? g->fault : g->mix ? "mix" : "default mix");
  cJSON_AddItemToObject(head, "mix", c->clean ? cJSON_CreateNull() : rdt_mix_json(&c->mix));
  cJSON_AddStringToObject(head, "scheme", g->scheme ? g->scheme : "auto");
  cJSON_AddStringToObject(head, "on_fault", rdt_on_fault_name((rdt_on_fault)g->on_fault));
  rdt_json_number(head, "lambda", g->lambda > 0.0 ? g->lambda : usual.lambda);
  cJSON_AddStringToObject(head, "isa", rdt_context_isa(ctx));
  cJSON_AddNumberToObject(head, "threads", rdt_context_threads(ctx));
  cJSON_AddNumberToObject(head, "batch", (double)(g->batch ? g->batch : 1));
  cJSON_AddNumberToObject(head, "seed", (double)c->seed);
  cJSON_AddNumberToObject(head, "trials", (double)c->trials);
  cJSON_AddNumberToObject(head, "until_ci", c->until);
  cJSON_AddNumberToObject(head, "shard", c->shard);
  cJSON_AddNumberToObject(head, "shards", c->shards);
  rdt_context_destroy(ctx);
  return add_protection(g, head, why);
}

/* What options say together with the target, beyond the rules of the command line. */
static rdt_status check_together(const rdt_settings *g, bool op, rdt_reason *why) {
  const bool replay = g->replay >= 0, device = on_device(g);
  const struct {
    bool given;
    const char *text;
  } rows[] = {
      {op && g->inputs.count, "a target with data of its own takes no --input"},
      {op && g->batch,
       "--batch counts images of a network's inputs: this target has data of its own; a workload is NAME:BATCH"},
      {!op && (g->dtype >= 0 || g->family),
       "--dtype and --family are for targets with data of their own: gemm:, conv:, workloads"},
      {replay && g->n && g->replay >= g->n, "--replay names a trial from 0 to N - 1, --n says N"},
      {device && op && strncmp(g->operand, "gemm:", 5) != 0,
       "on a GPU gemm: has kernels that plant faults, of one product; convolutions are planted in where a network runs "
       "them: give a MODEL.onnx"},
      {!device && op && g->checkpoints, "--checkpoints: of a CPU, networks have votes on the way: give a MODEL.onnx"},
      {device && op && g->scrub, "--scrub verifies weights at rest: a product on a GPU has none between its runs"},
      {device && g->family && strcmp(g->family, "all") == 0, "--family all makes layers, and a GPU's target has one"},
      {device && op && g->on_fault == RDT_ON_FAULT_CORRECT,
       "--on-fault correct rebuilds from checksums, and a GPU's results are computed again: recompute"},
      {op && g->prom, "--prom counts the runs of a network: this target is none, -o DIR has its trials"},
      {g->jobs > 1 && g->prom, "--prom counts one process: leave --jobs at 1"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].given) return rdt_fail(why, RDT_ERR_ARG, "%s", rows[i].text);
  return RDT_OK;
}

/* The target with --dtype, unless it names one itself. */
static rdt_status take_target(shooting *s, rdt_reason *why) {
  const rdt_settings *g = s->given;
  const bool given = s->op && g->dtype >= 0;
  if (given && rdt_target_says_dtype(g->operand))
    return rdt_fail(why, RDT_ERR_ARG, "%s says its datatype: no --dtype", g->operand);
  const int n = snprintf(s->target, sizeof s->target, "%s%s%s", g->operand, given ? ":" : "",
                         given ? rdt_dtype_name(rdt_options_dtype(g)) : "");
  return n < (int)sizeof s->target ? RDT_OK : rdt_fail(why, RDT_ERR_ARG, "the name of the target is too long");
}

/* On fewer cores no copy is outvoted: such a campaign would hit nothing. */
static rdt_status check_vote(const rdt_settings *g, int64_t threads, rdt_reason *why) {
  rdt_fault f;
  const int64_t cpus = rdt_cpu_count(), cores = threads > 0 && threads < cpus ? threads : cpus;
  if (!g->fault || on_device(g) || rdt_fault_parse(g->fault, &f, NULL) != RDT_OK) return RDT_OK;
  if (f.site != RDT_SITE_VOTE || f.cores > 0 || cores >= 3) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG, "--fault %s: copies vote on three cores or more; cores=3 simulates them", g->fault);
}

static rdt_status take(shooting *s, rdt_reason *why) {
  const rdt_settings *g = s->given;
  rdt_campaign *c = &s->campaign;
  enum { SHORT = 2000, LONG = 1000000 };
  s->op = rdt_target_is_op(g->operand);
  RDT_TRY(check_together(g, s->op, why));
  RDT_TRY(take_target(s, why));
  c->target = s->target;
  c->trials = g->n ? g->n : g->until_ci ? LONG : SHORT;
  c->seed = g->seed >= 0 ? g->seed : 1;
  c->only = g->replay;
  c->jobs = g->jobs ? (int)g->jobs : 1;
  c->dir = g->out;
  c->resume = g->resume;
  c->timed = g->out != NULL && g->replay < 0;
  c->repairs = g->on_fault == RDT_ON_FAULT_RECOMPUTE || g->on_fault == RDT_ON_FAULT_CORRECT;
  if (c->only >= c->trials) c->trials = c->only + 1;
  s->settings = *g;
  if (c->jobs > 1 && !g->threads) {
    const int cpus = rdt_cpu_count();
    s->settings.threads = cpus > c->jobs ? cpus / c->jobs : 1;
  }
  RDT_TRY(check_vote(g, s->settings.threads, why));
  RDT_TRY(take_shard(g->shard, c, why));
  RDT_TRY(take_until(g->until_ci, c, why));
  RDT_TRY(take_mix(g, c, why));
  if (c->until > 0.0 && !c->clean && !rdt_mix_hits_data(&c->mix))
    return rdt_fail(
        why, RDT_ERR_ARG,
        "--until-ci waits for the rate of silent corruptions by faults in data, and these strike what checks "
        "alone: give --n");
  return make_head(s, why);
}

/* ---- telling ---- */

static cJSON *document(const shooting *s) {
  const rdt_campaign *c = &s->campaign;
  cJSON *doc = rdt_summary_json(c->head, &c->tally, s->given->fit, c->repairs);
  if (!c->cores) return doc;
  cJSON *cores = cJSON_AddArrayToObject(doc, "cores"), *others = cJSON_CreateArray(), *one;
  cJSON_ArrayForEach(one, c->cores) cJSON_AddItemToArray(
      cJSON_GetObjectItemCaseSensitive(one, "multiprocessor") ? others : cores, cJSON_Duplicate(one, true));
  if (cJSON_GetArraySize(others))
    cJSON_AddItemToObject(doc, "multiprocessors", others);
  else
    cJSON_Delete(others);
  return doc;
}

static bool put_text(const shooting *s) {
  const rdt_campaign *c = &s->campaign;
  const bool markdown = s->given->format == RDT_FORMAT_MD;
  if (c->only >= 0) {
    rdt_trial_tell(&c->last, c->repairs);
    if (c->dir && c->kept)
      printf("  the line in %s is %s\n", c->dir, c->same ? "the same, bit for bit" : "ANOTHER ONE");
    else if (c->dir)
      printf("  %s has no line of it\n", c->dir);
    return true;
  }
  const double inputs = rdt_json_real(c->head, "inputs");
  char data[48] = "other data each";
  if (inputs > 0.0) snprintf(data, sizeof data, "%.0f different inputs", inputs);
  const char *device = rdt_json_string(c->head, "device_name");
  printf("%s: %" PRId64 " %s, %s, seed %" PRId64 "; %s%s%s, %.0f threads%s\n\n", c->target, c->tally.trials,
         c->clean ? "clean runs" : "runs with a fault each", data, c->seed, device,
         *device ? ", golden results by " : "", rdt_json_string(c->head, "isa"), rdt_json_real(c->head, "threads"),
         c->jobs > 1 ? " in each process" : "");
  if (c->shards > 1)
    printf("A PART, not the whole campaign: shard %d of %d, %" PRId64 " of %" PRId64
           " trials; `redoubt report` adds them up\n\n",
           c->shard, c->shards, c->tally.trials, c->trials);
  return rdt_campaign_put(&c->tally, c->repairs, markdown, false, s->given->fit);
}

static rdt_status go(shooting *s, rdt_reason *why) {
  rdt_campaign *c = &s->campaign;
  RDT_TRY(take(s, why));
  RDT_TRY(rdt_session_spare(&s->session, s->given, s->given->report));
  if (s->given->report) RDT_TRY(rdt_file_try(s->given->report, why));
  rdt_signals_watch(NULL);
  rdt_progress_begin(s->given, c->clean ? "running" : "injecting");
  RDT_TRY(rdt_campaign_run(c, why));
  rdt_progress_end();
  rdt_signals_default();
  s->ended = true;
  if (c->replaced)
    fprintf(stderr,
            "redoubt inject: %d processes ended between two trials, and others took their place: no trial was lost\n",
            c->replaced);
  const bool print = !s->given->quiet && s->given->format != RDT_FORMAT_JSON;
  if (print && !put_text(s)) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (!s->given->report) return RDT_OK;
  cJSON *doc = document(s);
  const rdt_status status = rdt_json_write(doc, s->given->report, why);
  cJSON_Delete(doc);
  return status;
}

static int run(const rdt_command *command, const rdt_settings *settings) {
  shooting *s = rdt_calloc(1, sizeof *s);
  rdt_reason why = {""};
  if (!s) return rdt_cli_fail(command, RDT_ERR_NOMEM, NULL);
  s->given = settings;
  s->campaign = (rdt_campaign){
      .only = -1, .user = s, .open = open_target, .close = close_target, .watch = watch_trial, .progress = progress};
  const rdt_status status = go(s, &why);
  const rdt_judgement judged = rdt_summary_judge(&s->campaign.tally);
  int code = judged == RDT_JUDGED_FAIL || !s->campaign.same ? RDT_EXIT_FAULT
             : judged == RDT_JUDGED_MUTE                    ? RDT_EXIT_NOTHING
                                                            : RDT_EXIT_OK;
  int failed = RDT_EXIT_OK;
  if (s->ended && settings->format == RDT_FORMAT_JSON && !settings->quiet)
    failed = rdt_document_print(command, document(s));
  if (status != RDT_OK) failed = rdt_cli_fail(command, status, *why.text ? why.text : s->session.why.text);
  if (failed && !(s->ended && code == RDT_EXIT_FAULT))
    code = failed; /* a fault weighs more than a report that could not be written */
  rdt_campaign_clear(&s->campaign);
  rdt_free(s);
  return code;
}

static const rdt_option_id options[] = {
    RDT_OPT_PLAN,     RDT_OPT_INPUT,  RDT_OPT_FAULT,       RDT_OPT_MIX,         RDT_OPT_N,
    RDT_OPT_UNTIL_CI, RDT_OPT_SEED,   RDT_OPT_FOLDER,      RDT_OPT_RESUME,      RDT_OPT_JOBS,
    RDT_OPT_SHARD,    RDT_OPT_REPLAY, RDT_OPT_DTYPE,       RDT_OPT_DATA_FAMILY, RDT_OPT_DEVICE,
    RDT_OPT_BATCH,    RDT_OPT_SCHEME, RDT_OPT_CHECKPOINTS, RDT_OPT_THREADS,     RDT_OPT_LAMBDA,
    RDT_OPT_ON_FAULT, RDT_OPT_SCRUB,  RDT_OPT_AVOID_CORE,  RDT_OPT_AVOID_SM,    RDT_OPT_FIT,
    RDT_OPT_REPORT,   RDT_OPT_EVENTS, RDT_OPT_PROM,        RDT_OPT_PROM_EVERY,  RDT_OPT_SYSLOG,
    RDT_OPT_FORMAT,   RDT_OPT_JSON,   RDT_OPT_QUIET,       RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words files[] = {
    {"DIR/campaign.json", "what the campaign is: docs/schema/campaign-1.json"},
    {"DIR/trials.jsonl", "a line for each trial, in order, whatever `--jobs` was: docs/schema/trial-1.json"},
    {NULL, NULL}};
static const rdt_words examples[] = {
    {"redoubt inject model.onnx -i images.npy --n 2000", "faults of the default mix over all sites and layers"},
    {"redoubt inject gemm:256x256x256 --scheme row --n 100000 --jobs 2 -o row", "one product, every trial kept"},
    {"redoubt inject gemm:256x256x256 --scheme row --n 100000 --jobs 2 -o row --resume", "after it was stopped"},
    {"redoubt inject gemm:256x256x256 --scheme row --replay 4711 -o row", "the story of one trial"},
    {"redoubt inject conv:1x64x56x56:64x3x3:p1 --dtype s8 --until-ci 0.5%", "until the rate is known well enough"},
    {"redoubt inject model.onnx -i images.npy --fault none --n 10000", "clean runs: how many false reports?"},
    {"redoubt inject model.onnx -i images.npy --fault bit:30@accum,layer=conv* --n 100",
     "one kind of fault; each trial its own seed"},
    {"redoubt inject model.onnx -i images.npy --fault bit@accum,count=1:16 --on-fault correct",
     "up to 16 in one row or column, rebuilt from checksums"},
    {"redoubt inject gemm:256x256x256:f16 --device cuda:0 --scheme row", "on a GPU, by a kernel that strikes itself"},
    {"redoubt inject gemm:256x256x256:f16 --device cuda:0 --scheme tmr-kernel",
     "three copies on a GPU, one of them struck"},
    {"redoubt inject gemm:512x512x2048:f16 --device cuda:0 --scheme tmr-sm --checkpoints 8",
     "copies that vote on the way, on the grid and by clusters: layers grid and clusters"},
    {"redoubt inject gemm:512x512x512 --fault ber:1e-7@accum", "every computed bit flips with a probability"},
    {NULL, NULL}};
const rdt_command rdt_cmd_inject = {
    .name = "inject",
    .run = run,
    .operand = "TARGET",
    .operand_needed = true,
    .options = options,
    .summary = "a campaign of planted faults, or of none, against a golden result",
    .text =
        "TARGET is a network, MODEL.onnx with its inputs; one op on data of its own: gemm:MxNxK[:DTYPE], "
        "conv:NxCxHxW:OxRxS[:sSTRIDE][:pPAD][:dDILATION][:gGROUPS][:DTYPE]; or a workload, NAME[:BATCH][:DTYPE] of "
        "`redoubt list workloads`: its products and convolutions, each a layer that runs alone.\n"
        "\n"
        "Plants one fault a run, drawn from a mix by the seed and the trial's number, and compares the result with a "
        "clean one and with a golden one from the plain-C kernels. Trials run in child processes: a crash or a hang is "
        "an outcome, and so is a run that ends in an error. A miss inside what the layer's scheme claims, a found "
        "fault "
        "that was not repaired, a result that was made worse, or a crash ends in exit code 1 and is listed; misses "
        "outside of claims are counted as uncovered.\n"
        "\n"
        "With `--device cuda:N` the target computes on a GPU: a product by the own kernel of the scheme (`auto`: "
        "thread1) "
        "that is compiled once more to strike itself, at the sites accum, packed (fragments of A in registers), "
        "epilogue "
        "(after the check) and checksum; a network with faults in its weights, activations and results. What strikes "
        "there is one element once, or with `@accum,core=N` a whole multiprocessor. With `tmr-kernel` one of three "
        "copies is "
        "struck, before they are voted on. Golden results are the CPU's.\n"
        "\n"
        "Where a model leaves the first dimension open, each trial takes the next images of the inputs.",
    .good = "no miss inside a claim, no harm done; with `--fault none`: nothing was reported",
    .bad =
        "a fault above the floor was missed inside a claim, or not repaired, or a result was made worse, or the "
        "process crashed; with `--fault none`: a report, or an output that differs",
    .nothing = "no verdict: no fault hit anything, as in an empty shard; with `--fault none`: no check was made",
    .stopped =
        "stopped by signal N: no report is written; `-o DIR` has every trial until then, `--events` and `--prom` what "
        "happened",
    .files = files,
    .examples = examples};
