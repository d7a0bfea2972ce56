/* Cores: who executed what, the rungs of the ladder that ask for it, cores that compute wrongly, cores to avoid. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cpu/threads.h"
#include "plan/cores.h"
#include "util_bench.h"

/* ---- the hunt for a core, with scripted ones ---- */

enum { MOST = 64 };

typedef struct machine {
  int n, suspect;
  bool wrong[MOST];
  bool spares_alone; /* a wrong core is right when nobody computes beside it */
  bool good[3];      /* what lies in the buffers */
  int attempts, widest;
} machine;

static int machine_cores(void *self, int *list, int room, int *suspect) {
  const machine *m = self;
  assert_true(room >= m->n);
  for (int i = 0; i < m->n; i++) list[i] = 100 + i;
  *suspect = m->suspect < 0 ? -1 : 100 + m->suspect;
  return m->n;
}

static rdt_status machine_compute(void *self, rdt_buffer into, const int *cores, int n, rdt_reason *why) {
  machine *m = self;
  (void)why;
  m->good[into] = true;
  for (int i = 0; i < n; i++)
    if (m->wrong[cores[i] - 100] && !(m->spares_alone && n == 1)) m->good[into] = false;
  m->attempts++;
  if (n > m->widest) m->widest = n;
  return RDT_OK;
}

static rdt_status machine_check(void *self, rdt_buffer which, rdt_findings *f, rdt_reason *why) {
  const machine *m = self;
  (void)why;
  rdt_findings_check(f, RDT_CHECK_ROW, 0, -1, m->good[which] ? 0.0 : 1e3, 0.0, (rdt_bound){100.0, 1.0});
  return RDT_OK;
}

static rdt_elsewhere hunt(machine *m) {
  const rdt_recovery r = {.self = m, .check = machine_check, .cores = machine_cores, .compute_on = machine_compute};
  rdt_elsewhere e;
  assert_int_equal(rdt_recover_elsewhere(&r, &e, NULL), RDT_OK);
  if (e.found) assert_true(m->good[e.good]);
  return e;
}

static void a_wrong_core_is_found_by_halves(void **state) {
  (void)state;
  for (int n = 2; n <= MOST; n += n < 8 ? 1 : 7)
    for (int bad = 0; bad < n; bad++) {
      machine m = {.n = n, .suspect = -1};
      m.wrong[bad] = true;
      const rdt_elsewhere e = hunt(&m);
      assert_true(e.tried && e.found);
      assert_int_equal(e.core, 100 + bad);
      int steps = 2;
      for (int width = 1; width < n; width *= 2) steps++;
      assert_in_range(m.attempts, 2, steps);
    }
}

static void a_suspect_is_confirmed_elsewhere(void **state) {
  (void)state;
  machine m = {.n = 5, .suspect = 3};
  m.wrong[3] = true;
  rdt_elsewhere e = hunt(&m);
  assert_true(e.found);
  assert_int_equal(e.core, 103);
  assert_int_equal(m.attempts, 1);
  assert_int_equal(m.widest, 4);
  m = (machine){.n = 5, .suspect = 3, .wrong = {true, true, true, true, true}};
  e = hunt(&m);
  assert_true(e.tried && !e.found);
  assert_int_equal(e.core, -1);
}

static void what_is_wrong_everywhere_is_no_core(void **state) {
  (void)state;
  machine m = {.n = MOST, .suspect = -1};
  memset(m.wrong, 1, sizeof m.wrong);
  const rdt_elsewhere e = hunt(&m);
  assert_true(e.tried && !e.found);
  assert_int_equal(m.attempts, 2);
}

static void a_core_that_is_right_alone_is_not_named(void **state) {
  (void)state;
  machine m = {.n = 4, .suspect = -1, .spares_alone = true};
  m.wrong[2] = true;
  const rdt_elsewhere e = hunt(&m);
  assert_true(e.found);
  assert_int_equal(e.core, -1);
}

static void one_core_is_no_choice(void **state) {
  (void)state;
  machine m = {.n = 1, .suspect = 0, .wrong = {true}};
  assert_false(hunt(&m).tried);
  assert_int_equal(m.attempts, 0);
}

/* ---- shares ---- */

