/* Products of files: every strategy, datatype and order against the definition; planted faults; memory.
 *     test_outofcore [DEVICE [RUNS [SEED]]]    (cuda:0; default cpu)
 *     test_outofcore DEVICE TEST               (one of them alone)
 * RUNS: nothing but so many products of all kinds, each with faults; another SEED, other ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "net/tensor_file.h"
#include "outofcore/strassen.h"
#include "util_folder.h"
#include "util_product.h"
#include "util_sample.h"

enum { M = 150, N = 131, K = 170 };

static rdt_context *ctx;
static const char *device = "cpu";
static int many_runs;
static uint64_t many_seed = 1;
static char a_path[64], b_path[64], c_path[64], d_path[64], sums_path[80];
static struct {
  int faults;
  rdt_verdict verdict;
  rdt_diagnosis diagnosis;
  char text[256];
} seen;

static void note(const rdt_event *e, void *user) {
  (void)user;
  seen.faults += e->kind == RDT_EVENT_FAULT;
  seen.verdict = e->verdict;
  seen.diagnosis = e->diagnosis;
  snprintf(seen.text, sizeof seen.text, "%s", e->text);
}

static int begin(void **state) {
  if (util_folder_make(state) != 0 || rdt_context_create(&ctx, 2) != RDT_OK) return -1;
  rdt_context_on_event(ctx, note, NULL);
  snprintf(a_path, sizeof a_path, "%.40s/a.npy", util_folder);
  snprintf(b_path, sizeof b_path, "%.40s/b.npy", util_folder);
  snprintf(c_path, sizeof c_path, "%.40s/c.npy", util_folder);
  snprintf(d_path, sizeof d_path, "%.40s/d.npy", util_folder);
  snprintf(sums_path, sizeof sums_path, "%s.sums", c_path);
  return 0;
}

static int end(void **state) {
  rdt_context_destroy(ctx);
  return util_folder_remove(state);
}

/* The least limit of a product: every other one gives larger blocks. */
static size_t smallest(rdt_strategy strategy) {
  rdt_matmul_result r;
  rdt_reason why = {""};
  const rdt_matmul_job job = {
      .a = a_path, .b = b_path, .c = c_path, .device = device, .mem_limit = 1, .strategy = strategy, .protected = true};
  assert_int_equal(rdt_matmul(ctx, &job, &r, &why), RDT_ERR_NOMEM);
  const char *takes = strstr(why.text, "takes ");
  assert_non_null(takes);
  return strtoull(takes + 6, NULL, 10);
}

static rdt_matmul_job job_of(rdt_strategy strategy, double times) {
  seen.faults = 0;
  return (rdt_matmul_job){.a = a_path,
                          .b = b_path,
                          .c = c_path,
                          .device = device,
                          .mem_limit = (size_t)(times * (double)smallest(strategy)),
                          .strategy = strategy,
                          .protected = true};
}

