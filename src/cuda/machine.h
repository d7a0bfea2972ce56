/* What running a network asks of a device, as functions: a GPU's (rdt_machine_open), or a test's, which computes with
 * the same bodies on the CPU. Work is given to two lanes, each in its own order: the network to one, checks to the
 * other. */
#ifndef RDT_CUDA_MACHINE_H
#define RDT_CUDA_MACHINE_H

#include "cuda/kernel.h"
#include "cuda/linear.h"
#include "cuda/mlp.h"
#include "cuda/ops/args.h"
#include "cuda/sms.h"
#include "cuda/thrice.h"
#include "cuda/voted.h"

typedef enum rdt_lane { RDT_LANE_MAIN, RDT_LANE_SIDE, RDT_LANES } rdt_lane;

typedef struct rdt_machine rdt_machine;
struct rdt_machine {
  rdt_cuda_device device;
  /* Memory of the device, zeroed; of the host, where copies may go beside work. */
  rdt_status (*alloc)(rdt_machine *m, size_t bytes, void **p, rdt_reason *why);
  void (*release)(rdt_machine *m, void *p);
  rdt_status (*pin)(rdt_machine *m, size_t bytes, void **p, rdt_reason *why);
  void (*unpin)(rdt_machine *m, void *p);
  /* In the lane's order; what the host gives must stay until wait, which waits for both lanes. */
  rdt_status (*put)(rdt_machine *m, rdt_lane l, void *to, const void *from, size_t bytes, rdt_reason *why);
  rdt_status (*get)(rdt_machine *m, rdt_lane l, void *to, const void *from, size_t bytes, rdt_reason *why);
  rdt_status (*clear)(rdt_machine *m, rdt_lane l, void *p, size_t bytes, rdt_reason *why);
  rdt_status (*wait)(rdt_machine *m, rdt_reason *why);
  /* What lane l is given from now on waits for what the other one has been given until now. */
  rdt_status (*follow)(rdt_machine *m, rdt_lane l, rdt_reason *why);
  /* args by code: rdt_gpu_op, rdt_sums_args, rdt_close_args, rdt_gpu_attention. */
  rdt_status (*launch)(rdt_machine *m, rdt_lane l, int code, const void *args, int64_t blocks, rdt_reason *why);
  /* Linear ops (cuda/linear.h): launched in the main lane, checked in the other one. */
  rdt_status (*linear_create)(rdt_machine *m, const rdt_problem *p, const char *scheme, double lambda,
                              rdt_cuda_linear **l, rdt_reason *why);
  rdt_status (*linear_launch)(rdt_machine *m, const rdt_cuda_linear_task *t, rdt_reason *why);
  rdt_status (*linear_check)(rdt_machine *m, const rdt_cuda_linear_task *list, int n, rdt_reason *why);
  rdt_status (*linear_renew)(rdt_machine *m, rdt_cuda_linear *l, const void *weights, rdt_reason *why);
  int64_t (*linear_blocks)(const rdt_cuda_linear *l);
  unsigned (*linear_reads)(const rdt_cuda_linear *l);
  bool (*linear_inside)(const rdt_cuda_linear *l);
  const rdt_cuda_verdict *(*linear_verdict)(const rdt_cuda_linear *l);
  const char *(*linear_kernel)(const rdt_cuda_linear *l);
  const char *(*linear_scheme)(const rdt_cuda_linear *l);
  void (*linear_destroy)(rdt_cuda_linear *l);
  /* Chains of them as one launch (cuda/mlp.h), in the main lane; NULL: it has none. steps: the same one by one, made
   * ready; RDT_ERR_UNSUPPORTED also where these, with their checks, were faster. */
  rdt_status (*mlp_create)(rdt_machine *m, const rdt_problem *const *p, rdt_cuda_linear *const *steps, int n,
                           const rdt_cuda_mlp_form *form, rdt_cuda_mlp **c, rdt_reason *why);
  rdt_status (*mlp_launch)(rdt_machine *m, const rdt_cuda_mlp *c, const void *x, void *out, rdt_box_sum_to to,
                           rdt_reason *why);
  rdt_status (*mlp_renew)(rdt_machine *m, const rdt_cuda_mlp *c, const void *const *weights, rdt_reason *why);
  int64_t (*mlp_blocks)(const rdt_cuda_mlp *c);
  rdt_cuda_verdict *(*mlp_verdict)(const rdt_cuda_mlp *c);
  const char *(*mlp_kernel)(const rdt_cuda_mlp *c);
  const char *(*mlp_scheme)(const rdt_cuda_mlp *c);
  void (*mlp_destroy)(rdt_cuda_mlp *c);
  /* Own products for campaigns (cuda/kernel.h), fixed weights, so many checks of a row. gemm_run: struck by its
   * injecting instantiation, or as it is shipped (NULL); waits, and says what was found. on: a stream of
   * votes_stream; NULL: that of the main lane. */
  rdt_status (*gemm_create)(rdt_machine *m, const rdt_cuda_kernel *k, const rdt_problem *p, int sets, double lambda,
                            rdt_cuda_gemm **g, rdt_reason *why);
  rdt_status (*gemm_run)(rdt_machine *m, rdt_cuda_gemm *g, const rdt_operands *o, rdt_cuda_strike *strike,
                         rdt_cuda_verdict *found, void *on, rdt_reason *why);
  void (*gemm_destroy)(rdt_cuda_gemm *g);
  /* Copies of a result to vote on (cuda/thrice.h): copies 1 and 2 are made where votes_copy says; apart: each on
   * multiprocessors of its own, those of votes_stream. vote: waits; hit: of the vote itself, NULL: as it is shipped. */
  rdt_status (*votes_create)(rdt_machine *m, const rdt_tensor *out, bool apart, rdt_thrice **t, rdt_reason *why);
  void *(*votes_stream)(const rdt_thrice *t, int copy);
  void *(*votes_copy)(const rdt_thrice *t, int copy, const void *out);
  rdt_status (*vote)(rdt_machine *m, rdt_thrice *t, void *out, rdt_vote_hit *hit, rdt_thrice_ballot *b,
                     rdt_reason *why);
  void (*votes_destroy)(rdt_thrice *t);
  /* Products whose copies vote on the way (cuda/voted.h), launched in the main lane as they are shipped, or struck by
   * the instantiation that takes a fault; voted_read and voted_strike wait. */
  rdt_status (*voted_create)(rdt_machine *m, const rdt_problem *p, int team, int votes, rdt_voted **v, rdt_reason *why);
  int (*voted_votes)(const rdt_voted *v);
  rdt_status (*voted_launch)(rdt_machine *m, rdt_voted *v, const rdt_operands *o, rdt_reason *why);
  rdt_status (*voted_strike)(rdt_machine *m, rdt_voted *v, const rdt_operands *o, rdt_voted_hit *hit, rdt_reason *why);
  rdt_status (*voted_read)(rdt_machine *m, rdt_voted *v, rdt_thrice_ballot *b, rdt_vote_found *found, rdt_reason *why);
  void (*voted_destroy)(rdt_voted *v);
  rdt_status (*sms_open)(rdt_machine *m, rdt_sms **s, rdt_reason *why); /* to see which multiprocessor is wrong */
  /* A mark in the lane's order, by number; after wait: seconds between two of them. */
  rdt_status (*mark)(rdt_machine *m, rdt_lane l, int number, rdt_reason *why);
  rdt_status (*between)(rdt_machine *m, int from, int to, double *seconds, rdt_reason *why);
  /* Between record and recorded, nothing is done but written down: *tape does all of it at once, again and again. */
  rdt_status (*record)(rdt_machine *m, rdt_reason *why);
  rdt_status (*recorded)(rdt_machine *m, void **tape, rdt_reason *why);
  rdt_status (*replay)(rdt_machine *m, void *tape, rdt_reason *why);
  void (*erase)(rdt_machine *m, void *tape);
  void (*close)(rdt_machine *m);
};

/* Errors: as rdt_cuda_open. */
rdt_status rdt_machine_open(int index, rdt_machine **m, rdt_reason *why);

#endif