static void shares_say_who_computed_a_place(void **state) {
  rdt_share list[3];
  rdt_shares s = {.list = list, .room = 3};
  bool sure;
  (void)state;
  rdt_shares_expect(&s, 4);
  assert_int_equal(s.n, 0); /* more than there is room for */
  rdt_shares_expect(&s, 3);
  for (int i = 0; i < 3; i++) {
    rdt_share_begin(&s, i, (int64_t[]){10 * i, 0}, (int64_t[]){10 * i + 10, 8});
    rdt_share_end(&s, i, i == 1);
    list[i].core = 20 + i;
    list[i].moved = i == 2;
  }
  assert_int_equal(rdt_shares_core(&s, 9, 3, &sure), 20);
  assert_true(sure);
  assert_int_equal(rdt_shares_core(&s, 10, -1, &sure), 21);
  assert_true(list[1].differ && !list[0].differ);
  assert_int_equal(rdt_shares_core(&s, 29, 0, &sure), 22);
  assert_false(sure);
  assert_int_equal(rdt_where_core(&s, (int64_t[]){29, 0}), -1);
  assert_int_equal(rdt_shares_core(&s, -1, 3, &sure), -1); /* a column: all of them */
  assert_int_equal(rdt_shares_core(&s, 30, 3, &sure), -1);
}

static void threads_go_where_they_are_pinned(void **state) {
  int allowed[CPU_SETSIZE], core[4];
  cpu_set_t before, after;
  rdt_places places;
  (void)state;
  const int n = rdt_cores_allowed(allowed, CPU_SETSIZE);
  assert_true(n > 0);
  sched_getaffinity(0, sizeof before, &before);
  for (int i = 0; i < n && i < 4; i++) {
    assert_true(rdt_threads_pin(4, &allowed[i], 1, &places));
    rdt_threads_look(4, core);
    for (int t = 0; t < 4; t++) assert_int_equal(core[t], allowed[i]);
    rdt_threads_restore(&places);
  }
  assert_true(rdt_threads_pin(4, allowed, n, &places));
  rdt_threads_look(4, core);
  for (int t = 0; t < 4; t++) assert_int_equal(core[t], allowed[t % n]);
  rdt_threads_restore(&places);
  sched_getaffinity(0, sizeof after, &after);
  assert_true(CPU_EQUAL(&before, &after));
  rdt_threads_restore(&places); /* nothing is left to restore */
}

/* ---- products ---- */

/* After a first run without a fault. */
static void open_clean(util_bench *w, const rdt_policy *policy, int threads) {
  util_bench_open(w, policy, threads);
  util_bench_execute(w);
  assert_int_equal(w->r.verdict, RDT_CLEAN);
  const size_t bytes = rdt_tensor_bytes(&w->c);
  w->clean = rdt_alloc(1, bytes);
  memcpy(w->clean, w->c.data, bytes);
}

static bool is_clean(const util_bench *w) {
  return memcmp(w->clean, w->c.data, (size_t)rdt_tensor_count(&w->c) * sizeof(float)) == 0;
}

static rdt_core_info counted(const rdt_context *ctx, int core) {
  rdt_core_info list[CPU_SETSIZE], none = {.core = core};
  const size_t n = rdt_context_cores(ctx, list, CPU_SETSIZE);
  for (size_t i = 0; i < n; i++)
    if (list[i].core == core) return list[i];
  return none;
}

/* Every product that is computed there is wrong, the ladder's too. */
static void a_wrong_core_is_named_and_its_products_repaired(void **state) {
  static const char *const schemes[] = {"row", "col", "rowcol", "tile", "global"};
  int cores[CPU_SETSIZE];
  (void)state;
  const int n = rdt_cores_allowed(cores, CPU_SETSIZE);
  if (n < 2) skip();
  for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++)
    for (int threads = 1; threads <= 3; threads++) {
      rdt_policy policy = RDT_POLICY_DEFAULT;
      util_bench w;
      policy.scheme = schemes[s];
      open_clean(&w, &policy, threads);
      for (int i = 0; i < 8; i++) {
        char spec[96];
        const int bad = cores[i % (n < 4 ? n : 4)];
        const rdt_core_info before = counted(w.ctx, bad);
        snprintf(spec, sizeof spec, "bit:30@accum,core=%d,seed=%d", bad, i);
        assert_int_equal(rdt_plan_inject(w.plan, spec), RDT_OK);
        util_bench_execute(&w);
        if (!is_clean(&w)) fail_msg("%s, %d threads, %s: %s", schemes[s], threads, spec, w.told.text);
        assert_int_equal(w.r.verdict, RDT_RECOMPUTED);
        assert_int_equal(w.r.diagnosis, RDT_DIAG_PERSISTENT);
        assert_int_equal(w.told.last.core, bad);
        assert_non_null(strstr(w.told.rungs, "recompute:failed"));
        assert_non_null(strstr(w.told.rungs, "other core:passed"));
        const rdt_core_info after = counted(w.ctx, bad);
        assert_true(after.products >= before.products);
        assert_int_equal(after.faults[RDT_DIAG_PERSISTENT], before.faults[RDT_DIAG_PERSISTENT] + 1);
        assert_int_equal(after.suspects, before.suspects + 1);
        w.told = (util_told){.faults = 0}; /* and the next run is well again */
        util_bench_execute(&w);
        assert_int_equal(w.r.verdict, RDT_CLEAN);
        assert_true(is_clean(&w));
      }
      util_bench_close(&w);
    }
}