static void multiply(const rdt_matmul_job *job, rdt_verdict verdict, rdt_matmul_result *r) {
  rdt_reason why = {""};
  if (rdt_matmul(ctx, job, r, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(r->verdict, verdict);
}

/* ---- results ---- */

static void test_strategies(void **state) {
  (void)state;
  static const rdt_dtype dtypes[] = {RDT_F32, RDT_F64, RDT_F16, RDT_BF16};
  for (int i = 0; i < 4; i++)
    for (int order = 0; order < 4; order++) {
      rdt_matmul_result r;
      double *a = util_npy(a_path, dtypes[i], order & 1, M, K, 1), *b = util_npy(b_path, dtypes[i], order & 2, K, N, 2);
      for (int s = 0; s <= RDT_STRATEGY_COUNT; s++) {
        if (i > 0 && s != (i + order) % RDT_STRATEGY_COUNT) continue; /* all of them with f32, one with the others */
        if (i == 0 && !util_takes(order + order / 2 + s, util_one_in(2, 2))) continue;
        rdt_matmul_job job = job_of((rdt_strategy)s, s % 2 ? 1.0 : 1.1);
        job.verify = true;
        multiply(&job, RDT_CLEAN, &r);
        assert_true(r.forecast.blocks > 4 && r.checks > 0 && r.faults == 0);
        assert_true(fabs(r.flops - 2.0 * M * N * K) < 1.0);
        util_npy_expect(c_path, dtypes[i], M, N, K, a, b, 0.0);
        if (s < RDT_STRATEGY_COUNT) assert_int_equal(r.splits.strategy, s);
      }
      rdt_free(a);
      rdt_free(b);
    }
}

static rdt_tensor view_of(const rdt_task *t, rdt_dtype type, bool fortran, rdt_part_of part) {
  const rdt_matrix m = {.dtype = type, .fortran = fortran};
  return rdt_backend_view(t->on, &m, &part, NULL);
}

/* What kernels are lent has room for every block: one at an edge, which is smaller, may need more than a whole one. */
static void test_workspaces(void **state) {
  static const rdt_splits splits[] = {
      {RDT_STRATEGY_PREFETCH, 1200, 1008, 608}, {RDT_STRATEGY_SIMPLE, 1504, 1504, 768},
      {RDT_STRATEGY_SIMPLE, 700, 3000, 100},    {RDT_STRATEGY_CONCURRENT, 512, 496, 2000},
      {RDT_STRATEGY_DEFERRED, 96, 90, 5999},    {RDT_STRATEGY_PREFETCH, 640, 1296, 6000}};
  static const rdt_dtype types[] = {RDT_F32, RDT_F64, RDT_F16};
  rdt_reason why = {""};
  (void)state;
  for (size_t i = 0; i < 6 * 3; i++) {
    const rdt_splits *s = &splits[i / 3];
    rdt_task t = {.ctx = ctx,
                  .on = &rdt_backend_cpu,
                  .m = 6000,
                  .n = 6000,
                  .k = 6000,
                  .in = types[i % 3],
                  .out = types[i % 3] == RDT_F64 ? RDT_F64 : RDT_F32,
                  .protected = true,
                  .threads = 2};
    rdt_arrangement where;
    assert_int_equal(t.on->open("cpu", t.in, t.threads, &t.dev, &why), RDT_OK);
    assert_int_equal(rdt_arrange(&t, s, NULL, &where, &why), RDT_OK);
    const int64_t last[3] = {rdt_blocks_of(t.m, s->m) - 1, rdt_blocks_of(t.n, s->n) - 1, rdt_blocks_of(t.k, s->k) - 1};
    for (int x = 0; x < 8; x++) {
      const int64_t m = x & 1 ? last[0] : 0, n = x & 2 ? last[1] : 0, k = x & 4 ? last[2] : 0;
      rdt_backend_space space;
      const rdt_block_product p = {.a = view_of(&t, t.in, false, rdt_part_of_a(&t, s, m, k)),
                                   .b = view_of(&t, t.in, false, rdt_part_of_b(&t, s, k, n)),
                                   .c = view_of(&t, t.out, false, rdt_part_of_c(&t, s, m, n)),
                                   .add = k > 0};
      const int threads = t.threads / rdt_strategy_info(s->strategy)->lanes;
      assert_int_equal(t.on->workspace(t.dev, t.ctx, &p, true, threads > 1 ? threads : 1, &space, &why), RDT_OK);
      if (space.lane > where.room.space.lane)
        fail_msg("splits %zu, %s, block %d: %zu bytes, %zu are lent", i / 3, rdt_dtype_name(t.in), x, space.lane,
                 where.room.space.lane);
    }
    t.on->close(t.dev);
  }
}

/* A product of one block, of one row, of one column, of one element. */
static void test_shapes(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{1, 1, 1}, {1, 70, 90}, {70, 1, 90}, {70, 90, 1}, {64, 64, 64}, {33, 65, 31}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int s = 0; s < RDT_STRATEGY_COUNT; s++) {
      if (!util_takes((int64_t)i + s, util_one_in(2, 4))) continue;
      const int64_t *x = shapes[i];
      rdt_matmul_result r;
      double *a = util_npy(a_path, RDT_F32, false, x[0], x[2], 3), *b = util_npy(b_path, RDT_F32, false, x[2], x[1], 4);
      const rdt_matmul_job job = job_of((rdt_strategy)s, s % 2 ? 1.0 : 100.0);
      multiply(&job, RDT_CLEAN, &r);
      util_npy_expect(c_path, RDT_F32, x[0], x[1], x[2], a, b, 0.0);
      rdt_free(a);
      rdt_free(b);
    }
}

static void test_unprotected(void **state) {
  (void)state;
  rdt_matmul_result r;
  double *a = util_npy(a_path, RDT_F32, false, M, K, 1), *b = util_npy(b_path, RDT_F32, false, K, N, 2);
  rdt_matmul_job job = job_of(RDT_STRATEGY_DEFERRED, 1.0);
  job.protected = false;
  multiply(&job, RDT_UNCHECKED, &r);
  assert_int_equal(r.checks, 0);
  util_npy_expect(c_path, RDT_F32, M, N, K, a, b, 0.0);
  rdt_free(a);
  rdt_free(b);
}

/* All that is held at once is within the limit, and what the plan says is what it takes. */
static void test_memory(void **state) {
  (void)state;
  for (int s = 0; s <= RDT_STRATEGY_COUNT; s++)
    for (int step = 0; step < 4; step++) {
      static const double times[] = {1.0, 3.0, 9.0, 27.0};
      if (!util_takes(s + s / 2 + step, util_one_in(2, 4))) continue;
      rdt_free(util_npy(a_path, RDT_F32, s % 2, 900, 500, 1));
      rdt_free(util_npy(b_path, RDT_F32, s / 2 % 2, 500, 700, 2));
      rdt_matmul_result r;
      const rdt_matmul_job job = job_of((rdt_strategy)s, times[step]);
      const size_t before = rdt_memory_now();
      rdt_memory_reset();
      multiply(&job, RDT_CLEAN, &r);
      if (!r.task.on->far) assert_true(rdt_memory_peak() - before <= (size_t)r.task.devices * job.mem_limit);
      assert_true(r.buffers + r.beside <= job.mem_limit);
    }
}

/* Every product once, whatever is finished already; a block's products in the same order then. */
static void test_walk(void **state) {
  (void)state;
  const rdt_task t = {.m = 70, .n = 110, .k = 50};
  for (int s = 0; s < RDT_STRATEGY_COUNT; s++)
    for (int skip = 0; skip < 3; skip++) {
      const rdt_splits splits = {(rdt_strategy)s, 16, 16, 16};
      int next[5][7] = {{0}}, first[5][7];
      unsigned char done[5] = {0};
      rdt_walk w;
      rdt_step step;
      for (int block = 0; block < 35; block++)
        if (skip && block % (skip + 1) == 0) done[block / 8] |= (unsigned char)(1 << block % 8);
      rdt_walk_begin(&w, &t, &splits, NULL);
      while (rdt_walk_next(&w, &step))
        if (step.first) first[step.i][step.j] = (int)step.t;
      rdt_walk_begin(&w, &t, &splits, done);
      while (rdt_walk_next(&w, &step)) {
        int *n = &next[step.i][step.j];
        assert_false(done[(step.i * 7 + step.j) / 8] >> (step.i * 7 + step.j) % 8 & 1);
        assert_int_equal(step.part, *n);
        assert_int_equal(step.first, *n == 0);
        assert_int_equal(step.t, first[step.i][step.j] == 0 ? *n : 3 - *n);
        assert_int_equal(step.last, ++*n == 4);
        for (int x = 0; x < 2; x++) assert_true(step.after[x] < w.steps);
      }
      for (int block = 0; block < 35; block++)
        assert_int_equal(next[block / 7][block % 7], done[block / 8] >> block % 8 & 1 ? 0 : 4);
    }
}

/* What is there is not loaded again: the operand that stays once, the other one without what a turn finds there; by
 * columns where that reads longer lines. */
static void test_order(void **state) {
  (void)state;
  const rdt_task t = {.on = &rdt_backend_cuda, .m = 65536, .n = 65536, .k = 65536, .in = RDT_F16, .out = RDT_F32};
  const struct {
    rdt_splits s;
    int down, loads[2];
  } list[] = {{{RDT_STRATEGY_DEFERRED, 8192, 21856, 65536}, true, {8 + 6 + 6, 3}},
              {{RDT_STRATEGY_DEFERRED, 21856, 8192, 65536}, false, {3, 8 + 6 + 6}},
              {{RDT_STRATEGY_DEFERRED, 21856, 16384, 32768}, false, {3 * 2, 2 * (4 + 3 + 3)}},
              {{RDT_STRATEGY_CONCURRENT, 8192, 32768, 65536}, false, {8, 2}}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    int loads[2] = {0, 0}, blocks = 0;
    rdt_walk w;
    rdt_step step;
    rdt_walk_begin(&w, &t, &list[i].s, NULL);
    assert_int_equal(w.down, list[i].down);
    while (rdt_walk_next(&w, &step)) {
      for (int x = 0; x < 2; x++) loads[x] += step.load[x];
      blocks += step.first;
    }
    assert_int_equal(blocks, rdt_blocks_of(t.m, list[i].s.m) * rdt_blocks_of(t.n, list[i].s.n));
    for (int x = 0; x < 2; x++) assert_int_equal(loads[x], list[i].loads[x]);
  }
}

/* Where the reduction is one part, blocks of C come by columns on a GPU. Faults anywhere, and none. */
static void test_columns(void **state) {
  (void)state;
  static const rdt_dtype dtypes[] = {RDT_F16, RDT_F32, RDT_BF16, RDT_F64};
  static const rdt_site sites[] = {RDT_SITE_ACCUM, RDT_SITE_CHECKSUM, RDT_SITE_INPUT};
  const int64_t m = 310, n = 150, k = 140;
  for (int i = 0; i < 4; i++) {
    rdt_matmul_result r;
    double *a = util_npy(a_path, dtypes[i], false, m, k, 1), *b = util_npy(b_path, dtypes[i], i == 3, k, n, 2);
    rdt_matmul_job job = job_of(RDT_STRATEGY_DEFERRED, 1.0);
    const size_t least = job.mem_limit;
    job.verify = true;
    for (int times = 10; times < 40; times++) {
      job.mem_limit = least * (size_t)times / 10;
      multiply(&job, RDT_CLEAN, &r);
      if (r.splits.k == k && 3 * r.splits.m < m && 2 * r.splits.n < n) break;
      if (!r.task.on->far) break;
    }
    if (r.task.on->far) assert_true(r.splits.k == k && 3 * r.splits.m < m && 2 * r.splits.n < n);
    util_npy_expect(c_path, dtypes[i], m, n, k, a, b, 0.0);
    for (uint64_t seed = 1 + 3 * (uint64_t)i; seed <= 3 + 3 * (uint64_t)i; seed++) {
      rdt_matmul_result hit;
      job.plant = (rdt_matmul_plant){.count = 2, .scattered = true, .site = sites[seed % 3], .seed = seed};
      rdt_reason why = {""};
      if (rdt_matmul(ctx, &job, &hit, &why) != RDT_OK) fail_msg("%s", why.text);
      assert_true(hit.planted == 2 && hit.verdict != RDT_DETECTED && hit.verdict != RDT_UNCHECKED);
      util_npy_expect(c_path, dtypes[i], m, n, k, a, b, hit.verdict == RDT_RECOMPUTED ? 0.0 : hit.bound + hit.floor);
    }
    rdt_free(a);
    rdt_free(b);
  }
}

/* Several GPUs have blocks of B from each other: loaded or copied, each has all that its share needs. A copy that came
 * out wrong (RDT_EMULATED_COPY_FAULT, docs/emulated-gpu.md) is noticed where it is, and its block of B read from the
 * file. */
static void test_copied(void **state) {
  (void)state;
  const bool broken = getenv("RDT_EMULATED_COPY_FAULT") != NULL;
  const int64_t m = 310, n = 150, k = 140;
  if (!strchr(device, ',')) return;
  for (int s = 0; s < RDT_STRATEGY_COUNT; s++) {
    rdt_matmul_result r;
    double *a = util_npy(a_path, RDT_F32, false, m, k, 1), *b = util_npy(b_path, RDT_F32, s % 2, k, n, 2);
    const rdt_matmul_job job = job_of((rdt_strategy)s, 1.5);
    const bool hit = broken && s == 0; /* it is the first copy, then */
    multiply(&job, hit ? RDT_RECOMPUTED : RDT_CLEAN, &r);
    assert_true(fabs(r.load_bytes + r.peer_bytes - r.forecast.load_bytes) < 1.0);
    if (r.task.on->near) assert_true(r.peer_bytes > 0.0);
    assert_true(hit ? r.faults >= 1 && seen.diagnosis == RDT_DIAG_MEMORY : r.faults == 0);
    if (hit) assert_non_null(strstr(seen.text, "the block of B changed in memory"));
    util_npy_expect(c_path, RDT_F32, m, n, k, a, b, 0.0);
    rdt_free(a);
    rdt_free(b);
  }
}

/* Numbers too small for their type's usual form, beside large ones. */
static void test_ranges(void **state) {
  (void)state;
  rdt_matmul_result r;
  double *a = util_npy(a_path, RDT_F16, false, M, K, 1), *b = util_npy(b_path, RDT_F16, true, K, N, 2);
  for (int64_t i = 0; i < M * K; i++) {
    uint16_t bits;
    rdt_store(&bits, RDT_F16, 0, i % 3 ? a[i] * 0x1p-17 : a[i]);
    a[i] = rdt_load(&bits, RDT_F16, 0);
  }
  util_npy_of(a_path, RDT_F16, false, M, K, a);
  const rdt_matmul_job job = job_of(RDT_STRATEGY_DEFERRED, 1.2);
  multiply(&job, RDT_CLEAN, &r);
  util_npy_expect(c_path, RDT_F16, M, N, K, a, b, 0.0);
  rdt_free(a);
  rdt_free(b);
}

/* A file read and written through memory is what the system's calls make of it, sums too; one that was cut short
 * meanwhile is told. */
static void test_mapped(void **state) {
  (void)state;
  static const rdt_part_of parts[] = {{0, M, 0, K}, {3, 7, 0, K}, {0, M, 5, 3}, {11, 40, 13, 101}};
  rdt_matrix m, mapped, out;
  rdt_reason why = {""};
  char *data[2] = {rdt_alloc(M * K, 2), rdt_alloc(M * K, 2)};
  uint64_t sum[2];
  for (int fortran = 0; fortran < 2; fortran++) {
    rdt_free(util_npy(a_path, RDT_F16, fortran, M, K, 1));
    assert_int_equal(rdt_matrix_open(a_path, &m, &why), RDT_OK);
    assert_int_equal(rdt_matrix_open(a_path, &mapped, &why), RDT_OK);
    rdt_matrix_map_read(&mapped);
    assert_non_null(mapped.map);
    assert_int_equal(rdt_matrix_create(c_path, RDT_F16, M, K, &out, &why), RDT_OK);
    rdt_matrix_map(&out);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
      const size_t bytes = (size_t)(parts[i].rows * parts[i].cols) * 2, offset = 2 * i;
      assert_int_equal(rdt_matrix_read_sum(&m, &parts[i], data[0], offset, &sum[0], &why), RDT_OK);
      assert_int_equal(rdt_matrix_read_sum(&mapped, &parts[i], data[1], offset, &sum[1], &why), RDT_OK);
      assert_memory_equal(data[0], data[1], bytes);
      assert_true(sum[0] == sum[1] && sum[0] == rdt_bitsum_apart(data[0], offset, bytes));
      assert_int_equal(rdt_matrix_write_sum(&out, &parts[i], data[0], offset, &sum[1], &why), RDT_OK);
      assert_true(sum[0] == sum[1]);
      assert_int_equal(rdt_matrix_read(&out, &parts[i], data[1], &why), RDT_OK);
      assert_memory_equal(data[0], data[1], bytes);
    }
    assert_int_equal(truncate(a_path, 1000), 0);
    assert_int_equal(rdt_matrix_read_sum(&mapped, &parts[0], data[1], 0, &sum[1], &why), RDT_ERR_IO);
    assert_non_null(strstr(why.text, "cut short"));
    rdt_matrix_close(&m);
    rdt_matrix_close(&mapped);
    rdt_matrix_close(&out);
  }
  for (int i = 0; i < 2; i++) rdt_free(data[i]);
}

