/* redoubt report: what was written can be read again, as text, as JSON and as a page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util_cli.h"

#define DIGITS TEST_DATA "/examples/digits"
#define RUN "run " DIGITS "/digits.onnx -i " DIGITS "/some.npy --top 3 --labels " DIGITS "/some-labels.npy "

static char kept[1 << 16];

static void keep(void) {
  strcpy(kept, util_cli_text);
}

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

static void test_again(void **state) {
  (void)state;
  util_cli_expect(util_cli(RUN "--repeat 2 --fault bit:30@accum,layer=conv4,seed=2 --report r.json"), 0, "RECOMPUTED");
  keep();
  util_cli_expect(util_cli("report r.json"), 0, "8 of 8 right");
  assert_string_equal(util_cli_text, kept); /* what the run had printed */
  util_cli_expect(util_cli("report r.json --format md"), 0, "| layer ");
  util_cli_expect(util_cli("report r.json --json"), 0, "\"redoubt.run/1\"");
  keep();
  util_cli_slurp("r.json");
  assert_string_equal(util_cli_text, kept);
  util_cli_expect(util_cli("report - <r.json"), 0, "RECOMPUTED");
}

static void test_page(void **state) {
  (void)state;
  util_cli_expect(util_cli(RUN "--report r.json -q"), 0, NULL);
  util_cli_expect(util_cli("report r.json --html -"), 0, "CLEAN</h1>");
  util_cli_expect(util_cli("report r.json --html r.html"), 0, NULL);
  assert_string_equal(util_cli_text, "");
  util_cli_slurp("r.html");
  assert_memory_equal(util_cli_text, "<!DOCTYPE html>", 15);
  assert_non_null(strstr(util_cli_text, "</html>"));
}

static void test_refused(void **state) {
  (void)state;
  util_cli_expect(util_cli(RUN "--report r.json -q"), 0, NULL);
  util_cli_expect(util_cli("report"), 2, "REPORT.json");
  util_cli_expect(util_cli("report nowhere.json"), 2, "nowhere.json: cannot be opened");
  util_cli_expect(util_cli("report ."), 2, "has no campaign.json");
  util_cli_expect(util_cli("report r.json --html r.json"), 2, "r.json would be written over");
  util_cli_expect(util_cli("report r.json --html ./r.json"), 2, "would be written over");
  util_cli_expect(util_cli("report r.json --html nowhere/r.html"), 2, "nowhere/r.html");
  write_text("foreign.json", "{\"name\": \"redoubt\"}\n");
  util_cli_expect(util_cli("report foreign.json --html f.html"), 2, "foreign.json: this is no report of Redoubt");
  assert_int_not_equal(access("f.html", F_OK), 0);
  write_text("old.html", "old");
  util_cli_expect(util_cli("report foreign.json --html old.html"), 2, "--report FILE");
  util_cli_slurp("old.html");
  assert_string_equal(util_cli_text, "old");
  assert_int_equal(system("truncate -s 70M large.json"), 0);
  util_cli_expect(util_cli("report large.json"), 2, "at most 64 MB");
  assert_int_equal(system("head -c 2000 r.json >half.json"), 0);
  util_cli_expect(util_cli("report half.json"), 2, "half.json: this is no JSON: it breaks off or goes wrong in line");
}

