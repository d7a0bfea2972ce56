/* redoubt bench tmr and bench checkpoints: tables, JSON, pictures, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util_cli.h"

/* The published levels of three copies, and what this CPU has of them. */
static void test_bench_tmr(void **state) {
  (void)state;
  util_cli_expect(util_cli("bench tmr --mnk 96:64:80 --trials 3 --device cpu"), 0,
                  "| cooperative groups | 5420 | 400.65 | tmr-sm |");
  util_cli_expect(0, 0, "| thread block | 1867 | 137.99 |");
  util_cli_expect(util_cli("bench tmr --mnk 96:64:80 --trials 3 --device cpu --json"), 0, "redoubt.bench-tmr/1");
  util_cli_expect(util_cli("bench tmr --mnk 96:64:80,1:1:1"), 2, "one product at a time");
  util_cli_expect(util_cli("bench tmr --mnk 96:64:80 --device cpu --checkpoints 8"), 2, "not with --device cpu");
  /* Before anything is measured, which would take minutes here. */
  util_cli_expect(util_cli("bench tmr --mnk 8192:8192:8192 --device cpu -o nowhere/t.md"), 2, "nowhere/t.md");
}

/* Votes on the way along k: every number of them, its table and its pictures. */
static void test_bench_checkpoints(void **state) {
  (void)state;
  util_cli_expect(util_cli("bench checkpoints --mnk 16:16:64 --trials 1 --threads 1"), 0, "| 3 | 16 | 4 | 1 |");
  util_cli_expect(util_cli("bench checkpoints --mnk 16:16:3 --trials 2 --threads 1 --json -o cp.json"), 0, NULL);
  util_cli_expect(util_cli("figures cp.json --out cp"), 0, NULL);
  util_cli_slurp("cp/checkpoints-2.svg");
  assert_non_null(strstr(util_cli_text, "4 faults a run"));
  util_cli_slurp("cp/checkpoints-3.svg");
  util_cli_expect(util_cli("bench checkpoints --mnk 1:1:1,2:2:2"), 2, "one product at a time");
  util_cli_expect(util_cli("bench checkpoints --mnk 4096:4096:4096 -o nowhere/c.md"), 2, "nowhere/c.md"); /* at once */
  util_cli_expect(util_cli("bench gemm --mnk 8192:8192:8192 -o nowhere/g.md"), 2, "nowhere/g.md");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bench_tmr), cmocka_unit_test(test_bench_checkpoints)};
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
