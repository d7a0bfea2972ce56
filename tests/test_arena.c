/* The activations' block: values that live at the same time never overlap, and little is wasted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "net/arena.h"
#include "util_sample.h"

enum { VALUES = 200, STEPS = 120 };

static uint64_t next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* Chains, as in networks: most values are needed by the next step only, some much longer. */
static void make(rdt_lifetime *l, uint64_t seed) {
  for (int v = 0; v < VALUES; v++) {
    l[v].first = next(&seed) % 8 == 0 ? -1 : (int)(next(&seed) % STEPS);
    l[v].last = l[v].first + (int)(next(&seed) % (next(&seed) % 4 ? 2 : 30));
    if (l[v].last >= STEPS) l[v].last = STEPS - 1;
    l[v].bytes = next(&seed) % 16 == 0 ? 0 : (size_t)(next(&seed) % 100000);
  }
}

static void nothing_overlaps(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    rdt_lifetime l[VALUES];
    rdt_arena a;
    size_t most = 0;
    make(l, seed);
    assert_int_equal(rdt_arena_plan(l, VALUES, STEPS, &a, NULL), RDT_OK);
    for (int v = 0; v < VALUES; v++) {
      if (l[v].first < 0 || l[v].bytes == 0) continue;
      assert_int_equal(a.offset[v] % 64, 0);
      assert_true(a.offset[v] + l[v].bytes <= a.bytes);
      for (int w = 0; w < v; w++) {
        if (l[w].first < 0 || l[w].bytes == 0 || l[w].first > l[v].last || l[v].first > l[w].last) continue;
        assert_true(a.offset[v] + l[v].bytes <= a.offset[w] || a.offset[w] + l[w].bytes <= a.offset[v]);
      }
    }
    for (int s = 0; s < STEPS; s++) {
      size_t live = 0;
      for (int v = 0; v < VALUES; v++)
        if (l[v].first >= 0 && l[v].first <= s && s <= l[v].last) live += l[v].bytes;
      most = live > most ? live : most;
    }
    assert_int_equal(a.live, most);
    assert_true(a.bytes >= most);
    assert_true(a.bytes <= most + most / 2);
    rdt_arena_clear(&a);
  }
}

/* What is lent to a step lies in nothing that lives then. */
static void gaps_are_free(void **state) {
  int found = 0;
  (void)state;
  for (uint64_t seed = 1; seed <= 50; seed++) {
    rdt_lifetime l[VALUES];
    rdt_arena a;
    uint64_t random = seed;
    make(l, seed);
    assert_int_equal(rdt_arena_plan(l, VALUES, STEPS, &a, NULL), RDT_OK);
    for (int s = 0; s < STEPS; s++) {
      const size_t bytes = (size_t)(next(&random) % 200000);
      size_t at;
      if (!rdt_arena_gap(&a, l, s, bytes, &at)) continue;
      found++;
      assert_int_equal(at % 64, 0);
      assert_true(at + bytes <= a.bytes);
      for (int v = 0; v < VALUES; v++)
        if (l[v].first >= 0 && l[v].bytes > 0 && l[v].first <= s && s <= l[v].last && bytes > 0)
          assert_true(at + bytes <= a.offset[v] || a.offset[v] + l[v].bytes <= at);
    }
    size_t at;
    assert_false(rdt_arena_gap(&a, l, 0, a.bytes + 64, &at));
    assert_false(rdt_arena_gap(&a, l, 0, SIZE_MAX, &at));
    rdt_arena_clear(&a);
  }
  assert_true(found > 1000);
}

static void a_chain_needs_two_places(void **state) {
  rdt_lifetime l[10];
  rdt_arena a;
  (void)state;
  for (int v = 0; v < 10; v++) l[v] = (rdt_lifetime){.bytes = 1000, .first = v, .last = v < 9 ? v + 1 : v};
  assert_int_equal(rdt_arena_plan(l, 10, 10, &a, NULL), RDT_OK);
  assert_int_equal(a.bytes, 2 * 1024);
  assert_int_equal(a.live, 2 * 1024);
  rdt_arena_clear(&a);
}

/* Graphs that somebody made to be slow: planning them takes the time of n^2 small steps at most. */
static void many_values_take_no_time(void **state) {
  enum { MOST = 20000 };
  static rdt_lifetime l[MOST];
  const int many = MOST / util_one_in(2, 4); /* half of them: a quarter of the time */
  (void)state;
  for (int kind = 0; kind < 4; kind++) {
    rdt_arena a;
    uint64_t seed = 1;
    size_t at;
    for (int v = 0; v < many; v++) {
      const int reach = kind == 0 ? 1 : kind == 1 ? many : (int)(next(&seed) % many); /* a chain; all at once; any */
      l[v].first = v;
      l[v].last = v + reach < many ? v + reach : many - 1;
      l[v].bytes = kind == 3 ? (size_t)(64 * (v % 2 ? v + 1 : many - v)) : (size_t)(next(&seed) % 100000);
    }
    const clock_t begin = clock();
    assert_int_equal(rdt_arena_plan(l, many, many, &a, NULL), RDT_OK);
    for (int s = 0; s < many; s++) rdt_arena_gap(&a, l, s, 100000, &at);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_true(seconds < 20.0); /* sanitizers and busy machines included; a cube would be hours */
    assert_true(a.bytes >= a.live);
    rdt_arena_clear(&a);
  }
}

static void nothing_to_place(void **state) {
  rdt_lifetime l[2] = {{.first = -1}, {.first = 0, .last = 0, .bytes = 0}};
  rdt_arena a;
  (void)state;
  assert_int_equal(rdt_arena_plan(l, 2, 1, &a, NULL), RDT_OK);
  assert_int_equal(a.bytes, 0);
  rdt_arena_clear(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_overlaps), cmocka_unit_test(gaps_are_free),
                                     cmocka_unit_test(a_chain_needs_two_places), cmocka_unit_test(nothing_to_place),
                                     cmocka_unit_test(many_values_take_no_time)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
