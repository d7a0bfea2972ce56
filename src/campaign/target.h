/* What a campaign shoots at: a product, a convolution, a network. Each has a golden result from the reference path (the
 * plain-C kernels, in double precision where the op is one of floating point), not from the scheme under test. */
#ifndef RDT_CAMPAIGN_TARGET_H
#define RDT_CAMPAIGN_TARGET_H

#include <redoubt/model.h>

#include "campaign/mix.h"
#include "campaign/trial.h"
#include "plan/plan.h"

/* What one run came to. */
typedef struct rdt_shot {
  rdt_status status; /* RDT_OK, RDT_ERR_FAULT; another one, where a fault had struck: ended */
  char ended[160];   /* says what it was */
  rdt_verdict verdict;
  rdt_diagnosis diagnosis;
  int64_t checks, suspects, faults, unchecked;
  double ratio, residual, bound, floor; /* of the layer that was hit, else of the run */
  double floor_clean;                   /* of that layer without a fault; 0: not known */
  int layer;                            /* that was hit, or ran alone; -1 none */
  rdt_injection hit;
  bool same;     /* every bit of the result is that of a clean run */
  int64_t wrong; /* elements of the result that are further from the golden one than rounding can be */
  bool critical; /* in one of their rows, another element is the largest */
} rdt_shot;

typedef struct rdt_target_layer {
  char name[128], op[96], kernel[64], scheme[RDT_SCHEME_TEXT];
  const rdt_scheme_info *info;
  bool one_core; /* both of two copies are computed on one core: it is wrong twice, and nothing is claimed about it */
} rdt_target_layer;

typedef struct rdt_target rdt_target;
struct rdt_target {
  rdt_target_layer *layers;
  const char **names; /* of the layers, once more */
  int n_layers;
  rdt_spot *spots;
  int n_spots;
  int64_t inputs;            /* different ones: trials walk through them */
  double deviation;          /* of a clean result from the golden one, in units of what rounding can be */
  char device[96];           /* that computes; "": the CPU */
  char model[20], input[20]; /* sums over what its files hold, the external data among them; "": it has none */
  /* What it takes to judge a trial: data, a clean result, a golden one; where they are not there yet. */
  rdt_status (*prepare)(rdt_target *t, int64_t id, const char *spec, rdt_reason *why);
  /* The trial, prepared. spec NULL: nothing is planted. RDT_OK also where the run found a fault that it could not
   * repair, or ended in an error that a fault may have led to: shot->status. */
  rdt_status (*run)(rdt_target *t, int64_t id, const char *spec, rdt_shot *shot, rdt_reason *why);
  /* What a clean run takes, as it is and without protection: medians of some of each, in turns. */
  rdt_status (*time)(rdt_target *t, double seconds[2], rdt_reason *why);
  void (*destroy)(rdt_target *t);
};

/* "gemm:MxNxK[:DTYPE]", "conv:NxCxHxW:OxRxS[:sSTRIDE][:pPAD][:dDILATION][:gGROUPS][:DTYPE]",
 * or a workload "NAME[:BATCH][:DTYPE]", its layers */
bool rdt_target_is_op(const char *text);
bool rdt_target_says_dtype(const char *text); /* it has its DTYPE */
/* "gemm:MxNxK[:DTYPE]" as a problem without data. */
rdt_status rdt_target_gemm(const char *text, rdt_problem *p, rdt_reason *why);
/* Integers are over their whole range. */
typedef struct rdt_target_data {
  uint64_t seed;
  const char *family; /* NULL: normal numbers; one of families.h, or "all": each of them a layer */
  bool fresh;         /* runs without a fault draw their data anew */
} rdt_target_data;
/* The context stays the caller's; its policy keeps weights, and no suspects change the scheme. */
rdt_status rdt_target_op(rdt_context *ctx, const char *text, const rdt_target_data *data, rdt_target **out,
                         rdt_reason *why);
/* A product on the context's device, by the own kernel with the policy's scheme that has an injecting instantiation. */
rdt_status rdt_target_device(rdt_context *ctx, const char *text, const rdt_target_data *data, rdt_target **out,
                             rdt_reason *why);
/* How a network is run: the caller's session counts. */
typedef struct rdt_target_net {
  void *user;
  rdt_model **model;
  const rdt_tensor *inputs;
  size_t n_inputs;
  int64_t batch; /* images a trial, where the model leaves the first dimension open */
  const char *path;
  const char *const *named; /* initializers that the inputs replace */
  size_t n_named;
  rdt_status (*run)(void *user, int64_t id, const char *spec, const rdt_tensor *inputs, rdt_run_result *result,
                    rdt_reason *why);
} rdt_target_net;
rdt_status rdt_target_model(rdt_context *ctx, const rdt_target_net *net, rdt_target **out, rdt_reason *why);

void rdt_target_destroy(rdt_target *t); /* NULL is fine */

/* For those who make one: whether an error is what a fault came to that has struck (shot->hit), which is noted, or
 * stops the campaign: files, devices and signals know nothing of faults. */
bool rdt_target_ended(rdt_shot *shot, rdt_status status, const rdt_reason *why);

/* For those who make one on a device: refuses what does not strike one element, or all that a multiprocessor computes.
 */
rdt_status rdt_target_strikes_once(const rdt_fault *f, const char *spec, rdt_reason *why);

/* For those who make one: n empty layers; what one of them is, and every site that its plan has (NULL: none). */
rdt_status rdt_target_layers(rdt_target *t, int n, rdt_reason *why);
rdt_status rdt_target_layer_set(rdt_target *t, int i, const char *name, const char *op, const char *kernel,
                                const char *scheme, const rdt_plan *plan, rdt_reason *why);

/* Calls both kinds of runs in turns for a while: the medians of their seconds. */
rdt_status rdt_target_clock(rdt_status (*run)(void *user, bool protected, rdt_reason *why), void *user,
                            double seconds[2], rdt_reason *why);

/* judge.c: what a shot is for the campaign */
void rdt_trial_judge(const rdt_target *target, const rdt_shot *shot, rdt_trial *t);

#endif
