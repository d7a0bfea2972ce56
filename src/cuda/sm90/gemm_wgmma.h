/* What host and device share of the products on wgmma. */
#ifndef RDT_CUDA_GEMM_WGMMA_H
#define RDT_CUDA_GEMM_WGMMA_H

#include "cuda/sm80/gemm_mma.h"

enum {
  RDT_WGMMA_FORMS = 8,   /* of a kernel: + 1: B with its columns side by side; + 2: with what follows a product; + 4: A
                            with its columns side by side */
  RDT_WGMMA_EITHER = 2,  /* of a template: the arguments say how an operand lies */
  RDT_WGMMA_CLUSTER = 2, /* blocks of one column block that load its part of B together */
  RDT_WGMMA_THREADS = 384,
  RDT_WGMMA_SHARED = 232448, /* bytes that a block asks for: all that it may have */
  RDT_WGMMA_PATCH = 8,       /* pairs of tiles, one below the other, of a patch: see rdt_tile_of */
  RDT_WGMMA_TILE =
      RDT_MMA_CLASSIC + 1, /* a check (rdt_mma_check): rows of tiles, against sums of the tile's columns of B */
  RDT_WGMMA_ROWCOL,        /* rows as RDT_MMA_SUMS has them, and columns of the whole product (gemm_wgmma_columns.h) */
  RDT_COLUMNS_STRIP = 256, /* columns that u A is multiplied by at once */
  RDT_COLUMNS_SETS = 3,
  RDT_WGMMA_TURNS = 6, /* that sets of sums take, of rows two and of columns three */
  RDT_WGMMA_SUMS = 8,  /* columns that check others: the parts of signed sums, and signs alone, of which a row of A */
  RDT_WGMMA_PARTS_F16 = 2, /* makes numbers whose squares are |a|^2 on average */
  RDT_WGMMA_PARTS_BF16 = 3,
  RDT_WGMMA_PARTS_F8 = 6
};

/* Which check a row of kernels.def has: where a tile of so many columns has all of C's, as rows of tiles are compared,
 * `row` needs no sums in memory. Others need more columns than a tile may have. */
#define RDT_WGMMA_CHECK(check, columns) \
  ((int)(check) == RDT_MMA_SUMS && (columns) > 128 ? (int)RDT_WGMMA_TILE : (int)(check))

/* Rows of the whole product are summed. */
#define RDT_WGMMA_BY_ROWS(check) ((int)(check) == RDT_MMA_SUMS || (int)(check) == RDT_WGMMA_ROWCOL)
/* Threads of a block. Where B's rows lie side by side, one of the two warps that would sum rows of A has to copy: four
 * more do, and the registers are the groups' (a third of what sums of columns cost; of B's columns, it would be more).
 */
#define RDT_WGMMA_BLOCK(check, b_mn) (RDT_WGMMA_THREADS + ((int)(check) == RDT_WGMMA_ROWCOL && (b_mn) ? 128 : 0))

typedef struct rdt_tensor_map { /* CUtensorMap */
  uint64_t words[16];
} __attribute__((aligned(64))) rdt_tensor_map;

/* ROWCOL: [set] of each. */
typedef struct rdt_columns {
  float *a;            /* [depth] u A, k in whole rounds */
  float *a2;           /* squares of A */
  struct float4 *c;    /* [copy][pairs] sums of two columns of C, then of squares; copies: fewer meet at an address */
  const float *peak;   /* the largest square of each column of B */
  float *next;         /* [rdt_columns_pitch] u of what is stored, then squares of that; NULL: nobody asks */
  const float *before; /* `next` of the product that has stored A, in place of sums of A; NULL: A is summed */
  const unsigned *ran; /* its turn, once it has run */
  int depth, copies, pairs, before_pairs;
  int rows;          /* rows are compared, too */
  float scale, back; /* what u A is multiplied by before it is cut into parts, and what comes of these: powers of two */
  rdt_device_bound bound;
} rdt_columns;

typedef struct rdt_wgmma_args {
  rdt_tensor_map a, b, c, sums;
  rdt_mma_args p; /* splits: batches, each of m rows; k_split: rows that have one B. parts: signed sums of B's columns,
                     of tiles or of all: [set][8][whole stages of k]; rho2: of each set; of each batch of B its own.
                     SUMS: sums: float4, two of [batch][m]; tickets: one, then for each block its runs, then whether the
                     last one is still to be compared, then of each warp that multiplies whether there is something
                     in partial: sums that one block hands over to another. scalars: of each block; more: bit-sums of
                     what is stored (gemm_wgmma_bits.h): uint64_t, [row of tiles, of all batches][column of
                     tiles][warp]; NULL: nobody asks */
  float alike;    /* TILE: (s - e)^2 <= alike c2 passes */
  float sums_scale; /* of 8-bit floats: that the parts' products are so many times too small, a power of two */
  int row_blocks;   /* of tiles, in a batch */
  int across;       /* two tiles of a cluster lie side by side, and load their rows of A together */
  int tiles;        /* of a cluster */
  int dealt, share; /* tiles that clusters take in turns; rounds of k of each cluster, of the tiles behind them */
  int lines, each_lines, width; /* rows of clusters, those of a batch; columns of them */
  int stored;                   /* columns that TMA stores: whole 16 bytes */
  int a_mn, b_mn;               /* 1: rows of A, columns of B lie side by side in place of k */
  int extra;                    /* bias, residual, relu or gelu */
  int gelu;
  const float *factor;            /* integers become bytes: saturate(round((sum + bias) factor[each column]) + zero) */
  int each, zero;                 /* each: 1; 0: one factor for all */
  float low, high;                /* of a byte, less zero */
  int a_many, b_many;             /* 1: each batch has its own A, B; 0: all have the same */
  int sets;                       /* of sums of columns, of a batch of B */
  int64_t a_next, c_next, r_next; /* elements from one batch to the next */
  int light; /* SUMS: from this cluster on each has a tile less, and checks; 0: see rdt_wide_expects */
  int whole; /* SUMS: one tile of a row of tiles has all that is expected, not each a share of k */
  rdt_columns columns;
} rdt_wgmma_args;

