/* `redoubt inject` from outside: campaigns, their folders, trials that are shown again, exit codes. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "util_cli.h"

#define DIGITS TEST_DATA "/examples/digits"
#define RUN "run " DIGITS "/digits.onnx "
#define SOME "-i " DIGITS "/some.npy "

static void test_campaigns(void **state) {
  (void)state;
#define GEMM "inject gemm:48x40x56 --scheme row "
  util_cli_expect(util_cli(GEMM "--n 300 --jobs 2 --threads 1 -o kept"), 0, "PASS");
  util_cli_expect(util_cli(GEMM "--n 300 -o kept"), 2, "--resume");
  util_cli_expect(util_cli(GEMM "--n 400 --jobs 2 --threads 1 -o kept --resume"), 0, "400 runs");
  util_cli_expect(util_cli(GEMM "--n 400 --jobs 2 --threads 1 -o kept --resume --seed 2"), 2, "another campaign");
  util_cli_expect(util_cli(GEMM "--n 400 --threads 1 -o kept --replay 399"), 0, "the same, bit for bit");
  util_cli_expect(util_cli(GEMM "--threads 1 -o kept --replay 400"), 2, "it has no trial 400");
  util_cli_expect(util_cli(GEMM "--n 400 --replay 400"), 2, "from 0 to N - 1");
  util_cli_expect(util_cli(GEMM "--replay 3 --fault bit:30@accum"), 0, "event: ");
  util_cli_expect(util_cli(GEMM "--n 200 --fault none"), 0, "PASS: 0 reports");
  util_cli_expect(util_cli("inject gemm:128x64x64 --scheme row --fault none --family all --lambda 3 --n 16"), 0,
                  "In parentheses: of data whose partial sums cancel");
  util_cli_expect(util_cli(GEMM "--n 200 --until-ci 4%%"), 0, "PASS");
  util_cli_expect(util_cli(GEMM "--n 20 --fault ber:1e-4@accum"), 0, "PASS");
  /* two equal errors of trial 128 cancel in a row's sum while others are noticed: silent, and no failure */
  util_cli_expect(util_cli("inject gemm:24x24x24 --scheme row --threads 1 --n 400 --fault ber:1e-3@accum"), 0,
                  "cancelled inside claims: 1:");
  util_cli_expect(util_cli("inject gemm:48x40x56 --scheme none --n 100 --fault bit:30@accum"), 0, "SDC");
  util_cli_expect(util_cli("inject conv:1x8x9x9:4x3x3:p1:s2 --n 100 --dtype bf16"), 0, "PASS");
  util_cli_expect(util_cli("inject gemm:16x16x16:s8 --n 100"), 0, "PASS");
  util_cli_expect(util_cli("inject gemm:16x16"), 2, "gemm:MxNxK");
  util_cli_expect(util_cli("inject conv:1x8x9x9:4x30x3"), 2, "has a result");
  util_cli_expect(util_cli(GEMM "--shard 3/2"), 2, "I/N");
  util_cli_expect(util_cli("list schemes --json"), 0, "\"measured\"");
  util_cli_expect(util_cli(GEMM "--until-ci 4"), 2, "percent");
  util_cli_expect(util_cli(GEMM "--fault bit@input"), 2, "has no input");
  util_cli_expect(util_cli("list mix --json >mix.json; %s inject gemm:16x16x16 --n 50 --mix mix.json", UTIL_PROGRAM), 0,
                  "PASS");
  util_cli_expect(util_cli(GEMM "--mix nowhere.json"), 2, "nowhere.json");
}

