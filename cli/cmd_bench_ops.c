/* redoubt bench gemm, conv, workloads: ops, protected against unprotected. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "bench_conv.h"
#include "bench_gemm.h"
#include "bench_workloads.h"
#include "cli.h"
#include "core/team.h"
#include "progress.h"

/* ---- what they take ---- */

static const char *const epilogues[] = {"none", "bias", "bias+relu"};

bool rdt_bench_show(double part, const char *what) {
  if (part < 1.0)
    rdt_progress(part, "%s", what);
  else
    rdt_progress_end();
  return !rdt_signals_caught();
}

static int ended(const rdt_command *c, int code) {
  if (code == RDT_TIMING_STOPPED) code = rdt_cli_fail(c, RDT_ERR_CANCELLED, NULL);
  rdt_signals_default();
  return code;
}

static long long or (int64_t given, long long by_itself) {
  return given > 0 ? given : by_itself;
}

static rdt_status take_list(const char *option, const char *text, long long *list, int *n, rdt_reason *why) {
  if (rdt_bench_parse_list(text, list, n)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG, "--%s takes up to %d numbers from 1 to 1024 as in 1,2, not '%s'", option,
                  RDT_BENCH_LIST, text);
}

/* What a command line says, as the benchmarks take it. */
enum { SCHEMES = 16 };
typedef struct taken {
  rdt_bench_ask ask;
  rdt_baselines baselines;
  const char *schemes[SCHEMES];
  char words[256], head[1024];
} taken;

/* both: of products and of convolutions, as networks have them */
static rdt_status take_schemes(const char *text, rdt_kop op, bool both, taken *t, rdt_reason *why) {
  char *rest = t->words;
  if (snprintf(t->words, sizeof t->words, "%s", text) >= (int)sizeof t->words)
    return rdt_fail(why, RDT_ERR_ARG, "--scheme names too many");
  for (char *word; (word = strsep(&rest, ",")) != NULL;) {
    if (!rdt_bench_parse_scheme(word, op) && !(both && rdt_bench_parse_scheme(word, RDT_KOP_CONV)))
      return rdt_fail(why, RDT_ERR_ARG,
                      "--scheme takes auto, plan, all or one of `redoubt list schemes` that serves this op, not '%s'",
                      word);
    if (t->ask.n_schemes == SCHEMES) return rdt_fail(why, RDT_ERR_ARG, "--scheme names more than %d", SCHEMES);
    t->schemes[t->ask.n_schemes++] = word;
  }
  return RDT_OK;
}

__attribute__((format(printf, 2, 3))) static void say(taken *t, const char *format, ...) {
  const size_t used = strlen(t->head), room = sizeof t->head - used;
  va_list args;
  va_start(args, format);
  if (used > 0 && room > 1) t->head[used] = ' ';
  vsnprintf(t->head + used + (used > 0), room - (used > 0 && room > 1), format, args);
  va_end(args);
}

/* The settings as somebody would type them: they stand above the tables. Of paths only the last part. */
static void describe(const rdt_command *c, const rdt_settings *s, taken *t) {
  const bool gemm = c == &rdt_cmd_bench_gemm;
  char names[512] = "";
  const struct {
    const char *name;
    int64_t value;
  } lengths[] = {{"ic", s->ic},        {"oc", s->oc}, {"ih", s->ih},         {"iw", s->iw},
                 {"kh", s->kh},        {"kw", s->kw}, {"stride", s->stride}, {"dilation", s->dilation},
                 {"groups", s->groups}};
  const struct {
    const char *name, *text;
  } texts[] = {{"m", s->m},           {"n", gemm ? s->lengths_n : s->batches},
               {"k", s->k},           {"set", s->set},
               {"scheme", s->scheme}, {"threads", s->thread_list}};
  if (s->operand) say(t, "%s", s->operand);
  for (int i = 0; i < s->mnk.count; i++) say(t, "--mnk %s", s->mnk.at[i]);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].text) say(t, "--%s %s", texts[i].name, texts[i].text);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    if (lengths[i].value > 0) say(t, "--%s %" PRId64, lengths[i].name, lengths[i].value);
  if (s->pad >= 0) say(t, "--pad %" PRId64, s->pad);
  if (s->dtype >= 0) say(t, "--dtype %s", rdt_dtype_name(rdt_options_dtype(s)));
  if (s->epilogue > 0) say(t, "--epilogue %s", epilogues[s->epilogue]);
  for (int i = 0; i < t->baselines.count; i++) {
    const char *file = t->baselines.list[i].file, *slash = strrchr(file, '/');
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? "," : "", slash ? slash + 1 : file);
  }
  if (s->baseline) say(t, "--baseline %s", *names ? names : "none");
  if (s->cold) say(t, "--cold");
  if (s->convolutions) say(t, "--convolutions");
  if (s->max_seconds > 0.0) say(t, "--max-seconds %g", s->max_seconds);
  if (s->trials > 0) say(t, "--trials %" PRId64, s->trials);
}

