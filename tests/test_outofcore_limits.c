/* What a product of files may take, and what it may not rely on: memory within the limit as the system counts it, the
 * least limit, spans that are kept, operands that change meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/problem.h"
#include "util_folder.h"
#include "util_product.h"
#include "util_sample.h"

static char a_path[64], b_path[64], c_path[64];

static int begin(void **state) {
  if (util_folder_make(state) != 0) return -1;
  snprintf(a_path, sizeof a_path, "%.40s/a.npy", util_folder);
  snprintf(b_path, sizeof b_path, "%.40s/b.npy", util_folder);
  snprintf(c_path, sizeof c_path, "%.40s/c.npy", util_folder);
  return 0;
}

static rdt_context *context(int threads) {
  rdt_context *ctx;
  assert_int_equal(rdt_context_create(&ctx, threads), RDT_OK);
  return ctx;
}

static rdt_matmul_job job_of(rdt_strategy strategy, size_t limit) {
  return (rdt_matmul_job){
      .a = a_path, .b = b_path, .c = c_path, .mem_limit = limit, .strategy = strategy, .protected = true};
}

static void make_operands(int64_t m, int64_t n, int64_t k) {
  rdt_free(util_npy(a_path, RDT_F32, false, m, k, 1));
  rdt_free(util_npy(b_path, RDT_F32, false, k, n, 2));
}

/* ---- operands that change ---- */

typedef struct change {
  const char *path;
  bool longer; /* else in place */
  int calls;
} change;

static void change_it(void *user, double part, double gflops) {
  change *c = user;
  (void)part, (void)gflops;
  if (c->calls++ > 0) return;
  usleep(20000); /* a clock that counts files' times counts on */
  const int fd = open(c->path, O_WRONLY | (c->longer ? O_APPEND : 0));
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, "1234", 4, 200), 4);
  close(fd);
}

static bool there(const char *end) {
  char path[96];
  snprintf(path, sizeof path, "%s%s", c_path, end);
  return access(path, F_OK) == 0;
}

static void test_changed(void **state) {
  (void)state;
  rdt_context *ctx = context(2);
  for (int i = 0; i < 4; i++) {
    change c = {i / 2 ? b_path : a_path, i % 2, 0};
    rdt_matmul_result r;
    rdt_reason why = {""};
    make_operands(150, 131, 170);
    rdt_matmul_job job = job_of(RDT_STRATEGY_PREFETCH, 1000000);
    job.progress = change_it, job.user = &c;
    assert_int_equal(rdt_matmul(ctx, &job, &r, &why), RDT_ERR_IO);
    if (!strstr(why.text, c.path) || !strstr(why.text, "was changed while")) fail_msg("%s", why.text);
    assert_false(there("") || there(".sums") || there(".part") || there(".part.sums"));
  }
  rdt_context_destroy(ctx);
}

/* ---- a block that changes while it waits to be stored ---- */

static int hits;

static rdt_status hit_and_store(void *dev, const rdt_matrix *m, const rdt_part_of *part, const rdt_tensor *from,
                                uint64_t *sum, rdt_reason *why) {
  if (hits > 0 && part->row > 0) hits--, ((unsigned char *)from->data)[2] ^= 4;
  return rdt_backend_cpu.store(dev, m, part, from, sum, why);
}

const rdt_backend *__wrap_rdt_backend_find(const char *name);
const rdt_backend *__wrap_rdt_backend_find(const char *name) {
  static rdt_backend host;
  host = rdt_backend_cpu;
  host.store = hit_and_store;
  return strcmp(name, "cpu") == 0 ? &host : NULL;
}