static void with_one_core_the_rung_is_left_out(void **state) {
  int cores[CPU_SETSIZE];
  cpu_set_t before, one;
  char spec[96];
  rdt_policy policy = RDT_POLICY_DEFAULT;
  util_bench w;
  (void)state;
  assert_true(rdt_cores_allowed(cores, CPU_SETSIZE) > 0);
  policy.scheme = "row";
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  CPU_SET(cores[0], &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  open_clean(&w, &policy, 1);
  snprintf(spec, sizeof spec, "bit:30@accum,core=%d,seed=1", cores[0]);
  assert_int_equal(rdt_plan_inject(w.plan, spec), RDT_OK);
  const rdt_status status = rdt_plan_execute(w.plan, &w.a, &w.c, &w.r);
  sched_setaffinity(0, sizeof before, &before);
  assert_int_equal(status, RDT_ERR_FAULT); /* the other code path runs on the same core */
  assert_int_equal(w.r.verdict, RDT_DETECTED);
  assert_null(strstr(w.told.rungs, "other core"));
  assert_non_null(strstr(w.told.rungs, "recompute:failed checksum:intact other path:failed"));
  assert_int_equal(w.told.last.core, -1);
  util_bench_close(&w);
}

/* A transient fault is booked where it happened. */
static void a_transient_fault_has_its_core(void **state) {
  int cores[CPU_SETSIZE];
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_places places;
  util_bench w;
  (void)state;
  const int n = rdt_cores_allowed(cores, CPU_SETSIZE);
  policy.scheme = "row";
  open_clean(&w, &policy, 1);
  for (int i = 0; i < n && i < 4; i++) {
    assert_true(rdt_threads_pin(1, &cores[i], 1, &places));
    assert_int_equal(rdt_plan_inject(w.plan, "bit:30@accum,seed=3"), RDT_OK);
    util_bench_execute(&w);
    rdt_threads_restore(&places);
    assert_int_equal(w.r.diagnosis, RDT_DIAG_TRANSIENT);
    assert_int_equal(w.told.last.core, cores[i]);
    assert_int_equal(counted(w.ctx, cores[i]).faults[RDT_DIAG_TRANSIENT], 1);
    assert_true(is_clean(&w));
  }
  util_bench_close(&w);
}

/* Sums that were wrong before anybody sealed them: only making them again shows it. */
static void wrong_checksums_behind_their_seal_are_made_again(void **state) {
  static const char *const schemes[] = {"col:2", "rowcol:2", "row:3", "global-classic"};
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++) {
    rdt_policy policy = RDT_POLICY_DEFAULT;
    util_bench w;
    void *data = NULL;
    size_t bytes = 0;
    rdt_dtype dtype;
    policy.scheme = schemes[s];
    open_clean(&w, &policy, 1);
    w.plan->scheme->impl->checksums(w.plan->sums, &data, &bytes, &dtype);
    if (!data || dtype != RDT_F64) { /* nothing is kept of the weights */
      util_bench_close(&w);
      continue;
    }
    *(double *)data += 1e3;
    w.plan->sums_seal = rdt_bitsum(data, bytes);
    util_bench_execute(&w);
    assert_int_equal(w.r.verdict, RDT_RECOMPUTED);
    assert_int_equal(w.r.diagnosis, RDT_DIAG_CHECKER);
    assert_string_equal(w.told.rungs, "secure:intact recompute:failed checksum:restored");
    assert_true(is_clean(&w));
    util_bench_execute(&w);
    assert_int_equal(w.r.verdict, RDT_CLEAN);
    util_bench_close(&w);
  }
}