static rdt_status take(const rdt_command *c, const rdt_settings *s, rdt_kop op, const char *baselines, taken *t,
                       rdt_reason *why) {
  *t = (taken){.ask = {.dtype = rdt_options_dtype(s),
                       .trials = (int) or (s->trials, 31),
                       .schemes = t->schemes,
                       .epilogue = epilogues[s->epilogue],
                       .cold = s->cold,
                       .seconds = s->max_seconds,
                       .baselines = &t->baselines,
                       .output = s->out,
                       .format = (rdt_bench_format)s->format,
                       .head = t->head,
                       .progress = rdt_bench_show}};
  RDT_TRY(take_schemes(s->scheme ? s->scheme : "auto", op, s->convolutions, t, why));
  RDT_TRY(rdt_baselines_take(s->baseline ? s->baseline : baselines, &t->baselines, why));
  describe(c, s, t);
  RDT_TRY(take_list("threads", s->thread_list ? s->thread_list : "1,2", t->ask.threads, &t->ask.n_threads, why));
  for (int i = 0; i < t->ask.n_threads; i++) RDT_TRY(rdt_team_try((int)t->ask.threads[i], why));
  return RDT_OK;
}

/* ---- products ---- */

static rdt_status take_shapes(const rdt_settings *s, rdt_bench_shapes *shapes, rdt_reason *why) {
  rdt_bench_lengths m = {.count = 0}, n = {.count = 0}, k = {.count = 0};
  shapes->count = 0;
  if (s->m) RDT_TRY(rdt_bench_take_lengths("m", s->m, &m, why));
  if (s->lengths_n) RDT_TRY(rdt_bench_take_lengths("n", s->lengths_n, &n, why));
  if (s->k) RDT_TRY(rdt_bench_take_lengths("k", s->k, &k, why));
  for (int i = 0; i < s->mnk.count; i++) RDT_TRY(rdt_bench_take_mnk(s->mnk.at[i], shapes, why));
  if (s->m || s->lengths_n || s->k || (!s->mnk.count && !s->set)) RDT_TRY(rdt_bench_cross(&m, &n, &k, shapes, why));
  return s->set ? rdt_bench_take_set(s->set, shapes, why) : RDT_OK;
}

static int run_gemm(const rdt_command *c, const rdt_settings *s) {
  taken t;
  rdt_bench_shapes shapes;
  rdt_reason why = {""};
  rdt_status status = take(c, s, RDT_KOP_GEMM, "onednn,openblas,blis", &t, &why);
  if (status == RDT_OK) status = take_shapes(s, &shapes, &why);
  if (status != RDT_OK) return rdt_cli_fail(c, status, why.text);
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "measuring");
  return ended(c, rdt_bench_gemm(&t.ask, &shapes));
}

