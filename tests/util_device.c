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
#define ROWS_6(name)                  \
  rdt_op_rows_##name(a, e, 0, 1, &f); \
  row = true;                         \
  break;
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

/* ---- attention ---- */

static const char *row_at(const rdt_attention_view *v, int b, int h, int r) {
  return (const char *)v->data + 2 * (b * v->batch + h * v->head + r * v->row);
}

static void attend(const rdt_gpu_attention *a, int b, int h, int q, double *p, char *result) {
  const rdt_dtype t = (rdt_dtype)a->dtype;
  const char *mask = a->mask.data ? row_at(&a->mask, b, h, q) : NULL;
  double most = -INFINITY, total = 0.0;
  for (int k = 0; k < a->keys; k++) {
    p[k] = 0.0;
    for (int d = 0; d < a->depth; d++)
      p[k] += rdt_load(row_at(&a->in[0], b, h, q), t, d) * rdt_load(row_at(&a->in[1], b, h, k), t, d);
    p[k] = (double)a->alpha * p[k] + (mask ? (double)a->beta * rdt_load(mask, t, k * a->mask_key) : 0.0);
    most = p[k] > most ? p[k] : most;
  }
  for (int k = 0; k < a->keys; k++) total += p[k] = exp(p[k] - most);
  for (int d = 0; d < a->depth; d++) {
    double y = 0.0;
    for (int k = 0; k < a->keys; k++) y += p[k] * rdt_load(row_at(&a->in[2], b, h, k), t, d);
    rdt_store(result, t, d, y / total);
  }
}

static uint64_t sum_of_operand(const rdt_gpu_attention *a, int which, int b, int h) {
  uint64_t sum = 0;
  for (int r = 0; r < (which ? a->keys : a->queries); r++) {
    const char *at = row_at(&a->in[which], b, h, r);
    sum += rdt_bitsum_apart(at, (size_t)(at - (const char *)a->read_base[which]), 2 * (size_t)a->depth);
  }
  return sum;
}

void util_device_attention(const rdt_gpu_attention *a) {
  double *p = malloc((size_t)a->keys * sizeof *p);
  const size_t bytes = 2 * (size_t)a->depth;
  char made[2 * RDT_ATTENTION_DEPTH];
  for (int b = 0; b < a->batches; b++)
    for (int h = 0; h < a->heads; h++) {
      for (int q = 0; q < a->queries; q++) {
        char *to = (char *)(uintptr_t)row_at(&a->out, b, h, q);
        attend(a, b, h, q, p, made);
        if (a->check == RDT_OP_COMPARES && memcmp(to, made, bytes) != 0) a->verdict->certain++, a->verdict->listed = 1;
        if (a->check == RDT_OP_STORES || a->check == RDT_OP_BOTH) memcpy(to, made, bytes);
        if (a->check != RDT_OP_STORES)
          *a->sum +=
              rdt_bitsum_apart(a->check == RDT_OP_COMPARES ? to : made, (size_t)(to - (const char *)a->base), bytes);
      }
      for (int w = 0; w < 3 && a->check != RDT_OP_STORES; w++)
        if (a->read[w]) *a->read[w] += sum_of_operand(a, w, b, h);
    }
  if (a->check != RDT_OP_STORES) *a->visits += (uint64_t)rdt_attention_blocks(a);
  free(p);
}
