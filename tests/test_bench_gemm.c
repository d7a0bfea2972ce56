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

#include "baselines.h"
#include "bench_conv.h"
#include "bench_table.h"
#include "bench_workloads.h"
#include "cli.h"
#include "core/memory.h"
#include "field.h"
#include "plan/probe.h"
#include "plan/timing.h"
#include "shapes.h"

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
  double calm[20], busy[20];
  for (int i = 0; i < 20; i++) {
    calm[i] = 1.0 + 0.002 * i;
    busy[i] = i < 15 ? 1.0 : 1.5;
  }
  assert_false(rdt_timing_is_noisy((rdt_timing_samples){calm, 20}));
  assert_true(rdt_timing_is_noisy((rdt_timing_samples){busy, 20}));
  assert_false(rdt_timing_is_noisy((rdt_timing_samples){busy, 0}));
  const rdt_timing_stat s = rdt_timing_stat_of(&t, 0);
  assert_true(s.median == 6.0 && s.p10 == 2.0 && s.p90 == 10.0);
  const rdt_timing_ratio r = rdt_timing_ratio_of(&t, 1, 0);
  assert_true(r.ratio == 2.0 && r.low == 2.0 && r.high == 2.0);
  for (int i = 0; i < 11; ++i) t.cases[1].seconds[i] = i % 2 ? 100.0 : 2.0; /* its median is 2 */
  const rdt_timing_samples a = rdt_timing_samples_of(&t, 0), b = rdt_timing_samples_of(&t, 1);
  const rdt_timing_pair pairs[] = {{b, a, 3.0}, {a, a, 1.0}};
  const rdt_timing_ratio sum = rdt_timing_sum_ratio(pairs, 2);
  assert_true(sum.ratio == (3.0 * 2.0 + 6.0) / (4.0 * 6.0));
  assert_true(sum.low <= sum.ratio && sum.ratio <= sum.high);
  /* drawn by rank: an even number has two in the middle, ties are one, numbers of trials may differ */
  const double four[] = {4.0, 1.0, 3.0, 2.0}, ties[] = {2.0, 2.0, 2.0, 2.0}, one[] = {5.0};
  const rdt_timing_samples even = {four, 4}, tied = {ties, 4}, single = {one, 1};
  const rdt_timing_ratio of_even = rdt_timing_sum_ratio(&(rdt_timing_pair){even, tied, 1.0}, 1);
  assert_true(of_even.ratio == 1.25 && of_even.low >= 0.5 && of_even.low < 1.25 && of_even.high <= 2.0 &&
              of_even.high > 1.25);
  const rdt_timing_ratio of_single = rdt_timing_sum_ratio(&(rdt_timing_pair){single, tied, 1.0}, 1);
  assert_true(of_single.ratio == 2.5 && of_single.low == 2.5 && of_single.high == 2.5);
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
  char *args[] = {"--mnk", "40:30:20",   "--threads", "1",        "--scheme", "rowcol,auto", "--runs",
                  "4",     "--epilogue", "bias+relu", "--format", "json",     NULL};
  int code;
  const char *text = run(args, &code);
  assert_int_equal(code, 0);
  const char *head =
      "{\"schema\": \"redoubt.bench-gemm/2\", \"settings\": \"--mnk 40:30:20 --scheme rowcol,auto "
      "--threads 1 --epilogue bias+relu --trials 4\", \"tables\": [";
  assert_ptr_equal(strstr(text, head), text);
  const char *ours = strstr(text, "\"scheme\": \"rowcol\"");
  assert_non_null(ours);
  assert_non_null(strstr(ours, "\"verdict\": \"CLEAN\"}]}\n]}\n"));
  assert_non_null(strstr(text, "{\"library\": \"oneDNN\""));
  assert_null(strstr(text, "\"sums\"")); /* of one row */
}

static void test_sums(void **state) {
  (void)state;
  char *args[] = {"--m",  "8:24:8",   "--threads", "1",       "--trials", "3",        "--baseline", "onednn", "--n",
                  "8,16", "--format", "csv",       "--dtype", "s8",       "--scheme", "auto",       NULL};
  int code;
  const char *text = run(args, &code);
  assert_int_equal(code, 0);
  assert_non_null(strstr(text, "\"\",24,16,1024,1,\"s8\",\"none\",\"warm\",1,\"oneDNN\",")); /* checked: it is right */
  const char *sums = strstr(text, "\n# sums: ");
  assert_non_null(sums);
  assert_non_null(strstr(sums, "\n1,\"redoubt auto\",\"auto\",6,"));
  assert_non_null(strstr(sums, "\n1,\"fastest library of each\",\"none\",6,"));
}