static const rdt_option_id gemm_options[] = {
    RDT_OPT_MNK,    RDT_OPT_GEMM_M,      RDT_OPT_GEMM_N,     RDT_OPT_GEMM_K,   RDT_OPT_GEMM_SET,
    RDT_OPT_DTYPE,  RDT_OPT_EPILOGUE,    RDT_OPT_CONTENDERS, RDT_OPT_BASELINE, RDT_OPT_THREAD_LIST,
    RDT_OPT_TRIALS, RDT_OPT_RUNS,        RDT_OPT_COLD,       RDT_OPT_OUTPUT,   RDT_OPT_TABLE_FORMAT,
    RDT_OPT_JSON,   RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words gemm_examples[] = {
    {"redoubt bench gemm --mnk 1024:1024:1024 --threads 1,2", "the default"},
    {"redoubt bench gemm --m 1024,2048,4096 --dtype f64 --scheme auto,rowcol", "squares"},
    {"redoubt bench gemm --set skinny --cold", "few rows, weights from memory"},
    {"redoubt bench gemm --set resnet50 --threads 1 --scheme all", "a network's products, and their sum"},
    {"redoubt bench gemm --mnk 512:512:4096 --dtype s8 --baseline onednn", "integers against one library"},
    {NULL, NULL}};
#define TABLES                                                                                                        \
  "Medians, and ratios of medians with 95 % bootstrap intervals: \"/ best\" to the fastest library of the row, \"/ "  \
  "none\" to this program's own unprotected path (\"redoubt none\"; \"redoubt auto\" is what is planned). \"of "      \
  "peak\" and, with --cold, \"of bandwidth\" (operands and "                                                          \
  "result, once each) are shares of what the machine did in the same run: multiply-adds from registers and reading "  \
  "from memory by as many threads, before and after each row. Where there are several rows they are summed, each as " \
  "often as it occurs, against the sum of each row's fastest library.\n\n"                                            \
  "What a library computes is checked first; one that is wrong, or not there, is named on stderr and takes no part."
const rdt_command rdt_cmd_bench_gemm = {
    .name = "bench gemm",
    .run = run_gemm,
    .options = gemm_options,
    .summary = "products: protected against the best unprotected ones",
    .text =
        "Multiplies random matrices with protection, without it, and with the libraries that are there, interleaved in "
        "one process. oneDNN is linked, its weights are packed beforehand; others are opened when they are found. They "
        "run the best code that they have for this processor (OPENBLAS_CORETYPE=SKYLAKEX and BLIS_ARCH_TYPE for skx "
        "with AVX-512, unless these are set already), and the table says which they chose. " TABLES,
    .bad = "a fault was found, although none was planted",
    .stopped = "stopped by signal N: no table is written",
    .examples = gemm_examples};

/* ---- convolutions ---- */

static rdt_status take_images(const rdt_settings *s, rdt_bench_images *images, rdt_reason *why) {
  const bool lengths =
      s->ic || s->oc || s->ih || s->iw || s->kh || s->kw || s->stride || s->pad >= 0 || s->dilation || s->groups;
  const rdt_bench_image one = {.ic = or (s->ic, 64),
                               .oc = or (s->oc, 64),
                               .ih = or (s->ih, 56),
                               .iw = or (s->iw, 56),
                               .kh = or (s->kh, 3),
                               .kw = or (s->kw, 3),
                               .stride = or (s->stride, 1),
                               .pad = s->pad >= 0 ? s->pad : 1,
                               .dilation = or (s->dilation, 1),
                               .groups = or (s->groups, 1),
                               .times = 1};
  long long n[RDT_BENCH_LIST];
  int count;
  images->count = 0;
  if (s->set && lengths)
    return rdt_fail(why, RDT_ERR_ARG, "--set %s brings the lengths of its layers: leave the others out", s->set);
  if (s->set && !s->batches) return rdt_bench_take_images(s->set, 0, images, why);
  RDT_TRY(take_list("n", s->batches ? s->batches : "1,8", n, &count, why));
  for (int i = 0; i < count; i++) {
    if (s->set) {
      RDT_TRY(rdt_bench_take_images(s->set, n[i], images, why));
      continue;
    }
    images->at[images->count] = one;
    images->at[images->count++].n = n[i];
  }
  return RDT_OK;
}

static int run_conv(const rdt_command *c, const rdt_settings *s) {
  taken t;
  rdt_bench_images images;
  rdt_reason why = {""};
  rdt_status status = take(c, s, RDT_KOP_CONV, "onednn", &t, &why);
  if (status == RDT_OK) status = take_images(s, &images, &why);
  if (status != RDT_OK) return rdt_cli_fail(c, status, why.text);
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "measuring");
  return ended(c, rdt_bench_conv(&t.ask, &images));
}

