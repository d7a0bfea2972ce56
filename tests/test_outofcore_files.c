/* Products of files from outside: what is refused and how it is said, crashes and --resume, `redoubt verify`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/memory.h"
#include "cuda/device.h"
#include "util_cli.h"
#include "util_product.h"

enum { M = 300, N = 260, K = 210, SIDE = 4000 /* of what a GPU multiplies while it is killed */ };

static double *a, *b;
static const char *device; /* NULL: cpu */

static int begin(void **state) {
  if (util_cli_enter(state) != 0) return -1;
  if (device) {
    rdt_free(util_npy("a.npy", RDT_F32, false, SIDE, SIDE, 1));
    rdt_free(util_npy("b.npy", RDT_F32, true, SIDE, SIDE, 2));
    return 0;
  }
  a = util_npy("a.npy", RDT_F32, false, M, K, 1);
  b = util_npy("b.npy", RDT_F32, true, K, N, 2);
  return 0;
}

static int end(void **state) {
  rdt_free(a);
  rdt_free(b);
  return util_cli_leave(state);
}

static void none_left(void) {
  assert_int_equal(access("c.npy.part", F_OK), -1);
  assert_int_equal(access("c.npy.part.sums", F_OK), -1);
}

static void test_product(void **state) {
  (void)state;
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit 700k --verify --report r.json"), 0,
                  "verdict: CLEAN");
  util_npy_expect("c.npy", RDT_F32, M, N, K, a, b, 0.0);
  none_left();
  util_cli_slurp("r.json");
  assert_non_null(strstr(util_cli_text, "redoubt.matmul/1"));
  util_cli_expect(util_cli("matmul a.npy b.npy -o full.npy --mem-limit 700k --errors 65536"), 0,
                  "planted, the block that is hit has no room for more in a line");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit 700k --errors 5 --collinear --seed 3"), 0,
                  "rebuilt");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit 700k --errors 5 --scattered"), 0, "RECOMPUTED");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit 700k --errors 5 --on-fault recompute"), 0,
                  "RECOMPUTED");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --errors 5 --scattered --fail-on detected"), 1, "RECOMPUTED");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --scheme none --fail-on unchecked"), 1, "UNCHECKED");
}

