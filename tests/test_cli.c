/* The command line from outside: exit codes, messages, files; what is wrong with an input is said, and nothing is left
 * behind. */
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

#include "net/tensor_file.h"
#include "util_onnx.h"

#define PROGRAM TEST_BUILD "/cli/redoubt"
#define DIGITS TEST_DATA "/examples/digits"
#define RUN "run " DIGITS "/digits.onnx "
#define SOME "-i " DIGITS "/some.npy "

static char folder[] = "/tmp/redoubt-test-cli-XXXXXX";
static char text[1 << 16]; /* stdout and stderr of the last call, one after the other */

static void slurp(const char *path, size_t *used) {
  FILE *f = fopen(path, "rb");
  if (!f) return;
  *used += fread(text + *used, 1, sizeof text - 1 - *used, f);
  text[*used] = '\0';
  fclose(f);
}

/* Runs `redoubt arguments` by the shell; the exit code. */
static int redoubt(const char *format, ...) {
  char command[4096];
  va_list args;
  int n = snprintf(command, sizeof command, "%s ", PROGRAM);
  va_start(args, format);
  n += vsnprintf(command + n, sizeof command - (size_t)n, format, args);
  va_end(args);
  snprintf(command + n, sizeof command - (size_t)n, " >out.txt 2>err.txt");
  const int status = system(command);
  size_t used = 0;
  text[0] = '\0';
  slurp("out.txt", &used);
  slurp("err.txt", &used);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static void expect(int code, int wanted, const char *words) {
  if (code != wanted || (words && !strstr(text, words)))
    fail_msg("exit code %d, wanted %d with '%s'; it said:\n%s", code, wanted, words ? words : "", text);
}

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
  static const char *const commands[] = {"run", "plan", "inject", "info", "list"};
  expect(redoubt("--version"), 0, "redoubt 0.");
  expect(redoubt("help"), 0, "Usage: redoubt COMMAND");
  expect(redoubt("--help"), 0, "Usage: redoubt COMMAND");
  expect(redoubt(""), 2, "Usage: redoubt COMMAND");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    expect(redoubt("help %s", commands[i]), 0, "Examples:");
    expect(redoubt("%s --help", commands[i]), 0, "Options:");
  }
  expect(redoubt("help bench"), 0, "Examples:");
  expect(redoubt("bench --help"), 0, "tolerance");
  expect(redoubt("bench gemm --help"), 0, "usage");
  expect(redoubt("bench conv --help"), 0, "usage");
  expect(redoubt("bench conv --n 1 --ic 4 --oc 4 --ih 6 --iw 6 --threads 1 --trials 2 --scheme all --format csv"), 0,
         "fic");
  expect(redoubt("bench tolerance --help"), 0, "usage");
  expect(redoubt("bench"), 2, "tolerance");
  expect(redoubt("bench everything"), 2, "no benchmark 'everything'");
  expect(redoubt("rnu"), 2, "did you mean 'run'");
  expect(redoubt("help rnu"), 2, "did you mean 'run'");
  expect(redoubt("frobnicate"), 2, "redoubt help");
}

static void test_options(void **state) {
  (void)state;
  expect(redoubt("run"), 2, "MODEL.onnx is missing");
  expect(redoubt(RUN "--inptu x.npy"), 2, "did you mean --input");
  expect(redoubt(RUN "--input"), 2, "--input needs a value");
  expect(redoubt(RUN "-z"), 2, "unknown option -z");
  expect(redoubt(RUN "extra"), 2, "one argument too many");
  expect(redoubt(RUN SOME "--threads 0"), 2, "--threads takes a whole number");
  expect(redoubt(RUN SOME "--threads 1000000"), 2, "from 1 to 1024");
  expect(redoubt(RUN SOME "--fault bit@accum,at=99999999"), 2, "hits nothing");
  copy_part(DIGITS "/some.npy", "mine.npy", 1 << 20);
  expect(redoubt(RUN "-i mine.npy --report ./mine.npy"), 2, "is read by this run");
  expect(redoubt(RUN "-i image=mine.npy --report mine.npy"), 2, "is read by this run");
  expect(redoubt(RUN "-i mine.npy"), 0, "CLEAN"); /* it is still what it was */
  expect(redoubt("bench gemm --mnk 8:8:8 --trials 3 -o no/such/folder.json"), 2, "folder.json");
  expect(redoubt(RUN SOME "--threads 2x"), 2, "--threads takes a whole number");
  expect(redoubt(RUN SOME "--lambda -1"), 2, "--lambda takes a number above 0");
  expect(redoubt(RUN SOME "--on-fault hope"), 2, "recompute|report|abort");
  expect(redoubt(RUN SOME "--quiet=yes"), 2, "takes no value");
  expect(redoubt(RUN SOME "--scheme magic"), 2, "magic");
  setenv("REDOUBT_ISA", "magic", 1);
  expect(redoubt("info"), 2, "generic|avx2|avx512");
  unsetenv("REDOUBT_ISA");
  expect(redoubt("list everything"), 2, "schemes kernels dtypes ops sites");
}

