/* Redoubt's own products in single and double precision: rows of A, wherever they lie, times packed panels of B. Rows
 * are pointers to segments, so a convolution is a product without a copy of its windows. The reduction goes in blocks,
 * such that a panel's part stays in the first-level cache while all rows of a strip meet it. A tile's accumulators rest
 * between blocks; after the last one follow its sums, the epilogue and the store. Every element is one chain of k fused
 * multiply-adds, whatever the tile, the block, the strip or the number of threads. */
#ifndef RDT_CPU_NATIVE_H
#define RDT_CPU_NATIVE_H

#include "cpu/fused.h"
#include "cpu/maps.h"

/* One source for both: a file with RDT_REAL 64 before this is about double precision. */
#if RDT_REAL == 64
typedef double rdt_real;
#define RDT_REAL_DTYPE RDT_F64
#define rdt_native_avx2 rdt_native_f64_avx2
#define rdt_native_avx512 rdt_native_f64_avx512
#define rdt_native_generic rdt_native_f64_generic
#define rdt_native_avx2_inject rdt_native_f64_avx2_inject
#define rdt_native_avx512_inject rdt_native_f64_avx512_inject
#define rdt_native_generic_inject rdt_native_f64_generic_inject
#define rdt_native_init rdt_native_f64_init
#define rdt_native_pack rdt_native_f64_pack
#define rdt_native_packed rdt_native_f64_packed
#define rdt_native_accept rdt_native_f64_accept
#define rdt_native_run rdt_native_f64_run
#define rdt_native_run_inject rdt_native_f64_run_inject
#define rdt_native_run_fused rdt_native_f64_run_fused
#define rdt_native_scratch rdt_native_f64_scratch
#define rdt_native_destroy rdt_native_f64_destroy
#define rdt_native_fixed rdt_native_f64_fixed
#define rdt_native_unit rdt_native_f64_unit
#else
typedef float rdt_real;
#define RDT_REAL_DTYPE RDT_F32
#endif

typedef enum rdt_native_bound { RDT_BOUND_NONE, RDT_BOUND_RELU, RDT_BOUND_CLIP } rdt_native_bound;

/* out = bound(alpha raw + bias + beta residual), rounded after each step as rdt_epilogue_apply does. */
typedef struct rdt_native_finish {
  rdt_real alpha, beta, low, high;
  const rdt_real *bias;               /* n, padded to whole panels; NULL: none */
  const void *residual;               /* of the first row; NULL: none */
  rdt_dtype residual_dtype, dtype;    /* dtype: of the result */
  int64_t residual_ld, residual_step; /* from row to row, from column to column */
  rdt_native_bound bound;
  rdt_map_run *map; /* before the result is rounded to fewer bits: another activation; NULL: none */
  const double *param;
} rdt_native_finish;

/* Rows of A: at[segment * count + row]; k = segments x length; step: from one element of a row to the next. */
typedef struct rdt_native_rows {
  const void *const *at;
  int64_t count, segments, length, step;
  rdt_dtype dtype;
} rdt_native_rows;

/* What a check sums beside its rows (RDT_FORM_...): a thread's part of it, or all threads' where they write apart. */
typedef struct rdt_native_sides {
  const rdt_real *u;                        /* m: signs of the rows */
  int64_t rows;                             /* m */
  rdt_pair alpha;                           /* k: sums of u A, of A^2, of the rows met so far (columns) */
  rdt_real *a;                              /* k: the former, complete, as panels take them */
  rdt_real *lanes;                          /* scratch: of a panel, or of the blocks in it */
  double *columns_between, *blocks_between; /* checkpoints: n, padded; down x across; added to */
  double *met;                              /* columns: n, padded, expected; added to */
  rdt_pair seen;                            /* and observed */
  int64_t block[2];                         /* blocks: rows and columns, whole panels or all */
  rdt_pair blocks;                          /* observed: down x across; added to */
  int64_t across;                           /* blocks, or units, side by side */
  rdt_real *parked;                         /* scratch of units, as the strip's */
  rdt_pair expected, observed; /* units: down x across; overwritten, but for the squares expected. Blocks: expected */
} rdt_native_sides;

