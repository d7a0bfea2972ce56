/* The command line from outside: exit codes, messages, files; what is wrong with an input is said, and nothing is left
 * behind. */
#include <sched.h>
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
#include "net/tensor_file.h"
#include "util_cli.h"
#include "util_onnx.h"

#define DIGITS TEST_DATA "/examples/digits"
#define RUN "run " DIGITS "/digits.onnx "
#define SOME "-i " DIGITS "/some.npy "

static bool there(const char *path) {
  return access(path, F_OK) == 0;
}

static int files_in(const char *dir) {
  char command[256];
  snprintf(command, sizeof command, "ls -A %s 2>/dev/null | wc -l", dir);
  FILE *p = popen(command, "r");
  int n = -1;
  assert_non_null(p);
  assert_int_equal(fscanf(p, "%d", &n), 1);
  pclose(p);
  return n;
}

static void make_npy(const char *path, rdt_dtype dtype, int rank, const int64_t *shape, double value) {
  rdt_tensor t = rdt_tensor_dense(NULL, dtype, rank, shape);
  const int64_t n = rdt_tensor_count(&t);
  t.data = calloc((size_t)n + 1, rdt_dtype_size(dtype));
  assert_non_null(t.data);
  for (int64_t i = 0; i < n; i++) rdt_store(t.data, dtype, i, value);
  rdt_reason why;
  assert_int_equal(rdt_npy_write(path, &t, &why), RDT_OK);
  free(t.data);
}

static void copy_part(const char *from, const char *to, long bytes) {
  char *buf = malloc((size_t)bytes + 1);
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_true(buf && in && out);
  const size_t n = fread(buf, 1, (size_t)bytes, in);
  assert_int_equal(fwrite(buf, 1, n, out), n);
  fclose(in);
  fclose(out);
  free(buf);
}

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
  copy_part(DIGITS "/some.npy", "mine.npy", 1 << 20);
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
  assert_int_equal(files_in("ok"), 1);
  assert_true(there("ok/probabilities.npy") && there("ok.json"));
  util_cli_expect(util_cli(RUN "--input image=" DIGITS "/some.npy -o again --quiet"), 0, "");
  assert_int_equal(strlen(util_cli_text), 0);
  assert_int_equal(system("cmp -s ok/probabilities.npy again/probabilities.npy"), 0);
  util_cli_expect(util_cli(RUN "-i " DIGITS "/one.pb --json"), 0, "\"redoubt.run/1\"");
  util_cli_expect(util_cli(RUN SOME "--scheme none"), 0, "UNCHECKED");
  util_cli_expect(util_cli(RUN SOME "--scheme none --fail-on unchecked"), 1, "UNCHECKED");
  util_cli_expect(util_cli(RUN SOME "--repeat 3 --top 2"), 0, "3 runs");
  const int64_t none[] = {0, 1, 8, 8};
  make_npy("empty.npy", RDT_F32, 4, none, 0.0);
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
  assert_true(there("f2/probabilities.npy")); /* the caller asked for it */
  util_cli_expect(util_cli(RUN SOME "-o f3 %s --on-fault abort", fault), 1, "conv4");
  assert_int_equal(files_in("f3"), 0);
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

static void test_campaigns(void **state) {
  (void)state;
#define GEMM "inject gemm:48x40x56 --scheme row "
  util_cli_expect(util_cli(GEMM "--n 300 --jobs 2 -o kept"), 0, "PASS");
  util_cli_expect(util_cli(GEMM "--n 300 -o kept"), 2, "--resume");
  util_cli_expect(util_cli(GEMM "--n 400 --jobs 2 -o kept --resume"), 0, "400 runs");
  util_cli_expect(util_cli(GEMM "--n 400 --jobs 2 -o kept --resume --seed 2"), 2, "another campaign");
  util_cli_expect(util_cli(GEMM "--n 400 --jobs 2 -o kept --replay 399"), 0, "the same, bit for bit");
  util_cli_expect(util_cli(GEMM "--jobs 2 -o kept --replay 400"), 2, "it has no trial 400");
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
      {GEMM "--jobs 2 --prom x.prom", "--jobs at 1"},
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
  if (rdt_cuda_count(NULL) > 0) skip();
  util_cli_expect(util_cli(GEMM "--device cuda:0 --n 10 -o nogpu"), 3, "--device cpu needs none");
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx " SOME "--device cuda:0 --n 10"), 3,
                  "--device cpu needs none");
  util_cli_expect(util_cli(RUN SOME "--device cuda:0"), 3, "--device cpu needs none");
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
  make_npy("copy.npy", RDT_F32, 4, shape, 0.5);
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
  make_npy("not.npy", RDT_F32, 4, shape, NAN);
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx -i not.npy --n 20"), 2, "element 0 is not finite");
  make_npy("none.npy", RDT_F32, 4, empty, 0.0);
  util_cli_expect(util_cli("inject " DIGITS "/digits.onnx -i none.npy --n 20"), 2, "has no element");
  /* A campaign that could not begin leaves nothing, but what was there before. */
  assert_int_equal(system("echo junk >junk.onnx && mkdir mine"), 0);
  util_cli_expect(util_cli("inject junk.onnx -i none.npy --n 20 -o never"), 2, "junk.onnx");
  util_cli_expect(util_cli("inject junk.onnx -i none.npy --n 20 -o mine"), 2, "junk.onnx");
  assert_int_equal(system("test ! -e never && rmdir mine && rm junk.onnx"), 0);
}