static void test_contradictions(void **state) {
  static const struct {
    const char *arguments, *says;
  } cases[] = {
      {GEMM "--fault bit@accum --mix mix.json", "one of them"},
      {GEMM "--replay 3 --shard 1/2", "no --shard"},
      {GEMM "--replay 3 --resume -o kept", "no --resume"},
      {GEMM "--replay 3 --until-ci 1%", "one of them"},
      {GEMM "--replay 3 --fit 10", "not with --replay"},
      {GEMM "--fault none --until-ci 1%", "give --n"},
      {GEMM "--fault none --fit 10", "plants nothing"},
      {GEMM "--batch 2", "NAME:BATCH"},
      {GEMM "-i x.npy", "no --input"},
      {GEMM "--resume", "-o DIR"},
      {"inject gemm:8x8x8 --threads 2 --scheme tmr-sm --fault random@vote", "cores=3 simulates them"},
      {GEMM "--prom x.prom", "counts the runs of a network"},
      {GEMM "--replay 3 --jobs 2", "no --jobs"},
      {"inject " DIGITS "/digits.onnx " SOME "--jobs 2 --prom x.prom", "--jobs at 1"},
      {"inject " DIGITS "/digits.onnx " SOME "--plan x.json --device cuda:0", "a GPU chooses by itself"},
      {RUN SOME "--plan x.json --device cuda:0", "a GPU chooses by itself"},
      {RUN SOME "--min-coverage 1 --device cuda:0", "measured when the network is loaded"},
      {RUN SOME "--scheme none --on-fault report", "--scheme none checks nothing"},
      {RUN SOME "--scheme none --lambda 4", "--scheme none checks nothing"},
      {RUN SOME "--prom-every 3", "there is no --prom"},
      {RUN SOME "--format csv", "text|md|json"},
      {RUN SOME "--format md --json", "--format and --json contradict each other"},
      {"bench gemm --trials 3 --runs 4", "--trials and --runs contradict each other"},
      {"plan --workload square-32 --json --format csv", "--json and --format contradict each other"},
      {"plan --workload square-32 --policy model --measure", "nothing is measured"},
      {"plan --workload square-32 --policy model --max-seconds 3", "it takes no time"},
      {"plan --workload square-32 --device cuda:0 --threads 2", "of a processor's cores"},
      {"plan --workload square-32 --device cuda:0 --max-seconds 2", "is a processor's"},
      {"matmul a.npy b.npy -o c.npy --seed 3", "there is no --errors"},
      {"matmul a.npy b.npy -o c.npy --scheme none --on-fault recompute", "no faults are found"},
      {"bench model " DIGITS "/digits.onnx --top 3 --json", "JSON has all of them"},
      {"report kept --json --html x.html", "that is nothing"},
      {"conformance . --scheme none --lambda 3", "there are no bounds"},
      {"bench tolerance --table floors --trials 3", "of the tables flips and rates"},
      {"figures --and x.json -o .", "name that one first"},
      {"report " TEST_BUILD "/CTestTestfile.cmake --fit 3", "--fit are for the"},
      {"inject gemm:8x8x8:s8 --dtype f64", "says its datatype"},
      {"inject gemm:8x8x8:f64 --dtype f32", "says its datatype"},
      {"inject dlrm-top:8:bf16 --dtype f64", "says its datatype"},
      {"inject conv:1x8x9x9:4x3x3 --device cuda:0", "give a MODEL.onnx"},
      {"inject dlrm-top:8 --device cuda:0", "give a MODEL.onnx"},
      {GEMM "--device cuda:0 --scrub each-run", "none between its runs"},
      {GEMM "--device cuda:0 --family all", "has one"},
      {GEMM "--device cuda:0 --on-fault correct", "computed again"},
      {GEMM "--device cuda:0 --plan one.plan", "kernels of the CPU"},
      {GEMM "--device cuda:0 --avoid-core 1", "cores of the CPU"},
      {GEMM "--device gpu", "there is no device 'gpu'"},
      {GEMM "--device cuda:-1", "cuda:N with N from 0 on"},
      {RUN SOME "--device cuda:-1", "cuda:N with N from 0 on"},
      {RUN SOME "--device cuda:", "cuda:N with N from 0 on"},
      {RUN SOME "--report none/x.json", "none/x.json: cannot be written"},
      {GEMM "--report none/x.json", "none/x.json: cannot be written"},
      {"inject gemm:8x8x8:f8e4m3", "ops of f32, f64, bf16, f16, s8, u8, not of f8e4m3"},
      {"inject gemm:8x8x8:s32", "not of s32"},
      {"plan " DIGITS "/digits.onnx --dtype f32", "datatypes of its own"},
      {"inject " DIGITS "/digits.onnx " SOME "--dtype f64", "data of their own"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    util_cli_expect(util_cli("%s", cases[i].arguments), 2, cases[i].says);
}

/* Without a GPU: said, and told from a wrong command line. */
static void test_no_gpu(void **state) {
  (void)state;
  int kernels;
  rdt_cuda_kernels(&kernels);
  if (kernels > 0) /* what no plan takes is said before a GPU is looked for */
    util_cli_expect(util_cli("plan --workload square-32 --device cuda:0 --scheme replicate1"), 2,
                    "can be planned with it");
  if (rdt_cuda_count(NULL) > 0) skip();
  util_cli_expect(util_cli(GEMM "--device cuda:0 --n 10 -o nogpu"), 3, "--device cpu needs none");
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx " SOME "--device cuda:0 --n 10"), 3,
                  "--device cpu needs none");
  util_cli_npy("one.npy", RDT_F32, 2, (int64_t[]){2, 2}, 1.0);
  static const char *const commands[] = {RUN SOME "--device cuda:0",
                                         "plan --workload square-32 --device cuda:0",
                                         "screen --device cuda:0",
                                         "screen --device cpu,cuda:1",
                                         "matmul one.npy one.npy -o two.npy --device cuda:0",
                                         "bench outofcore --m 8 --n 8 --k 8 --device cuda:0",
                                         "bench tmr --device cuda:0 --trials 1"};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    util_cli_expect(util_cli("%s", commands[i]), 3, "--device cpu needs none");
  util_cli_expect(util_cli("matmul one.npy one.npy -o two.npy --device cuda:all"), 3, "no GPU");
  util_cli_expect(util_cli("help run"), 0, "there is no GPU, or it was lost"); /* what 3 means */
}

/* The story of one trial, of each kind of target: what it hit, what the check measured, how it was repaired, the end.
 */
static void test_replays(void **state) {
  static const struct {
    const char *arguments, *says[6];
  } cases[] = {
      {"gemm:48x40x56 --scheme row", {"recompute: passed", "of the reduction", "verdict RECOMPUTED"}},
      {"gemm:48x40x56:s8 --scheme rowcol", {"recompute: passed", "verdict RECOMPUTED"}},
      {"gemm:48x40x56 --scheme rowcol --on-fault correct", {"correct: passed", "rebuilt within", "verdict CORRECTED"}},
      {"gemm:48x40x56 --scheme row --on-fault report", {"and not repaired", "verdict DETECTED"}},
      {"conv:1x8x9x9:4x3x3:p1 --scheme fc", {"recompute: passed", "verdict RECOMPUTED"}},
      {"dlrm-bottom:4 --scheme row", {"recompute: passed", "verdict RECOMPUTED"}},
      {DIGITS "/digits.onnx " SOME, {"passed", "verdict RECOMPUTED"}},
      {"gemm:48x40x56 --scheme none", {"which does not claim this site", "verdict UNCHECKED", "outcome: SDC"}},
  };
  static const char *const always[] = {
      "bit:30@accum", "it hit accum of node",  "worst check there: residual", "bound", "floor", "verdict",
      "outcome: ",    "elements of the result"};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    util_cli_expect(util_cli("inject %s --fault bit:30@accum --threads 1 --n 4 -q -o told%zu", cases[i].arguments, i),
                    0, NULL);
    util_cli_expect(util_cli("inject %s --fault bit:30@accum --threads 1 --replay 2 -o told%zu", cases[i].arguments, i),
                    0, "the same, bit for bit");
    for (size_t k = 0; k < sizeof always / sizeof *always; k++) util_cli_expect(0, 0, always[k]);
    for (size_t k = 0; cases[i].says[k]; k++) util_cli_expect(0, 0, cases[i].says[k]);
  }
}