static void test_lists(void **state) {
  (void)state;
  expect(redoubt("list schemes"), 0, "rowcol");
  expect(redoubt("list kernels"), 0, "gemm_generic");
  expect(redoubt("list dtypes --format md"), 0, "| bf16");
  expect(redoubt("list ops --json"), 0, "\"redoubt.list/1\"");
  expect(redoubt("list sites"), 0, "accum");
  expect(redoubt("info"), 0, "isa");
  expect(redoubt("info --json"), 0, "\"redoubt.info/1\"");
  expect(redoubt("plan " DIGITS "/digits.onnx"), 0, "1x16x8x8");
  expect(redoubt("plan " DIGITS "/digits.onnx -i " DIGITS "/some.npy --explain"), 0, "refused");
  expect(redoubt("plan " DIGITS "/digits.onnx --json --explain"), 0, "\"candidates\"");
}

static void test_run(void **state) {
  (void)state;
  expect(redoubt(RUN SOME "-o ok --report ok.json --labels " DIGITS "/some-labels.npy"), 0, "CLEAN");
  expect(0, 0, "8 of 8 right");
  assert_int_equal(files_in("ok"), 1);
  assert_true(there("ok/probabilities.npy") && there("ok.json"));
  expect(redoubt(RUN "--input image=" DIGITS "/some.npy -o again --quiet"), 0, "");
  assert_int_equal(strlen(text), 0);
  assert_int_equal(system("cmp -s ok/probabilities.npy again/probabilities.npy"), 0);
  expect(redoubt(RUN "-i " DIGITS "/one.pb --json"), 0, "\"redoubt.run/1\"");
  expect(redoubt(RUN SOME "--scheme none"), 0, "UNCHECKED");
  expect(redoubt(RUN SOME "--scheme none --fail-on unchecked"), 1, "UNCHECKED");
  expect(redoubt(RUN SOME "--repeat 3 --top 2"), 0, "3 runs");
  const int64_t none[] = {0, 1, 8, 8};
  make_npy("empty.npy", RDT_F32, 4, none, 0.0);
  expect(redoubt(RUN "-i empty.npy -o empty"), 0, NULL);
}

static void test_faults(void **state) {
  (void)state;
  const char *fault = "--fault bit:30@accum,layer=conv4,seed=1";
  expect(redoubt(RUN SOME "-o f0"), 0, "CLEAN");
  expect(redoubt(RUN SOME "-o f1 %s", fault), 0, "RECOMPUTED");
  assert_int_equal(system("cmp -s f0/probabilities.npy f1/probabilities.npy"), 0);
  expect(redoubt(RUN SOME "%s --fail-on detected", fault), 1, "RECOMPUTED");
  expect(redoubt(RUN SOME "-o f2 %s --on-fault report", fault), 1, "DETECTED");
  assert_true(there("f2/probabilities.npy")); /* the caller asked for it */
  expect(redoubt(RUN SOME "-o f3 %s --on-fault abort", fault), 1, "conv4");
  assert_int_equal(files_in("f3"), 0);
  expect(redoubt(RUN SOME "--fault bit:30@weight,layer=conv3,seed=2"), 0, "RECOMPUTED");
  expect(redoubt(RUN SOME "--fault bit:30@nowhere"), 2, "nowhere");
  expect(redoubt(RUN SOME "--fault bit@accum,layer=conv99"), 2, "conv99");
  expect(redoubt("inject " DIGITS "/digits.onnx " SOME "--n 40"), 0, "PASS");
  expect(redoubt("inject " DIGITS "/digits.onnx " SOME "--n 100 --scheme dup"), 0, "PASS");
  expect(redoubt("inject " DIGITS "/digits.onnx " SOME "--n 20 --fault none --json"), 0, "\"redoubt.inject/1\"");
  /* the campaign itself must be able to fail: nothing is found where nothing is checked */
  expect(redoubt("inject " DIGITS "/digits.onnx " SOME "--n 20 --scheme none --fault bit:30@accum"), 1, "FAIL");
}

static void test_bad_models(void **state) {
  (void)state;
  static const long lengths[] = {0, 1, 7, 100, 5000, 80000, 159000};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    copy_part(DIGITS "/digits.onnx", "cut.onnx", lengths[i]);
    expect(redoubt("run cut.onnx " SOME), 2, "cut.onnx");
  }
  expect(redoubt("run missing.onnx " SOME), 2, "missing.onnx");
  expect(redoubt("run . " SOME), 2, NULL);
  expect(redoubt("run " DIGITS "/some.npy " SOME), 2, NULL);
  expect(redoubt("run /dev/null " SOME), 2, NULL);

  util_onnx m;
  const int64_t shape[] = {2, 2};
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, shape);
  util_onnx_output(&m, "y", RDT_F32, 2, shape);
  util_onnx_node(&m, "Frobnicate", "strange", "x", "y", NULL);
  util_onnx_save(&m, "unknown.onnx");
  util_onnx_clear(&m);
  make_npy("x.npy", RDT_F32, 2, shape, 1.0);
  expect(redoubt("run unknown.onnx -i x.npy"), 2, "Frobnicate");
  expect(redoubt("plan unknown.onnx"), 2, "strange");
}