static const rdt_option_id conv_options[] = {
    RDT_OPT_BATCHES, RDT_OPT_IC,       RDT_OPT_OC,           RDT_OPT_IH,       RDT_OPT_IW,          RDT_OPT_KH,
    RDT_OPT_KW,      RDT_OPT_STRIDE,   RDT_OPT_PAD,          RDT_OPT_DILATION, RDT_OPT_GROUPS,      RDT_OPT_CONV_SET,
    RDT_OPT_DTYPE,   RDT_OPT_EPILOGUE, RDT_OPT_CONTENDERS,   RDT_OPT_BASELINE, RDT_OPT_THREAD_LIST, RDT_OPT_TRIALS,
    RDT_OPT_RUNS,    RDT_OPT_OUTPUT,   RDT_OPT_TABLE_FORMAT, RDT_OPT_JSON,     RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words conv_examples[] = {
    {"redoubt bench conv --n 8 --threads 2 --scheme all", "every scheme"},
    {"redoubt bench conv --ic 512 --oc 512 --ih 7 --iw 7 --epilogue bias+relu", "a late layer of a network"},
    {"redoubt bench conv --set resnet50 --n 1,8", "all convolutions of a network, and their sum"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_conv = {.name = "bench conv",
                                        .run = run_conv,
                                        .options = conv_options,
                                        .summary = "convolutions: protected against the best unprotected ones",
                                        .text =
                                            "Convolves random images, interleaved, with oneDNN in its own blocked "
                                            "formats and in NHWC, epilogue fused. " TABLES,
                                        .bad = "a fault was found, although none was planted",
                                        .stopped = "stopped by signal N: no table is written",
                                        .examples = conv_examples};

/* ---- workloads ---- */

static int run_workloads(const rdt_command *c, const rdt_settings *s) {
  taken t;
  static rdt_bench_networks networks;
  rdt_reason why = {""};
  rdt_status status = take(c, s, RDT_KOP_GEMM, "onednn,openblas,blis", &t, &why);
  if (status == RDT_OK) status = rdt_bench_take_networks(s->operand, &networks, &why);
  if (status != RDT_OK) return rdt_cli_fail(c, status, why.text);
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "measuring");
  return ended(c, rdt_bench_workloads(&t.ask, &networks, s->convolutions));
}

static const rdt_option_id workload_options[] = {
    RDT_OPT_CONVOLUTIONS, RDT_OPT_MAX_SECONDS, RDT_OPT_DTYPE,       RDT_OPT_EPILOGUE, RDT_OPT_CONTENDERS,
    RDT_OPT_BASELINE,     RDT_OPT_THREAD_LIST, RDT_OPT_TRIALS,      RDT_OPT_RUNS,     RDT_OPT_OUTPUT,
    RDT_OPT_TABLE_FORMAT, RDT_OPT_JSON,        RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words workload_examples[] = {
    {"redoubt bench workloads resnet50 --threads 2 --scheme plan,global,thread1", "a network's layers"},
    {"redoubt bench workloads dlrm,noscope --max-seconds 60 -o small.json --json", "groups of networks, a minute"},
    {"redoubt bench workloads square --scheme all --threads 2", "squares with every scheme"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_workloads = {
    .name = "bench workloads",
    .run = run_workloads,
    .operand = "WORKLOAD|GROUP,..",
    .operand_needed = true,
    .options = workload_options,
    .summary = "networks layer by layer: protected against the best unprotected layers",
    .text =
        "Runs the layers of the built-in workloads, of some or of groups of them (`redoubt list workloads`), with "
        "protection, without it, and with the libraries that are there, interleaved in one process: by themselves as "
        "products, images unfolded. Weights come from memory where the network has more of them than a cache holds. "
        "" TABLES
        " \"least / none\" and \"most / none\" are the same for the best and the worst of the sum's blocks of trials "
        "(three each, where there are enough).",
    .bad = "a fault was found, although none was planted",
    .stopped = "stopped by signal N: no table is written",
    .examples = workload_examples};