/* Where nothing is planted there is no site, and no effect. */
static void test_clean_replay(void **state) {
  (void)state;
  util_cli_expect(util_cli(GEMM "--fault none --replay 3"), 0,
                  "layer gemm, protected by row\n  worst check there: residual");
  assert_null(strstr(util_cli_text, "effect"));
}

/* A bound that rounding often exceeds: a run tells of it once or twice, and those that prepare a trial are not told. */
static void test_own_events(void **state) {
  int events = 0;
  (void)state;
  util_cli_expect(util_cli("inject gemm:1024x64x64 --scheme row --lambda 1.5 --threads 1 --replay 3 --fault none"), 0,
                  NULL);
  for (const char *at = util_cli_text; (at = strstr(at, "event: ")) != NULL; at++) events++;
  assert_in_range(events, 1, 4);
}

/* What was read counts by what is in it, not by its name. */
static void test_other_contents(void **state) {
#define COPY "inject copy.onnx -i copy.npy --jobs 1 --threads 1 -o copied "
  (void)state;
  assert_int_equal(system("cp " DIGITS "/digits.onnx copy.onnx && cp " DIGITS "/some.npy copy.npy"), 0);
  util_cli_expect(util_cli("plan copy.onnx --threads 1 --policy model --no-cache -o one.plan -q; %s plan copy.onnx "
                           "--threads 1 --policy model "
                           "--no-cache --min-coverage 0 -o two.plan",
                           UTIL_PROGRAM),
                  0, NULL);
  util_cli_expect(util_cli(COPY "--n 10 --plan one.plan"), 0, "PASS");
  util_cli_expect(util_cli(COPY "--n 20 --plan one.plan --resume"), 0, "20 runs");
  util_cli_expect(util_cli(COPY "--n 30 --plan two.plan --resume"), 2, "its \"plan\" is \"");
  util_cli_expect(util_cli(COPY "--n 30 --resume"), 2, "and here null");
  util_cli_expect(util_cli(COPY "--n 30 --plan one.plan --resume --scrub each-run"), 2,
                  "\"scrub_every\" is 16, and here 1");
  util_cli_expect(util_cli(COPY "--n 30 --plan one.plan --resume --avoid-core 900"), 2, "\"avoid_cores\" is []");
  const int64_t shape[] = {8, 1, 8, 8};
  util_cli_npy("copy.npy", RDT_F32, 4, shape, 0.5);
  util_cli_expect(util_cli(COPY "--n 30 --plan one.plan --resume"), 2, "its \"input\" is \"");
  util_cli_expect(util_cli(COPY "--n 30 --plan one.plan --replay 3"), 2, "its \"input\" is \"");
  assert_int_equal(system("cp " DIGITS "/some.npy copy.npy && printf '\\032\\000' >>copy.onnx"), 0); /* an empty name */
  util_cli_expect(util_cli(COPY "--n 30 --plan one.plan --resume"), 2, "its \"model\" is \"");
  util_cli_expect(util_cli(COPY "--n 20 --plan one.plan --resume"), 2, "its \"model\" is \""); /* nothing is left */
  assert_int_equal(system("echo junk >copy.onnx"), 0);
  util_cli_expect(util_cli(COPY "--n 20 --plan one.plan --resume"), 2, "copy.onnx");
#define AGAIN "inject copy.onnx -i copy.npy --threads 1 --n 40 --plan one.plan"
  assert_int_equal(system("cp " DIGITS "/digits.onnx copy.onnx && echo >>one.plan"), 0);
  util_cli_expect(util_cli(AGAIN), 0, "40 runs"); /* behind the document there is space */
  assert_int_equal(system("echo '{}' >>one.plan"), 0);
  util_cli_expect(util_cli(AGAIN), 2, "is no JSON document");
}