/* The same kernel with the same scheme under two names is run once: it does not differ from itself. */
static void test_same_way(void **state) {
  (void)state;
  static const char *const schemes[] = {"row", "col", "row"};
  static rdt_field f;
  uint64_t seed = 1;
  rdt_problem p;
  rdt_timing t;
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  p.in[0] = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){64, 32});
  p.in[1] = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){32, 48});
  p.out = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){64, 48});
  p.acc = RDT_F32;
  assert_true(rdt_bench_random(&p.in[0], &seed) && rdt_bench_random(&p.in[1], &seed) &&
              rdt_bench_random(&p.out, &seed));
  rdt_field_begin(&f, "test", &p, 1, 1);
  assert_true(rdt_field_add_none(&f) && rdt_field_add_schemes(&f, schemes, 3));
  assert_int_equal(f.count, 4);
  assert_int_equal(rdt_field_runs(&f), 3);
  assert_true(f.list[0].same == -1 && f.list[1].same == -1 && f.list[2].same == -1 && f.list[3].same == 1);
  rdt_timing_init(&t, 5);
  t.min_seconds = 0;
  assert_int_equal(rdt_field_time(&f, &t), 0);
  assert_true(t.cases[1].trials == 5 && t.cases[3].trials == 5);
  assert_memory_equal(t.cases[1].seconds, t.cases[3].seconds, 5 * sizeof(double));
  assert_true(f.list[3].worst.verdict == RDT_CLEAN && f.list[3].worst.ratio == f.list[1].worst.ratio);
  const rdt_timing_ratio r = rdt_timing_ratio_of(&t, 3, 1);
  assert_true(r.low == 1.0 && r.ratio == 1.0 && r.high == 1.0);
  rdt_timing_free(&t);
  rdt_field_end(&f);
  rdt_tensor *const all[] = {&p.in[0], &p.in[1], &p.out};
  for (int i = 0; i < 3; i++) rdt_free(all[i]->data);
  rdt_problem_clear(&p);
}

/* Our own kernel without checks is a baseline like others. */
static void test_own(void **state) {
  (void)state;
  char *args[] = {"--m", "24",       "--threads", "1",        "--trials", "3", "--baseline",
                  "own", "--scheme", "row",       "--format", "csv",      NULL};
  int code;
  const char *text = run(args, &code);
  assert_int_equal(code, 0);
  assert_non_null(strstr(text, "1,\"own kernel\",\"gemm_f32_native\",\"none\","));
  const char *row = strstr(text, "\"redoubt\",\"gemm_f32_native\",\"row\",");
  assert_non_null(row);
  assert_non_null(strstr(row, ",\"own kernel\","));
}

/* A library by its path: its row of the table is found by its symbols, it is told how many threads, and what it
 * computes is checked. */
static void test_libraries(void **state) {
  (void)state;
  char *args[] = {"--mnk",    "20:30:40", "--threads",  "2",
                  "--trials", "2",        "--baseline", "no/such/libnone.so," TEST_BUILD "/tests/libfake_blas.so",
                  "--format", "json",     NULL};
  int code;
  unsetenv("REDOUBT_FAKE_BLAS");
  const char *text = run(args, &code);
  assert_int_equal(code, 0);
  assert_non_null(strstr(text,
                         "{\"library\": \"libfake_blas.so (Fake)\", \"version\": \"fake 1.0, told not to spin\", "
                         "\"core\": \"Fake\", \"status\": \"compared\"}"));
  assert_non_null(
      strstr(text, "{\"library\": \"libnone.so\", \"version\": \"\", \"core\": \"\", \"status\": \"it cannot"));
  assert_non_null(strstr(text, "\"what\": \"libfake_blas.so (Fake)\""));
  assert_non_null(strstr(text, "\"best\": \"libfake_blas.so (Fake)\""));
  assert_null(strstr(text, TEST_BUILD)); /* nobody's paths */
  setenv("REDOUBT_FAKE_BLAS", "wrong", 1);
  text = run(args, &code);
  unsetenv("REDOUBT_FAKE_BLAS");
  assert_int_equal(code, 0);
  assert_non_null(strstr(text, "computes wrong results"));
  assert_null(strstr(text, "\"what\": \"libfake_blas.so (Fake)\""));
  char *f64[] = {"--mnk",    "8:8:8",   "--threads", "1",          "--trials",
                 "1",        "--dtype", "f64",       "--baseline", TEST_BUILD "/tests/libfake_blas.so",
                 "--format", "json",    NULL};
  text = run(f64, &code);
  assert_int_equal(code, 0);
  assert_non_null(strstr(text, "\"status\": \"it has no such product\""));
  char *bf16[] = {"--mnk",    "20:30:40", "--threads", "1",          "--trials",
                  "1",        "--dtype",  "bf16",      "--baseline", TEST_BUILD "/tests/libfake_blas.so",
                  "--format", "json",     NULL};
  text = run(bf16, &code);
  assert_int_equal(code, 0);
  assert_non_null(strstr(text, "\"best\": \"libfake_blas.so (Fake)\""));
}