static void test_bad_inputs(void **state) {
  (void)state;
  const int64_t good[] = {2, 1, 8, 8}, narrow[] = {2, 1, 8, 7}, flat[] = {2, 64};
  make_npy("f64.npy", RDT_F64, 4, good, 0.5);
  make_npy("narrow.npy", RDT_F32, 4, narrow, 0.5);
  make_npy("flat.npy", RDT_F32, 2, flat, 0.5);
  expect(redoubt(RUN "-i f64.npy"), 2, "f64");
  expect(redoubt(RUN "-i narrow.npy"), 2, "2x1x8x7");
  expect(redoubt(RUN "-i flat.npy"), 2, "2x64");
  copy_part(DIGITS "/some.npy", "cut.npy", 1000);
  expect(redoubt(RUN "-i cut.npy"), 2, "cut.npy");
  copy_part(DIGITS "/some.npy", "head.npy", 60);
  expect(redoubt(RUN "-i head.npy"), 2, "head.npy");
  expect(redoubt(RUN "-i nothing.npy"), 2, "nothing.npy");
  expect(redoubt(RUN "-i " DIGITS "/README.md"), 2, "README.md");

  expect(redoubt(RUN), 2, "--input image=FILE.npy");
  expect(redoubt(RUN "-i photo=" DIGITS "/some.npy"), 2, "it has: image");
  expect(redoubt(RUN SOME SOME), 2, "one input too many");
  expect(redoubt(RUN "-i image=" DIGITS "/some.npy -i image=" DIGITS "/some.npy"), 2, "given twice");
  expect(redoubt(RUN SOME "--labels " DIGITS "/labels.npy"), 2, "one integer for each of the 8 images");
}

static void test_nan(void **state) {
  (void)state;
  const int64_t shape[] = {2, 1, 8, 8};
  make_npy("nan.npy", RDT_F32, 4, shape, NAN);
  make_npy("inf.npy", RDT_F32, 4, shape, INFINITY);
  expect(redoubt(RUN "-i nan.npy"), 0, "UNCHECKED");
  expect(redoubt(RUN "-i inf.npy"), 0, "UNCHECKED");
  expect(redoubt(RUN "-i nan.npy --fail-on unchecked"), 1, "UNCHECKED");
}

static void test_unwritable(void **state) {
  (void)state;
  expect(redoubt(RUN SOME "-o /dev/full/out"), 2, "/dev/full/out");
  expect(redoubt(RUN SOME "-o /proc/redoubt-test"), 2, "/proc/redoubt-test");
  expect(redoubt(RUN SOME "-o deep/er/out"), 2, "deep/er/out");
  expect(redoubt(RUN SOME "--report /proc/redoubt-test.json"), 2, "/proc/redoubt-test.json");
  expect(redoubt(RUN SOME "--report nowhere/r.json"), 2, "nowhere/r.json");

  /* A disk that is full: no file may grow. What is printed goes to a pipe. */
  char command[1024];
  snprintf(command, sizeof command,
           "(ulimit -f 0; " PROGRAM " " RUN SOME "-o full --report full.json; echo $? ) 2>&1 | tail -n 1 >full.txt");
  assert_int_equal(mkdir("full", 0777), 0);
  assert_int_equal(system(command), 0);
  size_t used = 0;
  slurp("full.txt", &used);
  assert_string_equal(text, "2\n");
  assert_int_equal(files_in("full"), 0);
  assert_false(there("full.json"));
  snprintf(command, sizeof command, PROGRAM " list schemes >/dev/full 2>err.txt");
  assert_int_equal(WEXITSTATUS(system(command)), 2);
}

/* Starts the program, sends it a signal in the middle, returns its exit code. */
static int stop_with(int number, const char *const *argv) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!freopen("/dev/null", "w", stdout) || !freopen("err.txt", "w", stderr)) _exit(99);
    execv(PROGRAM, (char *const *)argv);
    _exit(98);
  }
  usleep(400000);
  kill(child, number);
  int status = 0;
  for (int waited = 0; waited < 100; waited++) {
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
    usleep(100000);
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
  assert_int_equal(stop_with(SIGINT, run), 130);
  assert_int_equal(files_in("stop"), 0);
  assert_false(there("stop.json"));
  assert_int_equal(stop_with(SIGTERM, run), 143);
  assert_int_equal(stop_with(SIGINT, inject), 130);
  assert_false(there("stop.json"));
}

static int into_folder(void **state) {
  (void)state;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
  char command[256];
  (void)state;
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return chdir("/") == 0 ? system(command) : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help),       cmocka_unit_test(test_options), cmocka_unit_test(test_lists),
      cmocka_unit_test(test_run),        cmocka_unit_test(test_faults),  cmocka_unit_test(test_bad_models),
      cmocka_unit_test(test_bad_inputs), cmocka_unit_test(test_nan),     cmocka_unit_test(test_unwritable),
      cmocka_unit_test(test_signals),
  };
  return cmocka_run_group_tests(tests, into_folder, remove_folder);
}