/* ---- faults ---- */

static void expect_fault(const rdt_matmul_job *job, rdt_verdict verdict, rdt_diagnosis diagnosis,
                         rdt_matmul_result *r) {
  seen.faults = 0;
  multiply(job, verdict, r);
  assert_true(r->planted > 0);
  /* Two products at a time share A. */
  const int lanes = diagnosis == RDT_DIAG_MEMORY ? rdt_strategy_info(job->strategy)->lanes : 1;
  if (r->faults < 1 || r->faults > lanes) fail_msg("%s", seen.text);
  assert_int_equal(seen.faults, r->faults);
  assert_int_equal(seen.verdict, verdict);
  if (seen.diagnosis != diagnosis) fail_msg("%s", seen.text);
}

/* Any number in one row or column is rebuilt, and nothing else is touched. */
static void test_collinear(void **state) {
  (void)state;
  static const int counts[] = {1, 2, 7, 33};
  for (int f64 = 0; f64 < 2; f64++) {
    const rdt_dtype dtype = f64 ? RDT_F64 : RDT_F32;
    rdt_matmul_result r;
    double *a = util_npy(a_path, dtype, false, M, K, 1), *b = util_npy(b_path, dtype, true, K, N, 2);
    int rebuilt = 0, runs = 0;
    for (int s = 0; s < RDT_STRATEGY_COUNT; s++)
      for (int along = RDT_ALONG_ROW; along <= RDT_ALONG_COL; along++)
        for (int i = 0; i < 4; i++) {
          if (!util_takes(f64 + s + along + i, util_one_in(2, 4))) continue;
          rdt_matmul_job job = job_of((rdt_strategy)s, 1.3);
          job.plant = (rdt_matmul_plant){
              .count = counts[i], .along = (rdt_along)along, .site = RDT_SITE_ACCUM, .seed = (uint64_t)(10 * s + i)};
          seen.faults = 0;
          rdt_reason why = {""};
          if (rdt_matmul(ctx, &job, &r, &why) != RDT_OK) fail_msg("%s", why.text);
          assert_true(r.planted > 0);
          util_npy_expect(c_path, dtype, M, N, K, a, b, r.bound + r.floor);
          runs++;
          if (r.verdict == RDT_CORRECTED) {
            assert_true(r.rebuilt >= 1 && r.rebuilt <= r.planted && r.bound > 0.0 && r.recomputed == 0);
            rebuilt++;
          }
        }
    assert_true(4 * rebuilt >= 3 * runs); /* else a fault was too small, or an element became Inf or NaN */
    rdt_free(a);
    rdt_free(b);
  }
}

