/* The command line and what it reads and writes: what is wrong with a file is said, and nothing is left behind;
 * signals. */
#include <fcntl.h>
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

#include "util_cli.h"
#include "util_onnx.h"

#define DIGITS TEST_DATA "/examples/digits"
#define RUN "run " DIGITS "/digits.onnx "
#define SOME "-i " DIGITS "/some.npy "

static void test_bad_models(void **state) {
  (void)state;
  static const long lengths[] = {0, 1, 7, 100, 5000, 80000, 159000};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    util_cli_copy(DIGITS "/digits.onnx", "cut.onnx", lengths[i]);
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
  util_cli_npy("x.npy", RDT_F32, 2, shape, 1.0);
  util_cli_expect(util_cli("run unknown.onnx -i x.npy"), 2, "Frobnicate");
  util_cli_expect(util_cli("plan unknown.onnx"), 2, "strange");
}

static void test_bad_inputs(void **state) {
  (void)state;
  const int64_t good[] = {2, 1, 8, 8}, narrow[] = {2, 1, 8, 7}, flat[] = {2, 64};
  util_cli_npy("f64.npy", RDT_F64, 4, good, 0.5);
  util_cli_npy("narrow.npy", RDT_F32, 4, narrow, 0.5);
  util_cli_npy("flat.npy", RDT_F32, 2, flat, 0.5);
  util_cli_expect(util_cli(RUN "-i f64.npy"), 2, "f64");
  util_cli_expect(util_cli(RUN "-i narrow.npy"), 2, "2x1x8x7");
  util_cli_expect(util_cli(RUN "-i flat.npy"), 2, "2x64");
  util_cli_copy(DIGITS "/some.npy", "cut.npy", 1000);
  util_cli_expect(util_cli(RUN "-i cut.npy"), 2, "cut.npy");
  util_cli_copy(DIGITS "/some.npy", "head.npy", 60);
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
  util_cli_npy("nan.npy", RDT_F32, 4, shape, NAN);
  util_cli_npy("inf.npy", RDT_F32, 4, shape, INFINITY);
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
  assert_int_equal(util_cli_files("full"), 0);
  assert_false(util_cli_there("full.json"));
  snprintf(command, sizeof command, UTIL_PROGRAM " list schemes >/dev/full 2>err.txt");
  assert_int_equal(WEXITSTATUS(system(command)), 2);
}

/* What was found weighs more than a file that cannot be written: it is told, and the exit code says it. */
static void test_found_and_full(void **state) {
  static const char *const commands[] = {"screen --time 0.05 --fault stuck1:22@accum,core=%d --prom full.prom",
                                         "screen --time 0.05 --fault stuck1:22@accum,core=%d --save full.d",
                                         "conformance broken --junit full.xml"};
  static const char *const says[] = {"persistent", "persistent", "FAIL: 1 cases"};
  cpu_set_t set;
  int core = 0;
  char command[512];
  (void)state;
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  while (!CPU_ISSET(core, &set)) core++;
  assert_int_equal(system("mkdir -p broken/test_data_set_0 && cp " DIGITS "/digits.onnx broken/model.onnx &&"
                          "touch broken/test_data_set_0/input_0.pb"),
                   0);
  for (int i = 0; i < 3; i++) {
    snprintf(command, sizeof command, commands[i], core);
    const int code = util_cli("--version >was.txt; (ulimit -f 0; " UTIL_PROGRAM
                              " %s 2>&1; echo $?) | cat >full.txt; exit "
                              "$(tail -n 1 full.txt)",
                              command);
    util_cli_slurp("full.txt");
    util_cli_expect(code, 1, "cannot be written: File too large");
    util_cli_expect(code, 1, says[i]);
  }
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
  FILE *held = fopen("pipe", "w"); /* waits until the reader is there, however long that takes */
  assert_non_null(held);
  util_cli_expect(util_cli(RUN SOME "--events pipe --fault bit:30@accum,at=3"), 0, "RECOMPUTED");
  fclose(held);
  assert_int_equal(system("while kill -0 $(cat reader) 2>/dev/null; do sleep 0.05; done"), 0);
  util_cli_slurp("read.txt");
  assert_non_null(strstr(util_cli_text, "\"kind\":\"fault\""));
}

