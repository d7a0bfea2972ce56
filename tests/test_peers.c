/* Devices that have blocks from each other, without a GPU: a device here is the host, named "cpu" as the row that ships
 * (the linker's --wrap), which reads pieces of blocks in any order and copies them from another one's memory.
 *     test_peers [RUNS [SEED]]    so many random products (default 12) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "util_folder.h"
#include "util_product.h"
#include "util_sample.h"

const rdt_backend *__wrap_rdt_backend_find(const char *device);

static rdt_context *ctx;
static rdt_backend row; /* of this test */
static char a_path[64], b_path[64], c_path[64], one_path[64];
static int runs = 12;
static uint64_t seed = 1;
static atomic_int fetches, reads, hit; /* hit: the fetch that is broken; 0: none */
static atomic_int fails;               /* the read that fails; 0: none */
static atomic_int slow;                /* microseconds that a read of the first device takes longer */
static void *_Atomic first_device;
static struct {
  int faults;
  rdt_diagnosis diagnosis;
  char text[256];
} seen;

static void note(const rdt_event *e, void *user) {
  (void)user;
  seen.faults += e->kind == RDT_EVENT_FAULT;
  seen.diagnosis = e->diagnosis;
  snprintf(seen.text, sizeof seen.text, "%s", e->text);
}

const rdt_backend *__wrap_rdt_backend_find(const char *device) {
  return strcmp(device, "cpu") == 0 ? &row : NULL;
}

/* ---- the row ---- */

static size_t line_of(const rdt_loading *l) {
  return (size_t)(l->m->fortran ? l->part.rows : l->part.cols) * rdt_dtype_size(l->m->dtype);
}

static rdt_status load(void *dev, rdt_loading *l, rdt_reason *why) {
  if (!l->piece) return rdt_backend_cpu.load(dev, l, why);
  void *none = NULL;
  atomic_compare_exchange_strong(&first_device, &none, dev);
  if (dev == atomic_load(&first_device) && atomic_load(&slow)) usleep((useconds_t)atomic_load(&slow));
  if (atomic_fetch_add(&reads, 1) + 1 == atomic_load(&fails)) return rdt_fail(why, RDT_ERR_IO, "a read that fails");
  rdt_part_of part = l->part;
  const size_t at = (size_t)l->from * line_of(l);
  *(l->m->fortran ? &part.col : &part.row) += l->from;
  *(l->m->fortran ? &part.cols : &part.rows) = l->count;
  char *to = (char *)l->to.data + at;
  RDT_TRY(rdt_matrix_read(l->m, &part, to, why));
  l->seal = l->protected ? rdt_bitsum_apart(to, at, (size_t)l->count * line_of(l)) : 0;
  return RDT_OK;
}

static bool near(void *dev, void *other) {
  return dev != other;
}

static rdt_status fetch(void *dev, void *other, const void *block, const rdt_loading *l, rdt_reason *why) {
  (void)why;
  assert_true(dev != other);
  const size_t at = (size_t)l->from * line_of(l), bytes = (size_t)l->count * line_of(l);
  char *to = (char *)l->to.data + at;
  memcpy(to, (const char *)block + at, bytes);
  if (atomic_fetch_add(&fetches, 1) + 1 == atomic_load(&hit)) to[bytes / 2] ^= 4;
  return RDT_OK;
}

/* Sums of f32 as the row that ships has them. */
static rdt_status fetched(void *dev, const rdt_loading *l, bool whole, rdt_reason *why) {
  (void)dev, (void)why;
  const int x = l->axis;
  const int64_t k = l->to.shape[1 - x];
  if (!whole || !l->protected) return RDT_OK;
  for (int64_t i = 0; i < k; i++) {
    double dot = 0.0, sq = 0.0;
    for (int64_t j = 0; j < l->to.shape[x]; j++) {
      const int64_t at = i * l->to.stride[1 - x] + j * l->to.stride[x];
      const double v = (double)((const float *)l->to.data)[at];
      dot += l->signs[j] * v;
      sq += v * v;
    }
    l->sums[i] = dot;
    l->sums[l->most + i] = sq;
  }
  return RDT_OK;
}

