/* The command line from outside: its words, tables and exit codes. Files: test_cli_files; campaigns: test_cli_campaign.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util_cli.h"

#define DIGITS TEST_DATA "/examples/digits"
#define RUN "run " DIGITS "/digits.onnx "
#define SOME "-i " DIGITS "/some.npy "

static void test_help(void **state) {
  (void)state;
  static const char *const commands[] = {"run", "plan", "inject", "conformance", "screen", "info", "list"};
  util_cli_expect(util_cli("--version"), 0, "redoubt 0.");
  util_cli_expect(util_cli("help"), 0, "Usage: redoubt COMMAND");
  util_cli_expect(util_cli("--help"), 0, "Usage: redoubt COMMAND");
  util_cli_expect(util_cli(" "), 2, "Usage: redoubt COMMAND");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    util_cli_expect(util_cli("help %s", commands[i]), 0, "Examples:");
    util_cli_expect(util_cli("%s --help", commands[i]), 0, "Options:");
  }
  util_cli_expect(util_cli("help bench"), 0, "Examples:");
  util_cli_expect(util_cli("bench --help"), 0, "tolerance");
  util_cli_expect(util_cli("bench gemm --help"), 0, "--mnk");
  util_cli_expect(util_cli("bench conv --help"), 0, "--dilation");
  util_cli_expect(util_cli("bench conv --n 1 --ic 4 --oc 4 --ih 6 --iw 6 --trials 2 --scheme all --format csv"), 0,
                  "fic");
  util_cli_expect(util_cli("bench tolerance --help"), 0, "--family");
  util_cli_expect(util_cli("bench"), 2, "tolerance");
  util_cli_expect(util_cli("bench everything"), 2, "unknown command 'everything'");
  util_cli_expect(util_cli("rnu"), 2, "did you mean 'run'");
  util_cli_expect(util_cli("help rnu"), 2, "did you mean 'run'");
  util_cli_expect(util_cli("frobnicate"), 2, "redoubt help");
}

static void test_options(void **state) {
  (void)state;
  util_cli_expect(util_cli("run"), 2, "MODEL.onnx is missing");
  util_cli_expect(util_cli(RUN "--inptu x.npy"), 2, "did you mean --input");
  util_cli_expect(util_cli(RUN "--input"), 2, "--input needs a value");
  util_cli_expect(util_cli(RUN "-z"), 2, "unknown option -z");
  util_cli_expect(util_cli(RUN "--scrub every:0"), 2, "--scrub takes each-run, every:N");
  util_cli_expect(util_cli(RUN "--scrub sometimes"), 2, "not 'sometimes'");
  util_cli_expect(util_cli(RUN "-i " DIGITS "/images.npy --scrub each-run"), 0, "CLEAN");
  util_cli_expect(util_cli(RUN "extra"), 2, "one argument too many");
  util_cli_expect(util_cli(RUN SOME "--threads 0"), 2, "--threads takes a whole number");
  util_cli_expect(util_cli(RUN SOME "--threads 1000000"), 2, "from 1 to 1024");
  util_cli_expect(util_cli(RUN SOME "--fault bit@accum,at=99999999"), 2, "hits nothing: at=");
  util_cli_expect(util_cli(RUN SOME "--fault bit@accum,core=1000"), 2, "core= names a core that computed nothing");
  util_cli_expect(util_cli(RUN SOME "--threads 2 --scheme tmr-sm --fault random@vote"), 2, "cores=3 simulates them");
  util_cli_expect(util_cli(RUN SOME "--threads 2 --scheme tmr-sm --fault random@vote,cores=3"), 0, "planted: vote");
  util_cli_copy(DIGITS "/some.npy", "mine.npy", 1 << 20);
  util_cli_expect(util_cli(RUN "-i mine.npy --report ./mine.npy"), 2, "is read by this run");
  util_cli_expect(util_cli(RUN "-i image=mine.npy --report mine.npy"), 2, "is read by this run");
  util_cli_expect(util_cli(RUN "-i mine.npy"), 0, "CLEAN"); /* it is still what it was */
  util_cli_expect(util_cli("bench conv --set vgg"), 2, "redoubt list workloads");
  util_cli_expect(util_cli("bench conv --set resnet50 --ic 3"), 2, "leave the others out");
  util_cli_expect(util_cli("bench gemm --mnk 8:8:8 --trials 3 --baseline none -o no/such/folder.json"), 2,
                  "folder.json");
  util_cli_expect(util_cli(RUN SOME "--threads 2x"), 2, "--threads takes a whole number");
  util_cli_expect(util_cli(RUN SOME "--lambda -1"), 2, "--lambda takes a number above 0");
  util_cli_expect(util_cli(RUN SOME "--suspect-rate 1"), 2, "--suspect-rate takes a share of the runs");
  util_cli_expect(util_cli(RUN SOME "--suspect-rate off --lambda 1 --repeat 8"), 0, "CLEAN");
  util_cli_expect(util_cli(RUN SOME "--suspect-rate 0.1 --lambda 1 --repeat 8"), 0, "computed twice from now on");
  util_cli_expect(util_cli(RUN SOME "--on-fault hope"), 2, "recompute|report|abort");
  util_cli_expect(util_cli(RUN SOME "--quiet=yes"), 2, "takes no value");
  util_cli_expect(util_cli(RUN SOME "--scheme magic"), 2, "magic");
  util_cli_expect(util_cli("list everything"), 2, "schemes kernels dtypes ops sites faults mix workloads");
}