/* Who was left out for want of time is measured by whoever has more. */
static void test_brief_plans(void **state) {
  (void)state;
  util_cli_expect(util_cli("plan --workload dlrm-bottom --threads 1 --measure --max-seconds 0.000001"), 0,
                  "no time to measure every");
  util_cli_expect(util_cli("plan --workload dlrm-bottom --threads 1 --min-coverage 100%% --max-overhead 5%%"), 1,
                  "protection takes more than 5 %");
}

static long size_of(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 ? (long)st.st_size : -1;
}

/* Killed wherever it is, as often as it is: in the end every trial is there once, and the same as without. */
static void test_killed(void **state) {
  enum { ROUNDS = 3, STEP = 120000, MOST = 3000 };
  static const char *const argv[] = {
      "redoubt", "inject", "gemm:48x40x56", "--scheme",  "row", "--n",      "4000", "--jobs", "2",
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
  util_cli_expect(util_cli(GEMM "--n 4000 --jobs 2 --threads 1 -o killed --resume"), 0, "4000 runs");
  util_cli_expect(util_cli(GEMM "--n 4000 --jobs 2 --threads 1 -o spared -q"), 0, NULL);
  assert_int_equal(system("cmp killed/trials.jsonl spared/trials.jsonl"), 0);
  assert_int_equal(system("test $(wc -l <killed/trials.jsonl) = 4000"), 0);
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

static void test_bad_models(void **state) {
  (void)state;
  static const long lengths[] = {0, 1, 7, 100, 5000, 80000, 159000};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    copy_part(DIGITS "/digits.onnx", "cut.onnx", lengths[i]);
    util_cli_expect(util_cli("run cut.onnx " SOME), 2, "cut.onnx");
  }
  util_cli_expect(util_cli("run missing.onnx " SOME), 2, "missing.onnx");
  util_cli_expect(util_cli("run . " SOME), 2, NULL);
  util_cli_expect(util_cli("run " DIGITS "/some.npy " SOME), 2, NULL);
  util_cli_expect(util_cli("run /dev/null " SOME), 2, NULL);

  util_onnx m;
  const int64_t shape[] = {2, 2};
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, shape);
  util_onnx_output(&m, "y", RDT_F32, 2, shape);
  util_onnx_node(&m, "Frobnicate", "strange", "x", "y", NULL);
  util_onnx_save(&m, "unknown.onnx");
  util_onnx_clear(&m);
  make_npy("x.npy", RDT_F32, 2, shape, 1.0);
  util_cli_expect(util_cli("run unknown.onnx -i x.npy"), 2, "Frobnicate");
  util_cli_expect(util_cli("plan unknown.onnx"), 2, "strange");
}

static void test_bad_inputs(void **state) {
  (void)state;
  const int64_t good[] = {2, 1, 8, 8}, narrow[] = {2, 1, 8, 7}, flat[] = {2, 64};
  make_npy("f64.npy", RDT_F64, 4, good, 0.5);
  make_npy("narrow.npy", RDT_F32, 4, narrow, 0.5);
  make_npy("flat.npy", RDT_F32, 2, flat, 0.5);
  util_cli_expect(util_cli(RUN "-i f64.npy"), 2, "f64");
  util_cli_expect(util_cli(RUN "-i narrow.npy"), 2, "2x1x8x7");
  util_cli_expect(util_cli(RUN "-i flat.npy"), 2, "2x64");
  copy_part(DIGITS "/some.npy", "cut.npy", 1000);
  util_cli_expect(util_cli(RUN "-i cut.npy"), 2, "cut.npy");
  copy_part(DIGITS "/some.npy", "head.npy", 60);
  util_cli_expect(util_cli(RUN "-i head.npy"), 2, "head.npy");
  util_cli_expect(util_cli(RUN "-i nothing.npy"), 2, "nothing.npy");
  util_cli_expect(util_cli(RUN "-i " DIGITS "/README.md"), 2, "README.md");

  util_cli_expect(util_cli(RUN), 2, "--input image=FILE.npy");
  util_cli_expect(util_cli(RUN "-i photo=" DIGITS "/some.npy"), 2, "it has: image");
  util_cli_expect(util_cli(RUN SOME SOME), 2, "one input too many");
  util_cli_expect(util_cli(RUN "-i image=" DIGITS "/some.npy -i image=" DIGITS "/some.npy"), 2, "given twice");
  util_cli_expect(util_cli(RUN SOME "--labels " DIGITS "/labels.npy"), 2, "one integer for each of the 8 images");
}

