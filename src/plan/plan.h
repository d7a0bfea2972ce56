/* A plan inside the house: one op with its kernel, scheme and checksums. rdt_gemm, rdt_plan_* and every node of a
 * network go through here. */
#ifndef RDT_PLAN_PLAN_H
#define RDT_PLAN_PLAN_H

#include <redoubt/plan.h>

#include "check/recover.h"
#include "check/vault.h"
#include "core/context.h"
#include "cpu/kernel.h"
#include "inject/fault.h"
#include "plan/book.h"
#include "schemes/fused_check.h"
#include "schemes/scheme.h"

/* Who owns the data at rest that a plan reads: the network's executor, or nobody. */
typedef struct rdt_host {
  void *self;
  /* Verifies what the node reads against its sums, restores what has changed and has the plan reloaded. Weights that
   * the plan's scheme covers are left out unless all. */
  rdt_status (*secure)(void *self, bool all, rdt_rest *rest, rdt_reason *why);
} rdt_host;

/* What an armed fault did. */
typedef struct rdt_injection {
  bool done;
  rdt_site site;
  char node[128];
  int64_t element;
  double before, after;
  int bit;         /* the highest that was flipped; -1 none */
  bool reason;     /* recovery has one: the first result was hit */
  int64_t turns;   /* how often a core that is wrong now and then was asked */
  int64_t changed; /* elements of the op's raw result that differ from the same run without the fault; -1 not known */
  double error;    /* the largest difference among them; |after - before| where not known */
  double weighted; /* the largest weighted sum of the differences in a check: what the checks can see; NaN not known */
  double left;     /* the largest difference after the repair; -1 not known: the outputs' bits tell */
  double left_weighted; /* the largest weighted sum of those in a check; NaN not known */
  bool rebuilt;         /* verdict CORRECTED */
  bool alike;           /* two of three copies have the same wrong bits */
  double stated;        /* the bound that was stated; else the floor: a repair does not see what lies below */
  char text[320];
} rdt_injection;

/* How often of late the suspects of a run turned out to be rounding. */
typedef struct rdt_doubts {
  int64_t runs, rounding;
} rdt_doubts;

struct rdt_plan {
  /* as planned, sealed in frame */
  rdt_context *ctx;
  rdt_problem prob;                 /* as asked for, with epilogue */
  const rdt_kernel *kernel, *other; /* other: the reference, the recovery's other code path */
  void *state, *twin;               /* twin: of a duplicated op, so that both copies may run at the same time */
  const rdt_scheme_info *scheme;
  int sets;                          /* of independent checks */
  char scheme_name[RDT_SCHEME_TEXT]; /* "row:2" */
  rdt_fused_check *fused;            /* the kernel sums as it goes; NULL: the scheme's own passes check */
  int threads;                       /* of this op: one where it is too small to share */
  bool fixed_weights;
  bool kernel_fuses; /* the scheme's check rides along in the kernel */
  bool finish;       /* unprotected, but the kernel takes no such epilogue: it follows apart */
  bool raw_is_out;   /* rdt_plan_raw_is_out, and */
  rdt_tensor raw;    /* rdt_raw_view of prob: each run asks */
  uint64_t weight_seal;
  void *kept; /* weights: prob.in[1] is a copy of source, the caller's; NULL: it is the caller's */
  rdt_tensor source;
  rdt_host host;
  int64_t n_owned; /* of the parts in frame, the last ones: its owner's */
  /* from here on it may change */
  void *sums; /* scheme state; of a fused check made when the ladder first needs it */
  void *other_state;
  rdt_context *ctx_again;  /* to say that the plan is lost */
  rdt_vault frame, tables; /* both verified on schedule and on complaint: frame before it is used */
  char name[128];          /* node, or op */
  char label[96];          /* "Conv+Relu", or op */
  uint64_t packed_seal, sums_seal;
  uint64_t out_seal; /* bit-sum of the last run's result, */
  bool out_sealed;   /* if it was formed beside a check of that result */
  int64_t runs;
  bool checkpoints; /* its data needs them: T2 was suspect where T3 was not */
  rdt_doubts doubts;
  const rdt_fault *fault;  /* armed for the next execution */
  const rdt_fault *broken; /* a core that computes wrongly for now */
  rdt_fault own_fault;     /* of rdt_plan_inject */
  rdt_fault reason;        /* for recovery, where it is what the armed fault hits */
  rdt_injection *injection, own_injection;
  const void *known; /* a campaign's: the raw result without a fault for the input at hand; NULL: not known */
};