static void test_lists(void **state) {
  (void)state;
  util_cli_expect(util_cli("list schemes"), 0, "rowcol");
  util_cli_expect(util_cli("list kernels"), 0, "gemm_generic");
  util_cli_expect(util_cli("list dtypes --format md"), 0, "| bf16");
  util_cli_expect(util_cli("list ops --json"), 0, "\"redoubt.list/1\"");
  util_cli_expect(util_cli("list sites"), 0, "accum");
  util_cli_expect(util_cli("list workloads"), 0, "dlrm-top:2048");
  util_cli_expect(util_cli("list resnet50-1080p"), 0, "1080 x 1920, 3 to 64, 7 x 7");
  util_cli_expect(util_cli("list dlrm-bottom:8 --json"), 0, "\"dlrm-bottom:8\"");
  util_cli_expect(util_cli("list dlrm-bottom:0"), 2, "a batch goes from 1");
  util_cli_expect(util_cli("list ops --format md"), 0, "# Operators");
  if (system("cmp out.txt " TEST_DATA "/docs/operators.md") != 0)
    fail_msg("docs/operators.md is not what src/net/ops.def says: redoubt list ops --format md >docs/operators.md");
  util_cli_expect(util_cli("info"), 0, "isa");
  util_cli_expect(util_cli("info"), 0, "ns of a chain of additions");
  util_cli_expect(util_cli("info --threads 2"), 0, "us until all threads have begun and ended something");
  util_cli_expect(util_cli("info --json"), 0, "\"redoubt.info/1\"");
  util_cli_expect(util_cli("info --format md"), 0, "| dtype");
}

