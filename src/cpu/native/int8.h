/* Redoubt's own products of 8-bit integers, exact modulo 2^32: rows of A, packed as the inner loop multiplies them,
 * times packed panels of B. Two ways of packing, one for each kind of inner loop:
 *
 *   pairs   elements less their zero points, as s16; two products are added in 32 bits and cannot overflow
 *   quads   bytes, u8 by s8 for the VNNI instruction: s8 of A and u8 of B are shifted by 128. Shifts and zero points
 *           come off at the end: with a' = a + p, b' = b + q and P = p + zero of A, Q = q + zero of B,
 *           sum (a' - P)(b' - Q) = sum a'b' - P sum b' - Q sum a' + k P Q
 *           Without VNNI two products are added in 16 bits: quads are for weights too small to saturate there.
 *
 * Either way an element in the padding of a convolution, and one behind the last of a row, counts as 0. The row check
 * w . C_i = sum_t (a_it - zero) beta_t holds modulo 2^32 exactly: its left side comes from the registers, its right
 * side from the operands as the caller keeps them. */
#ifndef RDT_CPU_NATIVE_INT8_H
#define RDT_CPU_NATIVE_INT8_H

#include "cpu/fused.h"

/* A run of elements where the caller keeps them. */
typedef struct rdt_int8_bytes {
  const uint8_t *x;
  int64_t step, n;
  bool is_signed;
  int32_t zero;
} rdt_int8_bytes;

/* What becomes of the sums: out = saturate(round(f32(raw) + bias) factor) + zero), or they leave as they are. */
typedef struct rdt_int8_finish {
  const float *factor, *bias; /* n, padded to whole panels; factor NULL: s32; bias NULL: none */
  float low, high;            /* of out, less zero */
  int32_t zero;
} rdt_int8_finish;

/* Where blocks of a check add up what is observed of them. */
typedef struct rdt_int8_blocks {
  uint32_t *sums;  /* down x across; added to */
  int64_t size[2]; /* rows and columns; the columns whole panels, or all */
  int64_t across;
} rdt_int8_blocks;

/* Some rows of the product times some panels. */
typedef struct rdt_int8_strip {
  const char *rows; /* packed, ld bytes apart, to whole tiles */
  int64_t ld, count;
  const char *panels; /* [panel][word of k][col]: pairs or quads, as a word */
  int64_t words;
  int64_t from, to, n;    /* panels of this strip; columns of the product */
  const int32_t *columns; /* n, padded with zeros: added to every row; NULL: nothing */
  const int32_t *shifts;  /* count: times a row's own, Q; added to every column; NULL: nothing */
  int32_t *tiles;         /* scratch: sums of a panel's tiles between blocks of k */
  char *const *out;       /* where each row begins */
  int64_t step;           /* between its columns, in elements */
  rdt_int8_finish finish;
  /* the check */
  unsigned forms;       /* 0: none */
  const int32_t *w;     /* n, padded with zeros: 0 for +1, -1 for -1 */
  const int32_t *u;     /* count: the same of the rows */
  int64_t first;        /* row of the product that is the strip's first */
  int32_t *lanes;       /* scratch: count x lanes */
  uint32_t *observed;   /* rows: count; added to */
  uint32_t *seen, *met; /* columns: n, padded: observed and expected; added to; -x counts as ~x in seen */
  int64_t alpha;        /* the packed row where sums down A's rows begin, in digits; 0: none */
  rdt_int8_blocks blocks;
  bool differ; /* set, never cleared */
  /* injecting instantiation: where in this strip */
  rdt_kernel_hit *hit;
  bool hit_stored;
  int64_t hit_row, hit_col, hit_word;
} rdt_int8_strip;

typedef struct rdt_int8_table {
  int rows, cols, lanes; /* of a tile, of a vector */
  int unit;              /* elements of k in a word of 4 bytes: 2 or 4 */
  void (*strip)(rdt_int8_strip *s);
  /* Rows of A that lie beside one another, step from element to element, one behind the other: ld from row to row */
  void (*turn)(const uint8_t *x, int64_t step, int64_t rows, int64_t n, uint8_t *to, int64_t ld);
  /* A row of A, side by side, as it is packed. The sum of it where quads are packed. */
  uint32_t (*pack)(void *row, const rdt_int8_bytes *a);
  /* Of such a row, sum_t (a_t - zero) beta_t; beta in two halves: low + 2^16 high; high NULL: none */
  uint32_t (*dot)(const rdt_int8_bytes *a, const int16_t *low, const int16_t *high);
  /* Of count rows, alpha_t += sum_i u_i (a_it - zero); a says what they are */
  void (*fall)(uint32_t *alpha, const uint8_t *const *rows, int64_t count, const int32_t *u, const rdt_int8_bytes *a);
  uint32_t (*inner)(const uint32_t *a, const uint32_t *b, int64_t n); /* sum of their products */
  /* Elements `to` .. of the first columns of a panel, which lie apart; sums: added to, those of each column as packed.
   */
  void (*panel)(void *panel, int64_t to, const rdt_int8_bytes *b, int64_t apart, int64_t cols, uint32_t *sums);
  /* beta_t += sum_j (b_tj - zero), with the signs of w */
  void (*weigh)(uint32_t *beta, const rdt_int8_bytes *b, int64_t apart, int64_t cols, const int32_t *w);
} rdt_int8_table;
extern const rdt_int8_table rdt_int8_avx2_small, rdt_int8_avx2_small_inject;
extern const rdt_int8_table rdt_int8_generic, rdt_int8_avx2, rdt_int8_avx2_vnni, rdt_int8_avx512, rdt_int8_avx512_vnni;
extern const rdt_int8_table rdt_int8_generic_inject, rdt_int8_avx2_inject, rdt_int8_avx2_vnni_inject,
    rdt_int8_avx512_inject, rdt_int8_avx512_vnni_inject;