/* Takes a copy of prob. in[1].data of a linear op set: fixed weights. host may be NULL. */
rdt_status rdt_plan_create(rdt_context *ctx, const rdt_problem *prob, const char *name, const char *label,
                           const rdt_host *host, rdt_plan **out);
/* The same with a scheme, or "auto", whatever the context's policy asks for. */
rdt_status rdt_plan_create_as(rdt_context *ctx, const char *scheme, const rdt_problem *prob, const char *name,
                              const char *label, const rdt_host *host, rdt_plan **out);
/* One way of rdt_offers_list: whatever would be chosen. */
rdt_status rdt_plan_create_way(rdt_context *ctx, const rdt_way *way, const rdt_problem *prob, const char *name,
                               const rdt_host *host, rdt_plan **out);
/* Seals the plan, and with it what its owner has beside it that never changes either (n parts; may be NULL). */
rdt_status rdt_plan_seal(rdt_plan *p, const rdt_part *owned, int n);
bool rdt_plan_is_due(const rdt_plan *p); /* all that is at rest is to be verified before the next run */
/* An experiment that is to come out alike whenever it is made: as if the plan had run so often, and had found out
 * nothing about its data on the way but this. */
void rdt_plan_rewind(rdt_plan *p, int64_t runs, bool checkpoints);
/* The plan and its copy changed: nothing of it can be trusted, not even to say so with an event. RDT_ERR_FAULT */
rdt_status rdt_plan_lost(rdt_plan *p, rdt_result *result);
/* Operands in prob's shapes. */
rdt_status rdt_plan_run(rdt_plan *p, const rdt_operands *o, rdt_result *result);
/* Packs weights and makes checksums again, after the weights were restored. */
rdt_status rdt_plan_reload(rdt_plan *p, rdt_reason *why);
/* Does this plan have the site? (a linear op has accumulators, a kernel with packed weights has those, ...; no plan
 * has none) */
bool rdt_plan_has_site(const rdt_plan *p, rdt_site site);

bool rdt_plan_takes(const rdt_plan *p, const rdt_fault *f); /* the site, and three copies where the fault is of those */

/* kept.c: a copy of the caller's weights takes their place; it is made again from them. false: there is none, or they
 * have changed too. */
rdt_status rdt_plan_keep_weights(rdt_plan *p);
bool rdt_plan_restore_weights(rdt_plan *p);

/* The scheme's state, made from the weights if it is not there yet. */
rdt_status rdt_plan_sums(rdt_plan *p, rdt_reason *why);
/* Checksums, and packed weights if all or if no check covers them, against their seals; made again from the weights
 * where they have changed. */
rdt_status rdt_plan_secure_own(rdt_plan *p, bool all, rdt_rest *rest, rdt_reason *why);
size_t rdt_plan_packed_bytes(const rdt_plan *p); /* of all copies; 0 for no plan */
/* Weights as a state of the kernel has packed them, and checksums of the check that is made at every run; NULL: none.
 */
void *rdt_plan_packed(const rdt_plan *p, void *kernel_state, size_t *bytes, rdt_dtype *dtype);
void *rdt_plan_checksums(const rdt_plan *p, size_t *bytes, rdt_dtype *dtype);
/* The scheme's checksums once more from the weights: have they been others? made false: it keeps none. */
rdt_status rdt_plan_resum(rdt_plan *p, bool *made, bool *changed, rdt_reason *why);
void rdt_plan_plant_at_rest(rdt_plan *p, rdt_reason *why); /* a fault in weight, packed or checksum */