static void test_plans(void **state) {
  (void)state;
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx"), 0, "planned / best single scheme");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model"), 0, "1x16x8x8");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model -i " DIGITS "/some.npy --explain"), 0,
                  "refused");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model --json --explain"), 0, "\"candidates\"");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model --format csv"), 0, "\"conv_f32_native\"");
  static const char *const rows[] = {"\nlayer,0,", "\nplanned,0,", "\neverywhere,0,", "\nclassic,0,", "\nmodel,0,"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --format csv"), 0, rows[i]);
  /* how far estimates agree with measurement is said whatever the policy, as far as something was measured */
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model"), 0, "the same scheme as measurement for");
  util_cli_expect(util_cli("plan --workload dlrm-top:5 --policy model"), 0, "nothing here has been measured");
  util_cli_expect(util_cli("plan"), 2, "name a MODEL.onnx or a --workload");
  util_cli_expect(util_cli("plan --workload dlrm-top:3 --policy model"), 0, "512");
  util_cli_expect(util_cli("plan --workload dlrm-tip"), 2, "dlrm-tip");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model --min-coverage 99.9"), 2, "--min-coverage");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model --min-coverage 100%%"), 2, "conv1");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --max-overhead 0"), 1, "conv2");
  /* two sizes in one plan; whoever runs takes what fits */
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --input-shape '1x1x8x8;8x1x8x8' -o plan.json"), 0, "8x32x4x4");
  util_cli_expect(util_cli("run " DIGITS "/digits.onnx -i " DIGITS "/some.npy --plan plan.json"), 0, "CLEAN");
  util_cli_expect(util_cli("run " DIGITS "/digits.onnx -i " DIGITS "/some.npy --threads 7 --plan plan.json"), 2,
                  "another machine: threads");
  util_cli_expect(util_cli("run " DIGITS "/digits.onnx -i " DIGITS "/some.npy --plan " DIGITS "/digits.onnx"), 2,
                  "no JSON document");
  /* of other shapes, of another network: refused, not passed over; of some of its shapes: told */
  util_cli_expect(util_cli("run " DIGITS "/digits.onnx -i " DIGITS "/images.npy --plan plan.json"), 2,
                  "knows none of the 7 products and convolutions");
  util_cli_expect(util_cli("plan --workload dlrm-top -q -o top.json"), 0, "");
  util_cli_expect(util_cli("run " DIGITS "/digits.onnx -i " DIGITS "/some.npy --plan top.json"), 2,
                  "is a plan of another network");
}

/* A plan whose choices a run would not take is refused, as it would be passed over: the message says what takes it. */
static void test_plans_of_others(void **state) {
  (void)state;
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx " SOME "-q --policy model --scheme tmr-sm -o three.json"), 0,
                  NULL);
  util_cli_expect(util_cli(RUN SOME "--plan three.json"), 2, "plans tmr-sm, and that is not what is asked for here");
  util_cli_expect(util_cli(RUN SOME "--plan three.json --scheme tmr-sm"), 0, "tmr-sm");
  util_cli_expect(util_cli(RUN SOME "--plan three.json --require permanent"), 0, "tmr-sm");
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx " SOME "--n 2 --batch 8 --plan three.json"), 2,
                  "--scheme tmr-sm takes them");
  util_cli_expect(util_cli("bench model " DIGITS "/digits.onnx " SOME "--trials 1 --plan three.json"), 2,
                  "--scheme tmr-sm takes them");
  util_cli_expect(util_cli("inject gemm:8x8x8 --n 2 --scheme tmr-sm --plan three.json"), 2,
                  "is a plan of another network");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx " SOME "-q --policy model --scheme fc -o fc.json"), 0, NULL);
  util_cli_expect(util_cli(RUN SOME "--plan fc.json"), 0, "CLEAN");
  util_cli_expect(util_cli(RUN SOME "--plan fc.json --scheme ic"), 0, "choices (fc, say) are not taken");
  util_cli_expect(util_cli("plan --workload dlrm-bottom:4 -q --policy model --scheme col -o col.json"), 0, NULL);
  util_cli_expect(util_cli("inject dlrm-bottom:4 --n 2 --plan col.json"), 0, "PASS");
  util_cli_expect(util_cli("inject dlrm-bottom:4 --n 2 --scheme row --plan col.json"), 2, "plans col");
}