/* Campaigns side by side, in every form. */
static void test_campaigns(void **state) {
  (void)state;
  util_cli_expect(util_cli("inject gemm:40x30x20 --scheme none --n 100 -q -o none"), 0, NULL);
  util_cli_expect(util_cli("inject gemm:40x30x20 --scheme row --n 100 -q -o row1 --shard 1/2"), 0, NULL);
  util_cli_expect(util_cli("inject gemm:40x30x20 --scheme row --n 100 -q -o row2 --shard 2/2"), 0, NULL);
  util_cli_expect(util_cli("inject gemm:40x30x20 --scheme row --n 50 -q -o clean --fault none"), 0, NULL);
#define ALL "report none row1 row2 clean "
  util_cli_expect(util_cli(ALL), 0, "shard 1-2 of 2");
  util_cli_expect(util_cli(ALL "--json"), 0, "\"redoubt.campaigns/3\"");
  util_cli_expect(util_cli(ALL "--html page.html --svg pictures --csv counts.csv --md -"), 0, "| target");
  util_cli_expect(util_cli(ALL "--fit 1000 --md -"), 0, "- Of 1000 raw faults in data in 10^9 hours (FIT), in none");
  util_cli_expect(util_cli("report row1 row1"), 2, "count twice");
  util_cli_expect(util_cli("report row1 nowhere"), 2, "nowhere");
  util_cli_slurp("page.html");
  assert_non_null(strstr(util_cli_text, "</html>"));
  util_cli_slurp("counts.csv");
  assert_non_null(strstr(util_cli_text, "\"gemm:40x30x20\","));
  static const char *const pictures[] = {"coverage-overhead", "bits", "coverage-bits", "sizes", "ratios", "lambda"};
  for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
    char path[64];
    snprintf(path, sizeof path, "pictures/%s.svg", pictures[i]);
    util_cli_slurp(path);
    if (!strstr(util_cli_text, "</svg>")) fail_msg("%s is no picture", path);
  }
}

/* A part is called one in every form, and is no verdict on the whole. */
static void test_parts(void **state) {
  (void)state;
  util_cli_expect(util_cli("inject gemm:24x24x24 --scheme row --n 90 -q -o p1 --shard 1/3"), 0, NULL);
  util_cli_expect(util_cli("inject gemm:24x24x24 --scheme row --n 90 -q -o p3 --shard 3/3"), 0, NULL);
#define PARTS "report p1 p3 "
  util_cli_expect(util_cli(PARTS), 4, "A PART, not the whole campaign: shards 1 3 of 3, 60 of 90 trials");
  util_cli_expect(util_cli(PARTS "--md -"), 4,
                  "**A part, not the whole campaign**: row (a part): shards 1 3 of 3, 60 of 90");
  util_cli_expect(util_cli(PARTS "--csv -"), 4, "\"row (a part)\",\"shards 1 3 of 3, 60 of 90 trials\",all");
  util_cli_expect(util_cli(PARTS "--json"), 4, "\"whole\":\tfalse");
  assert_non_null(strstr(util_cli_text, "\"shards_present\":\t\"1 3 of 3\""));
  util_cli_expect(util_cli(PARTS "--html -"), 4, "in a part of its trials</h1>");
  util_cli_expect(util_cli(PARTS "--coverage-out c.json"), 2, "is a part of its campaign");
  util_cli_expect(util_cli("inject gemm:24x24x24 --scheme row --n 90 -q -o p2 --shard 2/3"), 0, NULL);
  util_cli_expect(util_cli(PARTS "p2 --md -"), 0, "| row ");
  assert_null(strstr(util_cli_text, "part"));
}

/* Coverage is kept by scheme, datatype and op, of one mix of faults; what is not alike is not added up. */
static void test_coverage_of_campaigns(void **state) {
  (void)state;
  util_cli_expect(util_cli("inject gemm:24x24x24 --scheme dup --n 60 -q -o c1"), 0, NULL);
  util_cli_expect(util_cli("inject conv:1x4x6x6:4x3x3:p1 --scheme dup --n 60 -q -o c2"), 0, NULL);
  util_cli_expect(util_cli("inject gemm:24x24x24 --scheme dup --n 60 -q -o c3 --fault bit:30@accum"), 0, NULL);
  util_cli_expect(util_cli("report c1 c2 --coverage-out c.json"), 0, NULL);
  util_cli_slurp("c.json");
  assert_non_null(strstr(util_cli_text, "\"op\":\t\"gemm\""));
  assert_non_null(strstr(util_cli_text, "\"op\":\t\"conv\""));
  assert_non_null(strstr(util_cli_text, "\"kind\":\t\"burst\""));
  util_cli_expect(util_cli("report c1 c3 --coverage-out d.json"), 2,
                  "c3 planted other faults (bit:30@accum) than c1 (default mix)");
  util_cli_expect(util_cli("plan --workload dlrm-top:8 --coverage c.json --policy model"), 0, NULL);
}