/* Where the kernel writes: the result itself (no epilogue, packed, accumulator's dtype), or a packed buffer beside it.
 */
bool rdt_plan_raw_is_out(const rdt_plan *p);

/* cores.c: around the calls of the library, threads keep away from the cores that the policy avoids. */
rdt_status rdt_cores_enter(rdt_context *ctx);
void rdt_cores_leave(rdt_context *ctx);

/* api.c: rdt_gemm with a fault planted; input and output: in what C held, before the product and after */
rdt_status rdt_gemm_struck(rdt_context *ctx, double alpha, const rdt_tensor *a, const rdt_tensor *b, double beta,
                           rdt_tensor *c, rdt_result *result, const char *fault);

/* select.c: kernel and scheme for a problem: that way, or else by name or as "auto" chooses. */
rdt_status rdt_plan_select(rdt_plan *p, const char *scheme, const rdt_way *way, rdt_reason *why);
/* The candidates of a problem, and the one that a plan takes; o->words says whether their texts are wanted. */
void rdt_offers_choose(const rdt_context *ctx, const rdt_problem *p, const char *scheme, rdt_offers *o);
/* Does the context's book have a choice for it, and is that what is taken? *choice: its scheme; NULL: it has none. */
bool rdt_offers_planned(const rdt_context *ctx, const rdt_problem *p, const char *scheme, const char **choice);
/* explain.c: every candidate with times and reasons; of a plan as it is now */
void rdt_offers_tell(const rdt_offers *o, rdt_choice_fn fn, void *user);
int rdt_offers_baseline(const rdt_offers *o); /* the fastest that is not protected; -1: none was measured */
rdt_status rdt_plan_explain(const rdt_plan *p, rdt_choice_fn fn, void *user);

/* fallback.c: counts what a run has found; above the policy's suspect rate the plan becomes one that computes twice,
 * and an event says so. After a run, when nothing refers to the plan's parts any more. */
void rdt_plan_watch(rdt_plan *p, const rdt_result *result);

/* plant.c: the armed fault */
bool rdt_plan_armed(const rdt_plan *p, rdt_site site);
/* Into an element of a view: by its place in memory where it is packed, else by its logical number. */
void rdt_plan_plant(rdt_plan *p, rdt_site site, const rdt_tensor *t);
/* The second one of two copies that are hit: struck has the first one's fault already, of the same shape. */
void rdt_plan_plant_second(rdt_plan *p, const rdt_tensor *struck, const rdt_tensor *t);
/* Several faults at once, or a lane that is wrong: into a raw result, which must be there, as into that of a black box.
 */
bool rdt_plan_plants_several(const rdt_plan *p);
/* false: nothing armed for that site, or the kernel has no injecting instantiation */
bool rdt_plan_kernel_hit(const rdt_plan *p, rdt_site site, rdt_kernel_hit *hit);
/* The same inside of what recovery computes with a kernel that sums as it goes, into out. */
bool rdt_plan_recovery_hit(const rdt_plan *p, const rdt_tensor *out, rdt_kernel_hit *hit);
void rdt_plan_reason(rdt_plan *p); /* before a run that an armed fault is for: makes ready what recovery needs */
/* A fault in what checks: findings carry it through a check, and afterwards it is booked. */
void rdt_plan_strike(const rdt_plan *p, rdt_findings *f, rdt_strike *s);
void rdt_plan_struck(rdt_plan *p, rdt_findings *f);
void rdt_plan_plant_plan(rdt_plan *p); /* in what frame and tables seal */
void rdt_plan_plant_words(rdt_plan *p, rdt_site site, void *words, int n, rdt_dtype dtype);
/* For a kernel that sums as it goes: a broken core strikes inside of it. false: no core is broken */
bool rdt_plan_core_hit(const rdt_plan *p, rdt_kernel_hit *hit);
/* What a broken core has computed with kernel k is wrong: one element of its first share; where nobody knows the
 * shares, threads are taken to share the rows evenly. Of a lane: all that went through it, as far as k has vectors. */
