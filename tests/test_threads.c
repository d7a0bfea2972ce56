/* Two contexts in two threads share nothing that is written: run under ThreadSanitizer by scripts/test. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <redoubt/redoubt.h>

enum { N = 64, ROUNDS = 10 };

typedef struct job {
  int seed;
  float c[N * N];
  int failures;
} job;

/* Each thread: its own context (one OpenMP thread: libgomp's barriers are unknown to the sanitizer), plan, network. */
static void *work(void *arg) {
  job *j = arg;
  float *a = malloc(sizeof(float) * N * N), *b = malloc(sizeof(float) * N * N);
  rdt_context *ctx = NULL;
  rdt_plan *plan = NULL;
  rdt_model *model = NULL;
  rdt_result r;
  rdt_run_result run;
  float *pixels = calloc(64, sizeof *pixels);
  const int64_t square[2] = {N, N}, digit[4] = {1, 1, 8, 8};
  for (int i = 0; i < N * N; i++)
    a[i] = (float)((i * 7 + j->seed) % 13) - 6.0f, b[i] = (float)((i * 5 + j->seed) % 11) - 5.0f;
  const rdt_tensor ta = rdt_tensor_dense(a, RDT_F32, 2, square), tb = rdt_tensor_dense(b, RDT_F32, 2, square);
  rdt_tensor tc = rdt_tensor_dense(j->c, RDT_F32, 2, square);
  const rdt_tensor image = rdt_tensor_dense(pixels, RDT_F32, 4, digit);
  j->failures += rdt_context_create(&ctx, 1) != RDT_OK;
  j->failures += rdt_plan_gemm(ctx, &ta, &tb, &tc, &plan) != RDT_OK;
  j->failures += rdt_model_load(ctx, TEST_DATA "/examples/digits/digits.onnx", &model) != RDT_OK;
  for (int i = 0; j->failures == 0 && i < ROUNDS; i++) {
    j->failures += i % 2 && rdt_plan_inject(plan, "bit:30@accum,seed=3") != RDT_OK;
    j->failures += rdt_plan_execute(plan, &ta, &tc, &r) != RDT_OK;
    j->failures += r.verdict != (i % 2 ? RDT_RECOMPUTED : RDT_CLEAN);
    j->failures += rdt_gemm(ctx, 1.0, &ta, &tb, 0.0, &tc, &r) != RDT_OK;
    j->failures += rdt_model_run(model, &image, 1, &run) != RDT_OK;
    j->failures += run.verdict != RDT_CLEAN;
  }
  rdt_model_free(model);
  rdt_plan_destroy(plan);
  rdt_context_destroy(ctx);
  free(a), free(b), free(pixels);
  return NULL;
}

static void contexts_are_independent(void **state) {
  static job jobs[3] = {{.seed = 1}, {.seed = 2}, {.seed = 1}};
  pthread_t threads[2];
  (void)state;
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  work(&jobs[2]);
  for (int i = 0; i < 3; i++) assert_int_equal(jobs[i].failures, 0);
  assert_memory_equal(jobs[0].c, jobs[2].c, sizeof jobs[0].c); /* another thread beside it changed no bit */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(contexts_are_independent)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
