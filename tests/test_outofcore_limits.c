/* What a product of files may take, and what it may not rely on: memory within the limit as the system counts it, the
 * least limit, spans that are kept, operands that change meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "util_folder.h"
#include "util_product.h"

static char a_path[64], b_path[64], c_path[64];

static int begin(void **state) {
  if (util_folder_make(state) != 0) return -1;
  snprintf(a_path, sizeof a_path, "%.40s/a.npy", util_folder);
  snprintf(b_path, sizeof b_path, "%.40s/b.npy", util_folder);
  snprintf(c_path, sizeof c_path, "%.40s/c.npy", util_folder);
  return 0;
}

static rdt_context *context(int threads) {
  rdt_context *ctx;
  assert_int_equal(rdt_context_create(&ctx, threads), RDT_OK);
  return ctx;
}

static rdt_matmul_job job_of(rdt_strategy strategy, size_t limit) {
  return (rdt_matmul_job){
      .a = a_path, .b = b_path, .c = c_path, .mem_limit = limit, .strategy = strategy, .protected = true};
}

static void make_operands(int64_t m, int64_t n, int64_t k) {
  rdt_free(util_npy(a_path, RDT_F32, false, m, k, 1));
  rdt_free(util_npy(b_path, RDT_F32, false, k, n, 2));
}

/* ---- operands that change ---- */

typedef struct change {
  const char *path;
  bool longer; /* else in place */
  int calls;
} change;

static void change_it(void *user, double part, double gflops) {
  change *c = user;
  (void)part, (void)gflops;
  if (c->calls++ > 0) return;
  usleep(20000); /* a clock that counts files' times counts on */
  const int fd = open(c->path, O_WRONLY | (c->longer ? O_APPEND : 0));
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, "1234", 4, 200), 4);
  close(fd);
}

static bool there(const char *end) {
  char path[96];
  snprintf(path, sizeof path, "%s%s", c_path, end);
  return access(path, F_OK) == 0;
}

static void test_changed(void **state) {
  (void)state;
  rdt_context *ctx = context(2);
  for (int i = 0; i < 4; i++) {
    change c = {i / 2 ? b_path : a_path, i % 2, 0};
    rdt_matmul_result r;
    rdt_reason why = {""};
    make_operands(150, 131, 170);
    rdt_matmul_job job = job_of(RDT_STRATEGY_PREFETCH, 1000000);
    job.progress = change_it, job.user = &c;
    assert_int_equal(rdt_matmul(ctx, &job, &r, &why), RDT_ERR_IO);
    if (!strstr(why.text, c.path) || !strstr(why.text, "was changed while")) fail_msg("%s", why.text);
    assert_false(there("") || there(".sums") || there(".part") || there(".part.sums"));
  }
  rdt_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_changed)};
  return cmocka_run_group_tests_name("outofcore limits", tests, begin, util_folder_remove);
}