/* Some rows of the product times some panels. */
typedef struct rdt_native_strip {
  rdt_native_rows rows;
  int64_t k, block;        /* the reduction; its blocks, the last one may be shorter */
  int64_t follow;          /* elements from each row to the one of the strip that comes next; 0: none, or not known */
  int64_t tiles;           /* of a strip, at most */
  int64_t in_place;        /* elements from row to row, where whole tiles of them are not packed; 0: all are */
  rdt_real *packed;        /* scratch: a block of the rows */
  bool resident;           /* scratch for all blocks: packed at once, then each panel passes by whole */
  const void *panels;      /* [panel][k][cols of a panel], elements as the rows'; of bf16 see load_row */
  rdt_real *widened;       /* scratch: a block of a panel that has 16 bits */
  int64_t from, to, chunk; /* panels of this strip; how many of them at a time */
  int64_t n;               /* columns of the product */
  rdt_real *parked;        /* scratch: tiles for a chunk: the accumulators between blocks */
  void *out;               /* of the first row and column 0 */
  int64_t ld, step;
  rdt_native_finish finish;
  /* the check */
  unsigned forms; /* 0: none */
  int64_t first;  /* row of the product that is the strip's first */
  bool last;      /* of the thread's strips: the sums down A's rows are complete with it */
  const rdt_native_sides *sides;
  const rdt_real *w;          /* n, padded with zeros */
  const rdt_real *beta, *rho; /* k; NULL: the expected side is another strip's */
  rdt_real *lanes;            /* scratch: rows x 2 x lanes */
  rdt_pair expected;          /* count each; overwritten */
  rdt_pair observed;          /* count each; added to */
  double *between;            /* count; added to, at checkpoints */
  bool differ;                /* set, never cleared */
  /* injecting instantiation: where in this strip */
  rdt_kernel_hit *hit;
  bool hit_stored;
  int64_t hit_row, hit_col, hit_k;
} rdt_native_strip;

typedef struct rdt_native_table {
  int rows, cols, lanes; /* of a tile, of a vector */
  int terms;             /* of a step of the reduction: 2 where pairs of elements lie side by side in the panels */
  int unit;              /* rows of the register tile of a check of units */
  void (*strip)(rdt_native_strip *s);
  /* A panel, of columns that lie ld apart. */
  void (*turn)(const rdt_real *b, int64_t ld, int64_t cols, int64_t k, rdt_real *panel);
  /* Of count rows of n elements: dot = sum a beta, sq = sum a^2 rho. */
  void (*dots)(const void *const *rows, rdt_dtype dtype, int64_t count, int64_t n, const rdt_real *beta,
               const rdt_real *rho, const rdt_pair *to);
  /* Down the columns of count rows ld apart: dot[t] = sum_i w[i] x[i][t], sq[t] = sum_i x[i][t]^2. */
  void (*down)(const void *x, rdt_dtype dtype, int64_t ld, int64_t count, int64_t length, const rdt_real *w,
               const rdt_pair *to);
  /* The same of rows first .. end - 1, elements [from, to), added to what is there. */
  void (*fall)(const rdt_native_rows *rows, int64_t first, int64_t end, int64_t from, int64_t to, const rdt_real *u,
               const rdt_pair *sums);
  double (*inner)(const double *a, const double *b, int64_t n); /* sum of their products */
} rdt_native_table;
extern const rdt_native_table rdt_native_generic, rdt_native_avx2, rdt_native_avx512;
extern const rdt_native_table rdt_native_avx512_dot, rdt_native_avx512_dot_inject;
extern const rdt_native_table rdt_native_generic_inject, rdt_native_avx2_inject, rdt_native_avx512_inject;

/* ---- strips.c: a whole product in strips ---- */

enum { RDT_NATIVE_CHANNELS = 8 /* at least */ };