/* It is detected, not in the list, and computed again by a run that goes on. */
static void test_waiting(void **state) {
  (void)state;
  rdt_context *ctx = context(2);
  double *a = util_npy(a_path, RDT_F32, false, 150, 170, 1), *b = util_npy(b_path, RDT_F32, false, 170, 131, 2);
  rdt_matmul_result r;
  rdt_reason why = {""};
  rdt_matmul_job job = job_of(RDT_STRATEGY_SIMPLE, 500000);
  hits = 1;
  assert_int_equal(rdt_matmul(ctx, &job, &r, &why), RDT_ERR_FAULT);
  assert_int_equal(hits, 0);
  assert_int_equal(r.verdict, RDT_DETECTED);
  assert_non_null(strstr(why.text, "changed in memory while it was written"));
  assert_false(there(""));
  job.resume = job.verify = true;
  if (rdt_matmul(ctx, &job, &r, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_true(r.resumed > 0);
  util_npy_expect(c_path, RDT_F32, 150, 131, 170, a, b, 0.0);
  rdt_free(a);
  rdt_free(b);
  rdt_context_destroy(ctx);
}

/* ---- the least limit ---- */

static rdt_task task_of(rdt_context *ctx, int threads, int64_t m, int64_t n, int64_t k, rdt_dtype dtype) {
  rdt_reason why;
  rdt_task t = {.ctx = ctx,
                .on = &rdt_backend_cpu,
                .m = m,
                .n = n,
                .k = k,
                .in = dtype,
                .out = rdt_dtype_accumulator(dtype),
                .protected = true,
                .threads = threads};
  assert_int_equal(t.on->open("cpu", t.in, t.threads, &t.dev, &why), RDT_OK);
  return t;
}

static rdt_status choose(const rdt_task *t, rdt_strategy strategy, size_t limit, rdt_splits *s, rdt_reason *why) {
  const rdt_rates usual = t->on->usual(t->in);
  return rdt_splits_choose(t, strategy, limit, &usual, s, why);
}

static size_t number_after(const char *text, const char *words) {
  const char *at = strstr(text, words);
  if (!at) fail_msg("no '%s' in '%s'", words, text);
  return strtoull(at + strlen(words), NULL, 10);
}

static size_t bytes_of(const rdt_task *t, const rdt_splits *s) {
  rdt_arrangement where;
  rdt_reason why = {""};
  if (rdt_arrange(t, s, NULL, &where, &why) != RDT_OK) fail_msg("%s", why.text);
  return rdt_arranged_bytes(t, &where) + where.beside;
}

/* The limit that the error names is taken, one byte less is refused with the same name, and no plan is smaller. */
static void test_least(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{60000, 60000, 1}, {150, 131, 170}, {33, 5000, 40},
                                      {9000, 20, 700},   {1, 1, 100000},  {3000, 3000, 3000}};
  static const int threads[] = {1, 3, 16};
  for (size_t i = 0; i < 3 * sizeof shapes / sizeof *shapes; i++) {
    const int64_t *x = shapes[i / 3];
    const int n = threads[i % 3];
    rdt_context *ctx = context(n);
    const rdt_task t = task_of(ctx, n, x[0], x[1], x[2], i / 3 % 2 ? RDT_F64 : RDT_F32);
    for (int strategy = 0; strategy <= RDT_STRATEGY_COUNT; strategy++) {
      if (!util_takes((int64_t)i + strategy, util_one_in(1, 3))) continue;
      rdt_reason why = {""};
      rdt_splits s;
      assert_int_equal(choose(&t, (rdt_strategy)strategy, 1, &s, &why), RDT_ERR_NOMEM);
      const size_t least = number_after(why.text, "takes ");
      if (choose(&t, (rdt_strategy)strategy, least, &s, &why) != RDT_OK) fail_msg("%s", why.text);
      assert_int_equal(bytes_of(&t, &s), least);
      assert_int_equal(choose(&t, (rdt_strategy)strategy, least - 1, &s, &why), RDT_ERR_NOMEM);
      assert_int_equal(number_after(why.text, "takes "), least);
      for (int64_t m = 16; m < x[0] + 16 && m < 512; m += 16)
        for (int64_t width = 16; width < x[1] + 16 && width < 512; width += 16) {
          const rdt_splits one = {strategy < RDT_STRATEGY_COUNT ? (rdt_strategy)strategy : RDT_STRATEGY_SIMPLE,
                                  m < x[0] ? m : x[0], width < x[1] ? width : x[1], x[2] < 32 ? x[2] : 32};
          if (m < 32 && m < x[0]) continue;
          if (width < 32 && width < x[1]) continue;
          const size_t bytes = bytes_of(&t, &one); /* sizes are not all looked at: some per cent may be had */
          if ((double)bytes < 0.96 * (double)least)
            fail_msg("%zu are called the least, %ld x %ld take %zu", least, (long)m, (long)width, bytes);
        }
    }
    t.on->close(t.dev);
    rdt_context_destroy(ctx);
  }
}

/* It is said where threads are what takes the memory, and less of them are enough. */
static void test_least_of_threads(void **state) {
  (void)state;
  rdt_context *ctx = context(16);
  rdt_task t = task_of(ctx, 16, 300, 300, 300, RDT_F32);
  rdt_reason why = {""};
  rdt_splits s;
  assert_int_equal(choose(&t, RDT_STRATEGY_SIMPLE, 600000, &s, &why), RDT_ERR_NOMEM);
  const size_t alone = number_after(why.text, "with 16 threads, ");
  t.threads = 1;
  assert_int_equal(choose(&t, RDT_STRATEGY_SIMPLE, alone, &s, &why), RDT_OK);
  assert_int_equal(choose(&t, RDT_STRATEGY_SIMPLE, alone - 1, &s, &why), RDT_ERR_NOMEM);
  assert_null(strstr(why.text, "threads"));
  t.on->close(t.dev);
  rdt_context_destroy(ctx);
}

/* Lines of a file that are read by short pieces take long, and the choice and the prediction know it. */
static void test_lines(void **state) {
  (void)state;
  const rdt_rates fast = {.load = 5.4e9, .store = 2e9, .multiply = 2e11, .check = 1e10};
  rdt_context *ctx = context(2);
  for (int fortran = 0; fortran < 2; fortran++)
    for (int strategy = 0; strategy < RDT_STRATEGY_COUNT; strategy++) {
      rdt_task t = task_of(ctx, 2, 20000, 4, 50000, RDT_F32);
      rdt_splits s, narrow = {(rdt_strategy)strategy, 20000, 4, 80};
      rdt_forecast f, slow;
      rdt_reason why = {""};
      t.fortran[0] = fortran;
      if (choose(&t, (rdt_strategy)strategy, 20000000, &s, &why) != RDT_OK) fail_msg("%s", why.text);
      assert_true(4 * (fortran ? s.m : s.k) >= 8192);
      rdt_forecast_of(&t, &s, NULL, &fast, &f, NULL, NULL);
      rdt_forecast_of(&t, &narrow, NULL, &fast, &slow, NULL, NULL);
      if (!fortran) assert_true(slow.loading > 10.0 && slow.loading > 5.0 * f.loading);
      t.on->close(t.dev);
    }
  rdt_context_destroy(ctx);
}

/* ---- memory ---- */

static double line_of(const char *name) { /* of /proc/self/status, bytes; 0: it is not there */
  char line[128], form[32];
  double kib = 0.0;
  FILE *f = fopen("/proc/self/status", "re");
  snprintf(form, sizeof form, "%s: %%lf", name);
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, form, &kib) == 1) break;
  if (f) fclose(f);
  return 1024.0 * kib;
}

