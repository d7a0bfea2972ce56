/* Blocks of a finished file against the sums that were written with it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "outofcore/ledger.h"
#include "outofcore/matmul.h"

typedef struct verifying {
  const rdt_matrix *c;
  rdt_ledger_block *blocks; /* row by row; where there is no line of one, its i is -1 */
  int64_t count;
} verifying;

static rdt_status begin(verifying *x, const rdt_ledger_head *head, rdt_reason *why) {
  const rdt_matrix *c = x->c;
  if (c->dtype != head->dtype || c->rows != head->m || c->cols != head->n || c->fortran)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: its list of sums is of another matrix: %" PRId64 " x %" PRId64 " %s",
                    c->path, head->m, head->n, rdt_dtype_name(head->dtype));
  x->count = rdt_blocks_of(head->m, head->splits.m) * rdt_blocks_of(head->n, head->splits.n);
  x->blocks = rdt_alloc((size_t)x->count, sizeof *x->blocks);
  if (!x->blocks) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for %" PRId64 " sums", x->count);
  for (int64_t i = 0; i < x->count; i++) x->blocks[i].i = -1;
  return RDT_OK;
}

/* A block that --resume did not find as it was written has a line for each time: the last one counts. */
static rdt_status take_line(void *user, const rdt_ledger_head *head, const rdt_ledger_block *b, rdt_reason *why) {
  verifying *x = user;
  if (!x->blocks) RDT_TRY(begin(x, head, why));
  x->blocks[b->i * rdt_blocks_of(head->n, head->splits.n) + b->j] = *b;
  return RDT_OK;
}

static rdt_status all_there(const verifying *x, const char *sums, rdt_reason *why) {
  int64_t there = 0;
  for (int64_t i = 0; i < x->count; i++) there += x->blocks[i].i >= 0;
  if (x->count > 0 && there == x->count) return RDT_OK;
  return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: has sums of %" PRId64 " blocks only, of %" PRId64, sums, there,
                  x->count);
}

static rdt_status compare(const verifying *x, const rdt_ledger_head *head,
                          void (*fn)(void *user, const rdt_verified *v), void *user, rdt_verify_result *r,
                          rdt_reason *why) {
  const rdt_task shape = {.m = head->m, .n = head->n, .k = head->k};
  char *buffer = rdt_alloc(RDT_ARRANGED_BUFFER, 1);
  rdt_status status = buffer ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int64_t i = 0; status == RDT_OK && i < x->count; i++) {
    const rdt_ledger_block *b = &x->blocks[i];
    uint64_t sum = 0;
    rdt_verified v = {
        .i = b->i, .j = b->j, .part = rdt_part_of_c(&shape, &head->splits, b->i, b->j), .device = b->device};
    status = rdt_matrix_sum(x->c, &v.part, buffer, RDT_ARRANGED_BUFFER, &sum, why);
    if (status != RDT_OK) break;
    v.ok = sum == b->sum;
    r->blocks++;
    r->bad += !v.ok;
    r->bytes += (double)(v.part.rows * v.part.cols) * (double)rdt_dtype_size(x->c->dtype);
    if (b->verdict > r->verdict) r->verdict = b->verdict;
    if (fn) fn(user, &v);
  }
  rdt_free(buffer);
  return status;
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
  verifying x = {.c = &c};
  rdt_status status = sums ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) {
    memcpy(sums, path, n);
    memcpy(sums + n, ".sums", 6);
    status =
        access(sums, F_OK) == 0 || errno != ENOENT
            ? RDT_OK
            : rdt_fail(why, RDT_ERR_IO,
                       "%.200s: has no sums beside it (%.200s): `redoubt matmul` writes them with its product, and "
                       "they move with it; of other files nothing is known",
                       path, sums);
  }
  if (status == RDT_OK) {
    status = rdt_ledger_read(sums, &head, take_line, &x, &whole, why);
  }
  if (status == RDT_OK && !x.blocks) status = begin(&x, &head, why);
  if (status == RDT_OK) status = all_there(&x, sums, why);
  if (status == RDT_OK) status = compare(&x, &head, fn, user, result, why);
  rdt_free(x.blocks);
  rdt_free(sums);
  rdt_matrix_close(&c);
  return status;
}
