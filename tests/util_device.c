#include "util_device.h"

#include <stdlib.h>

#include "check/bitsum.h"
#include "cuda/ops/body.h"
#include "cuda/ops/ops.h"

static void add_found(const rdt_gpu_op *a, const rdt_op_found *f) {
  if (f->differ || f->wrong) {
    *(f->wrong ? &a->verdict->cannot : &a->verdict->certain) += f->differ + f->wrong;
    a->verdict->listed = 1;
    a->verdict->list[0] = (rdt_cuda_finding){.row = (int32_t)f->first, .column = -1, .rows = 1, .columns = 1};
  }
  if (a->check == RDT_OP_STORES) return;
  *a->sum += f->sum;
  *a->visits += (uint64_t)rdt_ops_blocks(a);
}

static void one_form(const rdt_gpu_op *a, rdt_op_found *found) {
  rdt_op_found f = *found;
  for (uint32_t e = 0; e < a->count; e++) {
    int64_t at = 0;
    uint64_t bits = 0;
    bool row = false;
    switch (a->kind) {
#define ROWS_0(name)                   \
  bits = rdt_op_##name(a, e, &at, &f); \
  break;
#define ROWS_1(name)             \
  rdt_op_##name(a, e, 0, 1, &f); \
  row = true;                    \
  break;
#define ROWS_2(name) ROWS_1(name)
#define ROWS_5(name) ROWS_1(name)
#define ROWS_3(name) ROWS_0(name)
#define ROWS_4(name) ROWS_0(name)
#define X(id, name, rows) \
  case RDT_OP_##id:       \
    ROWS_##rows(name)
#include "cuda/ops/kinds.def"
#undef X
      default:
        abort();
    }
    if (!row) rdt_op_take(a, &f, e, at, bits);
  }
  *found = f;
}

void util_device_op(const rdt_gpu_op *a) {
  rdt_op_found f = {.form = a->check == RDT_OP_BOTH ? RDT_OP_STORES : (rdt_op_form)a->check};
  one_form(a, &f);
  f.form = RDT_OP_AGAIN;
  if (a->check == RDT_OP_BOTH) one_form(a, &f);
  if (a->read && a->check != RDT_OP_STORES)
    *a->read += rdt_bitsum(a->view[1].data, (size_t)(a->count * a->inner) * (size_t)a->view[1].bytes);
  add_found(a, &f);
}

uint64_t util_device_part(const rdt_sum_part *p) {
  return rdt_op_part(p, 0, 1);
}

void util_device_close(const rdt_close_args *a) {
  *a->summary = rdt_op_count(a, 0, 1);
  rdt_op_tell(a, 0, 1);
  a->summary->visits = *a->visits;
}