static void test_nan(void **state) {
  (void)state;
  const int64_t shape[] = {2, 1, 8, 8};
  make_npy("nan.npy", RDT_F32, 4, shape, NAN);
  make_npy("inf.npy", RDT_F32, 4, shape, INFINITY);
  util_cli_expect(util_cli(RUN "-i nan.npy"), 0, "UNCHECKED");
  util_cli_expect(util_cli(RUN "-i inf.npy"), 0, "UNCHECKED");
  util_cli_expect(util_cli(RUN "-i nan.npy --fail-on unchecked"), 1, "UNCHECKED");
}

static void test_unwritable(void **state) {
  (void)state;
  util_cli_expect(util_cli(RUN SOME "-o /dev/full/out"), 2, "/dev/full/out");
  util_cli_expect(util_cli(RUN SOME "-o /proc/redoubt-test"), 2, "/proc/redoubt-test");
  util_cli_expect(util_cli(RUN SOME "-o deep/er/out"), 2, "deep/er/out");
  util_cli_expect(util_cli(RUN SOME "--report /proc/redoubt-test.json"), 2, "/proc/redoubt-test.json");
  util_cli_expect(util_cli(RUN SOME "--report nowhere/r.json"), 2, "nowhere/r.json");

  /* A disk that is full: no file may grow. What is printed goes to a pipe. */
  char command[1024];
  snprintf(command, sizeof command,
           "(ulimit -f 0; " UTIL_PROGRAM " " RUN SOME
           "-o full --report full.json; echo $? ) 2>&1 | tail -n 1 >full.txt");
  assert_int_equal(mkdir("full", 0777), 0);
  assert_int_equal(system(command), 0);
  util_cli_slurp("full.txt");
  assert_string_equal(util_cli_text, "2\n");
  assert_int_equal(files_in("full"), 0);
  assert_false(there("full.json"));
  snprintf(command, sizeof command, UTIL_PROGRAM " list schemes >/dev/full 2>err.txt");
  assert_int_equal(WEXITSTATUS(system(command)), 2);
}

static void test_empty_names(void **state) {
  (void)state;
  util_cli_expect(util_cli("run ''"), 2, "MODEL.onnx is no name, it is empty");
  util_cli_expect(util_cli(RUN "-i ''"), 2, "--input takes [NAME=]FILE, it is empty");
  util_cli_expect(util_cli(RUN "-i image="), 2, "no file is named behind the '='");
  static const char *const written[] = {"--events", "--prom", "--report", "-o", "--out="};
  for (int i = 0; i < 5; i++)
    util_cli_expect(util_cli(RUN SOME "%s ''", written[i]), 2, "a variable of the shell that is not set?");
}

/* What a link leads to is written, and the link stays. */
static void test_links(void **state) {
  static const char *const options[] = {"--prom", "--report", "--events"};
  (void)state;
  assert_int_equal(mkdir("far", 0777), 0);
  assert_int_equal(symlink("far/second", "first"), 0);
  assert_int_equal(symlink("third", "far/second"), 0);
  for (int i = 0; i < 3; i++)
    for (int again = 0; again < 2; again++) {
      struct stat st;
      util_cli_expect(util_cli(RUN SOME "%s first --fault bit:30@accum,at=3", options[i]), 0, "RECOMPUTED");
      assert_true(lstat("first", &st) == 0 && S_ISLNK(st.st_mode));
      assert_true(lstat("far/second", &st) == 0 && S_ISLNK(st.st_mode));
      assert_true(lstat("far/third", &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0);
      if (again) assert_int_equal(unlink("far/third"), 0);
    }
  assert_int_equal(symlink("round", "round"), 0);
  util_cli_expect(util_cli(RUN SOME "--report round"), 2, "round: cannot be written: Too many levels");
  assert_int_equal(symlink("nowhere/file", "lost"), 0);
  util_cli_expect(util_cli(RUN SOME "--report lost"), 2, "lost: cannot be written");
}

/* A pipe without a reader is refused at once; with one it gets every event. */
static void test_pipe(void **state) {
  (void)state;
  assert_int_equal(mkfifo("pipe", 0666), 0);
  util_cli_expect(util_cli(RUN SOME "--events pipe"), 2, "pipe: nobody reads from this pipe: start its reader first");
  assert_int_equal(system("cat pipe >read.txt & echo $! >reader"), 0);
  usleep(200000);
  util_cli_expect(util_cli(RUN SOME "--events pipe --fault bit:30@accum,at=3"), 0, "RECOMPUTED");
  assert_int_equal(system("while kill -0 $(cat reader) 2>/dev/null; do sleep 0.05; done"), 0);
  util_cli_slurp("read.txt");
  assert_non_null(strstr(util_cli_text, "\"kind\":\"fault\""));
}

/* Does this process catch the signal? /proc has a mask of those that it does. */
static bool catches(pid_t process, int number) {
  char path[64], line[256];
  unsigned long long mask = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)process);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f) && sscanf(line, "SigCgt: %llx", &mask) != 1) {
  }
  if (f) fclose(f);
  return mask >> (number - 1) & 1;
}