static bool forget_most(void) {
  FILE *f = fopen("/proc/self/clear_refs", "we");
  const bool put = f && fputs("5", f) >= 0;
  return f && fclose(f) == 0 && put;
}

static const char *uncounted(void) { /* why the system's numbers say nothing here */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "a sanitizer takes memory of its own";
#elif defined(UTIL_RUN_BY_AN_EMULATOR)
  return "an emulator's memory would be counted";
#else
  return forget_most() && line_of("RssAnon") > 0.0 ? NULL : "/proc/self does not count memory here";
#endif
}

/* What the process grows by at most: its own memory, not files that are mapped. */
static double growth_of(rdt_context *ctx, const rdt_matmul_job *job, rdt_matmul_result *r) {
  rdt_reason why = {""};
  malloc_trim(0); /* what is free already would hide what is taken */
  forget_most();
  const double before = line_of("RssAnon");
  if (rdt_matmul(ctx, job, r, &why) != RDT_OK) fail_msg("%s", why.text);
  return line_of("VmHWM") - line_of("RssFile") - line_of("RssShmem") - before;
}

enum { MANY = 8 << 20 };
static char *planted;

static void take_more(void *user, double part, double gflops) {
  (void)user, (void)part, (void)gflops;
  if (planted) return;
  planted = malloc(MANY);
  assert_non_null(planted);
  memset(planted, 1, MANY);
}

