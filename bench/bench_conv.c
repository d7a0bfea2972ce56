#include "bench_conv.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "blocked_conv.h"
#include "core/memory.h"
#include "cpu/threads.h"
#include "field.h"

const char rdt_bench_conv_usage[] =
    "usage: redoubt bench conv [--n 1,8] [--ic C --oc K --ih H --iw W --kh R --kw S] [--stride N] [--pad N]\n"
    "                          [--dilation N] [--groups G] [--dtype f32|f64|bf16|f16|s8] [--threads 1,2]\n"
    "                          [--scheme auto|NAME|all] [--epilogue none|bias|bias+relu] [--trials N]\n"
    "                          [--format md|csv|json | --json] [-o FILE]\n"
    "Protected against unprotected convolutions of random data, interleaved; medians, and ratios with 95 % bootstrap\n"
    "intervals. / oneDNN compares with the faster of oneDNN in its own blocked formats and oneDNN in NHWC, epilogue\n"
    "fused; / none with this program's own unprotected path. Defaults: 56 x 56, 64 to 64 channels, 3 x 3, pad 1.\n";

typedef struct options {
  long long ic, oc, ih, iw, kh, kw, stride, pad, dilation, groups, trials;
  long long n[RDT_BENCH_LIST], threads[RDT_BENCH_LIST];
  int n_count, thread_count;
  rdt_dtype dtype;
  const char *scheme, *epilogue, *output;
  rdt_bench_format format;
} options;

/* ---- options ---------------------------------------------------------------------------------------------------- */

enum { NUMBERS = 11 };
static const struct option names[] = {{"ic", 1, 0, 0},         {"oc", 1, 0, 1},        {"ih", 1, 0, 2},
                                      {"iw", 1, 0, 3},         {"kh", 1, 0, 4},        {"kw", 1, 0, 5},
                                      {"stride", 1, 0, 6},     {"pad", 1, 0, 7},       {"dilation", 1, 0, 8},
                                      {"groups", 1, 0, 9},     {"trials", 1, 0, 10},   {"n", 1, 0, 'n'},
                                      {"dtype", 1, 0, 'd'},    {"threads", 1, 0, 't'}, {"scheme", 1, 0, 's'},
                                      {"epilogue", 1, 0, 'e'}, {"format", 1, 0, 'f'},  {"output", 1, 0, 'o'},
                                      {"json", 0, 0, 'j'},     {"help", 0, 0, 'h'},    {0, 0, 0, 0}};

static bool parse_one(int c, const char *value, options *o) {
  long long *const numbers[NUMBERS] = {&o->ic,     &o->oc,  &o->ih,       &o->iw,     &o->kh,    &o->kw,
                                       &o->stride, &o->pad, &o->dilation, &o->groups, &o->trials};
  if (c >= 0 && c < NUMBERS) return rdt_bench_parse_number(value, numbers[c] == &o->pad ? 0 : 1, numbers[c]);
  switch (c) {
    case 'n':
      return rdt_bench_parse_list(value, o->n, &o->n_count);
    case 't':
      return rdt_bench_parse_list(value, o->threads, &o->thread_count);
    case 'd':
      return rdt_bench_parse_dtype(value, &o->dtype);
    case 's':
      o->scheme = value;
      return rdt_bench_parse_scheme(value, RDT_KOP_CONV);
    case 'e':
      o->epilogue = value;
      return rdt_bench_parse_epilogue(value);
    case 'f':
      return rdt_bench_format_parse(value, &o->format);
    case 'j':
      return rdt_bench_format_parse("json", &o->format);
    case 'o':
      o->output = value;
      return true;
    default:
      return false;
  }
}

/* 0, or -1 after --help, or the exit code. */
static int parse(int argc, char **argv, options *o) {
  *o = (options){.ic = 64, .oc = 64, .ih = 56, .iw = 56, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1};
  o->groups = 1;
  o->trials = 31;
  o->n[0] = o->threads[0] = 1;
  o->n[1] = 8;
  o->threads[1] = o->n_count = o->thread_count = 2;
  o->dtype = RDT_F32;
  o->scheme = "auto";
  o->epilogue = "none";
  int c;
  optind = 0;
  while ((c = getopt_long(argc, argv, "o:h", names, NULL)) != -1) {
    if (c == 'h') {
      fputs(rdt_bench_conv_usage, stdout);
      return -1;
    }
    if (!parse_one(c, optarg, o)) {
      if (c != '?') fprintf(stderr, "redoubt bench conv: '%s' is not a value of that option\n", optarg);
      fputs(rdt_bench_conv_usage, stderr);
      return 2;
    }
  }
  if (optind < argc) fprintf(stderr, "redoubt bench conv: unexpected '%s'\n%s", argv[optind], rdt_bench_conv_usage);
  return optind < argc ? 2 : 0;
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

static void data_free(rdt_problem *p) {
  for (int i = 0; p->in && i < 2; i++) rdt_free(p->in[i].data);
  rdt_free(p->out.data);
  if (p->epilogue.bias.rank >= 0) rdt_free(p->epilogue.bias.data);
  rdt_problem_clear(p);
}

static rdt_status data_make(const options *o, int64_t n, rdt_problem *p, rdt_reason *why) {
  uint64_t seed = 1;
  *p = (rdt_problem){.epilogue = RDT_EPILOGUE_NONE};
  RDT_TRY(rdt_problem_init(p, RDT_KOP_CONV, 2));
  p->acc = rdt_dtype_accumulator(o->dtype);
  p->window = (rdt_window){.kernel = {o->kh, o->kw},
                           .stride = {o->stride, o->stride},
                           .dilation = {o->dilation, o->dilation},
                           .before = {o->pad, o->pad},
                           .after = {o->pad, o->pad},
                           .groups = o->groups};
  const int64_t out[2] = {(o->ih + 2 * o->pad - (o->kh - 1) * o->dilation - 1) / o->stride + 1,
                          (o->iw + 2 * o->pad - (o->kw - 1) * o->dilation - 1) / o->stride + 1};
  p->in[0] = rdt_tensor_channels_last(NULL, o->dtype, 4, (int64_t[]){n, o->ic, o->ih, o->iw});
  p->in[1] = rdt_tensor_dense(NULL, o->dtype, 4, (int64_t[]){o->oc, o->ic / o->groups, o->kh, o->kw});
  p->out = rdt_tensor_channels_last(NULL, p->acc, 4, (int64_t[]){n, o->oc, out[0], out[1]});
  const int64_t channels = o->oc;
  if (strcmp(o->epilogue, "none") != 0) p->epilogue.bias = rdt_tensor_dense(NULL, p->acc, 1, &channels);
  if (strcmp(o->epilogue, "bias+relu") == 0) p->epilogue.act.fn = RDT_FN_RELU;
  RDT_TRY(rdt_problem_check(p, why));
  const bool ok = rdt_bench_random(&p->in[0], &seed) && rdt_bench_random(&p->in[1], &seed) &&
                  rdt_bench_random(&p->out, &seed) &&
                  (p->epilogue.bias.rank < 0 || rdt_bench_random(&p->epilogue.bias, &seed));
  return ok ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "not enough memory");
}