/* Starts the program, sends it a signal in the middle (it catches it, and a while more), returns its exit code. */
static int stop_with(int number, const char *const *argv) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(number, SIG_DFL); /* who starts tests in the background, or by nohup, has it ignored */
    if (!freopen("/dev/null", "w", stdout) || !freopen("err.txt", "w", stderr)) _exit(99);
    execv(UTIL_PROGRAM, (char *const *)argv);
    _exit(98);
  }
  enum { MOST = 6000 }; /* steps of 10 ms */
  int status = 0;
  for (int waited = 0; waited < MOST && !catches(child, number); waited++) usleep(10000);
  usleep(100000);
  kill(child, number);
  for (int waited = 0; waited < MOST; waited++) {
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
    usleep(10000);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return -1;
}

static void test_signals(void **state) {
  (void)state;
  static const char *const run[] = {
      "redoubt", "run",      DIGITS "/digits.onnx", "-i", DIGITS "/images.npy", "--repeat", "100000000", "-o",
      "stop",    "--report", "stop.json",           NULL};
  static const char *const inject[] = {"redoubt",   "inject",   DIGITS "/digits.onnx", "-i", DIGITS "/images.npy", "-n",
                                       "100000000", "--report", "stop.json",           NULL};
  static const char *const bench[] = {"redoubt",   "bench",     "model",    DIGITS "/digits.onnx", "--trials", "100000",
                                      "--profile", "stop.json", "--report", "stop.json",           NULL};
  static const char *const gemm[] = {"redoubt", "bench", "gemm", "--trials", "100000", "-o", "stop.json", NULL};
  static const char *const conv[] = {"redoubt", "bench", "conv", "--trials", "100000", "-o", "stop.json", NULL};
  static const char *const rates[] = {"redoubt", "bench",    "tolerance",  "--table",
                                      "rates",   "--trials", "1000000000", NULL};
  static const char *const flips[] = {"redoubt", "bench",    "tolerance",  "--table",
                                      "flips",   "--trials", "1000000000", NULL};
  static const char *const screen[] = {"redoubt", "screen", "-r", "4", "--prom", "stop.json", NULL};
  assert_int_equal(stop_with(SIGINT, run), 130);
  assert_int_equal(files_in("stop"), 0);
  assert_false(there("stop.json"));
  assert_int_equal(stop_with(SIGTERM, run), 143);
  assert_int_equal(stop_with(SIGINT, inject), 130);
  assert_int_equal(stop_with(SIGTERM, bench), 143);
  assert_int_equal(stop_with(SIGINT, gemm), 130);
  assert_int_equal(stop_with(SIGHUP, conv), 129);
  assert_int_equal(stop_with(SIGTERM, rates), 143);
  assert_int_equal(stop_with(SIGTERM, flips), 143);
  assert_int_equal(stop_with(SIGINT, screen), 130);
  assert_false(there("stop.json"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_plans),
      cmocka_unit_test(test_plan_words),
      cmocka_unit_test(test_run),
      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_campaigns),
      cmocka_unit_test(test_contradictions),
      cmocka_unit_test(test_replays),
      cmocka_unit_test(test_clean_replay),
      cmocka_unit_test(test_own_events),
      cmocka_unit_test(test_no_gpu),
      cmocka_unit_test(test_other_contents),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_no_verdict),
      cmocka_unit_test(test_a_miss_fails),
      cmocka_unit_test(test_bad_models),
      cmocka_unit_test(test_bad_inputs),
      cmocka_unit_test(test_nan),
      cmocka_unit_test(test_no_data),
      cmocka_unit_test(test_brief_plans),
      cmocka_unit_test(test_unwritable),
      cmocka_unit_test(test_empty_names),
      cmocka_unit_test(test_links),
      cmocka_unit_test(test_pipe),
      cmocka_unit_test(test_signals),
      cmocka_unit_test(test_require),
      cmocka_unit_test(test_isa),
  };
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
