/* A protected product: prepared once with its weights, executed, hit by a fault, repaired. Needs only the installed
 * library:  cc protect_gemm.c $(pkg-config --cflags --libs redoubt) */
#include <redoubt/redoubt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 64, N = 96, K = 128 };
static float a[M * K], b[K * N], clean[M * N], c[M * N];

static void on_event(const rdt_event *event, void *user) {
  (void)user;
  printf("event: %s\n", event->text);
}

int main(void) {
  rdt_context *ctx = NULL;
  rdt_plan *plan = NULL;
  rdt_result result;
  for (int i = 0; i < M * K; i++) a[i] = (float)(rand() % 1000) / 1000.0f - 0.5f;
  for (int i = 0; i < K * N; i++) b[i] = (float)(rand() % 1000) / 1000.0f - 0.5f;
  const rdt_tensor ta = rdt_tensor_matrix(a, RDT_F32, M, K, K, 0), tb = rdt_tensor_matrix(b, RDT_F32, K, N, N, 0);
  rdt_tensor tclean = rdt_tensor_matrix(clean, RDT_F32, M, N, N, 0), tc = rdt_tensor_matrix(c, RDT_F32, M, N, N, 0);

  rdt_status status = rdt_context_create(&ctx, 1);
  if (status == RDT_OK) rdt_context_on_event(ctx, on_event, NULL);
  if (status == RDT_OK) status = rdt_plan_gemm(ctx, &ta, &tb, &tc, &plan); /* packs b, prepares its checksums */
  if (status == RDT_OK) status = rdt_plan_execute(plan, &ta, &tclean, &result);
  if (status == RDT_OK)
    printf("undisturbed: %s, %lld checks\n", rdt_verdict_name(result.verdict), (long long)result.checks);
  if (status == RDT_OK) status = rdt_plan_inject(plan, "bit:30@accum,at=17/42"); /* the next execution is hit */
  if (status == RDT_OK) status = rdt_plan_execute(plan, &ta, &tc, &result);
  if (status == RDT_OK)
    printf("hit: %s (%s)\n", rdt_verdict_name(result.verdict), rdt_diagnosis_name(result.diagnosis));
  if (status != RDT_OK) fprintf(stderr, "%s: %s\n", rdt_status_name(status), ctx ? rdt_context_error(ctx) : "");
  rdt_plan_destroy(plan);
  rdt_context_destroy(ctx);
  const int same = memcmp(clean, c, sizeof c) == 0;
  printf("bit-identical: %s\n", same ? "yes" : "no");
  return status == RDT_OK && result.verdict == RDT_RECOMPUTED && same ? EXIT_SUCCESS : EXIT_FAILURE;
}