/* Signs that rows of C are summed with, as thread t of four does that has a tile's columns 8 j + 2 t + e: those of 2 j
 * + e are known when the kernel is compiled, and each thread has one of its own. */
RDT_BOTH_SIDES unsigned rdt_wide_sign_of(int tile, int thread) {
  return rdt_mma_sign((unsigned)(4 * tile + thread) + 0x10000u);
}
RDT_BOTH_SIDES unsigned rdt_wide_sign(int column, int tile_columns) {
  const int within = column % tile_columns;
  return rdt_mma_sign((unsigned)(within / 8 * 2 + within % 2)) ^
         rdt_wide_sign_of(column / tile_columns, within % 8 / 2);
}

/* Numbers of a set of what is handed on. */
RDT_BOTH_SIDES int rdt_columns_pitch(int pairs) {
  return 2 * pairs + 4;
}

/* Signs that columns of C, and A, are summed with. A tile's rows with the same row / 16 % 4 and row / 4 % 2, set
 * 2 (row / 16 % 4) + row / 4 % 2, are sixteen, whose signs are those of a bent function of the other four bits of the
 * row's number, another one for each set: x6 x3 + x1 x0, and what the uppermost bits of this say: the first of them of
 * all sixteen, the others of bits 6, 3, 1, 0. */
RDT_BOTH_SIDES unsigned rdt_columns_signs(int tile, int set) {
  unsigned i = (unsigned)(8 * tile + set) * 0x9e3779b9u + 0x7f4a7c15u;
  i = (i ^ i >> 15) * 0x85ebca6bu;
  return (i ^ i >> 13) * 0xc2b2ae35u;
}
/* The bits of it, as what a number is to be exclusive-ored with. */
RDT_BOTH_SIDES unsigned rdt_columns_sign(unsigned signs, int which) { /* 0: of all; 1..4: of bits 6, 3, 1, 0 */
  return signs << which & 0x80000000u;
}

/* Pairs of tiles, one below the other, of the patch that a pair of rows of tiles is in. */
RDT_BOTH_SIDES int rdt_wide_height(int pair, int pairs) {
  const int rest = pairs - pair / RDT_WGMMA_PATCH * RDT_WGMMA_PATCH;
  return rest < RDT_WGMMA_PATCH ? rest : RDT_WGMMA_PATCH;
}
/* Whether a cluster's tile in column n of a pair of rows is the first of these that a cluster has with a tile less than
 * others. Each next column is `height` clusters further on, until it goes around. */
RDT_BOTH_SIDES int rdt_wide_first(int cluster, int n, int height, int light) {
  return cluster >= light && n * height <= cluster && (n == 0 || cluster - height < light);
}

/* Products whose last run is to be compared, of one of these kinds. */
enum { RDT_SETTLE_MOST = 8 }; /* at once; arguments of a kernel have 4 KB, and twelve would fit */
typedef struct rdt_settle_args {
  rdt_mma_args p[RDT_SETTLE_MOST];
  int blocks[RDT_SETTLE_MOST]; /* of the product: a warp for each */
} rdt_settle_args;

/* The columns of a product. */
typedef struct rdt_columns_args {
  rdt_mma_args p;
  rdt_columns c;
} rdt_columns_args;

#ifdef __cplusplus
extern "C" {
#endif
/* Kernels (rdt_columns_args), (.., hit *), of f16 and bf16: B's rows lie side by side, or its columns. A
 * block of 256 threads for 32 columns. */
extern const void *const rdt_columns_settle[2][2], *const rdt_columns_settle_inject[2][2];
extern const void
    *const rdt_columns_peaks[2][2]; /* (.., float: the smallest normal number): largest squares of B's columns */
/* Kernels (rdt_settle_args), (.., hit *): of 16 bits; of types with k side by side, floats and integers. */
extern const void *const rdt_wgmma_settle[3], *const rdt_wgmma_settle_inject[3];
#ifdef __cplusplus
}
#endif

#endif
