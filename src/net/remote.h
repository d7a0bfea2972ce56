/* A network on a device: what remote.c plans, remote_run.c runs and remote_mend.c repairs.
 *
 * The device's block of activations mirrors the host's byte by byte: a problem is lowered once and its addresses are
 * translated. No two values share memory, so all that a run computed is there until the next one. Each piece of memory
 * at rest has a slot: the sum that it should have, formed when it was written, and the sum that it has when the run
 * ends. What the device cannot do, the step's plan does on the host, with copies to and fro. */
#ifndef RDT_NET_REMOTE_H
#define RDT_NET_REMOTE_H

#include "cuda/machine.h"
#include "cuda/ops/attention.h"
#include "net/model.h"

typedef struct rdt_remote_step {
  rdt_problem prob;        /* with the device's addresses */
  rdt_cuda_linear *linear; /* or */
  rdt_gpu_op *ops;         /* of an op that is no product; n_ops may be 0: there is nothing to compute */
  int n_ops;
  bool here, host;                 /* on the device; by its plan; neither: nothing is left to run */
  const rdt_cuda_verdict *verdict; /* on the device; NULL: none */
  int slot;                        /* of what it writes; -1: none */
  int64_t blocks;                  /* of a linear op's check, which forms the sum of what it writes; 0: it does not */
  int part, n_parts;               /* that form the sum when it is written; none: what checks the op does */
  int rest, n_rest;                /* of memory that nobody reads after this step: what is there then */
  int reads[2]; /* slots of in[0] and the residual, where the check forms the sums of what was read; -1: it does not */
  int group;    /* of the remote's groups; -1: none */
  uint64_t *rows; /* on the device: sums of its table's rows, compared as they are read; NULL: it has none */
  bool doubt;     /* the host's copy of what it has read is not what the device has summed */
  double seconds, seconds_check; /* as rdt_model_time_layers took them; 0: nobody has asked */
  char refusal[200];             /* why the device does not compute it */
} rdt_remote_step;

/* Steps that are one launch (remote_group.c), in their order: it takes the place of the last one. Attention, or a chain
 * of linear layers. */
enum { RDT_GROUP_STEPS = RDT_CUDA_MLP_LAYERS };
typedef struct rdt_remote_group {
  int steps[RDT_GROUP_STEPS], n;
  rdt_cuda_mlp *mlp; /* or, where that is NULL, */
  rdt_gpu_attention op;
  int reads[3]; /* slots whose sums the launch forms of what it reads, by operand; -1: of none */
  /* Parts that are summed at the end of a run in which the steps go one by one: the same sums; what lies between. */
  int rest, inner, end_rest;
} rdt_remote_group;
static inline int rdt_remote_end(const rdt_remote_group *g) {
  return g->steps[g->n - 1];
}

/* Memory that is on both sides. */
typedef struct rdt_mirror {
  char *host, *there;
  size_t bytes;
  int value; /* constant, or folded; -1: the activations */
  int slot;
  bool covered; /* the checks of all its readers notice a change */
} rdt_mirror;

/* Dense inputs or outputs of a run, in memory that both sides may copy to and from at any time. */
typedef struct rdt_carrier {
  char *host, *there;
  size_t bytes, *at; /* where each begins */
} rdt_carrier;

typedef struct rdt_answer { /* the first of the board: visits; and what comes back from a run, to the host: summary */
  rdt_summary summary;
  uint64_t visits;
  uint64_t room[4];
} rdt_answer;

struct rdt_remote {
  rdt_model *model;
  rdt_machine *machine;
  rdt_remote_step *steps; /* as the model's */
  rdt_mirror *mirrors;    /* the activations first */
  int n_mirrors;
  rdt_remote_group *groups;
  int n_groups;
  char *constants; /* on the device, one block */
  rdt_carrier in, out;
  /* Slots: outputs, inputs, activations; constants, of which those that no check covers are verified by every run. */
  int n_slots, n_written, n_always;
  char *board; /* on the device: rdt_answer, then the sums expected and those found, by slot */
  size_t board_bytes;
  uint64_t *known;                /* on the device: the sums of constants, by slot */
  rdt_cuda_verdict *verdicts;     /* on the device, by step: of those that are no products */
  rdt_slot *slots;                /* on the device */
  const rdt_cuda_verdict **asked; /* on the device */
  int n_asked;
  /* On the device: of what every run verifies, by the step that reads it last; of outputs; of what checks sum
   * themselves; of all constants; then what steps write, and those of groups whose steps go one by one. Ends of each.
   */
  rdt_sum_part *parts;
  int parts_rest, parts_run, parts_always, parts_slots;
  rdt_answer *answer;   /* pinned, with the sums of the outputs behind it */
  uint64_t *input_sums; /* pinned */
  int64_t runs;
  bool protected, hybrid; /* hybrid: some steps are the host's */
  bool mending;
  bool timing;         /* step by step, each with its checks behind it */
  void *tape;          /* of a whole run; NULL: not recorded yet */
  int pending, issued; /* steps from pending on, before issued, are not checked yet */
  int target;          /* step that an armed fault strikes; -1: none */
};
typedef struct rdt_remote rdt_remote;

uint64_t *rdt_remote_expected(const rdt_remote *r, int slot); /* on the device */
uint64_t *rdt_remote_found(const rdt_remote *r, int slot);

/* What networks of the context run on from now on; it takes m. NULL: the CPU. */
void rdt_context_take_machine(rdt_context *ctx, rdt_machine *m);

