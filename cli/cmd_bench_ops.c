/* redoubt bench gemm, redoubt bench conv: one op, protected against unprotected. */
#include <string.h>

#include "bench_conv.h"
#include "bench_gemm.h"
#include "cli.h"
#include "progress.h"

/* ---- what both take ---- */

static const rdt_dtype dtypes[] = {RDT_F32, RDT_F64, RDT_BF16, RDT_F16, RDT_S8}; /* in the order of --dtype */
static const char *const epilogues[] = {"none", "bias", "bias+relu"};

bool rdt_bench_show(double part, const char *what) {
  if (part < 1.0)
    rdt_progress(part, "%s", what);
  else
    rdt_progress_end();
  return !rdt_signals_caught();
}

static int ended(const rdt_command *c, int code) {
  if (code == RDT_BENCH_STOPPED) code = rdt_cli_fail(c, RDT_ERR_CANCELLED, NULL);
  rdt_signals_default();
  return code;
}

static rdt_status take_list(const char *option, const char *text, long long *list, int *n, rdt_reason *why) {
  if (rdt_bench_parse_list(text, list, n)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG, "--%s takes up to %d numbers from 1 to 1024 as in 1,2, not '%s'", option,
                  RDT_BENCH_LIST, text);
}

static rdt_status take_scheme(const char *scheme, rdt_kop op, rdt_reason *why) {
  if (rdt_bench_parse_scheme(scheme, op)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG,
                  "--scheme takes auto, all or one of `redoubt list schemes` that serves this op, not '%s'", scheme);
}

static long long or (int64_t given, long long by_itself) {
  return given > 0 ? given : by_itself;
}

/* ---- products ---- */

static rdt_status take_mnk(const char *text, rdt_bench_gemm_job *job, rdt_reason *why) {
  int used = 0;
  const bool good = sscanf(text, "%lld:%lld:%lld%n", &job->m, &job->n, &job->k, &used) == 3 && text[used] == '\0' &&
                    job->m > 0 && job->n > 0 && job->k > 0 && job->m < 1 << 20 && job->n < 1 << 20 && job->k < 1 << 20;
  if (good) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG, "--mnk takes three lengths as in 1024:1024:1024, not '%s'", text);
}

static rdt_status take_gemm(const rdt_settings *s, rdt_bench_gemm_job *job, rdt_reason *why) {
  *job = (rdt_bench_gemm_job){.m = 1024,
                              .n = 1024,
                              .k = 1024,
                              .dtype = dtypes[s->dtype],
                              .trials = (int) or (s->trials, 31),
                              .scheme = s->scheme ? s->scheme : "auto",
                              .epilogue = epilogues[s->epilogue],
                              .cold = s->cold,
                              .output = s->out,
                              .format = (rdt_bench_format)s->format,
                              .progress = rdt_bench_show};
  if (s->mnk) RDT_TRY(take_mnk(s->mnk, job, why));
  job->m = or (s->m, job->m);
  job->n = or (s->n, job->n);
  job->k = or (s->k, job->k);
  RDT_TRY(take_scheme(job->scheme, RDT_KOP_GEMM, why));
  return take_list("threads", s->thread_list ? s->thread_list : "1,2", job->threads, &job->n_threads, why);
}

static int run_gemm(const rdt_command *c, const rdt_settings *s) {
  rdt_bench_gemm_job job;
  rdt_reason why = {""};
  const rdt_status status = take_gemm(s, &job, &why);
  if (status != RDT_OK) return rdt_cli_fail(c, status, why.text);
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "measuring");
  return ended(c, rdt_bench_gemm(&job));
}