static void test_refused(void **state) {
  (void)state;
  const double one[6] = {1, 2, 3, 4, 5, 6};
  util_npy_of("f64.npy", RDT_F64, false, 3, 2, one);
  util_npy_of("int.npy", RDT_S32, false, 3, 2, one);
  util_npy_of("other.npy", RDT_F32, false, 3, 2, one);
  util_npy_of("two.npy", RDT_F32, false, 2, 3, one);
  assert_int_equal(
      system("head -c 100 a.npy >short.npy; (cat a.npy; echo) >long.npy; echo text >text.npy; mkdir folder;mkfifo pipe;"
             "cp two.npy s.npy.sums; cp two.npy s.npy.part.sums; mkdir s2.npy.sums s3.npy.part.sums;"
             "sparse() { printf '\\223NUMPY\\001\\000v\\000%-117s\\n' \"{'descr': '<f4', 'fortran_order': False, "
             "'shape': ($2), }\""
             " >$1; truncate -s $3 $1; };"
             "sparse tall.npy '4294967296, 1' 17179869312; sparse wide.npy '1, 1073741824' 4294967424"),
      0);
  static const struct {
    const char *arguments, *words;
  } bad[] = {{"a.npy", "two matrices are needed"},
             {"a.npy b.npy", "-o C.npy"},
             {"a.npy b.npy a.npy -o c.npy", "two matrices are needed"},
             {"none.npy b.npy -o c.npy", "No such file"},
             {"short.npy b.npy -o c.npy", "too short"},
             {"long.npy b.npy -o c.npy", "too long"},
             {"text.npy b.npy -o c.npy", "no .npy file"},
             {"folder b.npy -o c.npy", "no regular file"},
             {"pipe b.npy -o c.npy", "no regular file"}, /* at once: nobody writes into it */
             {"a.npy pipe -o c.npy", "no regular file"},
             {"f64.npy two.npy -o c.npy", "convert one of them"},
             {"int.npy two.npy -o c.npy", "take f8 f4 f2"},
             {"a.npy other.npy -o c.npy", "as many columns as B has rows"},
             {"other.npy two.npy -o other.npy", "written over the operand"},
             {"other.npy s.npy.sums -o s.npy", "written over the operand"},
             {"other.npy s.npy.part.sums -o s.npy", "written over the operand"},
             {"other.npy two.npy -o c.npy --report c.npy.sums", "write to another file"},
             {"other.npy two.npy -o c.npy --report c.npy.part.sums", "write to another file"},
             {"other.npy two.npy -o folder", "no regular file"},
             {"other.npy two.npy -o s2.npy", "s2.npy.sums: cannot be written: it is no regular file"},
             {"other.npy two.npy -o s3.npy", "s3.npy.part.sums: cannot be written: Is a directory"},
             {"other.npy two.npy -o none/c.npy", "No such file"},
             {"other.npy two.npy -o c.npy --mem-limit 12X", "--mem-limit takes bytes"},
             {"other.npy two.npy -o c.npy --mem-limit 1k", "the smallest plan ("},
             {"other.npy two.npy -o c.npy --strategy fast", "takes one of auto"},
             {"other.npy two.npy -o c.npy --algo winograd", "--algo"},
             {"other.npy two.npy -o c.npy --device tpu", "run on cpu and cuda:N"},
             {"other.npy two.npy -o c.npy --device cpu:0", "run on cpu and cuda:N"},
             {"other.npy two.npy -o c.npy --device cuda:-1", "there is no device 'cuda:-1'"},
             {"other.npy two.npy -o c.npy --device cuda:x", "there is no device 'cuda:x'"},
             {"other.npy two.npy -o c.npy --collinear", "there is no --errors"},
             {"other.npy two.npy -o c.npy --errors 2 --collinear --scattered", "exclude each other"},
             {"other.npy two.npy -o c.npy --report two.npy", "write to another file"},
             {"other.npy two.npy -o c.npy --report none/x.json", "none/x.json: cannot be written"},
             {"other.npy two.npy -o c.npy --report folder", "folder: cannot be written"},
             {"other.npy two.npy -o c.npy --timeline none/x.svg", "none/x.svg: cannot be written"},
             {"other.npy two.npy -o c.npy --trace none/x.json", "none/x.json: cannot be written"},
             {"other.npy two.npy -o c.npy --report x.json --trace ./x.json", "is what --report writes"},
             {"other.npy two.npy -o c.npy --trace x.svg --timeline x.svg", "is what --trace writes"},
             {"tall.npy wide.npy -o c.npy", "more bytes than a file can have"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    util_cli_expect(util_cli("matmul %s", bad[i].arguments), 2, bad[i].words);
    none_left();
  }
  util_cli_expect(util_cli("bench outofcore --m 64 --n 64 --k 64 --mem-limit 1M -o . --figures nowhere"), 2, "nowhere");
  if (rdt_cuda_count(NULL) == 0)
    util_cli_expect(util_cli("matmul other.npy two.npy -o c.npy --device cuda:0"), 3, "`redoubt info` says");
}

/* Sums of halves overflow, the product does not: it is right in the end, and no machine is blamed. */
static void test_overflowing_halves(void **state) {
  enum { LENGTH = 256 };
  (void)state;
  double *x = rdt_alloc(LENGTH * LENGTH, sizeof *x);
  assert_non_null(x);
  for (int i = 0; i < LENGTH * LENGTH; i++) x[i] = i / LENGTH % (LENGTH / 2) == 3 ? 2e38 : 1.0;
  util_npy_of("large.npy", RDT_F32, false, LENGTH, LENGTH, x);
  for (int i = 0; i < LENGTH * LENGTH; i++) x[i] = 1e-8;
  util_npy_of("small.npy", RDT_F32, false, LENGTH, LENGTH, x);
  rdt_free(x);
  util_cli_expect(util_cli("matmul large.npy small.npy -o c.npy --algo strassen --report large.json"), 0, "RECOMPUTED");
  util_cli_slurp("large.json");
  assert_non_null(strstr(util_cli_text, "\"unknown\""));
  assert_null(strstr(util_cli_text, "\"persistent\""));
  unlink("c.npy"), unlink("c.npy.sums");
}

/* Space that there is not is told before anything is computed. */
static void test_disk_full(void **state) {
  (void)state;
  char command[1024];
  unlink("c.npy");
  snprintf(command, sizeof command, "ulimit -f 100; trap '' XFSZ; %s matmul a.npy b.npy -o c.npy >full.txt 2>&1",
           UTIL_PROGRAM);
  assert_int_equal(WEXITSTATUS(system(command)), 2);
  util_cli_slurp("full.txt");
  assert_non_null(strstr(util_cli_text, "File too large"));
  none_left();
  assert_int_equal(access("c.npy", F_OK), -1);
  char one[208]; /* so that the first line of the list is the first thing that has no room */
  snprintf(one, sizeof one, "%0200d.npy", 1);
  rdt_free(util_npy(one, RDT_F32, false, 1, 1, 1));
  snprintf(command, sizeof command, "ulimit -f 1; trap '' XFSZ; %s matmul %s %s -o c.npy >full.txt 2>&1", UTIL_PROGRAM,
           one, one);
  assert_int_equal(WEXITSTATUS(system(command)), 2);
  util_cli_slurp("full.txt");
  assert_non_null(strstr(util_cli_text, "c.npy.part.sums: cannot be written: File too large"));
  none_left();
}

/* ---- crashes ---- */

static const char *limit(void) {
  return device ? "60M" : "500k";
}

static pid_t start(void) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (!freopen("/dev/null", "w", stdout)) _exit(9);
  execl(UTIL_PROGRAM, "redoubt", "matmul", "a.npy", "b.npy", "-o", "c.npy", "--mem-limit", limit(), "--strategy",
        "deferred", "--resume", "--device", device ? device : "cpu", "--threads", device ? "4" : "2", (char *)NULL);
  _exit(9);
}