/* remote.c: for a model whose steps have their problems. */
rdt_status rdt_remote_plan(rdt_model *m, rdt_reason *why);
void rdt_remote_free(rdt_remote *r);
/* Where host memory lies on the device; NULL: it is nobody's. */
void *rdt_remote_there(const rdt_remote *r, const void *host);
const char *rdt_remote_kernel(const rdt_remote *r, int step); /* NULL: not on the device */
const char *rdt_remote_scheme(const rdt_remote *r, int step);

/* remote_group.c */
/* After the steps were made: which of them are one launch. */
rdt_status rdt_remote_find_groups(rdt_remote *r, rdt_reason *why);
/* The group of step i; NULL: it is in none, or its steps go one by one, as a fault is planted between them. */
const rdt_remote_group *rdt_remote_group_of(const rdt_remote *r, int step);
bool rdt_remote_absorbed(const rdt_remote *r, int step); /* it is in a group, and not the last */
/* Does the step, or the group that is issued with it, read value? */
bool rdt_remote_reads(const rdt_remote *r, int step, int value);
const rdt_cuda_verdict *rdt_remote_verdict(const rdt_remote *r, int step); /* of what is issued; NULL: none */
/* Step i ends a group that reads all of what step k has written once: its launch forms the sum of that. */
bool rdt_remote_group_sums(rdt_remote *r, int i, int k);
rdt_gpu_attention rdt_remote_group_task(const rdt_remote *r, const rdt_remote_group *g); /* of attention */
/* The launch, with a second evaluation of this form; of a chain, which has its checks inside, all that there is. */
rdt_status rdt_remote_group_launch(rdt_remote *r, rdt_lane lane, const rdt_remote_group *g, rdt_op_form form,
                                   rdt_reason *why);
int64_t rdt_remote_group_blocks(const rdt_remote *r, const rdt_remote_group *g); /* that count themselves */
const rdt_cuda_verdict *rdt_remote_group_verdict(const rdt_remote *r, const rdt_remote_group *g);
/* What the launch has made of fixed weights, once more; where it has any. */
rdt_status rdt_remote_group_renew(rdt_remote *r, const rdt_remote_group *g, rdt_reason *why);
rdt_status rdt_remote_group_on_host(rdt_remote *r, const rdt_remote_group *g, rdt_reason *why);
/* The sums of a table's rows, from the host's copy: of a step that has them. Waits. */
rdt_status rdt_remote_sum_rows(rdt_remote *r, int step, rdt_reason *why);

/* remote_run.c */
rdt_status rdt_remote_run(rdt_remote *r, const rdt_tensor *inputs, rdt_reason *why);
/* The caller's inputs to the device, with their sums. */
rdt_status rdt_remote_carry(rdt_remote *r, const rdt_tensor *inputs, rdt_reason *why);
/* One step and what checks it, on the device, or by its plan on the host. */
rdt_status rdt_remote_issue(rdt_remote *r, int step, rdt_reason *why);
rdt_cuda_linear_task rdt_remote_task(const rdt_remote *r, const rdt_remote_step *s); /* of a linear step */
/* Checks all that was issued; the main lane waits for it. */
rdt_status rdt_remote_catch_up(rdt_remote *r, rdt_reason *why);
rdt_status rdt_remote_by_plan(rdt_remote *r, int step, rdt_reason *why); /* on the host */
rdt_status rdt_remote_on_host(rdt_remote *r, int step, rdt_reason *why); /* and the group that it ends */
/* Checks what waits for it; sums of the outputs, or of all that every run verifies, and the comparison of all, while
 * the outputs go to the host; what comes back. */
rdt_status rdt_remote_close(rdt_remote *r, bool all, rdt_reason *why);
/* Before a run: the answer of the one before is none. */
void rdt_remote_forget(rdt_remote *r);
/* After wait: is all that came back in order? counted: have all blocks checked that check in a run? */
bool rdt_remote_is_clean(const rdt_remote *r, bool counted);
/* The outputs to where the caller finds them; false: they are not what the device has summed. */
bool rdt_remote_publish(rdt_remote *r);
/* Constants: which are not as they should be, by mirror. Waits. */
rdt_status rdt_remote_scrub(rdt_remote *r, bool *changed, rdt_reason *why);

/* The slot of a value that a step writes; -1: none does. */
int rdt_remote_slot(const rdt_remote *r, int value);

/* remote_plant.c: chooses the step for an armed fault; strikes when its moment has come. */
typedef enum rdt_moment { RDT_BEFORE, RDT_WRITTEN, RDT_CHECKED } rdt_moment;
rdt_status rdt_remote_arm(rdt_remote *r, rdt_reason *why);
rdt_status rdt_remote_plant(rdt_remote *r, int step, rdt_moment when, rdt_reason *why);

bool rdt_remote_has_site(const rdt_remote *r, int step, rdt_site site);
/* The weights of a linear step, among the constants; NULL: it has none. */
const rdt_mirror *rdt_remote_weights(const rdt_remote *r, int step);

/* remote_effect.c: after a run in which nobody noticed the fault at the site weight or accum that had struck: how many
 * elements of its step's result were others (0: none), the error as the step's check sees it, and twice the bound from
 * which on that check complains (0: it never does). Results on the device are not those of a run afterwards. */
rdt_status rdt_remote_effect(rdt_remote *r, rdt_injection *hit, double *floor, rdt_reason *why);

/* remote_time.c: of a run that takes times, before a step (0), behind it (1), behind its checks (2). */
rdt_status rdt_remote_mark(const rdt_remote *r, int step, int which, rdt_reason *why);

/* remote_mend.c: after a complaint; and a constant that has changed on the device, from the host's copy. */
rdt_status rdt_remote_mend(rdt_remote *r, const rdt_tensor *inputs, rdt_reason *why);
rdt_status rdt_remote_restore(rdt_remote *r, int mirror, rdt_reason *why);

#endif