/* Data of which a campaign proves nothing */
static void test_no_data(void **state) {
  const int64_t shape[] = {1, 1, 8, 8}, empty[] = {0, 1, 8, 8};
  (void)state;
  util_cli_npy("not.npy", RDT_F32, 4, shape, NAN);
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx -i not.npy --n 20"), 2, "element 0 is not finite");
  util_cli_npy("none.npy", RDT_F32, 4, empty, 0.0);
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx -i none.npy --n 20"), 2, "has no element");
  /* A campaign that could not begin leaves nothing, but what was there before. */
  assert_int_equal(system("echo junk >junk.onnx && mkdir mine"), 0);
  util_cli_expect(util_cli("inject junk.onnx -i none.npy --n 20 -o never"), 2, "junk.onnx");
  util_cli_expect(util_cli("inject junk.onnx -i none.npy --n 20 -o mine"), 2, "junk.onnx");
  assert_int_equal(system("test ! -e never && rmdir mine && rm junk.onnx"), 0);
}

static long size_of(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 ? (long)st.st_size : -1;
}

/* Killed wherever it is, as often as it is: in the end every trial is there once, and the same as without. */
static void test_killed(void **state) {
  enum { ROUNDS = 3, STEP = 60000, MOST = 3000 };
  static const char *const argv[] = {
      "redoubt", "inject", "gemm:48x40x56", "--scheme",  "row", "--n",      "2500", "--jobs", "2",
      "-q",      "-o",     "killed",        "--threads", "1",   "--resume", NULL};
  (void)state;
  for (int i = 0; i < ROUNDS; i++) {
    const long from = size_of("killed/trials.jsonl");
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      execv(UTIL_PROGRAM, (char *const *)argv);
      _exit(98);
    }
    for (int waited = 0; waited < MOST && size_of("killed/trials.jsonl") < from + STEP; waited++) usleep(10000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(size_of("killed/trials.jsonl") > from);
  }
  util_cli_expect(util_cli(GEMM "--n 2500 --jobs 2 --threads 1 -o killed --resume"), 0, "2500 runs");
  util_cli_expect(util_cli(GEMM "--n 2500 --jobs 2 --threads 1 -o spared -q"), 0, NULL);
  assert_int_equal(system("cmp killed/trials.jsonl spared/trials.jsonl"), 0);
  assert_int_equal(system("test $(wc -l <killed/trials.jsonl) = 2500"), 0);
}