/* One product, or a batch of them that differ in every operand. The owner says where the rows lie. */
typedef struct rdt_native rdt_native;
struct rdt_native {
  const rdt_native_table *table, *inject;
  rdt_dtype dtype; /* of A and B, and of B's panels */
  int64_t m, n, k, segments, length;
  int64_t block; /* of the reduction */
  int threads;
  bool dot;                    /* bf16 by dot products of pairs */
  bool sides;                  /* one product with fixed weights, in rows: checks other than of rows may be asked for */
  void *packed;                /* panels; NULL: B is another one at each run */
  int64_t padded, panels;      /* columns of whole panels; how many those are */
  int64_t strip, segment;      /* rows of a strip, in whole tiles; of the reduction between checkpoints */
  bool by_columns;             /* threads share the panels, not the rows */
  int parts;                   /* threads that have something to do */
  int64_t chunk[2], blocks[2]; /* panels at a time; how many there are of the reduction: in blocks, in segments */
  int64_t gathered;            /* terms of a row that are packed at a time */
  bool resident;               /* all of a strip's rows are packed at once */
  int64_t in_place;            /* elements from row to row, where tiles read them where they lie; 0: packed */
  size_t packed_bytes, scratch; /* scratch: bytes of a run's, which is: */
  void *own, *lent;
  /* rows first .. first + count - 1 of in[0]: rows[segment * count + i] */
  void (*point)(const rdt_native *s, const char *x, int64_t first, int64_t count, const void *zeros, const void **rows);
  rdt_window window; /* conv */
  int64_t ic, ih, iw, oh, ow;
  int64_t stride[4]; /* of in[0], elements: gemm row; conv n h w */
  int64_t step;      /* of in[0], along the reduction */
  int64_t apart;     /* of the rows that follow one another, elements; 0: they do not */
  int64_t height;    /* gemm: rows before the next one of a batch */
  int64_t batches, batch_shape[RDT_MAX_RANK], batch_stride[2][RDT_MAX_RANK]; /* of A, B */
  int batch_rank;
  int64_t b_stride[2]; /* of a product's B, where it is not packed */
  int row_dim;         /* of the result and the residual: along the rows */
  int64_t plane; /* rows that have the elements of one column side by side in the order of the result: oh ow, or 1 */
};

/* Fills table, panels' size and memory, and what a run needs; all else is set. */
rdt_status rdt_native_init(rdt_native *s, bool fixed, rdt_reason *why);
/* offset(w, t, j): where the weight of reduction index t and column j lies, in elements */
void rdt_native_pack(rdt_native *s, const rdt_tensor *w,
                     int64_t (*offset)(const rdt_native *, const rdt_tensor *, int64_t t, int64_t j));
/* What a row takes: both operands alike, the result as they or as their accumulators. */
typedef enum rdt_native_operands {
  RDT_NATIVE_REAL,
  RDT_NATIVE_HALF, /* 16 bits */
  RDT_NATIVE_DOT   /* bf16 where the CPU has dot products of them */
} rdt_native_operands;
rdt_status rdt_native_accept(const rdt_problem *p, rdt_native_operands operands, rdt_reason *why);
rdt_status rdt_native_run(void *state, const rdt_operands *o, rdt_reason *why);
rdt_status rdt_native_run_inject(void *state, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why);
rdt_status rdt_native_run_fused(void *state, const rdt_operands *o, rdt_fused *f, rdt_reason *why);
void rdt_native_packed(void *state, void **data, size_t *bytes, rdt_dtype *dtype);
size_t rdt_native_scratch(void *state, void *memory);
void rdt_native_destroy(void *state);
void rdt_native_unit(int64_t size[2]);
rdt_status rdt_native_fixed(void *state, rdt_vault *frame);
/* What the rows of the table share. */
#define RDT_NATIVE_ROW                                                                                       \
  .isa = RDT_ISA_GENERIC, .deterministic = true, .run = rdt_native_run, .run_inject = rdt_native_run_inject, \
  .run_fused = rdt_native_run_fused, .packed = rdt_native_packed, .scratch = rdt_native_scratch,             \
  .fixed = rdt_native_fixed, .destroy = rdt_native_destroy

#endif