static const rdt_option_id gemm_options[] = {
    RDT_OPT_MNK,      RDT_OPT_GEMM_M,       RDT_OPT_GEMM_N,      RDT_OPT_GEMM_K,      RDT_OPT_DTYPE,
    RDT_OPT_EPILOGUE, RDT_OPT_CONTENDERS,   RDT_OPT_THREAD_LIST, RDT_OPT_TRIALS,      RDT_OPT_COLD,
    RDT_OPT_OUTPUT,   RDT_OPT_TABLE_FORMAT, RDT_OPT_JSON,        RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words gemm_examples[] = {
    {"redoubt bench gemm --mnk 1024:1024:1024 --threads 1,2", "the default"},
    {"redoubt bench gemm --mnk 512:512:4096 --dtype s8 --scheme all --cold", "every scheme, weights from memory"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_gemm = {
    .name = "bench gemm",
    .run = run_gemm,
    .options = gemm_options,
    .summary = "products: protected against the best unprotected ones",
    .text =
        "Multiplies random matrices with protection, without it, and with other libraries where they are there "
        "(oneDNN, OpenBLAS), interleaved in one process. Medians, and ratios with 95 % bootstrap intervals.",
    .bad = "a fault was found, although none was planted",
    .stopped = "stopped by signal N: no table is written",
    .examples = gemm_examples};

/* ---- convolutions ---- */

static rdt_status take_conv(const rdt_settings *s, rdt_bench_conv_job *job, rdt_reason *why) {
  *job = (rdt_bench_conv_job){.ic = or (s->ic, 64),
                              .oc = or (s->oc, 64),
                              .ih = or (s->ih, 56),
                              .iw = or (s->iw, 56),
                              .kh = or (s->kh, 3),
                              .kw = or (s->kw, 3),
                              .stride = or (s->stride, 1),
                              .pad = s->pad >= 0 ? s->pad : 1,
                              .dilation = or (s->dilation, 1),
                              .groups = or (s->groups, 1),
                              .trials = (int) or (s->trials, 31),
                              .dtype = dtypes[s->dtype],
                              .scheme = s->scheme ? s->scheme : "auto",
                              .epilogue = epilogues[s->epilogue],
                              .output = s->out,
                              .format = (rdt_bench_format)s->format,
                              .progress = rdt_bench_show};
  RDT_TRY(take_scheme(job->scheme, RDT_KOP_CONV, why));
  RDT_TRY(take_list("n", s->batches ? s->batches : "1,8", job->n, &job->n_count, why));
  return take_list("threads", s->thread_list ? s->thread_list : "1,2", job->threads, &job->thread_count, why);
}

static int run_conv(const rdt_command *c, const rdt_settings *s) {
  rdt_bench_conv_job job;
  rdt_reason why = {""};
  const rdt_status status = take_conv(s, &job, &why);
  if (status != RDT_OK) return rdt_cli_fail(c, status, why.text);
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "measuring");
  return ended(c, rdt_bench_conv(&job));
}

static const rdt_option_id conv_options[] = {
    RDT_OPT_BATCHES,  RDT_OPT_IC,          RDT_OPT_OC,          RDT_OPT_IH,       RDT_OPT_IW,     RDT_OPT_KH,
    RDT_OPT_KW,       RDT_OPT_STRIDE,      RDT_OPT_PAD,         RDT_OPT_DILATION, RDT_OPT_GROUPS, RDT_OPT_DTYPE,
    RDT_OPT_EPILOGUE, RDT_OPT_CONTENDERS,  RDT_OPT_THREAD_LIST, RDT_OPT_TRIALS,   RDT_OPT_OUTPUT, RDT_OPT_TABLE_FORMAT,
    RDT_OPT_JSON,     RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words conv_examples[] = {
    {"redoubt bench conv --n 8 --threads 2 --scheme all", "every scheme"},
    {"redoubt bench conv --ic 512 --oc 512 --ih 7 --iw 7 --epilogue bias+relu", "a late layer of a network"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_conv = {
    .name = "bench conv",
    .run = run_conv,
    .options = conv_options,
    .summary = "convolutions: protected against the best unprotected ones",
    .text =
        "Convolves random images, interleaved; medians, and ratios with 95 % bootstrap intervals. \"/ oneDNN\" "
        "compares "
        "with the faster of oneDNN in its own blocked formats and oneDNN in NHWC, epilogue fused; \"/ none\" with this "
        "program's own unprotected path.",
    .bad = "a fault was found, although none was planted",
    .stopped = "stopped by signal N: no table is written",
    .examples = conv_examples};
