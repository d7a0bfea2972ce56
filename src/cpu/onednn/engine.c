#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/onednn/onednn.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dnnl_engine_t the_engine;
static dnnl_status_t engine_status;

/* The override holds for the vendor's kernels too. */
static bool is_limited(void) {
  return getenv("REDOUBT_ISA") && rdt_isa_detect() < RDT_ISA_AVX512;
}

bool rdt_onednn_has_vnni(void) {
  return rdt_cpu_has_vnni() && !is_limited();
}

static void make_engine(void) {
  if (is_limited()) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
  engine_status = dnnl_engine_create(&the_engine, dnnl_cpu, 0);
}

rdt_status rdt_onednn_engine(dnnl_engine_t *engine, rdt_reason *why) {
  pthread_once(&once, make_engine);
  *engine = the_engine;
  return rdt_onednn_try(engine_status, "making the CPU engine", why);
}

const char *rdt_onednn_version(char *text, size_t size) {
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, size, "%d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

rdt_status rdt_onednn_try(dnnl_status_t s, const char *what, rdt_reason *why) {
  switch (s) {
    case dnnl_success:
      return RDT_OK;
    case dnnl_out_of_memory:
      return rdt_fail(why, RDT_ERR_NOMEM, "oneDNN, %s: out of memory", what);
    case dnnl_unimplemented:
      return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                      "oneDNN, %s: not implemented for these datatypes and strides on this CPU", what);
    case dnnl_invalid_arguments:
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "oneDNN, %s: refuses these shapes and strides", what);
    default:
      return rdt_fail(why, RDT_ERR_DEVICE, "oneDNN, %s: error %d", what, (int)s);
  }
}

dnnl_data_type_t rdt_onednn_type(rdt_dtype t) {
  switch (t) {
    case RDT_F32:
      return dnnl_f32;
    case RDT_BF16:
      return dnnl_bf16;
    case RDT_S8:
      return dnnl_s8;
    case RDT_U8:
      return dnnl_u8;
    case RDT_S32:
      return dnnl_s32;
    default:
      return dnnl_data_type_undef;
  }
}

rdt_status rdt_onednn_md(dnnl_memory_desc_t *md, const rdt_tensor *t, rdt_reason *why) {
  dnnl_dims_t dims, strides;
  const bool last = rdt_tensor_is_channels_last(t);
  const rdt_tensor canonical = last ? rdt_tensor_channels_last(NULL, t->dtype, t->rank, t->shape)
                                    : rdt_tensor_dense(NULL, t->dtype, t->rank, t->shape);
  const bool packed = last || rdt_tensor_is_dense(t);
  for (int d = 0; d < t->rank; d++) {
    if (t->shape[d] == 0) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "oneDNN computes nothing for zero-size dimensions");
    if (t->shape[d] > 1 && t->stride[d] <= 0) {
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "oneDNN takes no zero or negative strides");
    }
    dims[d] = t->shape[d];
    strides[d] = packed ? canonical.stride[d] : t->stride[d];
  }
  for (int d = t->rank - 1; d >= 0 && !packed; d--) { /* strides of single elements must still nest */
    if (dims[d] == 1) strides[d] = d + 1 < t->rank ? strides[d + 1] * dims[d + 1] : 1;
  }
  return rdt_onednn_try(dnnl_memory_desc_init_by_strides(md, t->rank, dims, rdt_onednn_type(t->dtype), strides),
                        "describing an operand", why);
}

rdt_status rdt_onednn_md_any(dnnl_memory_desc_t *md, const rdt_tensor *t, rdt_reason *why) {
  dnnl_dims_t dims;
  for (int d = 0; d < t->rank; d++) dims[d] = t->shape[d];
  return rdt_onednn_try(dnnl_memory_desc_init_by_tag(md, t->rank, dims, rdt_onednn_type(t->dtype), dnnl_format_tag_any),
                        "describing an operand", why);
}

rdt_onednn_list rdt_onednn_window(const int64_t list[RDT_MAX_SPATIAL], int64_t add) {
  rdt_onednn_list l = {{0}};
  for (int i = 0; i < RDT_MAX_SPATIAL; i++) l.of[i] = list[i] + add;
  return l;
}

void rdt_onednn_arg(rdt_onednn_plan *plan, int arg, rdt_onednn_source source, const dnnl_memory_desc_t *md) {
  plan->args[plan->n_args].arg = arg;
  plan->args[plan->n_args].source = source;
  plan->args[plan->n_args].md = *md;
  plan->n_args++;
}