static void kernels_write_their_shares_down(void **state) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  util_bench w;
  (void)state;
  policy.scheme = "row";
  open_clean(&w, &policy, 2);
  int64_t products = 0;
  rdt_core_info list[CPU_SETSIZE];
  const size_t n = rdt_context_cores(w.ctx, list, CPU_SETSIZE);
  for (size_t i = 0; i < n; i++) {
    products += list[i].products;
    assert_true(i == 0 || list[i].core > list[i - 1].core);
    assert_int_equal(list[i].suspects, 0);
  }
  assert_int_equal(products, 2); /* one execution, two shares */
  assert_int_equal(rdt_context_cores(w.ctx, list, 0), n);
  util_bench_close(&w);
}

static void cores_to_avoid_are_a_list(void **state) {
  rdt_context *ctx;
  cpu_set_t set;
  char beyond[32];
  (void)state;
  assert_int_equal(rdt_cores_parse("0", &set, NULL), RDT_OK);
  assert_true(CPU_ISSET(0, &set));
  assert_int_equal(rdt_cores_parse(NULL, &set, NULL), RDT_OK);
  assert_int_equal(CPU_COUNT(&set), 0);
  static const char *const bad[] = {"x", "0-", "-1", "0,", ",0", "0 1", "1-0", "0x1", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(rdt_cores_parse(bad[i], &set, NULL), RDT_ERR_ARG);
  assert_int_equal(rdt_context_create(&ctx, 0), RDT_OK);
  rdt_policy policy = RDT_POLICY_DEFAULT;
  snprintf(beyond, sizeof beyond, "%ld", sysconf(_SC_NPROCESSORS_CONF));
  policy.avoid_cores = beyond;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_ARG);
  assert_non_null(strstr(rdt_context_error(ctx), "there is no core"));
  snprintf(beyond, sizeof beyond, "0-%ld", sysconf(_SC_NPROCESSORS_CONF) - 1);
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_ARG);
  assert_non_null(strstr(rdt_context_error(ctx), "leaves none"));
  rdt_context_destroy(ctx);
}

static void avoided_cores_execute_nothing(void **state) {
  int cores[CPU_SETSIZE];
  (void)state;
  const int n = rdt_cores_allowed(cores, CPU_SETSIZE);
  if (n < 2) skip();
  for (int i = 0; i < 2; i++) {
    rdt_policy policy = RDT_POLICY_DEFAULT;
    cpu_set_t before, after;
    char list[16];
    util_bench w;
    sched_getaffinity(0, sizeof before, &before);
    snprintf(list, sizeof list, "%d", cores[i]);
    policy.avoid_cores = list;
    policy.scheme = "row";
    open_clean(&w, &policy, 3);
    for (int k = 0; k < 20; k++) util_bench_execute(&w);
    assert_true(is_clean(&w));
    assert_int_equal(counted(w.ctx, cores[i]).products, 0);
    rdt_core_info one;
    assert_true(rdt_context_cores(w.ctx, &one, 1) >= 1 && one.products > 0);
    sched_getaffinity(0, sizeof after, &after); /* the caller's thread is let go */
    assert_true(CPU_EQUAL(&before, &after));
    util_bench_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wrong_core_is_found_by_halves),
      cmocka_unit_test(a_suspect_is_confirmed_elsewhere),
      cmocka_unit_test(what_is_wrong_everywhere_is_no_core),
      cmocka_unit_test(a_core_that_is_right_alone_is_not_named),
      cmocka_unit_test(one_core_is_no_choice),
      cmocka_unit_test(shares_say_who_computed_a_place),
      cmocka_unit_test(threads_go_where_they_are_pinned),
      cmocka_unit_test(a_wrong_core_is_named_and_its_products_repaired),
      cmocka_unit_test(with_one_core_the_rung_is_left_out),
      cmocka_unit_test(a_transient_fault_has_its_core),
      cmocka_unit_test(wrong_checksums_behind_their_seal_are_made_again),
      cmocka_unit_test(kernels_write_their_shares_down),
      cmocka_unit_test(cores_to_avoid_are_a_list),
      cmocka_unit_test(avoided_cores_execute_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
