#include "outofcore/backend.h"

#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cpu/kernel.h"
#include "cpu/threads.h"

static rdt_status problem_of(const rdt_block_product *p, rdt_problem *prob) {
  RDT_TRY(rdt_problem_init(prob, RDT_KOP_GEMM, 2));
  prob->in[0] = p->a;
  prob->in[1] = p->b;
  prob->out = p->c;
  prob->in[0].data = prob->in[1].data = prob->out.data = NULL;
  prob->acc = rdt_dtype_accumulator(p->a.dtype);
  if (!p->add) return RDT_OK;
  prob->epilogue.residual = prob->out;
  prob->epilogue.beta = 1.0;
  return RDT_OK;
}

/* Own kernels: all of their memory is known beforehand, and their bits depend on nothing but the operands. */
static const rdt_kernel *kernel_for(const rdt_context *ctx, const rdt_problem *prob, bool other) {
  int n;
  rdt_reason why;
  const rdt_kernel *const *all = rdt_cpu_kernels(&n);
  for (int i = 0; i < n && !other; i++)
    if (all[i]->op == prob->op && !all[i]->black_box && all[i]->isa <= ctx->isa && all[i]->accept(prob, &why) == RDT_OK)
      return all[i];
  return rdt_cpu_reference(prob);
}

static rdt_status open_kernel(const rdt_context *ctx, const rdt_block_product *p, bool other, int threads,
                              const rdt_kernel **k, void **state, rdt_reason *why) {
  rdt_problem prob;
  rdt_status status = problem_of(p, &prob);
  if (status == RDT_OK) {
    *k = kernel_for(ctx, &prob, other);
    status = (*k)->create(&prob, threads, state, why);
  } else {
    rdt_fail(why, status, "out of memory for a product of blocks");
  }
  rdt_problem_clear(&prob);
  return status;
}

static rdt_status cpu_workspace(const rdt_context *ctx, const rdt_block_product *p, int threads, size_t *bytes,
                                rdt_reason *why) {
  const rdt_kernel *k;
  void *state;
  *bytes = 0;
  RDT_TRY(open_kernel(ctx, p, false, threads, &k, &state, why));
  if (k->scratch) *bytes = k->scratch(state, NULL);
  k->destroy(state);
  return RDT_OK;
}

static rdt_status cpu_multiply(const rdt_context *ctx, const rdt_block_product *p, bool other, int threads,
                               void *workspace, rdt_reason *why) {
  const rdt_kernel *k;
  void *state;
  rdt_epilogue e = RDT_EPILOGUE_NONE;
  const rdt_tensor in[2] = {p->a, p->b};
  const rdt_operands o = {.in = in, .n_in = 2, .out = p->c, .epilogue = p->add ? &e : NULL};
  if (p->add) e.residual = p->c, e.beta = 1.0;
  RDT_TRY(open_kernel(ctx, p, other, threads, &k, &state, why));
  if (k->scratch && !other) k->scratch(state, workspace);
  const int before = rdt_threads_enter(threads);
  const rdt_status status = k->run(state, &o, why);
  rdt_threads_leave(before);
  k->destroy(state);
  return status;
}

static void *cpu_alloc(size_t bytes) {
  return rdt_alloc(bytes, 1);
}

static const rdt_backend backends[] = {{.name = "cpu",
                                        .copies = true,
                                        .alloc = cpu_alloc,
                                        .release = rdt_free,
                                        .load = rdt_matrix_read,
                                        .store = rdt_matrix_write,
                                        .workspace = cpu_workspace,
                                        .multiply = cpu_multiply,
                                        .sums = rdt_sums_run,
                                        .seal = rdt_bitsum_shared,
                                        .seal_part = rdt_bitsum_apart}};

const rdt_backend *rdt_backend_find(const char *device) {
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
    if (strcmp(backends[i].name, device) == 0) return &backends[i];
  return NULL;
}