/* What would have been passed over, or found out after measuring. */
static void test_plan_words(void **state) {
  (void)state;
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --device cpu --policy model"), 0, "conv1");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --device cuda:0"), 2, "plans are of a --workload");
  util_cli_expect(util_cli("plan --workload shufflenet-grouped --device cuda:0"), 2, "convolutions in groups");
  util_cli_expect(util_cli("plan --workload dlrm-top --device cuda:0 --dtype f32"), 2, "--dtype f16");
  util_cli_expect(util_cli("plan --workload dlrm-top --device gpu"), 2, "there is no device");
  util_cli_expect(util_cli("plan --workload dlrm-top --device cuda:0 --scheme row:2"), 2, "one check of a line");
  util_cli_expect(util_cli("plan --workload dlrm-top --protocol paper"), 2, "--device cuda:0");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --dtype f16"), 2, "datatypes of its own");
  util_cli_expect(util_cli("plan --workload square-32 --input-shape 1x2"), 2, "square-32:8");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx -o same.x --svg same.x"), 2, "for two purposes");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx -o same.x --svg ./same.x"), 2, "for two purposes");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx -o no/such/plan.json"), 2, "cannot be written");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --svg ."), 2, "no regular file");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --max-overhead 100000%% -q"), 0, "");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --max-overhead inf"), 2, "--max-overhead");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --max-overhead -1"), 2, "--max-overhead");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model --input-shape "
                           "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
                           "00000000000000000000000000000000000001x1x8x8"),
                  2, "--input-shape takes");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --input-shape 0x1x8x8 -q"), 0, "");
  /* every candidate, in every format */
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --policy model --format csv --explain"), 0, "\nrefused,0,");
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --format csv --explain"), 0, "\nlost,0,");
  /* however little time there is, there is a plan, and it says so; more threads than cores do not make it endless */
  util_cli_expect(util_cli("plan " DIGITS "/digits.onnx --threads 3 --max-seconds 0.000001"), 0,
                  "no time to measure every candidate");
  /* memory that is not there is not asked for */
  util_cli_expect(util_cli("plan --workload vgg16-1080p:500"), 2, "GB are free");
}

/* Who was left out for want of time is measured by whoever has more. */
static void test_brief_plans(void **state) {
  (void)state;
  util_cli_expect(util_cli("plan --workload dlrm-bottom --threads 1 --measure --max-seconds 0.000001"), 0,
                  "no time to measure every");
  util_cli_expect(util_cli("plan --workload dlrm-bottom --threads 1 --min-coverage 100%% --max-overhead 5%%"), 1,
                  "protection takes more than 5 %");
}

/* Three copies where a core may be wrong every time; otherwise a check is cheaper, and the table says so. */
static void test_require(void **state) {
  (void)state;
  const int wide = system("test $(nproc) -ge 2") == 0;
  util_cli_expect(util_cli("plan --workload square-32 --policy model --explain"), 0, "computes three times");
  if (wide) {
    util_cli_expect(util_cli("plan --workload square-32 --policy model --explain --require permanent"), 0,
                    "may compute both sides of its check");
    util_cli_expect(0, 0, "tmr-sm");
    util_cli_expect(util_cli(RUN SOME "--require permanent --report three.json"), 0, "CLEAN");
    util_cli_expect(0, 0, "tmr-sm");
    util_cli_expect(util_cli(RUN SOME "--require permanent --fault bit:30@accum,layer=conv4,seed=2"), 0, "RECOMPUTED");
    util_cli_expect(util_cli("inject gemm:160x96x160 --scheme tmr-sm --fault stuck1:22@accum,core=1 -n 20"), 0, "PASS");
  }
  /* One core alone cannot do what is required. */
  cpu_set_t all, one;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  const int refused = util_cli(RUN SOME "--require permanent");
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
  util_cli_expect(refused, 2, "need two cores or more");
  util_cli_expect(util_cli(RUN SOME "--require permanent --scheme row"), 2, "leave --scheme out");
  util_cli_expect(util_cli(RUN SOME "--avoid-sm 3"), 2, "--avoid-core");
  util_cli_expect(util_cli(RUN SOME "--device cuda:0 --avoid-sm 3"), 2, "only copies keep off");
  util_cli_expect(util_cli(RUN SOME "--device cuda:0 --scheme row --avoid-sm 3"), 2, "only copies keep off");
  util_cli_expect(util_cli(RUN SOME "--scheme tmr-kernel"), 2, "--device cuda:N");
  util_cli_expect(util_cli(RUN SOME "--scheme tmr-block"), 2, "--device cuda:N");
  util_cli_expect(util_cli(RUN SOME "--scheme tmr-split"), 2, "three launches for each share of k on a GPU");
  util_cli_expect(util_cli(RUN SOME "--device cuda:0 --scheme tmr-kernel --checkpoints 4"), 2, "votes on the way");
  util_cli_expect(util_cli(RUN SOME "--scheme row --checkpoints 4"), 2, "votes on the way are of --scheme tmr-sm");
  util_cli_expect(util_cli(RUN SOME "--scheme tmr-sm --checkpoints 4 --json"), 0, "fc1/share 2 of 4");
  util_cli_expect(util_cli("plan --workload dlrm-bottom --scheme tmr-sm --checkpoints 4"), 2, "name a MODEL.onnx");
  util_cli_expect(util_cli("inject gemm:8x8x8 --scheme tmr-sm --checkpoints 4"), 2, "give a MODEL.onnx");
  util_cli_expect(util_cli(RUN SOME "--device cuda:0 --scheme row --checkpoints 4"), 2, "votes on the way");
  util_cli_expect(util_cli(RUN SOME "--require cold"), 2, "permanent");
}