static int begin(void **state) {
  row = rdt_backend_cpu;
  row.load = load, row.near = near, row.fetch = fetch, row.fetched = fetched;
  if (util_folder_make(state) != 0 || rdt_context_create(&ctx, 1) != RDT_OK) return -1;
  rdt_context_on_event(ctx, note, NULL);
  snprintf(a_path, sizeof a_path, "%.40s/a.npy", util_folder);
  snprintf(b_path, sizeof b_path, "%.40s/b.npy", util_folder);
  snprintf(c_path, sizeof c_path, "%.40s/c.npy", util_folder);
  snprintf(one_path, sizeof one_path, "%.40s/one.npy", util_folder);
  return 0;
}

static int end(void **state) {
  rdt_context_destroy(ctx);
  return util_folder_remove(state);
}

/* ---- products ---- */

static uint64_t draw(uint64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % n;
}

static rdt_matmul_job job_of(const char *devices, rdt_strategy strategy, size_t limit) {
  seen.faults = 0;
  atomic_store(&fetches, 0), atomic_store(&reads, 0), atomic_store(&hit, 0), atomic_store(&fails, 0);
  atomic_store(&slow, 0);
  return (rdt_matmul_job){.a = a_path,
                          .b = b_path,
                          .c = c_path,
                          .device = devices,
                          .mem_limit = limit,
                          .strategy = strategy,
                          .protected = true};
}