/* ---- one batch size and number of threads ----------------------------------------------------------------------- */

typedef struct session {
  const options *o;
  rdt_problem p;
  rdt_field field;
  int blocked, nhwc; /* baselines, -1: not there */
} session;

static int run_blocked(void *user, const rdt_problem *p) {
  (void)p; /* it has its own data */
  return rdt_blocked_conv_run(user);
}

static void destroy_blocked(void *user) {
  rdt_blocked_conv_destroy(user);
}

static bool gather(session *s, int threads) {
  rdt_field *f = &s->field;
  rdt_field_begin(f, "bench conv", &s->p, 1, threads);
  const int before = rdt_threads_enter(threads);
  rdt_blocked_conv *blocked = rdt_blocked_conv_create(&s->p);
  rdt_threads_leave(before);
  s->blocked = rdt_field_add_foreign(f, "oneDNN blocked", "dnnl any", run_blocked, destroy_blocked, blocked);
  s->nhwc = rdt_field_add_vendor(f, "oneDNN NHWC");
  return rdt_field_add_none(f) && rdt_field_add_schemes(f, s->o->scheme);
}

static const char *const columns[] = {"n", "shape", "dtype", "epilogue", RDT_FIELD_COLUMNS};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static int yardstick(const session *s, const rdt_timing *timing) {
  if (s->blocked < 0 || s->nhwc < 0) return s->blocked < 0 ? s->nhwc : s->blocked;
  return rdt_timing_stat_of(timing, s->blocked).median <= rdt_timing_stat_of(timing, s->nhwc).median ? s->blocked
                                                                                                     : s->nhwc;
}

static void print_row(const session *s, rdt_bench_out *t, const rdt_timing *timing, int i) {
  const options *o = s->o;
  char shape[128];
  snprintf(shape, sizeof shape, "%lld x %lld, %lld to %lld, %lld x %lld s%lld p%lld g%lld", o->ih, o->iw, o->ic, o->oc,
           o->kh, o->kw, o->stride, o->pad, o->groups);
  rdt_bench_fixed(t, (double)s->p.out.shape[0], 0);
  rdt_bench_text(t, shape);
  rdt_bench_text(t, rdt_dtype_name(o->dtype));
  rdt_bench_text(t, o->epilogue);
  rdt_field_cells(&s->field, t, timing, i, yardstick(s, timing));
}

static int bench_case(session *s, rdt_bench_out *t, int64_t n, int threads) {
  rdt_timing timing;
  rdt_reason why = {.text = ""};
  rdt_timing_init(&timing, (int)s->o->trials);
  if (data_make(s->o, n, &s->p, &why) != RDT_OK) {
    fprintf(stderr, "redoubt bench conv: %s\n", why.text);
    data_free(&s->p);
    return 2;
  }
  const bool ready = gather(s, threads);
  const int code = ready ? rdt_field_time(&s->field, &timing) : 2;
  for (int i = 0; s->field.timed && i < s->field.count; i++) print_row(s, t, &timing, i);
  rdt_field_end(&s->field);
  rdt_timing_free(&timing);
  data_free(&s->p);
  return code;
}

int rdt_bench_conv(int argc, char **argv) {
  options o;
  session s = {.o = &o};
  const int bad = parse(argc, argv, &o);
  if (bad) return bad < 0 ? 0 : bad;
  rdt_bench_file out;
  if (!rdt_bench_file_open(&out, o.output)) {
    fputs("redoubt bench conv: out of memory\n", stderr);
    return 2;
  }
  rdt_bench_out t;
  rdt_bench_begin_rows(&t, out.f, o.format, "conv", columns, COLUMNS);
  int code = 0;
  for (int n = 0; n < o.n_count; n++)
    for (int i = 0; code != 2 && i < o.thread_count; i++) {
      const int c = bench_case(&s, &t, o.n[n], (int)o.threads[i]);
      if (c > code) code = c;
    }
  if (!rdt_bench_end(&t)) {
    fputs("redoubt bench conv: writing the table failed\n", stderr);
    code = 2;
  }
  return rdt_bench_file_close(&out, "bench conv", code);
}