/* When the list of sums was last written; 0: there is none, or nothing in it. */
static int64_t written(void) {
  struct stat st;
  if (stat("c.npy.part.sums", &st) != 0 || st.st_size == 0) return 0;
  return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

/* A GPU takes longer to begin than to multiply: until it has touched the list nothing is worth to be killed. */
static void wait_for_list(pid_t child, int64_t before) {
  const struct timespec moment = {0, 1000000};
  siginfo_t ended = {0};
  while (written() <= before && ended.si_pid == 0) {
    nanosleep(&moment, NULL);
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
  }
}

static int killings = 4; /* runs of test_killed */

/* Killed at any moment and gone on with, until it ends by itself: the bits are those of a run that was not. */
static void test_killed(void **state) {
  (void)state;
  unsigned moment = 1;
  int killed = 0;
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  util_cli_expect(util_cli("matmul a.npy b.npy -o d.npy --mem-limit %s --strategy deferred --device %s --threads %d",
                           limit(), device ? device : "cpu", device ? 4 : 2),
                  0, "CLEAN");
  clock_gettime(CLOCK_MONOTONIC, &end);
  long took = (long)(end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
  if (device) { /* the product alone */
    const char *text = strstr(util_cli_text, "took ");
    assert_non_null(text);
    took = (long)(1e9 * atof(text + 5));
  }
  for (int run = 0; run < killings || killed < killings; run++) {
    const int killed_before = killed;
    bool ended = false;
    unlink("c.npy");
    for (int again = 0; !ended; again++) {
      int code;
      const int64_t before = written();
      const pid_t child = start();
      assert_true(child > 0);
      moment = moment * 1103515245u + 12345u;
      const long now = took / 100 * ((long)(moment >> 8) % 80 + 10L * again);
      const struct timespec wait = {now / 1000000000, now % 1000000000};
      if (device) wait_for_list(child, before);
      nanosleep(&wait, NULL);
      kill(child, SIGKILL);
      assert_int_equal(waitpid(child, &code, 0), child);
      ended = WIFEXITED(code);
      if (ended) assert_int_equal(WEXITSTATUS(code), 0);
      killed += !ended;
    }
    assert_true(util_same_bytes("c.npy", "d.npy"));
    util_cli_expect(util_cli("verify c.npy"), 0, "are as they were written");
    none_left();
    if (killed == killed_before) took /= 2; /* others have left the machine since it was timed */
  }
  print_message("killed %d times, all products as if they had not been\n", killed);
}

static int64_t lines_of(const char *path) {
  int64_t n = 0;
  util_cli_slurp(path);
  for (const char *p = util_cli_text; (p = strchr(p, '\n')) != NULL; p++) n++;
  return n;
}

/* As a run leaves it that stopped after some blocks: finished ones are kept, all that is in doubt is computed again. */
static void leave_behind(const char *edit) {
  unlink("c.npy.part");
  unlink("c.npy.part.sums");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit 500k --strategy prefetch"), 0, "CLEAN");
  assert_int_equal(rename("c.npy", "c.npy.part"), 0);
  char command[256];
  snprintf(command, sizeof command, "%s <c.npy.sums >c.npy.part.sums; rm c.npy.sums", edit);
  assert_int_equal(system(command), 0);
}

static void test_resume(void **state) {
  (void)state;
  util_cli_expect(util_cli("matmul a.npy b.npy -o d.npy --mem-limit 500k --strategy prefetch"), 0, "CLEAN");
  leave_behind("head -n 6");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit 500k"), 2, "--resume goes on");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit 500k --resume"), 0, "resumed: 5 blocks");
  assert_true(util_same_bytes("c.npy", "d.npy"));
  const int64_t lines = lines_of("d.npy.sums");
  assert_int_equal(lines_of("c.npy.sums"), lines);
  leave_behind("head -c 1500"); /* a line is cut off */
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume"), 0, "resumed: ");
  assert_true(util_same_bytes("c.npy", "d.npy"));
  assert_int_equal(lines_of("c.npy.sums"), lines);
  leave_behind("head -n 6");
  assert_int_equal(system("printf '\\101' | dd of=c.npy.part bs=1 seek=200 conv=notrunc 2>/dev/null"), 0);
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume"), 0, "resumed: 4 blocks");
  assert_true(util_same_bytes("c.npy", "d.npy"));
  leave_behind("sed '3s/CLEAN/DUBIO/'");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume"), 2, "line 3 was changed");
  leave_behind("head -n 6");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume --mem-limit 100k"), 2, "too little to go on");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume --scheme none"), 2, "another --scheme");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume --algo strassen"), 2, "another --algo");
  assert_int_equal(system("touch -d '2001-01-01' a.npy"), 0);
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume"), 2, "A has changed since");
  leave_behind("head -n 6"); /* the unfinished result was deleted: an older one is not written over */
  assert_int_equal(
      system("rm c.npy.part; cp d.npy old.npy; cp old.npy c.npy; printf '\\101' | dd of=c.npy bs=1 seek=200 "
             "conv=notrunc 2>/dev/null; cp c.npy old.npy"),
      0);
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume"), 2, "c.npy.part is gone");
  assert_true(util_same_bytes("c.npy", "old.npy"));
  unlink("c.npy");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume"), 2, "c.npy.part is gone");
  leave_behind("cat"); /* between the last two names */
  assert_int_equal(rename("c.npy.part", "c.npy"), 0);
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume"), 0, "resumed: ");
  util_cli_expect(util_cli("verify c.npy"), 0, NULL);
  none_left();
}

