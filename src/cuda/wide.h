/* Launches of the products on wgmma: what TMA asks of operands. */
#ifndef RDT_CUDA_WIDE_H
#define RDT_CUDA_WIDE_H

#include "cuda/kernel.h"
#include "cuda/pad.h"
#include "cuda/sm90/gemm_wgmma.h"

/* Operands of products in batches that lie evenly apart: the first of each, and how far the next one is. */
typedef struct rdt_wide_sides {
  rdt_tensor a, b, c, residual;           /* residual: of rank -1 where there is none */
  int batches;                            /* 1: one product */
  int64_t a_next, b_next, c_next, r_next; /* elements; 0: all have the same */
} rdt_wide_sides;

typedef struct rdt_wide {                 /* made when a product is made ready */
  bool columns, a_columns;                /* B's columns lie side by side, not its rows; A's */
  bool skewed;                            /* rdt_wide_skewed, of A and not of B */
  int batches;                            /* 0: one, too */
  int64_t a_next, b_next, c_next, r_next; /* rdt_wide_sides */
  rdt_pads pads;
  bool fixed; /* B is as it was when the product was made ready */
  bool gelu;
  const float *factor; /* rdt_wgmma_args; NULL: results are not requantised */
  int each, zero;
  rdt_dtype bytes;  /* what they are requantised to */
  int sets;         /* of sums of B's columns: of each tile's, or one of all; none: 0; of each B */
  float alike;      /* rdt_wgmma_args */
  float sums_scale; /* the same */
  int blocks;       /* of a launch */
  bool across;      /* rdt_wgmma_args */
  int tiles, light; /* the same */
  int dealt, share; /* the same; 0: no tile is shared */
  bool whole;       /* the same */
  uint64_t *bits;   /* the same */
  int strips;       /* behind the tiles of a cluster: of sums of columns (RDT_WGMMA_ROWCOL) */
  rdt_columns sums_of;
} rdt_wide;

typedef struct rdt_wide_start { /* a launch */
  rdt_wgmma_args args;
  const void *code;
  int blocks, threads, shared;
} rdt_wide_start;

/* False: batches do not lie evenly apart. */
bool rdt_wide_sides_of(const rdt_problem *p, rdt_wide_sides *s);
enum { RDT_WIDE_A = 1, RDT_WIDE_B = 2, RDT_WIDE_C = 4 };
/* Which of the operands (bits) have rows, or batches, that do not begin at multiples of 16 bytes: they go through
 * copies that do (cuda/pad.h). Of addresses that are not known yet (NULL) they are expected to. */
int rdt_wide_unaligned(const rdt_wide_sides *s);
/* Rows begin elsewhere than at multiples of 128 bytes: each 128 bytes of a box touch two lines of L2. */
bool rdt_wide_skewed(const rdt_tensor *t);
/* Whatever is not aligned gets a copy (w->pads), and s says how that lies; fixed: so does B where it is skewed, and
 * asked for often. */
rdt_status rdt_wide_pads(rdt_wide *w, rdt_wide_sides *s, bool fixed, rdt_reason *why);
/* RDT_OK, or the reason why operands of these shapes and strides cannot be copied to shared memory. */
rdt_status rdt_wide_accept(const rdt_cuda_kernel *k, const rdt_wide_sides *s, rdt_reason *why);
/* Of products of m rows and so much k on so many multiprocessors: blocks, two at least, who multiplies which tiles, and
 * which of these check: light, whole. splits: 1: a tile is multiplied by one block; 2: by two, where the last round
 * would not be full; 0: where that pays. What `columns`, `skewed` and `batches` say is known. */
void rdt_wide_plan(rdt_wide *w, const rdt_cuda_kernel *k, int m, int column_blocks, int depth, int splits, int sms);
/* Whether tiles may be shared: B's columns lie side by side, or not. */
bool rdt_wide_shares(const rdt_cuda_kernel *k, bool columns);
/* Of RDT_WGMMA_ROWCOL: lengths of what is summed, and the bytes of that, 0 before the first run. */
size_t rdt_wide_sums_of(rdt_wide *w, const rdt_cuda_kernel *k, int m, int depth);
void rdt_wide_sums_at(rdt_wide *w, void *memory);
/* And how many squares of A a lane sums, at most. */
int64_t rdt_wide_squares(const rdt_wide *w, const rdt_cuda_kernel *k, int column_blocks, int depth);
/* Of what is stored. */
int64_t rdt_wide_squares_stored(const rdt_wide *w, const rdt_cuda_kernel *k);
/* From now on `from` sums what it stores, and these sums are u A of `to`. ran: where the first counts its runs. */
void rdt_wide_hand_on(rdt_wide *from, const unsigned *ran, rdt_wide *to);
/* Asynchronous. The largest square of each column of B; and behind a run, its columns. B: p->b as it is multiplied.
 */