void rdt_plan_core_strike(rdt_plan *p, const rdt_kernel *k, const rdt_tensor *raw, const rdt_shares *s,
                          const int *cores, int n);
void rdt_plan_book_hit(rdt_plan *p, const rdt_kernel_hit *hit);
void rdt_plan_book_effect(rdt_plan *p, const rdt_operands *o, const rdt_tensor *clean, const rdt_tensor *faulty);
/* The largest weighted sum of the errors in a check of the plan; NaN where it cannot be asked. */
double rdt_plan_weigh(rdt_plan *p, const rdt_operands *o, const rdt_tensor *clean, const rdt_tensor *faulty);

/* tile.c: the part of the raw result that suspects name; false: all of it, or a black box */
typedef struct rdt_tile {
  int64_t from[2], length[2];
} rdt_tile;
bool rdt_plan_tile(const rdt_plan *p, const rdt_findings *f, rdt_tile *tile);
struct rdt_where; /* plan/cores.h */
rdt_status rdt_plan_compute_tile(const rdt_plan *p, struct rdt_where *w, const rdt_operands *o, const rdt_tile *tile,
                                 rdt_reason *why);
/* A kernel with its checks once more, and where the same suspects are there again, with checkpoints. rounding: then
 * there are none. */
rdt_status rdt_plan_fuse_again(const rdt_plan *p, struct rdt_where *w, const rdt_fused_check *check, void *state,
                               const rdt_operands *o, rdt_fused *sums, rdt_findings *f, bool *rounding,
                               rdt_reason *why);
/* The same for a tile, into the result itself. differ: an epilogue did */
rdt_status rdt_plan_fuse_tile(const rdt_plan *p, struct rdt_where *w, const rdt_operands *o, const rdt_tile *tile,
                              rdt_findings *f, bool *differ, bool *rounding, rdt_reason *why);
/* The form of checkpoints, where the kernel has them and the scheme's checks take them; else 0. */
unsigned rdt_plan_checkpoints(const rdt_plan *p);

/* correct.c: raw results o->out rebuilt from row and column checksums, and checked again by both */
rdt_status rdt_plan_rebuild(const rdt_plan *p, const rdt_operands *o, rdt_rebuilt *b, rdt_reason *why);
/* What is left of a planted fault: packed raw results with the same strides. */
void rdt_plan_book_left(rdt_plan *p, const rdt_operands *o, const rdt_tensor *clean, const rdt_tensor *now);

/* place.c: row and column, as checks name them, of an element by its index, or by its logical number */
void rdt_place_of(const rdt_problem *prob, const rdt_tensor *t, const int64_t *index, int64_t place[2]);
void rdt_place_at(const rdt_problem *prob, int64_t logical, int64_t place[2]);
/* In the words of the op: rows and columns of a product, pixels and channels of a convolution */
void rdt_place_text(const rdt_problem *p, const int64_t place[2], char *text, size_t size);

/* Packed tensors with the same strides, compared bit by bit */
/* bitsum (may be NULL): that of a's memory, formed in the same pass */
int64_t rdt_tensors_differ(const rdt_tensor *a, const rdt_tensor *b, int threads, int64_t *first, uint64_t *bitsum);
/* Of the element at an offset in memory; strides are positive and nothing overlaps. */
void rdt_tensor_index(const rdt_tensor *t, int64_t offset, int64_t *index);
size_t rdt_tensor_bytes(const rdt_tensor *t);               /* of a packed one */
uint64_t rdt_tensor_seal(const rdt_tensor *t, int threads); /* bit-sum of the elements, whatever the strides */

#endif