/* Nobody waits for a writer who is not there: not for a pipe that is named, nor for one in a folder of a campaign. What
 * comes out of one is read, as a shell's <(..) is. */
static void test_pipes_to_read(void **state) {
  static const char *const commands[] = {RUN "-i unwritten",
                                         RUN SOME "--plan unwritten",
                                         RUN SOME "--labels unwritten",
                                         RUN SOME "--coverage unwritten",
                                         "run unwritten " SOME,
                                         "report unwritten",
                                         "figures unwritten -o .",
                                         "inject gemm:8x8x8 --mix unwritten",
                                         "inject gemm:8x8x8 --n 3 -o piped",
                                         "inject gemm:8x8x8 --n 3 -o piped --resume",
                                         "report piped",
                                         "screen --time 0.01 --prom unwritten",
                                         "verify piped.npy",
                                         "conformance case"};
  (void)state;
  assert_int_equal(system("mkfifo unwritten && mkdir piped && mkfifo piped/trials.jsonl piped/campaign.json &&"
                          "mkdir -p case/test_data_set_0 && mkfifo case/test_data_set_0/input_0.pb piped.npy.sums &&"
                          "cp " DIGITS "/digits.onnx case/model.onnx && cp " DIGITS "/some.npy piped.npy"),
                   0);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    const int code = util_cli("--version >was.txt; timeout 20 " UTIL_PROGRAM " %s", commands[i]);
    if (code == 124) fail_msg("redoubt %s waits", commands[i]);
    util_cli_expect(code, i + 1 < sizeof commands / sizeof *commands ? 2 : 1, NULL);
  }
  util_cli_expect(util_cli(RUN "-i unwritten"), 2, "unwritten: nobody writes into this pipe: start its writer first");
  util_cli_expect(
      util_cli("--version >was.txt; (sleep 0.2; cat " DIGITS "/some.npy) | " UTIL_PROGRAM " " RUN "-i /dev/stdin"), 0,
      "CLEAN");
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
  static const char *const pipe[] = {"redoubt", "run", DIGITS "/digits.onnx", "-i", "stalled", NULL};
  assert_int_equal(mkfifo("stalled", 0600), 0);
  const int writer = open("stalled", O_RDWR | O_CLOEXEC); /* who writes nothing, and is there before the reader */
  assert_true(writer >= 0);
  assert_int_equal(stop_with(SIGINT, pipe), 130);
  close(writer);
  assert_int_equal(stop_with(SIGINT, run), 130);
  assert_int_equal(util_cli_files("stop"), 0);
  assert_false(util_cli_there("stop.json"));
  assert_int_equal(stop_with(SIGTERM, run), 143);
  assert_int_equal(stop_with(SIGINT, inject), 130);
  assert_int_equal(stop_with(SIGTERM, bench), 143);
  assert_int_equal(stop_with(SIGINT, gemm), 130);
  assert_int_equal(stop_with(SIGHUP, conv), 129);
  assert_int_equal(stop_with(SIGTERM, rates), 143);
  assert_int_equal(stop_with(SIGTERM, flips), 143);
  assert_int_equal(stop_with(SIGINT, screen), 130);
  assert_false(util_cli_there("stop.json"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_models), cmocka_unit_test(test_bad_inputs),  cmocka_unit_test(test_nan),
      cmocka_unit_test(test_unwritable), cmocka_unit_test(test_empty_names), cmocka_unit_test(test_found_and_full),
      cmocka_unit_test(test_links),      cmocka_unit_test(test_pipe),        cmocka_unit_test(test_pipes_to_read),
      cmocka_unit_test(test_signals),
  };
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