typedef struct rdt_int8_tables {
  const rdt_int8_table *plain, *inject;
  const rdt_int8_table *small, *small_inject; /* of small weights (rdt_int8_init); NULL: none that would be faster */
} rdt_int8_tables;
rdt_int8_tables rdt_int8_tables_of(void); /* of this CPU */

/* What is added to an element before it is packed as a byte; 0 for pairs. */
static inline int32_t rdt_int8_shift_a(const rdt_int8_table *t, bool is_signed) {
  return t->unit == 4 && is_signed ? 128 : 0;
}
static inline int32_t rdt_int8_shift_b(const rdt_int8_table *t, bool is_signed) {
  return t->unit == 4 && !is_signed ? -128 : 0;
}

/* ---- int8.c: a whole product in strips ---- */

/* One product, or a batch of them. The owner says where the rows lie. */
typedef struct rdt_int8 rdt_int8;
struct rdt_int8 {
  const rdt_int8_table *table, *inject;
  int64_t m, n, k, words;
  int64_t segments, length; /* k = segments x length */
  int threads;
  bool sides;   /* one product with fixed weights: checks other than of rows may be asked for */
  char *packed; /* panels, then columns; NULL: B is another one at each run */
  size_t packed_bytes;
  void *own, *lent; /* scratch of a run */
  /* A row of in[0]: where each segment begins; NULL: padding. */
  void (*point)(const rdt_int8 *s, const uint8_t *x, int64_t row, const uint8_t **runs);
  /* Where rows first .. first + count - 1 of a tensor like out begin, in elements. */
  void (*place)(const rdt_int8 *s, const rdt_tensor *t, int64_t first, int64_t count, int64_t *offset);
  rdt_window window; /* conv */
  int64_t ic, ih, iw, oh, ow;
  int64_t stride[4]; /* of in[0]: gemm row; conv n h w */
  int64_t height;    /* gemm: rows before the next one of a batch */
  bool is_signed[2]; /* A, B */
  int32_t zero[2];
  int64_t inner[2]; /* from element to element of a segment */
  int64_t apart;    /* from column to column of B */
  int64_t outer[2]; /* of B, from segment to segment: kernel row, kernel column */
  int64_t batches, batch_shape[RDT_MAX_RANK], batch_stride[2][RDT_MAX_RANK]; /* of A, B */
  int batch_rank;
  int column_dim; /* of the result */
  int64_t plane;  /* rows that have the elements of one column side by side in the order of the result: oh ow, or 1 */
};

/* Fills table, datatypes, zero points and packed weights; the rest is set. *state = s, or s is destroyed. */
rdt_status rdt_int8_init(rdt_int8 *s, const rdt_problem *p, void **state, rdt_reason *why);
rdt_status rdt_int8_accept(const rdt_problem *p, rdt_reason *why);
rdt_status rdt_int8_pack(void *state, const rdt_tensor *w, rdt_reason *why);
rdt_status rdt_int8_run(void *state, const rdt_operands *o, rdt_reason *why);
rdt_status rdt_int8_run_inject(void *state, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why);
rdt_status rdt_int8_run_fused(void *state, const rdt_operands *o, rdt_fused *f, rdt_reason *why);
void rdt_int8_packed(void *state, void **data, size_t *bytes, rdt_dtype *dtype);
size_t rdt_int8_scratch(void *state, void *memory);
void rdt_int8_destroy(void *state);
rdt_status rdt_int8_fixed(void *state, rdt_vault *frame);
/* What the rows of the table share. */
#define RDT_INT8_ROW                                                                                              \
  .isa = RDT_ISA_GENERIC, .deterministic = true, .run = rdt_int8_run, .run_inject = rdt_int8_run_inject,          \
  .run_fused = rdt_int8_run_fused, .pack = rdt_int8_pack, .packed = rdt_int8_packed, .scratch = rdt_int8_scratch, \
  .fixed = rdt_int8_fixed, .destroy = rdt_int8_destroy

#endif