/* All that the process takes is within the limit, the report says how much it is, and both notice where it is not. */
static void test_resident(void **state) {
  (void)state;
  static const size_t limits[] = {600000, 1000000, 2000000, 3000000, 5000000};
  static const int threads[] = {1, 2, 4};
  if (uncounted()) {
    print_message("test_resident: %s\n", uncounted());
    skip();
  }
  make_operands(900, 900, 700);
  for (int t = 0; t < 3; t++) {
    rdt_context *ctx = context(threads[t]);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
      const rdt_strategy strategy = (rdt_strategy)((i + (size_t)t) % (RDT_STRATEGY_COUNT + 1));
      rdt_matmul_result r;
      rdt_matmul_job job = job_of(i == 0 ? RDT_STRATEGY_SIMPLE : strategy, limits[i]);
      if (i == 0 && t == 2) continue; /* nothing fits in it */
      double growth = growth_of(ctx, &job, &r);
      /* Blocks are chosen by what a busy machine is measured to do: of buffers in pairs, second ones may have nothing.
       */
      const double least = job.strategy == RDT_STRATEGY_AUTO ? 0.3 : 0.5;
      if (growth > (double)limits[i] || r.peak > (double)limits[i] || r.peak < growth - 100e3 ||
          growth < least * (double)r.buffers)
        fail_msg("%s, %d threads: within %zu, of which the plan takes %zu and %zu, %.0f were taken; %.0f were reported",
                 rdt_strategy_info(r.splits.strategy)->name, threads[t], limits[i], r.buffers, r.beside, growth,
                 r.peak);
      if (i != 2) continue;
      job.progress = take_more;
      growth = growth_of(ctx, &job, &r);
      assert_true(growth > (double)MANY && r.peak > (double)MANY);
      free(planted);
      planted = NULL;
    }
    rdt_context_destroy(ctx);
  }
}

/* Spans that are kept lie within the limit, too, but for the few that are kept in any case. */
static void test_spans(void **state) {
  (void)state;
  static const size_t limits[] = {600000, 1000000, 20000000};
  rdt_context *ctx = context(1);
  int64_t steps[3];
  make_operands(900, 900, 700);
  for (int i = 0; i < 3; i++) {
    rdt_timeline measured = {0}, predicted = {0}, best = {0};
    rdt_matmul_result r;
    rdt_matmul_job job = job_of(i == 0 ? RDT_STRATEGY_SIMPLE : RDT_STRATEGY_CONCURRENT, limits[i]);
    job.measured = &measured, job.predicted = &predicted, job.best = &best;
    const double growth = growth_of(ctx, &job, &r);
    const double least = 3.0 * RDT_TIMELINE_LEAST * sizeof(rdt_span);
    if (!uncounted() && growth > (double)limits[i] + least)
      fail_msg("within %zu %.0f were taken, %.0f reported", limits[i], growth, r.peak);
    const size_t kept = (size_t)(measured.room + predicted.room + best.room) * sizeof(rdt_span);
    assert_true((double)(r.buffers + r.beside + kept) <= (double)limits[i] + least);
    assert_true(measured.n > 0 && predicted.n > 0 && (best.n > 0) == (i > 0));
    steps[i] = measured.n + measured.lost;
    assert_int_equal(predicted.n + predicted.lost, steps[i]);
    assert_true((measured.lost > 0) == (i < 2)); /* all of them, where there is room */
    rdt_timeline_clear(&measured);
    rdt_timeline_clear(&predicted);
    rdt_timeline_clear(&best);
  }
  assert_true(steps[0] > 1000 && steps[2] < 100);
  rdt_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_changed), cmocka_unit_test(test_waiting),
                                     cmocka_unit_test(test_least),   cmocka_unit_test(test_least_of_threads),
                                     cmocka_unit_test(test_lines),   cmocka_unit_test(test_resident),
                                     cmocka_unit_test(test_spans)};
  return cmocka_run_group_tests_name("outofcore limits", tests, begin, util_folder_remove);
}