/* A run that is stopped as soon as its result's file is there. */
static pid_t start_and_stop(void) {
  const struct timespec moment = {0, 100000};
  for (;;) {
    int code = 0;
    unlink("c.npy");
    const pid_t child = start();
    assert_true(child > 0);
    while (access("c.npy.part", F_OK) != 0 && access("c.npy", F_OK) != 0) nanosleep(&moment, NULL);
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &code, WUNTRACED), child);
    if (WIFSTOPPED(code) && access("c.npy.part", F_OK) == 0) return child;
    if (WIFSTOPPED(code)) { /* it had all but ended */
      kill(child, SIGCONT);
      assert_int_equal(waitpid(child, &code, 0), child);
    }
  }
}

/* Of two runs with the same result the first one has it; the other one touches nothing. */
static void test_two_at_once(void **state) {
  (void)state;
  int code;
  rdt_free(util_npy("x.npy", RDT_F32, false, M, K, 3));
  util_cli_expect(util_cli("matmul a.npy b.npy -o d.npy --mem-limit %s --strategy deferred --threads 2", limit()), 0,
                  "CLEAN");
  const pid_t first = start_and_stop();
  util_cli_expect(util_cli("matmul x.npy b.npy -o c.npy"), 2, "c.npy.part.sums: another process is writing it");
  util_cli_expect(util_cli("matmul x.npy b.npy -o c.npy --resume"), 2, "another process is writing it");
  kill(first, SIGCONT);
  assert_int_equal(waitpid(first, &code, 0), first);
  assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
  assert_true(util_same_bytes("c.npy", "d.npy"));
  util_cli_expect(util_cli("verify c.npy"), 0, NULL);
  none_left();
  util_cli_expect(util_cli("matmul x.npy b.npy -o c.npy"), 0, "CLEAN");
}