rdt_status rdt_wide_peaks(const rdt_wide *w, rdt_dtype type, const rdt_mma_args *p, void *stream, rdt_reason *why);
rdt_status rdt_wide_settle_columns(const rdt_wide *w, rdt_dtype type, const rdt_mma_args *p, rdt_mma_hit *hit,
                                   void *stream, rdt_reason *why);
/* Bytes that blocks need to hand over what they have summed. */
size_t rdt_wide_handed(const rdt_wide *w, const rdt_cuda_kernel *k);
/* And numbers among the tickets. */
size_t rdt_wide_tickets(const rdt_wide *w);
/* Bit-sums of what is stored: how many numbers; 0: kernel k has none. What rdt_wide_plan says is known. */
size_t rdt_wide_bits(const rdt_wide *w, const rdt_cuda_kernel *k, int m, int column_blocks);
/* Asynchronous, behind a launch: C against them. */
rdt_status rdt_wide_stored(const rdt_cuda_kernel *k, const rdt_wide *w, const rdt_mma_args *p, void *stream,
                           rdt_reason *why);
/* Sums of B's columns are columns more of an instruction, and lie as B does; else they have one of their own. columns:
 * of B lie side by side. */
bool rdt_wide_beside(const rdt_cuda_kernel *k, bool columns);
/* Rows of clusters: of all batches; that a row (of all batches) of C is in. all: and its row of tiles, where batches
 * have whole clusters of them. */
int rdt_wide_lines(const rdt_wide *w, const rdt_cuda_kernel *k, int m);
int rdt_wide_line(const rdt_wide *w, const rdt_cuda_kernel *k, int m, int64_t row, int *all);
/* The column of the tile that has what is expected of a row of clusters, of so many. */
int rdt_wide_checks(const rdt_wide *w, int line, int lines, int column_blocks);
bool rdt_wide_columns(const rdt_tensor *t);
/* From one row, or column, to the next. */
int64_t rdt_wide_pitch(const rdt_tensor *t, bool columns);
/* k in whole stages. */
int rdt_wide_whole(const rdt_cuda_kernel *k, int depth);
/* Part of the bound that comes from the squares of C alone: (s - e)^2 <= this c2 is within it, whatever else is. */
float rdt_wide_alike(const rdt_device_bound *b);
/* Of a matrix whose rows are `along` long: boxes of 128 bytes of so many rows. */
rdt_status rdt_wide_map(rdt_tensor_map *m, rdt_dtype type, const void *data, int64_t along, int64_t across,
                        int64_t pitch, int box_rows, rdt_reason *why);
/* a->p given: the maps of A, B and C, what TMA stores of C, and whether anything follows the product. w: columns and
 * batches are looked at; maps are of matrices where batches is 0, else of batches of them. */
rdt_status rdt_wide_maps(rdt_dtype type, const rdt_wide *w, rdt_wgmma_args *a, rdt_reason *why);
/* code: that of kernel k, or its injecting one: RDT_WGMMA_FORMS. ready: of operands that are as TMA takes them. */
rdt_status rdt_wide_ready(const rdt_cuda_kernel *k, const rdt_wide *w, const rdt_mma_args *p, const void *const *code,
                          rdt_wide_start *s, rdt_reason *why);
rdt_status rdt_wide_launch(const rdt_cuda_kernel *k, const rdt_wide *w, const rdt_mma_args *p, const void *const *code,
                           rdt_mma_hit *hit, void *stream, rdt_reason *why);

/* Which of rdt_wgmma_settle compares its sums of rows; -1: it leaves none. */
int rdt_wide_settler(const rdt_cuda_kernel *k);
/* Asynchronous: compares what the last runs of some products (RDT_SETTLE_MOST at most) have left. code: one of
 * rdt_wgmma_settle, or of the injecting ones. */
void rdt_wide_settles(const rdt_wide *w, const rdt_mma_args *p, rdt_settle_args *all, int number);
rdt_status rdt_wide_settle(const rdt_settle_args *all, int count, const void *code, rdt_mma_hit *hit, void *stream,
                           rdt_reason *why);

#endif