/* Scattered ones, and whatever --on-fault recompute is asked for: the bits are those without a fault. */
static void test_recomputed(void **state) {
  (void)state;
  double *a = util_npy(a_path, RDT_F32, false, M, K, 1), *b = util_npy(b_path, RDT_F32, false, K, N, 2);
  for (int s = 0; s < RDT_STRATEGY_COUNT; s++) {
    rdt_matmul_result r;
    rdt_matmul_job job = job_of((rdt_strategy)s, 1.2);
    multiply(&job, RDT_CLEAN, &r);
    assert_int_equal(rename(c_path, d_path), 0);
    for (int recompute = 0; recompute < 2; recompute++)
      for (uint64_t seed = 1; seed < 6; seed++) {
        if (!util_takes(s + recompute + (int64_t)seed, util_one_in(2, 4))) continue;
        job.recompute = recompute;
        job.plant = (rdt_matmul_plant){
            .count = recompute ? 3 : 12, .scattered = !recompute, .site = RDT_SITE_ACCUM, .seed = seed};
        expect_fault(&job, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, &r);
        assert_int_equal(r.recomputed, 1);
        assert_true(util_same_bytes(c_path, d_path));
      }
  }
  rdt_free(a);
  rdt_free(b);
}

/* A checksum that is hit is told from data, which stay as they are; an operand that changes in memory is loaded again.
 */