/* Blocks that several devices share have the bits of one; each line of the list says whose it is. */
/* The blocks of a product, as it was told. */
static void blocks_of(const char *out, int threads, const char *devices, int limit, char *text, size_t size) {
  util_cli_expect(util_cli("matmul a.npy b.npy -o %s --mem-limit %dk --strategy prefetch --threads %d --device %s", out,
                           limit, threads, devices),
                  0, "CLEAN");
  const char *begin = strstr(util_cli_text, "blocks of ");
  assert_non_null(begin);
  snprintf(text, size, "%s", begin);
  text[strcspn(text, ";")] = '\0';
}

/* Given the same blocks, the bits are those of one device. Which limits give the same ones depends on the kernel. */
static void test_devices(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu,cpu", "cpu,cpu,cpu"};
  for (int n = 2; n < 4; n++) {
    char one[64] = "", several[64] = "none";
    int limit = 500;
    for (; limit < 800 && strcmp(one, several) != 0; limit += 20) {
      blocks_of("d.npy", 1, "cpu", limit, one, sizeof one);
      blocks_of("c.npy", n, devices[n - 2], limit, several, sizeof several);
    }
    assert_string_equal(one, several);
    bool shared = false; /* whoever is quick takes what is next: on a busy machine the first takes all, at times */
    for (int tries = 0; tries < 10 && !shared; tries++) {
      util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit %dk --strategy prefetch --threads %d "
                               "--device %s --errors 9 --scattered --seed %d --trace t.json",
                               limit - 20, n, devices[n - 2], n),
                      0, "of C, on cpu: wrong, computed again");
      assert_true(util_same_bytes("c.npy", "d.npy"));
      util_cli_expect(util_cli("verify c.npy"), 0, NULL);
      util_cli_slurp("c.npy.sums");
      assert_non_null(strstr(util_cli_text, "\"device\":\"cpu\""));
      util_cli_slurp("t.json");
      shared = strstr(util_cli_text, "1: products") != NULL;
    }
    assert_true(shared);
  }
  leave_behind("head -n 6");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --resume --device cpu,cpu"), 0, "resumed: 5 blocks");
  util_cli_expect(util_cli("verify c.npy"), 0, NULL);
  static const struct {
    const char *devices, *words;
  } bad[] = {{"cpu,", "run on cpu and cuda:N"},
             {"cpu,tpu", "run on cpu and cuda:N"},
             {"cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", "more than 8 devices"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    util_cli_expect(util_cli("matmul a.npy b.npy -o e.npy --device %s", bad[i].devices), 2, bad[i].words);
  util_cli_expect(util_cli("matmul a.npy b.npy -o e.npy --device cpu,cuda:0"), 2, "of one kind");
  if (rdt_cuda_count(NULL) == 0)
    util_cli_expect(util_cli("matmul a.npy b.npy -o e.npy --device cuda:all"), 3, "`redoubt info` says");
  unlink("t.json");
}

/* ---- verify ---- */

static void test_verify(void **state) {
  (void)state;
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --mem-limit 500k --strategy simple"), 0, "CLEAN");
  util_cli_expect(util_cli("verify c.npy"), 0, "verdict then: CLEAN");
  /* the last element of all */
  assert_int_equal(
      system("printf '\\101' | dd of=c.npy bs=1 seek=$(($(stat -c %s c.npy) - 3)) conv=notrunc 2>/dev/null"), 0);
  util_cli_expect(util_cli("verify c.npy"), 1, "to 299, columns");
  assert_non_null(strstr(util_cli_text, "to 259, computed on cpu\n"));
  util_cli_expect(util_cli("verify c.npy --json"), 1, "\"changed\"");
  util_cli_expect(util_cli("verify d.npy.none"), 2, "cannot be opened");
  util_cli_expect(util_cli("verify a.npy"), 2, "has no sums beside it (a.npy.sums): `redoubt matmul` writes them");
  /* The last line of a block counts, as where --resume has computed it again; a line twice makes up for no other. */
  assert_int_equal(system("cp d.npy f.npy; (head -n -1 d.npy.sums; sed -n 2p d.npy.sums) >f.npy.sums"), 0);
  util_cli_expect(util_cli("verify f.npy"), 2, "blocks only");
  assert_int_equal(system("cp d.npy.sums f.npy.sums; sed -n 2p d.npy.sums >>f.npy.sums"), 0);
  const int64_t blocks = lines_of("d.npy.sums") - 1;
  char words[64];
  snprintf(words, sizeof words, "%d of %d blocks", (int)blocks, (int)blocks);
  util_cli_expect(util_cli("verify f.npy"), 0, words);
  assert_int_equal(system("head -n 4 c.npy.sums >x; mv x c.npy.sums"), 0);
  util_cli_expect(util_cli("verify c.npy"), 2, "has sums of 3 blocks only");
  assert_int_equal(system("echo text >c.npy.sums"), 0);
  util_cli_expect(util_cli("verify c.npy"), 2, "no list of sums");
  assert_int_equal(system("cp b.npy e.npy; cp d.npy.sums e.npy.sums"), 0);
  util_cli_expect(util_cli("verify e.npy"), 2, "of another matrix");
}

/* Pictures and traces of what was done when. */
static void test_timelines(void **state) {
  (void)state;
  unlink("c.npy");
  util_cli_expect(
      util_cli("matmul a.npy b.npy -o c.npy --mem-limit 500k --strategy concurrent --trace t.json --timeline "
               "t.svg"),
      0, "CLEAN");
  util_cli_slurp("t.json");
  for (int i = 0; i < 4; i++) {
    static const char *const in_it[] = {"\"measured: ", "\"predicted: ", "store of C, block 0, 0", "GFLOP_per_second"};
    if (!strstr(util_cli_text, in_it[i])) fail_msg("no %s in the trace", in_it[i]);
  }
  util_cli_slurp("t.svg");
  assert_non_null(strstr(util_cli_text, "load of B, block 0, 0: "));
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --trace b.npy"), 2, "--trace b.npy: is an operand");
  util_cli_expect(util_cli("matmul a.npy b.npy -o c.npy --timeline c.npy.sums"), 2, "or beside it");
  util_cli_expect(util_cli("bench outofcore --m 200 --n 100 --k 150 --mem-limit 600k -o . --figures ."), 0,
                  "by FLOP/B:");
  static const char *const pictures[] = {"timeline", "strategies", "roofline"};
  for (int i = 0; i < 3; i++) {
    char path[64];
    snprintf(path, sizeof path, "outofcore-%s.svg", pictures[i]);
    util_cli_slurp(path);
    assert_non_null(strstr(util_cli_text, "concurrent"));
    if (i == 0) assert_non_null(strstr(util_cli_text, "concurrent, predicted, its worst case: "));
    if (i == 0) assert_non_null(strstr(util_cli_text, "concurrent, predicted, its best case: "));
    unlink(path);
  }
  unlink("t.json");
  unlink("t.svg");
}

static void test_bench(void **state) {
  (void)state;
  util_cli_expect(util_cli("bench outofcore --m 200 --n 100 --k 150 --mem-limit 600k --errors 1 -o ."), 0,
                  "concurrent");
  util_cli_expect(
      util_cli("bench outofcore --m 100 --n 100 --k 100 --mem-limit 600k --strategy auto --dtype f16 --json"), 0,
      "redoubt.bench-outofcore/1");
  util_cli_expect(util_cli("bench outofcore --m 100 --n 100 --k 100 --dtype bf16"), 2, "one of f32|f64|f16,");
  util_cli_expect(util_cli("bench outofcore --m 100 --n 100 --k 100 --mem-limit 1k"), 2, "too little");
  assert_int_equal(system("test -z \"$(ls -d redoubt-outofcore-* 2>/dev/null)\""), 0);
}

/* [KILLINGS [DEVICE]]: with a device, nothing but products on it that are killed. */
int main(int argc, char **argv) {
  const struct CMUnitTest killed[] = {cmocka_unit_test(test_killed)};
  if (argc > 1) killings = atoi(argv[1]);
  if (argc > 2) device = argv[2];
  if (device) return cmocka_run_group_tests_name("outofcore files, killed", killed, begin, end);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_product),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_disk_full),
                                     cmocka_unit_test(test_two_at_once),
                                     cmocka_unit_test(test_killed),
                                     cmocka_unit_test(test_resume),
                                     cmocka_unit_test(test_devices),
                                     cmocka_unit_test(test_verify),
                                     cmocka_unit_test(test_timelines),
                                     cmocka_unit_test(test_bench),
                                     cmocka_unit_test(test_overflowing_halves)};
  return cmocka_run_group_tests_name("outofcore files", tests, begin, end);
}
