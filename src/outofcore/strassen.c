#include "outofcore/strassen.h"

enum { LEAST = 64, EVEN = 8, PRODUCTS = 7, NONE = -1 };

/* Quarters are 0 1 above 2 3. a: sum or difference of two of them; to: where the product is added or taken off. */
static const struct {
  int a[2], b[2], to[2];
  double a_sign, b_sign, sign[2];
  bool first[2]; /* in their place for the first time */
} table[PRODUCTS] = {
    {{0, 3}, {0, 3}, {0, 3}, 1.0, 1.0, {1.0, 1.0}, {true, true}},
    {{2, 3}, {0, NONE}, {2, 3}, 1.0, 0.0, {1.0, -1.0}, {true, false}},
    {{0, NONE}, {1, 3}, {1, 3}, 0.0, -1.0, {1.0, 1.0}, {true, false}},
    {{3, NONE}, {2, 0}, {0, 2}, 0.0, -1.0, {1.0, 1.0}, {false, false}},
    {{0, 1}, {3, NONE}, {0, 1}, 1.0, 0.0, {-1.0, 1.0}, {false, false}},
    {{2, 0}, {0, 1}, {3, NONE}, -1.0, 1.0, {1.0, 0.0}, {false, false}},
    {{1, 3}, {2, 3}, {0, NONE}, -1.0, 1.0, {1.0, 0.0}, {false, false}},
};

int64_t rdt_strassen_half(int64_t length) {
  return length >= LEAST && length % EVEN == 0 ? length / 2 : 0;
}

bool rdt_strassen_fits(const rdt_block_product *p) {
  return p->strassen && rdt_strassen_half(p->a.shape[0]) && rdt_strassen_half(p->a.shape[1]) &&
         rdt_strassen_half(p->b.shape[1]);
}

static rdt_tensor quarter(const rdt_tensor *t, int q) {
  rdt_tensor x = *t;
  for (int d = 0; d < 2; d++) x.shape[d] /= 2;
  const int64_t at = q / 2 * x.shape[0] * t->stride[0] + q % 2 * x.shape[1] * t->stride[1];
  if (t->data) x.data = (char *)t->data + (size_t)at * rdt_dtype_size(t->dtype);
  return x;
}

/* As large as a quarter, and in its order, without gaps. */
static rdt_tensor room_for(const rdt_tensor *t, char *room, size_t *bytes) {
  const bool columns = t->stride[1] != 1;
  const int64_t lines = t->shape[columns] / 2, length = t->shape[!columns] / 2;
  rdt_tensor x = rdt_tensor_matrix(room ? room + *bytes : NULL, t->dtype, lines, length, length, columns);
  *bytes += ((size_t)(lines * length) * rdt_dtype_size(t->dtype) + 127) & ~(size_t)127;
  return x;
}

rdt_block_product rdt_strassen_halves(const rdt_block_product *p, char *room, size_t *bytes) {
  *bytes = 0;
  rdt_block_product h = {.add = false};
  h.a = room_for(&p->a, room, bytes);
  h.b = room_for(&p->b, room, bytes);
  h.c = room_for(&p->c, room, bytes);
  return h;
}

/* An operand of a product of halves: a quarter, or a sum that is formed where there is room. */
static rdt_status operand(const rdt_strassen_ops *ops, const rdt_tensor *from, const int which[2], double sign,
                          rdt_tensor *room, rdt_reason *why) {
  const rdt_tensor x = quarter(from, which[0]);
  if (which[1] == NONE) {
    *room = x;
    return RDT_OK;
  }
  const rdt_tensor y = quarter(from, which[1]);
  return ops->add(ops->user, room, false, &x, &y, sign, why);
}

rdt_status rdt_strassen_run(const rdt_block_product *p, char *room, const rdt_strassen_ops *ops, rdt_reason *why) {
  for (int i = 0; i < PRODUCTS; i++) {
    size_t bytes;
    rdt_block_product h = rdt_strassen_halves(p, room, &bytes);
    RDT_TRY(operand(ops, &p->a, table[i].a, table[i].a_sign, &h.a, why));
    RDT_TRY(operand(ops, &p->b, table[i].b, table[i].b_sign, &h.b, why));
    if (table[i].to[1] == NONE) { /* straight to where it belongs */
      h.c = quarter(&p->c, table[i].to[0]);
      h.add = true;
    }
    RDT_TRY(ops->multiply(ops->user, &h, why));
    for (int t = 0; t < 2 && !h.add; t++) {
      const rdt_tensor c = quarter(&p->c, table[i].to[t]);
      RDT_TRY(ops->add(ops->user, &c, p->add || !table[i].first[t], &h.c, NULL, table[i].sign[t], why));
    }
  }
  return RDT_OK;
}

void rdt_strassen_fold(double *squares, int64_t n) {
  const int64_t half = rdt_strassen_half(n);
  for (int64_t i = 0; i < half; i++) squares[i] = squares[half + i] = squares[i] + squares[half + i];
}