static void test_sites(void **state) {
  (void)state;
  double *a = util_npy(a_path, RDT_F32, false, M, K, 1), *b = util_npy(b_path, RDT_F32, false, K, N, 2);
  for (int s = 0; s < RDT_STRATEGY_COUNT; s++)
    for (uint64_t seed = 1; seed < 5; seed++) {
      if (!util_takes(s + (int64_t)seed, util_one_in(2, 4))) continue;
      rdt_matmul_result r;
      rdt_matmul_job job = job_of((rdt_strategy)s, 1.2);
      multiply(&job, RDT_CLEAN, &r);
      assert_int_equal(rename(c_path, d_path), 0);
      job.plant = (rdt_matmul_plant){.count = 2, .site = RDT_SITE_CHECKSUM, .seed = seed};
      expect_fault(&job, RDT_RECOMPUTED, RDT_DIAG_CHECKER, &r);
      assert_true(util_same_bytes(c_path, d_path));
      job.plant = (rdt_matmul_plant){.count = 1, .site = RDT_SITE_INPUT, .seed = seed};
      expect_fault(&job, RDT_RECOMPUTED, RDT_DIAG_MEMORY, &r);
      assert_true(util_same_bytes(c_path, d_path));
    }
  rdt_free(a);
  rdt_free(b);
}