static void test_lengths(void **state) {
  (void)state;
  const char *wrong[] = {"",      "0",      "-1",     "8,",      "8x", "1:2", "1:2:3:4",     "4:1:1",
                         "1:4:0", "1:4:-1", "1:65:1", "1048576", "8 ", ",8",  "1:9999999:1", "99999999999999999999",
                         "1:4:1,"};
  rdt_reason why;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    rdt_bench_lengths l = {.count = 0};
    why.text[0] = '\0';
    assert_int_equal(rdt_bench_take_lengths("m", wrong[i], &l, &why), RDT_ERR_ARG);
    assert_non_null(strstr(why.text, "--m"));
  }
  rdt_bench_lengths l = {.count = 0};
  assert_int_equal(rdt_bench_take_lengths("m", "7,1024:4096:1024,5:6:9223372036854775807", &l, &why), RDT_OK);
  const int64_t right[] = {7, 1024, 2048, 3072, 4096, 5};
  assert_int_equal(l.count, 6);
  assert_memory_equal(l.at, right, sizeof right);
}

static void test_shapes(void **state) {
  (void)state;
  const rdt_bench_lengths none = {.count = 0}, two = {{2, 3}, 2}, many = {.count = RDT_BENCH_LENGTHS};
  static rdt_bench_shapes s;
  rdt_reason why;
  assert_int_equal(rdt_bench_cross(&two, &none, &none, &s, &why), RDT_OK); /* squares */
  assert_int_equal(rdt_bench_cross(&two, &none, &two, &s, &why), RDT_OK);  /* crossed */
  assert_int_equal(rdt_bench_take_mnk("9:8:7,6:5:4", &s, &why), RDT_OK);
  const int64_t right[][3] = {{2, 2, 2},    {3, 3, 3},    {2, 1024, 2}, {2, 1024, 3},
                              {3, 1024, 2}, {3, 1024, 3}, {9, 8, 7},    {6, 5, 4}};
  assert_int_equal(s.count, 8);
  for (int i = 0; i < 8; i++)
    assert_true(s.at[i].m == right[i][0] && s.at[i].n == right[i][1] && s.at[i].k == right[i][2] && s.at[i].times == 1);
  assert_int_equal(rdt_bench_cross(&many, &many, &two, &s, &why), RDT_ERR_ARG);
  const char *wrong[] = {"", "1:2", "1:2:3,", "1:2:0", "1:2:3:4", "1:2:1048576"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(rdt_bench_take_mnk(wrong[i], &s, &why), RDT_ERR_ARG);
  assert_int_equal(rdt_bench_take_set("vgg", &s, &why), RDT_ERR_NAME);
}

static void test_limits(void **state) {
  (void)state;
  const rdt_dtype dtypes[] = {RDT_F64, RDT_F32, RDT_BF16, RDT_F16, RDT_S8, RDT_U8};
  rdt_probe_room room;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    const double peak = rdt_probe_peak(dtypes[i], 1);
    assert_true(peak > 1e6 && peak < 1e15);
    assert_true(*rdt_probe_name(dtypes[i]));
  }
  assert_true(rdt_probe_open(&room, 2));
  for (int threads = 1; threads <= 3; threads++) {
    const double bandwidth = rdt_probe_bandwidth(&room, threads);
    assert_true(bandwidth > 1e6 && bandwidth < 1e13);
  }
  rdt_probe_close(&room);
}

