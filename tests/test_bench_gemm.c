/* The timing harness on known times, its tables, and `redoubt bench gemm` on small products. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "bench_table.h"
#include "cli.h"
#include "timing.h"

static int runs;
static int count_runs(void *user) {
  runs++;
  return *(int *)user;
}

static void test_statistics(void **state) {
  (void)state;
  int fine = 0;
  rdt_timing t;
  rdt_timing_init(&t, 11);
  t.min_seconds = 0;
  assert_int_equal(rdt_timing_add(&t, "a", count_runs, &fine), 0);
  assert_int_equal(rdt_timing_add(&t, "b", count_runs, &fine), 1);
  assert_int_equal(rdt_timing_run(&t), 0);
  assert_true(runs >= 22);
  for (int i = 0; i < 11; ++i) { /* b takes twice as long as a, on a machine that slows down */
    t.cases[0].seconds[i] = 1.0 + i;
    t.cases[1].seconds[i] = 2.0 * (1.0 + i);
  }
  const rdt_timing_stat s = rdt_timing_stat_of(&t, 0);
  assert_true(s.median == 6.0 && s.p10 == 2.0 && s.p90 == 10.0);
  const rdt_timing_ratio r = rdt_timing_ratio_of(&t, 1, 0);
  assert_true(r.ratio == 2.0 && r.low == 2.0 && r.high == 2.0);
  rdt_timing_free(&t);
}

static void test_failing_case_stops(void **state) {
  (void)state;
  int bad = 7;
  rdt_timing t;
  rdt_timing_init(&t, 3);
  rdt_timing_add(&t, "bad", count_runs, &bad);
  assert_int_equal(rdt_timing_run(&t), 7);
  rdt_timing_free(&t);
}

static char *run(char *const *args, int *code) {
  static char text[1 << 16];
  char path[] = "/tmp/redoubt_bench_XXXXXX";
  char *argv[24] = {(char *)"gemm"};
  int argc = 1;
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  for (; args[argc - 1]; ++argc) argv[argc] = args[argc - 1];
  argv[argc++] = (char *)"-o";
  argv[argc++] = path;
  *code = rdt_command_call(&rdt_cmd_bench_gemm, argc, argv);
  close(fd);
  FILE *written = fopen(path, "r"); /* another file than fd's: it was renamed into place */
  assert_non_null(written);
  text[fread(text, 1, sizeof text - 1, written)] = '\0';
  fclose(written);
  unlink(path);
  return text;
}

static void test_json(void **state) {
  (void)state;
  char *args[] = {"--mnk",  "40:30:20",   "--threads", "1",        "--trials", "3", "--scheme",
                  "rowcol", "--epilogue", "bias+relu", "--format", "json",     NULL};
  int code;
  const char *text = run(args, &code);
  assert_int_equal(code, 0);
  assert_ptr_equal(strstr(text, "{\"schema\": \"redoubt.bench-gemm/1\", \"rows\": ["), text);
  const char *ours = strstr(text, "\"scheme\": \"rowcol\"");
  assert_non_null(ours);
  assert_non_null(strstr(ours, "\"verdict\": \"CLEAN\"}\n]}\n"));
}

static void test_usage(void **state) {
  (void)state;
  char *wrong[][3] = {{"--mnk", "1:2", NULL},       {"--dtype", "f7", NULL},  {"--threads", "0", NULL},
                      {"--scheme", "fc", NULL},     {"--m", "-3", NULL},      {"--format", "xml", NULL},
                      {"--epilogue", "gelu", NULL}, {"--trials", "ten", NULL}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    int code;
    run(wrong[i], &code);
    assert_int_equal(code, 2);
  }
}

static void test_tables(void **state) {
  (void)state;
  const char *const names[] = {"a", "b"};
  const char *const should[] = {
      "| a | b |\n| --- | --- |\n| x\"y | 1.50 |\n", "a,b\n\"x\"\"y\",1.50\n",
      "{\"schema\": \"redoubt.bench-test/1\", \"rows\": [\n  {\"a\": \"x\\\"y\", \"b\": 1.50}\n]}\n"};
  for (int f = 0; f < 3; ++f) {
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    rdt_bench_out t;
    rdt_bench_begin_rows(&t, out, (rdt_bench_format)f, "test", names, 2);
    rdt_bench_text(&t, "x\"y");
    rdt_bench_fixed(&t, 1.5, 2);
    assert_true(rdt_bench_end(&t));
    fclose(out);
    assert_string_equal(text, should[f]);
  }
}

static void test_titled_tables(void **state) {
  (void)state;
  const char *const names[] = {"a|A", "b"};
  const char *const should[] = {"`redoubt bench test -x`\n\nT\n\n| A | b |\n| --- | --- |\n| - | 2 |\n",
                                "# redoubt bench test -x\n# t: T\na,b\n,2\n",
                                "{\"schema\": \"redoubt.bench-test/1\", \"settings\": \"-x\", \"tables\": [\n"
                                "{\"name\": \"t\", \"title\": \"T\", \"rows\": [\n  {\"a\": null, \"b\": 2}]}\n]}\n"};
  for (int f = 0; f < 3; ++f) {
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    rdt_bench_out t;
    rdt_bench_begin(&t, out, (rdt_bench_format)f, "test", "-x");
    rdt_bench_table(&t, "t", "T", names, 2);
    rdt_bench_number(&t, NAN, 3);
    rdt_bench_integer(&t, 2);
    assert_true(rdt_bench_end(&t));
    fclose(out);
    assert_string_equal(text, should[f]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_statistics), cmocka_unit_test(test_failing_case_stops),
                                     cmocka_unit_test(test_json),       cmocka_unit_test(test_usage),
                                     cmocka_unit_test(test_tables),     cmocka_unit_test(test_titled_tables)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