/* A code path that is wrong every time gives way to the other one; if that is wrong too, nothing is delivered, and
 * --resume can go on. */
static void test_persistent(void **state) {
  (void)state;
  rdt_matmul_result r;
  rdt_reason why = {""};
  double *a = util_npy(a_path, RDT_F32, false, M, K, 1), *b = util_npy(b_path, RDT_F32, false, K, N, 2);
  rdt_matmul_job job = job_of(RDT_STRATEGY_DEFERRED, 1.2);
  job.plant = (rdt_matmul_plant){.count = 9, .scattered = true, .site = RDT_SITE_ACCUM, .paths = 1, .seed = 3};
  expect_fault(&job, RDT_RECOMPUTED, RDT_DIAG_PERSISTENT, &r);
  util_npy_expect(c_path, RDT_F32, M, N, K, a, b, r.floor);
  unlink(c_path);
  job.plant.paths = 2;
  assert_int_equal(rdt_matmul(ctx, &job, &r, &why), RDT_ERR_FAULT);
  assert_int_equal(r.verdict, RDT_DETECTED);
  assert_non_null(strstr(why.text, "--resume"));
  assert_int_equal(access(c_path, F_OK), -1);
  job.plant.count = 0;
  job.resume = true;
  multiply(&job, RDT_CLEAN, &r);
  util_npy_expect(c_path, RDT_F32, M, N, K, a, b, 0.0);
  rdt_free(a);
  rdt_free(b);
}

/* What is not a number cannot be checked, and is said; rows without it are. */
static void test_not_finite(void **state) {
  (void)state;
  static const double values[] = {INFINITY, NAN, -INFINITY};
  static const rdt_dtype dtypes[] = {RDT_F32, RDT_F16, RDT_BF16};
  for (int run = 0; run < 9; run++) {
    const int i = run % 3;
    const rdt_dtype dtype = dtypes[run / 3];
    rdt_matmul_result r;
    double *a = util_npy(a_path, dtype, false, M, K, 1), *b = util_npy(b_path, dtype, false, K, N, 2);
    rdt_tensor c;
    rdt_reason why = {""};
    a[7 * K + 11] = values[i];
    util_npy_of(a_path, dtype, false, M, K, a);
    rdt_matmul_job job = job_of(RDT_STRATEGY_PREFETCH, 1.2);
    multiply(&job, RDT_UNCHECKED, &r);
    assert_true(r.unchecked > 0 && r.faults == 0);
    assert_int_equal(rdt_tensor_file_read(c_path, &c, &why), RDT_OK);
    for (int64_t e = 0; e < M * N; e++) assert_int_equal(!isfinite(((float *)c.data)[e]), e / N == 7);
    rdt_free(c.data);
    rdt_free(a);
    rdt_free(b);
  }
}