/* What is asked for cannot be told: that is neither good nor bad. */
static void test_no_verdict(void **state) {
  (void)state;
  util_cli_expect(util_cli("inject gemm:16x16x16 --n 3 --shard 5/5"), 4, "NO VERDICT: nothing was hit");
  util_cli_expect(util_cli("inject gemm:16x16x16 --n 3 --shard 5/5 --json"), 4, "\"NO VERDICT\"");
  util_cli_expect(util_cli("inject gemm:16x16x16 --scheme none --fault none --n 5"), 4, "NO VERDICT: 0 reports");
  util_cli_expect(util_cli("inject gemm:16x16x16 --scheme none --n 20"), 0, "NO CLAIM: no scheme claims what was hit");
  util_cli_expect(util_cli("inject gemm:16x16x16 --scheme row --n 40 --shard 1/2"), 0,
                  "A PART, not the whole campaign");
  util_cli_expect(util_cli("inject gemm:16x16x16 --shard 1/2 --until-ci 1%%"), 2, "give --n with --shard");
  util_cli_expect(util_cli("inject gemm:16x16x16 --fault bit@bound --until-ci 1%%"), 2, "strike what checks alone");
}

/* A folder whose lines hold a miss inside a claim: whoever counts them fails, and says which. No scheme here misses
 * what it claims, so one line is changed by hand. */
static void test_a_miss_fails(void **state) {
  (void)state;
#define MISSED "inject gemm:48x40x56 --scheme row --n 30 --fault bit:30@accum "
  util_cli_expect(util_cli(MISSED "-q -o missed"), 0, NULL);
  if (system("sed -i '8s/\"fate\":\"recomputed\"/\"fate\":\"SDC\"/; 8s/\"noticed\":true/\"noticed\":false/' "
             "missed/trials.jsonl"))
    fail_msg("no sed");
  util_cli_expect(util_cli(MISSED "-o missed --resume"), 1, "FAIL: see the trials above");
  if (!strstr(util_cli_text, "- trial 7, missed inside a claim: bit:30@accum")) fail_msg("%s", util_cli_text);
  util_cli_expect(util_cli(MISSED "-o missed --resume --json"), 1, "\"missed\":\t1");
  util_cli_expect(util_cli("report missed"), 1, "missed inside a claim");
  util_cli_expect(util_cli("report missed --html missed.html"), 1, NULL);
  util_cli_slurp("missed.html");
  if (!strstr(util_cli_text, "A campaign failed") || !strstr(util_cli_text, "--replay 7 -o missed"))
    fail_msg("the page does not tell of the miss");
  util_cli_expect(util_cli(MISSED "-o missed --replay 7"), 1, "ANOTHER ONE"); /* and here is the truth */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_campaigns),      cmocka_unit_test(test_contradictions), cmocka_unit_test(test_replays),
      cmocka_unit_test(test_clean_replay),   cmocka_unit_test(test_own_events),     cmocka_unit_test(test_no_gpu),
      cmocka_unit_test(test_other_contents), cmocka_unit_test(test_killed),         cmocka_unit_test(test_no_verdict),
      cmocka_unit_test(test_a_miss_fails),   cmocka_unit_test(test_no_data),
  };
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
