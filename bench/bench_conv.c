#include "bench_conv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "blocked_conv.h"
#include "core/memory.h"
#include "cpu/threads.h"
#include "field.h"

typedef rdt_bench_conv_job options;

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

static int bench_case(session *s, rdt_bench_out *t, int which, int turn) {
  const int64_t n = s->o->n[which];
  const int threads = (int)s->o->threads[turn];
  rdt_timing timing;
  rdt_reason why = {.text = ""};
  rdt_timing_init(&timing, s->o->trials);
  timing.progress = s->o->progress;
  timing.turn = which * s->o->thread_count + turn;
  timing.turns = s->o->n_count * s->o->thread_count;
  snprintf(timing.what, sizeof timing.what, "n %d, threads %d", (int)n, threads);
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

int rdt_bench_conv(const rdt_bench_conv_job *o) {
  session s = {.o = o};
  rdt_bench_file out;
  if (!rdt_bench_file_open(&out, o->output)) {
    fputs("redoubt bench conv: out of memory\n", stderr);
    return 2;
  }
  rdt_bench_out t;
  rdt_bench_begin_rows(&t, out.f, o->format, "conv", columns, COLUMNS);
  int code = 0;
  for (int n = 0; n < o->n_count; n++)
    for (int i = 0; code < 2 && i < o->thread_count; i++) {
      const int c = bench_case(&s, &t, n, i);
      if (c > code) code = c;
    }
  if (!rdt_bench_end(&t)) {
    fputs("redoubt bench conv: writing the table failed\n", stderr);
    code = 2;
  }
  return rdt_bench_file_close(&out, "bench conv", code);
}