/* Names from folders are no Markdown. */
static void test_names_in_markdown(void **state) {
  (void)state;
  util_cli_expect(util_cli("inject gemm:24x24x24 --scheme none --n 30 -q -o '_a*b<c'"), 0, NULL);
  if (system("sed -i '2,6s/\"target\":.*/\"target\": \"a|b`c\",/' '_a*b<c/campaign.json'")) fail_msg("no sed");
  util_cli_expect(util_cli("report '_a*b<c' --md -"), 0, "| a\\|b\\`c ");
  assert_non_null(strstr(util_cli_text, " -o '_a*b<c'\n"));
}

/* A plan says for how many votes along k it is, and whoever uses it takes that or hears of it. */
static void test_checkpoints(void **state) {
  (void)state;
#define MODEL DIGITS "/digits.onnx -i " DIGITS "/some.npy "
#define PLAN "plan " MODEL "--policy model -q --scheme tmr-sm "
  util_cli_expect(util_cli(PLAN "--checkpoints 4 -o p4.json"), 0, NULL);
  util_cli_expect(util_cli(PLAN "-o p1.json"), 0, NULL);
  util_cli_slurp("p4.json");
  assert_non_null(strstr(util_cli_text, "\"checkpoints\":\t4"));
  util_cli_expect(util_cli("run " MODEL "--scheme tmr-sm --plan p4.json --report r4.json"), 0, "fc1/share 2 of 4");
  assert_non_null(strstr(util_cli_text, "checkpoints 4: 2 of 7 products and convolutions vote on the way"));
  assert_null(strstr(util_cli_text, "estimates choose"));
  util_cli_expect(util_cli("report r4.json --json"), 0, "\"checkpoints\":\t4");
  util_cli_expect(util_cli("run " MODEL "--scheme tmr-sm --plan p4.json --checkpoints 4 -q"), 0, NULL);
  util_cli_expect(util_cli("run " MODEL "--scheme tmr-sm --plan p4.json --checkpoints 2"), 2,
                  "p4.json: was made with checkpoints 4, and checkpoints 2 are asked for");
  util_cli_expect(util_cli("run " MODEL "--scheme tmr-sm --plan p1.json --checkpoints 4"), 2,
                  "p1.json: was made with checkpoints 1, and checkpoints 4 are asked for");
  util_cli_expect(util_cli("run " MODEL "--plan p4.json"), 2, "ask for --scheme tmr-sm, or make it anew");
  util_cli_expect(util_cli("run " MODEL "--scheme tmr-sm --plan p1.json"), 0, "CLEAN");
  util_cli_expect(util_cli("inject " MODEL "--scheme tmr-sm --plan p4.json --batch 8 --n 2 -q -o i4 --fault "
                           "bit@accum,layer=fc1/share*"),
                  0, NULL);
  util_cli_slurp("i4/campaign.json");
  assert_non_null(strstr(util_cli_text, "\"checkpoints\":\t4"));
  util_cli_expect(util_cli("inject " MODEL "--scheme tmr-sm --plan p1.json --checkpoints 4 --batch 8 --n 2 -q"), 2,
                  "checkpoints 1, and checkpoints 4");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_campaigns),
                                     cmocka_unit_test(test_parts),
                                     cmocka_unit_test(test_coverage_of_campaigns),
                                     cmocka_unit_test(test_names_in_markdown),
                                     cmocka_unit_test(test_checkpoints),
                                     cmocka_unit_test(test_again),
                                     cmocka_unit_test(test_page),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