/* A product that exceeds its datatype is the product all the same: computed twice, delivered, never called CLEAN. */
static void test_overflow(void **state) {
  (void)state;
  rdt_matmul_result r;
  double *a = util_npy(a_path, RDT_F32, false, M, K, 1), *b = util_npy(b_path, RDT_F32, false, K, N, 2);
  rdt_tensor c;
  rdt_reason why = {""};
  a[7 * K + 11] = 3e38;
  b[11 * N + 5] = 10.0;
  util_npy_of(a_path, RDT_F32, false, M, K, a);
  util_npy_of(b_path, RDT_F32, false, K, N, b);
  for (int errors = 0; errors < 2; errors++) {
    rdt_matmul_job job = job_of(RDT_STRATEGY_SIMPLE, 1.2);
    job.plant = (rdt_matmul_plant){.count = 4 * errors, .scattered = true, .site = RDT_SITE_ACCUM, .seed = 3};
    multiply(&job, RDT_UNCHECKED, &r);
    assert_true(r.unchecked > 0 && (r.faults > 0) == (errors > 0));
    assert_int_equal(rdt_tensor_file_read(c_path, &c, &why), RDT_OK);
    for (int64_t e = 0; e < M * N; e++)
      if (e / N != 7) assert_true(isfinite(((float *)c.data)[e]));
    assert_true(isinf(((float *)c.data)[7 * N + 5]));
    rdt_free(c.data);
  }
  rdt_free(a);
  rdt_free(b);
}

/* One level of Strassen's scheme: as right as its bounds say, edges that cannot be halved too; what is planted is
 * found. */
static void test_strassen(void **state) {
  (void)state;
  enum { ROWS = 288, COLS = 264, DEEP = 392 };
  static const rdt_dtype dtypes[] = {RDT_F32, RDT_F64};
  int repaired = 0, runs = 0;
  for (int i = 0; i < 2; i++)
    for (int order = 0; order < 4; order++) {
      rdt_matmul_result r;
      rdt_reason why = {""};
      double *a = util_npy(a_path, dtypes[i], order & 1, ROWS, DEEP, 1),
             *b = util_npy(b_path, dtypes[i], order & 2, DEEP, COLS, 2);
      for (int faults = 0; faults < 3; faults++) {
        if (!util_takes(i + order / 2 + faults, util_one_in(2, 2))) continue;
        rdt_matmul_job job = job_of((rdt_strategy)((i + order + faults) % RDT_STRATEGY_COUNT), 1.0);
        job.strassen = true;
        job.mem_limit = 40 * job.mem_limit;
        job.plant = (rdt_matmul_plant){.count = faults ? 5 : 0,
                                       .scattered = faults == 2,
                                       .site = RDT_SITE_ACCUM,
                                       .seed = (uint64_t)(7 * i + order + 1)};
        if (rdt_matmul(ctx, &job, &r, &why) != RDT_OK) fail_msg("%s", why.text);
        assert_true(r.task.strassen && rdt_strassen_half(r.splits.m) && rdt_strassen_half(r.splits.k));
        if (faults == 0) assert_true(r.verdict == RDT_CLEAN && r.faults == 0 && r.suspects == 0 && r.ratio < 1.0);
        util_npy_expect(c_path, dtypes[i], ROWS, COLS, DEEP, a, b, r.bound + r.floor);
        repaired += faults && r.verdict != RDT_CLEAN;
        runs += faults > 0;
      }
      rdt_free(a);
      rdt_free(b);
    }
  assert_true(4 * repaired >= 3 * runs); /* the others were too small */
  for (int i = 0; i < 2; i++) {          /* a row of NaN is one, not its partner in the other half too */
    rdt_matmul_result r;
    rdt_tensor c;
    rdt_reason why = {""};
    double *a = util_npy(a_path, dtypes[i], false, ROWS, DEEP, 1);
    rdt_free(util_npy(b_path, dtypes[i], false, DEEP, COLS, 2));
    a[7 * DEEP + 11] = NAN;
    util_npy_of(a_path, dtypes[i], false, ROWS, DEEP, a);
    rdt_matmul_job job = job_of(RDT_STRATEGY_DEFERRED, 1.0);
    job.strassen = true;
    job.mem_limit = 40 * job.mem_limit;
    multiply(&job, RDT_UNCHECKED, &r);
    assert_true(r.unchecked > 0 && r.faults == 0 && r.recomputed > 0);
    assert_int_equal(rdt_tensor_file_read(c_path, &c, &why), RDT_OK);
    for (int64_t e = 0; e < ROWS * COLS; e++)
      assert_int_equal(isfinite(rdt_load(c.data, dtypes[i], e)) != 0, e / COLS != 7);
    rdt_free(c.data);
    rdt_free(a);
  }
  rdt_free(util_npy(a_path, RDT_F16, false, M, K, 1));
  rdt_free(util_npy(b_path, RDT_F16, false, K, N, 2));
  rdt_matmul_job job = job_of(RDT_STRATEGY_SIMPLE, 1.0);
  rdt_matmul_result r;
  rdt_reason why = {""};
  job.strassen = true;
  assert_int_equal(rdt_matmul(ctx, &job, &r, &why), RDT_ERR_DTYPE);
}

