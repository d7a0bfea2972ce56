/* Tables of which a step reads some rows only (embeddings): a sum for each row, made with the plan, so that a run
 * verifies what it reads and not all there is. */
#include "check/bitsum.h"
#include "core/memory.h"
#include "net/constant.h"
#include "net/model.h"

enum { LEAST = 1 << 16 }; /* bytes: smaller tables are summed as a whole */

static int table_of(const rdt_step *s) {
  return s->model->graph->nodes[s->subject].in[0];
}

static size_t row_bytes(const rdt_tensor *table) {
  return (size_t)table->stride[0] * rdt_dtype_size(table->dtype);
}

rdt_status rdt_rows_make(rdt_step *s, rdt_reason *why) {
  const rdt_tensor *table = &s->prob.in[0];
  if (s->kind != RDT_STEP_NODE || s->prob.op != RDT_KOP_GATHER || s->prob.n_in != 2 || s->prob.ints[0] != 0)
    return RDT_OK;
  const rdt_value *value = &s->model->graph->values[table_of(s)];
  if (!value->data || table->data != value->data || !rdt_tensor_is_dense(table) || value->bytes < LEAST) return RDT_OK;
  if (s->plan->scheme->id == RDT_SCHEME_NONE ||
      s->model->layout.alias[s->model->graph->nodes[s->subject].in[1]] == table_of(s))
    return RDT_OK;
  s->row_sums = rdt_alloc((size_t)table->shape[0], sizeof *s->row_sums);
  if (!s->row_sums) return rdt_fail(why, RDT_ERR_NOMEM, "node %s: out of memory for sums of rows", s->plan->name);
  const size_t bytes = row_bytes(table);
#pragma omp parallel for num_threads(s->model->ctx->threads) schedule(static)
  for (int64_t r = 0; r < table->shape[0]; r++)
    s->row_sums[r] = rdt_bitsum((const char *)table->data + (size_t)r * bytes, bytes);
  /* of the table as the file has it */
  return rdt_constant_is_good(s->model->graph, table_of(s))
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_FAULT, "weight %s has changed in memory while planning: plan again", value->name);
}

bool rdt_rows_guard(const rdt_step *s, int v) {
  return s->row_sums && v == table_of(s);
}

bool rdt_rows_are_good(const rdt_step *s) {
  const rdt_tensor *table = &s->prob.in[0];
  const size_t bytes = row_bytes(table);
  rdt_tensor index = s->prob.in[1]; /* a view of the output's shape: each index once */
  for (int d = 0; d < index.rank; d++)
    if (index.stride[d] == 0 && index.shape[d] > 1) index.shape[d] = 1;
  rdt_iter it = rdt_iter_begin(&index);
  while (rdt_iter_next(&it)) {
    int64_t r = rdt_load_int(index.data, index.dtype, it.offset);
    r += r < 0 ? table->shape[0] : 0;
    if (r < 0 || r >= table->shape[0]) continue; /* the kernel refuses it */
    if (rdt_bitsum((const char *)table->data + (size_t)r * bytes, bytes) != s->row_sums[r]) return false;
  }
  return true;
}