static void multiply(const rdt_matmul_job *job, rdt_verdict verdict, rdt_matmul_result *r) {
  rdt_reason why = {""};
  if (rdt_matmul(ctx, job, r, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(r->verdict, verdict);
  assert_true(fabs(r->load_bytes + r->peer_bytes - r->forecast.load_bytes) < 1.0);
}

enum { M = 190, N = 130, K = 150, LIMIT = 450 << 10 };

/* Every strategy, two and three devices, one of them slow or not: what one device would have. */
static void test_shared(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
  for (int i = 0; i < 2 * 3 * RDT_STRATEGY_COUNT; i++) {
    const int s = i / 6;
    rdt_matmul_result r;
    double *a = util_npy(a_path, RDT_F32, s & 1, M, K, 1), *b = util_npy(b_path, RDT_F32, i & 1, K, N, 2);
    rdt_matmul_job job = job_of(devices[i / 2 % 3], (rdt_strategy)s, LIMIT);
    atomic_store(&slow, i % 2 ? 2000 : 0);
    job.verify = true;
    multiply(&job, RDT_CLEAN, &r);
    assert_true(r.peer_bytes > 0.0 && r.faults == 0);
    util_npy_expect(c_path, RDT_F32, M, N, K, a, b, 0.0);
    rdt_free(a);
    rdt_free(b);
  }
}

/* A copy that is not what it comes from is noticed where it is, and only there are blocks computed again; from the
 * file, so that bits are those without it. */
static void test_broken_copy(void **state) {
  (void)state;
  double *a = util_npy(a_path, RDT_F32, false, M, K, 1), *b = util_npy(b_path, RDT_F32, false, K, N, 2);
  for (int s = 0; s < RDT_STRATEGY_COUNT; s++)
    for (int which = 1; which < 9; which += 3) {
      rdt_matmul_result r;
      rdt_matmul_job job = job_of("cpu,cpu", (rdt_strategy)s, LIMIT);
      multiply(&job, RDT_CLEAN, &r);
      assert_int_equal(rename(c_path, one_path), 0);
      job = job_of("cpu,cpu", (rdt_strategy)s, LIMIT);
      atomic_store(&hit, which);
      rdt_reason why = {""};
      if (rdt_matmul(ctx, &job, &r, &why) != RDT_OK) fail_msg("%s", why.text);
      assert_true(util_same_bytes(c_path, one_path));
      if (which > 1 && atomic_load(&fetches) < which) continue; /* a device was far ahead */
      assert_true(r.verdict == RDT_RECOMPUTED && r.faults >= 1 && seen.diagnosis == RDT_DIAG_MEMORY);
      assert_non_null(strstr(seen.text, "changed in memory"));
    }
  rdt_free(a);
  rdt_free(b);
}

/* Where a device fails, the others do not wait for what it was about to read; --resume goes on, with fewer devices and
 * with such as have nothing left to do. */
static void test_failing(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
  double *a = util_npy(a_path, RDT_F32, false, M, K, 1), *b = util_npy(b_path, RDT_F32, false, K, N, 2);
  for (int s = 0; s < RDT_STRATEGY_COUNT; s++)
    for (int read = 1; read < 40; read += 13) {
      rdt_matmul_result r;
      rdt_reason why = {""};
      rdt_matmul_job job = job_of("cpu,cpu,cpu", (rdt_strategy)s, LIMIT);
      atomic_store(&fails, read);
      const rdt_status status = rdt_matmul(ctx, &job, &r, &why);
      if (status == RDT_OK) continue; /* there are not so many reads */
      assert_int_equal(status, RDT_ERR_IO);
      assert_non_null(strstr(why.text, "a read that fails"));
      job = job_of(devices[read % 3], (rdt_strategy)s, 3 * LIMIT);
      job.resume = true;
      multiply(&job, RDT_CLEAN, &r);
      util_npy_expect(c_path, RDT_F32, M, N, K, a, b, 0.0);
    }
  rdt_free(a);
  rdt_free(b);
}

/* Shapes, limits and faults of all kinds: whatever is delivered is right. */
static void test_many(void **state) {
  (void)state;
  for (int run = 0; run < runs; run++) {
    const int64_t m = 40 + (int64_t)draw(200), n = 40 + (int64_t)draw(200), k = 40 + (int64_t)draw(200);
    rdt_matmul_result r;
    rdt_reason why = {""};
    double *a = util_npy(a_path, RDT_F32, draw(2), m, k, 2 * (uint64_t)run + 1),
           *b = util_npy(b_path, RDT_F32, draw(2), k, n, 2 * (uint64_t)run + 2);
    rdt_matmul_job job = job_of(draw(2) ? "cpu,cpu" : "cpu,cpu,cpu,cpu", (rdt_strategy)draw(RDT_STRATEGY_COUNT),
                                LIMIT + draw(4 * LIMIT));
    job.protected = draw(4) > 0;
    job.plant =
        (rdt_matmul_plant){.count = draw(2) ? 5 : 0, .scattered = true, .site = RDT_SITE_INPUT, .seed = draw(999)};
#ifdef __SANITIZE_THREAD__
    job.plant.count = 0; /* it strikes a block while others copy it */
#endif
    if (!job.protected) job.plant.count = 0;
    atomic_store(&hit, job.protected && draw(2) ? 1 + (int)draw(9) : 0);
    atomic_store(&slow, (int)draw(3000));
    if (rdt_matmul(ctx, &job, &r, &why) != RDT_OK) fail_msg("run %d: %s", run, why.text);
    const bool broken = r.planted > 0 || (atomic_load(&hit) > 0 && atomic_load(&fetches) >= atomic_load(&hit));
    assert_int_equal(r.verdict, !job.protected ? RDT_UNCHECKED : broken ? RDT_RECOMPUTED : RDT_CLEAN);
    util_npy_expect(c_path, RDT_F32, m, n, k, a, b, 0.0);
    rdt_free(a);
    rdt_free(b);
  }
}

int main(int argc, char **argv) {
  runs = argc > 1 ? atoi(argv[1]) : runs / util_one_in(1, 4);
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared), cmocka_unit_test(test_broken_copy),
                                     cmocka_unit_test(test_failing), cmocka_unit_test(test_many)};
  return cmocka_run_group_tests_name("peers", tests, begin, end);
}