static uint64_t draw(uint64_t *seed, uint64_t n) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (*seed >> 33) % n;
}

/* 1 to 64 faults in one block, in a line or scattered: whatever is delivered is right, but for what is said. */
enum { VERDICTS = RDT_DETECTED + 1 };
static void test_many(void **state) {
  (void)state;
  static const rdt_dtype dtypes[] = {RDT_F32, RDT_F64, RDT_F16, RDT_BF16};
  int count[VERDICTS] = {0}, scattered[VERDICTS] = {0};
  uint64_t seed = many_seed;
  for (int run = 0; run < many_runs; run++) {
    const rdt_dtype dtype = dtypes[draw(&seed, 4)];
    const int64_t m = 40 + (int64_t)draw(&seed, 120), n = 40 + (int64_t)draw(&seed, 120),
                  k = 40 + (int64_t)draw(&seed, 160);
    double *a = util_npy(a_path, dtype, draw(&seed, 2), m, k, 2 * (uint64_t)run + 1),
           *b = util_npy(b_path, dtype, draw(&seed, 2), k, n, 2 * (uint64_t)run + 2);
    rdt_matmul_result r;
    rdt_reason why = {""};
    rdt_matmul_job job = job_of((rdt_strategy)draw(&seed, RDT_STRATEGY_COUNT), 1.0 + 0.1 * (double)draw(&seed, 10));
    job.plant = (rdt_matmul_plant){.count = 1 + (int64_t)draw(&seed, 64),
                                   .along = (rdt_along)(RDT_ALONG_ROW + draw(&seed, 2)),
                                   .scattered = draw(&seed, 2),
                                   .site = RDT_SITE_ACCUM,
                                   .seed = draw(&seed, 1u << 30)};
    if (rdt_matmul(ctx, &job, &r, &why) != RDT_OK) fail_msg("run %d: %s", run, why.text);
    assert_true(r.planted > 0);
    if (r.verdict == RDT_RECOMPUTED) assert_true(r.recomputed > 0);
    util_npy_expect(c_path, dtype, m, n, k, a, b, r.verdict == RDT_RECOMPUTED ? 0.0 : r.bound + r.floor);
    (job.plant.scattered && r.planted > 1 ? scattered : count)[r.verdict]++;
    rdt_free(a);
    rdt_free(b);
  }
  print_message("in a line: %d rebuilt, %d computed again, %d below the floor; scattered: %d, %d, %d\n",
                count[RDT_CORRECTED], count[RDT_RECOMPUTED], count[RDT_CLEAN], scattered[RDT_CORRECTED],
                scattered[RDT_RECOMPUTED], scattered[RDT_CLEAN]);
  assert_int_equal(count[RDT_DETECTED] + count[RDT_UNCHECKED] + scattered[RDT_DETECTED] + scattered[RDT_UNCHECKED], 0);
  assert_true(3 * count[RDT_CORRECTED] >= 2 * (count[RDT_RECOMPUTED] + count[RDT_CLEAN]));
}

int main(int argc, char **argv) {
  const struct CMUnitTest many[] = {cmocka_unit_test(test_many)};
  if (argc > 1) device = argv[1];
  if (argc > 2) many_runs = atoi(argv[2]);
  if (argc > 3) many_seed = strtoull(argv[3], NULL, 10);
  if (many_runs > 0) return cmocka_run_group_tests_name("outofcore, many", many, begin, end);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_strategies),  cmocka_unit_test(test_workspaces), cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_unprotected), cmocka_unit_test(test_memory),     cmocka_unit_test(test_walk),
      cmocka_unit_test(test_order),       cmocka_unit_test(test_columns),    cmocka_unit_test(test_copied),
      cmocka_unit_test(test_ranges),      cmocka_unit_test(test_mapped),     cmocka_unit_test(test_collinear),
      cmocka_unit_test(test_recomputed),  cmocka_unit_test(test_sites),      cmocka_unit_test(test_persistent),
      cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_overflow),   cmocka_unit_test(test_strassen)};
  if (argc > 2) cmocka_set_test_filter(argv[2]);
  return cmocka_run_group_tests_name("outofcore", tests, begin, end);
}