static void test_resnet50(void **state) {
  (void)state;
  static rdt_bench_shapes s;
  static rdt_bench_images l;
  rdt_reason why;
  int64_t products = 0, layers = 0, weights = 0, threes = 0;
  assert_int_equal(rdt_bench_take_set("resnet50", &s, &why), RDT_OK);
  assert_int_equal(rdt_bench_take_images("resnet50", 2, &l, &why), RDT_OK);
  assert_int_equal(s.count, l.count + 1); /* its last layer is a product */
  for (int i = 0; i < s.count; i++) {
    layers += s.at[i].times;
    products += s.at[i].times * s.at[i].m * s.at[i].n * s.at[i].k;
    weights += s.at[i].times * s.at[i].n * s.at[i].k;
    if (s.at[i].m == 3136 && s.at[i].n == 64 && s.at[i].k == 576) threes = s.at[i].times;
    if (i < l.count) assert_true(l.at[i].n == 2 && l.at[i].times == s.at[i].times);
  }
  assert_int_equal(layers, 54);
  assert_int_equal(products, 4089184256); /* 4.09 G */
  assert_int_equal(weights, 25502912);
  assert_int_equal(threes, 3);
  l.count = 0;
  assert_int_equal(rdt_bench_take_images("conv-vgg16:3", 0, &l, &why), RDT_OK);
  assert_true(l.count > 0 && l.at[0].n == 3);
  assert_int_equal(rdt_bench_take_images("dlrm-top", 0, &l, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "--set dlrm-top"));
}

static void test_networks(void **state) {
  (void)state;
  static rdt_bench_networks n;
  rdt_reason why;
  assert_int_equal(rdt_bench_take_networks("dlrm,square-64,resnet50:2", &n, &why), RDT_OK);
  assert_int_equal(n.count, 8); /* two networks with three batches each */
  assert_string_equal(n.at[0].name, "dlrm-bottom");
  assert_string_equal(n.at[5].name, "dlrm-top:2048");
  assert_string_equal(n.at[7].name, "resnet50:2");
  assert_true(n.at[7].batch == 2);
  assert_int_equal(rdt_bench_take_networks("dlrm,nothing", &n, &why), RDT_ERR_NAME);
  assert_int_equal(rdt_bench_take_networks("", &n, &why), RDT_ERR_ARG);
  assert_int_equal(rdt_bench_take_networks("cnn-224,cnn-1080p,conv", &n, &why), RDT_ERR_ARG);
}

static void test_usage(void **state) {
  (void)state;
  char *tiny[] = {"--mnk", "8:8:8", "--cold", NULL}, *huge[] = {"--mnk", "1000000:1000000:8", NULL};
  char *bias[] = {"--mnk", "8:8:8", "--dtype", "s8", "--epilogue", "bias", NULL};
  char *const *refused[] = {tiny, huge, bias}; /* too many copies, too much memory, no such product */
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    int code;
    run(refused[i], &code);
    assert_int_equal(code, 2);
  }
  char *wrong[][3] = {{"--mnk", "1:2", NULL},       {"--dtype", "f7", NULL},       {"--threads", "0", NULL},
                      {"--scheme", "fc", NULL},     {"--m", "-3", NULL},           {"--format", "xml", NULL},
                      {"--epilogue", "gelu", NULL}, {"--trials", "ten", NULL},     {"--set", "vgg", NULL},
                      {"--m", "4:1:1", NULL},       {"--baseline", "atlas", NULL}, {"--scheme", "row,fc", NULL}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    int code;
    run(wrong[i], &code);
    assert_int_equal(code, 2);
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
    rdt_bench_begin(&t, out, (rdt_bench_format)f, "test", 1, "-x");
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
                                     cmocka_unit_test(test_json),       cmocka_unit_test(test_sums),
                                     cmocka_unit_test(test_same_way),   cmocka_unit_test(test_own),
                                     cmocka_unit_test(test_libraries),  cmocka_unit_test(test_lengths),
                                     cmocka_unit_test(test_shapes),     cmocka_unit_test(test_limits),
                                     cmocka_unit_test(test_resnet50),   cmocka_unit_test(test_networks),
                                     cmocka_unit_test(test_usage),      cmocka_unit_test(test_titled_tables)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