/* OpenMP ends the process with the code of a fault where it gets no thread: known before, and caught where it does so
 * all the same, as with stacks that nobody knows of. */
static void test_no_threads(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* these have address space for more than there is */
#endif
#define SHORT "(ulimit -v 2000000; " UTIL_PROGRAM " "
  static const char *const commands[] = {RUN SOME "--threads 1000",
                                         "plan --workload square-32 --threads 1000",
                                         "inject gemm:8x8x8 --n 1 --threads 1000",
                                         "bench gemm --mnk 8:8:8 --trials 3 --threads 1000",
                                         "bench model " DIGITS "/digits.onnx --threads 1000",
                                         "bench checkpoints --trials 1 --threads 1000",
                                         "bench tmr --device cpu --trials 1 --threads 1000"};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    util_cli_expect(util_cli("--version >was.txt; " SHORT "%s)", commands[i]), 2, "1000 threads cannot be made");
  util_cli_expect(util_cli("--version >was.txt; " SHORT RUN SOME "--threads 1)"), 0, "CLEAN");
  util_cli_expect(util_cli("--version >was.txt; export OMP_STACKSIZE=8G; " SHORT RUN SOME "--threads 2)"), 2,
                  "a library ended the program");
}

/* Every word that REDOUBT_ISA may be, on this CPU */
static void test_isa(void **state) {
  static const char *const isas[] = {"generic", "avx2", "avx512"};
  bool there = true; /* in this CPU */
  char all[64], one[64];
  (void)state;
  util_cli_expect(util_cli("info --json"), 0, "\"isa_of_cpu\"");
  snprintf(all, sizeof all, "%s", strstr(util_cli_text, "\"isa_of_cpu\""));
  for (int i = 0; i < 3; i++) {
    setenv("REDOUBT_ISA", isas[i], 1);
    snprintf(one, sizeof one, "\"isa\":\t\"%s\"", isas[i]);
    util_cli_expect(util_cli("info --json"), there ? 0 : 2, there ? one : "this CPU has no more than");
    util_cli_expect(util_cli(RUN SOME), there ? 0 : 2, there ? "CLEAN" : isas[i]);
    if (i == 1 && there) /* whatever the CPU has: oneDNN is limited, too */
      util_cli_expect(util_cli("plan --workload square-32 --dtype s8 --policy model --explain"), 0,
                      "saturate at 16 bits");
    snprintf(one, sizeof one, "\"isa_of_cpu\":\t\"%s\"", isas[i]);
    if (strncmp(all, one, strlen(one)) == 0) there = false;
  }
  assert_false(there);
  static const char *const wrong[] = {"magic", "", "AVX2", "avx2 "};
  for (int i = 0; i < 4; i++) {
    setenv("REDOUBT_ISA", wrong[i], 1);
    util_cli_expect(util_cli("info"), 2, "generic|avx2|avx512");
  }
  unsetenv("REDOUBT_ISA");
}

