// Kernels that ship, each with one thing broken in its PTX: a wait that is left out, a number, an address. The emulated
// GPU has to notice, by a message or by a result that is not the kernel's; whole, they compute what they should. Each
// in a process of its own.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "gpu/gpu.h"
#include "race.h"
#include "runtime.h"

enum { M = 200, N = 264, K = 456, BYTES = M * (N + 8) * 2 + 64 };

typedef struct damage {
  const char *kernel, *find, *to;
  bool races;        // the look for races notices, which nothing else has to
  const char *says;  // the message has it; NULL: it may be a wrong result, too
} damage;

static const char WIDE[] = "gemm_f16_wgmma_128x128pp_none", CLUSTER[] = "gemm_f16_wgmma_256x128_none",
                  WARPS[] = "gemm_f16_mma_64x64_none", CHECKED[] = "gemm_f16_wgmma_128x128pp_tile",
                  SHARED[] = "gemm_f16_wgmma_128x128pp_none";  // tiles of so few multiprocessors that two have one
static const damage list[] = {
    // wgmma is waited for
    {WIDE, "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 7;", false, NULL},
    // the stage that TMA fills is waited for: each wait is over at once
    {WIDE, "again: mbarrier.try_wait", "bra go; again: mbarrier.try_wait", false, NULL},
    {CLUSTER, "again: mbarrier.try_wait", "bra go; again: mbarrier.try_wait", false, NULL},
    // copies of cp.async are waited for; stages are others' before all have read them
    {WARPS, "cp.async.wait_group ", "cp.async.wait_group 1", false, NULL},
    {WARPS, "bar.sync", "bar.arrive 1, 128; //", true, NULL},
    // what a warp wrote is fenced before TMA stores it
    {WIDE, "fence.proxy.async.shared::cta;", "// .proxy.async.shared::cta", true, "fence"},
    // an address beyond the matrix
    {WARPS, "cvta.to.global.u64", "neg.s64", false, "outside of what was allocated"},
    // an instruction that nobody knows
    {WARPS, "shl.b32", "shl.b33", false, "shl.b33"},
    // the sums of columns are compared with the rows'
    {CHECKED, "sub.f32", "add.f32", false, NULL},
    // what one block has summed of a tile is handed over to the one that goes on with it
    {SHARED, "st.global.v4.f32", "// .global.v4.f32", false, NULL},
};

static const damage *now;
static int broken;  // places, in all objects

static char *edit(char *text) {
  const char *family = strstr(now->kernel, "_wgmma_") ? ".entry _Z10gemm_wgmma" : ".entry _Z8gemm_mma";
  if (!now->find || !strstr(text, family)) return text;
  const size_t length = strlen(now->find), more = strlen(now->to);
  int count = 0, changed = 0;
  for (const char *at = text; (at = strstr(at, now->find)); at += length) count++;
  char *out = malloc(strlen(text) + (size_t)count * more + 1), *end = out;
  for (char *at = text;;) {
    char *next = strstr(at, now->find);
    const size_t kept = next ? (size_t)(next - at) : strlen(at);
    memcpy(end, at, kept), end += kept;
    if (!next) break;
    memcpy(end, now->to, more), end += more, changed++;
    at = next + length;
  }
  *end = 0;
  broken += changed;
  free(text);
  return out;
}

typedef struct shared {  // by the child, for its parent
  char message[4096];
  unsigned char result[BYTES];
  bool found;
} shared;

static void multiply(shared *to, const char *name) {
  rdt_cuda_device d;
  rdt_reason why = {""};
  gpu_case c;
  rdt_cuda_gemm *g;
  rdt_cuda_verdict v;
  uint64_t seed = 3;
  const gpu_shape s = {.m = M, .n = N, .k = K, .in = RDT_F16, .out = RDT_F16, .alpha = 1.0, .data = GPU_NORMAL};
  gpu_must(rdt_cuda_open(0, &d, &why), "cuda:0", &why);
  gpu_case_make(&c, &s, &seed, false);
  c.p.in[1].data = c.in[1].data;
  if (name == SHARED) d.sms = 4;
  gpu_must(rdt_cuda_gemm_create(rdt_cuda_kernel_find(name), &d, &c.p, 6.0, 2, NULL, &g, &why), name, &why);
  if (name == SHARED && rdt_cuda_gemm_splits(g) != 2) _exit(6);
  gpu_case_poison(&c);
  rdt_status status = rdt_cuda_gemm_run(g, &c.o, NULL, &why);
  if (status == RDT_OK) status = rdt_cuda_gemm_verdict(g, NULL, &v, &why);
  if (status == RDT_OK) {
    gpu_case_fetch(&c);
    if (c.bytes[2] > BYTES) _exit(8);
    memcpy(to->result, c.host[2], c.bytes[2]);
    to->found = v.suspect | v.certain | v.cannot;
  }
  if (status != RDT_OK) exit(1);
}

static shared *told;
static void tell(int status, void *user) {  // what came before the process gave up
  (void)user;
  if (status != 0) snprintf(told->message, sizeof told->message, "%s", em_message());
}

// 0, or what the process ended with.
static int run(const damage *x, const char *kernel, shared *to) {
  memset(to, 0, sizeof *to);
  fflush(stdout), fflush(stderr);
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(7);
    now = x, told = to;
    on_exit(tell, NULL);
    em_race_on = x->races;
    multiply(to, kernel);
    exit(x->find && !broken ? 9 : 0);  // 9: there is nothing to break any more
  }
  int status = -1;
  assert_true(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static void test_broken(void **state) {
  (void)state;
  shared *to = mmap(NULL, sizeof *to, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  static unsigned char whole[BYTES];
  assert_true(to != MAP_FAILED);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    const damage *x = &list[i], none = {.kernel = x->kernel, .races = x->races};
    assert_int_equal(run(&none, x->kernel, to), 0);
    assert_string_equal(to->message, "");
    assert_false(to->found);
    memcpy(whole, to->result, sizeof whole);
    const int ended = run(x, x->kernel, to);
    const bool other = memcmp(whole, to->result, sizeof whole) != 0;
    print_message("%s, %s: %s%s\n", x->kernel, x->find,
                  to->message[0] ? to->message
                  : other        ? "another result"
                                 : "the same",
                  to->found ? ", found by its check" : "");
    if (ended >= 7 || (!ended && !to->message[0] && !other && !to->found) || (x->says && !strstr(to->message, x->says)))
      fail_msg("%s, %s for %s: ended with %d, message '%s', %s result", x->kernel, x->to, x->find, ended, to->message,
               other ? "another" : "the same");
  }
  (void)munmap(to, sizeof *to);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_broken)};
  em_edit = edit;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
