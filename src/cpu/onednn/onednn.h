/* What the oneDNN rows share: one engine a process, memory descriptors from views, and a state that runs one primitive.
 * Each row only says how its primitive descriptor is made. */
#ifndef RDT_CPU_ONEDNN_H
#define RDT_CPU_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "cpu/kernel.h"

enum { RDT_ONEDNN_ARGS = 6 };

/* Where the buffer of an argument comes from at run time. */
typedef enum rdt_onednn_source { RDT_FROM_X, RDT_FROM_W, RDT_FROM_OUT, RDT_FROM_BIAS } rdt_onednn_source;

typedef struct rdt_onednn_plan {
  dnnl_primitive_desc_t pd;
  int n_args;
  struct {
    int arg;
    rdt_onednn_source source;
    dnnl_memory_desc_t md;
  } args[RDT_ONEDNN_ARGS];
  bool has_weights;                    /* in[1] is reordered into what the primitive prefers: */
  dnnl_memory_desc_t user_w, packed_w; /* from, to */
} rdt_onednn_plan;

/* Makes plan->pd and the list of arguments; attr has post-ops and scratchpad mode set. Plain status: the caller cleans
 * up. */
typedef rdt_status rdt_onednn_build_fn(const rdt_problem *p, const dnnl_primitive_attr_t attr, rdt_onednn_plan *plan,
                                       rdt_reason *why);

/* Engine, made at the first call; its threads are the caller's OpenMP setting. */
rdt_status rdt_onednn_engine(dnnl_engine_t *engine, rdt_reason *why);
bool rdt_onednn_has_vnni(void); /* may it take what the CPU has? */
/* "3.1.1" of the library that is loaded. */
const char *rdt_onednn_version(char *text, size_t size);
/* OK, or the status and text of a failure: UNSUPPORTED, NOMEM or DEVICE. */
rdt_status rdt_onednn_try(dnnl_status_t s, const char *what, rdt_reason *why);
dnnl_data_type_t rdt_onednn_type(rdt_dtype t); /* undef: it has none */
/* A view as it lies; strides of dimensions of length 1 are made canonical, as oneDNN compares them. */
rdt_status rdt_onednn_md(dnnl_memory_desc_t *md, const rdt_tensor *t, rdt_reason *why);
rdt_status rdt_onednn_md_any(dnnl_memory_desc_t *md, const rdt_tensor *t, rdt_reason *why);
/* A list of a window as oneDNN declares it: of 12, of which it reads one a spatial dimension. */
typedef struct rdt_onednn_list {
  dnnl_dims_t of;
} rdt_onednn_list;
rdt_onednn_list rdt_onednn_window(const int64_t list[RDT_MAX_SPATIAL], int64_t add);
void rdt_onednn_arg(rdt_onednn_plan *plan, int arg, rdt_onednn_source source, const dnnl_memory_desc_t *md);

/* Shared bodies of the rows' functions. */
rdt_status rdt_onednn_accept(const rdt_problem *p, rdt_onednn_build_fn *build, rdt_reason *why);
/* Of a linear op whose operands both have this datatype. */
rdt_status rdt_onednn_accept_linear(const rdt_problem *p, rdt_onednn_build_fn *build, rdt_dtype t, rdt_reason *why);
/* images = 1: p as it is. images > 1: p is one image of that many, which lie p's outermost strides apart; each thread
 * executes whole images and reads each input once before, in order. */
rdt_status rdt_onednn_create(const rdt_problem *p, rdt_onednn_build_fn *build, int64_t images, int threads,
                             void **state, rdt_reason *why);
rdt_status rdt_onednn_run(void *state, const rdt_operands *o, rdt_reason *why);
rdt_status rdt_onednn_pack(void *state, const rdt_tensor *w, rdt_reason *why);
void rdt_onednn_packed(void *state, void **data, size_t *bytes, rdt_dtype *dtype);
/* The state, made for one primitive (images 1), runs on a dense copy of this channels-last view of in[0]. */
void rdt_onednn_from(void *state, const rdt_tensor *view);
size_t rdt_onednn_scratch(void *state, void *memory);
void rdt_onednn_destroy(void *state);

/* The row of a linear op; the file has accept_<dtype> and create. */
#define RDT_ONEDNN_LINEAR_ROW(kop, word, dtype)                                                \
  const rdt_kernel rdt_kernel_##word##_##dtype##_onednn = {.name = #word "_" #dtype "_onednn", \
                                                           .op = RDT_KOP_##kop,                \
                                                           .isa = RDT_ISA_AVX2,                \
                                                           .black_box = true,                  \
                                                           .deterministic = true,              \
                                                           .accept = accept_##dtype,           \
                                                           .create = create,                   \
                                                           .run = rdt_onednn_run,              \
                                                           .pack = rdt_onednn_pack,            \
                                                           .packed = rdt_onednn_packed,        \
                                                           .scratch = rdt_onednn_scratch,      \
                                                           .destroy = rdt_onednn_destroy};

#endif