static void test_run(void **state) {
  (void)state;
  util_cli_expect(util_cli(RUN SOME "-o ok --report ok.json --labels " DIGITS "/some-labels.npy"), 0, "CLEAN");
  util_cli_expect(0, 0, "8 of 8 right");
  assert_int_equal(util_cli_files("ok"), 1);
  assert_true(util_cli_there("ok/probabilities.npy") && util_cli_there("ok.json"));
  util_cli_expect(util_cli(RUN "--input image=" DIGITS "/some.npy -o again --quiet"), 0, "");
  assert_int_equal(strlen(util_cli_text), 0);
  assert_int_equal(system("cmp -s ok/probabilities.npy again/probabilities.npy"), 0);
  util_cli_expect(util_cli(RUN "-i " DIGITS "/one.pb --json"), 0, "\"redoubt.run/1\"");
  util_cli_expect(util_cli(RUN SOME "--scheme none"), 0, "UNCHECKED");
  util_cli_expect(util_cli(RUN SOME "--scheme none --fail-on unchecked"), 1, "UNCHECKED");
  util_cli_expect(util_cli(RUN SOME "--repeat 3 --top 2"), 0, "3 runs");
  const int64_t none[] = {0, 1, 8, 8};
  util_cli_npy("empty.npy", RDT_F32, 4, none, 0.0);
  util_cli_expect(util_cli(RUN "-i empty.npy -o empty"), 0, NULL);
}

static void test_faults(void **state) {
  (void)state;
  const char *fault = "--fault bit:30@accum,layer=conv4,seed=1";
  util_cli_expect(util_cli(RUN SOME "-o f0"), 0, "CLEAN");
  util_cli_expect(util_cli(RUN SOME "-o f1 %s", fault), 0, "RECOMPUTED");
  assert_int_equal(system("cmp -s f0/probabilities.npy f1/probabilities.npy"), 0);
  util_cli_expect(util_cli(RUN SOME "%s --fail-on detected", fault), 1, "RECOMPUTED");
  util_cli_expect(util_cli(RUN SOME "-o f2 %s --on-fault report", fault), 1, "DETECTED");
  assert_true(util_cli_there("f2/probabilities.npy")); /* the caller asked for it */
  util_cli_expect(util_cli(RUN SOME "-o f3 %s --on-fault abort", fault), 1, "conv4");
  assert_int_equal(util_cli_files("f3"), 0);
  util_cli_expect(util_cli(RUN SOME "--fault bit:30@weight,layer=conv3,seed=2"), 0, "RECOMPUTED");
  util_cli_expect(util_cli(RUN SOME "--fault bit:30@nowhere"), 2, "nowhere");
  util_cli_expect(util_cli(RUN SOME "--fault bit@accum,layer=conv99"), 2, "conv99");
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx " SOME "--n 40"), 0, "PASS");
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx " SOME "--n 100 --scheme dup"), 0, "PASS");
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx " SOME "--n 20 --fault none --json"), 0,
                  "\"redoubt.coverage/2\"");
  /* Nothing is found where nothing is checked, and nothing was claimed; that a campaign can fail: test_campaign. */
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx " SOME "--n 20 --scheme none --fault bit:30@accum"), 0,
                  "outside (uncovered) 20");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help),    cmocka_unit_test(test_options),    cmocka_unit_test(test_lists),
      cmocka_unit_test(test_plans),   cmocka_unit_test(test_plan_words), cmocka_unit_test(test_plans_of_others),
      cmocka_unit_test(test_run),     cmocka_unit_test(test_faults),     cmocka_unit_test(test_brief_plans),
      cmocka_unit_test(test_require), cmocka_unit_test(test_isa),        cmocka_unit_test(test_no_threads),
  };
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
