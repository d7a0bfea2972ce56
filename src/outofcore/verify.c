/* Blocks of a finished file against the sums that were written with it. */
#include <inttypes.h>
#include <string.h>

#include "core/memory.h"
#include "outofcore/ledger.h"
#include "outofcore/matmul.h"

typedef struct verifying {
  const rdt_matrix *c;
  char *buffer;
  void (*fn)(void *user, const rdt_verified *v);
  void *user;
  rdt_verify_result *r;
} verifying;

static rdt_status verify_block(void *user, const rdt_ledger_head *head, const rdt_ledger_block *b, rdt_reason *why) {
  verifying *x = user;
  const rdt_matrix *c = x->c;
  uint64_t sum;
  if (c->dtype != head->dtype || c->rows != head->m || c->cols != head->n || c->fortran)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: its list of sums is of another matrix: %" PRId64 " x %" PRId64 " %s",
                    c->path, head->m, head->n, rdt_dtype_name(head->dtype));
  const rdt_task shape = {.m = head->m, .n = head->n, .k = head->k};
  rdt_verified v = {.i = b->i, .j = b->j, .part = rdt_part_of_c(&shape, &head->splits, b->i, b->j)};
  RDT_TRY(rdt_matrix_sum(c, &v.part, x->buffer, RDT_ARRANGED_BUFFER, &sum, why));
  v.ok = sum == b->sum;
  x->r->blocks++;
  x->r->bad += !v.ok;
  x->r->bytes += (double)(v.part.rows * v.part.cols) * (double)rdt_dtype_size(c->dtype);
  if (b->verdict > x->r->verdict) x->r->verdict = b->verdict;
  if (x->fn) x->fn(x->user, &v);
  return RDT_OK;
}

rdt_status rdt_matmul_verify(const char *path, void (*fn)(void *user, const rdt_verified *v), void *user,
                             rdt_verify_result *result, rdt_reason *why) {
  rdt_matrix c;
  rdt_ledger_head head;
  int64_t whole;
  *result = (rdt_verify_result){.verdict = RDT_CLEAN};
  RDT_TRY(rdt_matrix_open(path, &c, why));
  const size_t n = strlen(path);
  char *sums = rdt_alloc(n + 6, 1);
  verifying x = {&c, rdt_alloc(RDT_ARRANGED_BUFFER, 1), fn, user, result};
  rdt_status status = sums && x.buffer ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) {
    memcpy(sums, path, n);
    memcpy(sums + n, ".sums", 6);
    status = rdt_ledger_read(sums, &head, verify_block, &x, &whole, why);
  }
  if (status == RDT_OK) {
    const int64_t all = rdt_blocks_of(head.m, head.splits.m) * rdt_blocks_of(head.n, head.splits.n);
    if (result->blocks < all)
      status = rdt_fail(why, RDT_ERR_FORMAT, "%.200s: has sums of %" PRId64 " blocks only, of %" PRId64, sums,
                        result->blocks, all);
  }
  rdt_free(sums);
  rdt_free(x.buffer);
  rdt_matrix_close(&c);
  return status;
}
