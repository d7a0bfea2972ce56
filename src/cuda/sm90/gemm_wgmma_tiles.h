/* What a block of the products on wgmma has in shared memory, and which tiles, and rounds of k, it takes. */
#ifndef RDT_CUDA_GEMM_WGMMA_TILES_H
#define RDT_CUDA_GEMM_WGMMA_TILES_H

#include "cuda/ptx/mbarrier.h"
#include "cuda/sm90/gemm_wgmma_sums.h"

/* What is made of it is not kept from one tile to the next: registers are scarce. */
RDT_DEVICE int rdt_thread_anew() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

template <int MT_, int BN_, int stages_, int groups_>
struct rdt_wide_tile { /* MT: 64 rows of a group; stages: at most; groups: that share a tile, or 1: in turns */
  static constexpr int MT = MT_, BN = BN_, most = stages_, groups = groups_, BM = 64 * MT * groups, BK = 64;
  static constexpr int a_bytes = BM * BK * 2, b_bytes = BN * BK * 2,
                       piece = 64 * BK * 2; /* what is loaded or stored at once: 64 rows of 128 bytes */
  static constexpr int held = BN / 2 + 4;   /* accumulators of 64 rows; the last are of the sums of columns */
};

/* What a kernel has in shared memory. The sums of columns lie behind B. beside: as eight columns more, k side by side
 * where B's lie so too, else (abreast) in the first 16 of the 128 bytes that each k has of the next 64 columns. Where
 * that leaves too few stages they have an instruction of their own, and lie with k side by side. */
template <class Shape, int b_mn, int check>
struct rdt_wide_ring : Shape {
  static constexpr bool beside = check != RDT_MMA_NONE && Shape::groups == 1 && (!b_mn || Shape::BN == 128),
                        abreast = beside && b_mn, rows = RDT_WGMMA_BY_ROWS(check), columns = check == RDT_WGMMA_ROWCOL;
  static constexpr int summing = abreast ? 4 : 2; /* warps that sum rows of A */
  static constexpr int sums_bytes = check == RDT_MMA_NONE ? 0 : RDT_WGMMA_SUMS * Shape::BK * 2,
                       stage_bytes = Shape::a_bytes + Shape::b_bytes + (abreast ? Shape::piece : sums_bytes),
                       least = 512 + (rows ? rdt_wide_asked : 0),
                       fit = (RDT_WGMMA_SHARED - 2 * Shape::piece - least) / stage_bytes;
  static constexpr int stages = fit < Shape::most ? fit : Shape::most, out = stages * stage_bytes,
                       room = (RDT_WGMMA_SHARED - out - least) / Shape::piece, outs = room < 4 ? room : 4,
                       barriers = out + outs * Shape::piece, /* of stages, then of what is to be stored */
      written = barriers + 16 * stages, turn = written + 16 * outs + 8, asked = turn + 24, /* by rdt_wide_compare */
      told = asked + (rows ? rdt_wide_asked : 0), summed = told + 8 * stages,              /* of gemm_wgmma_columns.h */
      wanted = summed + 8 * stages, brought = wanted + 8 * stages, copied = brought + 8 * stages,
                       end = columns ? copied + 16 : told;
  static_assert(b_mn != RDT_WGMMA_EITHER || !beside, "B's sums lie as B does");
  static_assert(end <= RDT_WGMMA_SHARED && asked - barriers <= 512 && asked % 16 == 0 && outs > 1,
                "more than a block has");
};

/* What a cluster multiplies, one part of a tile after the other: tiles that are dealt out in turns; then its share of
 * the rounds of k of the tiles that are left, which count one behind the other. Of the last tile in it, it may have the
 * first rounds alone: with these it begins, and what they sum up to it hands over to the next cluster, which ends with
 * the others. So sums are added up along k as by one block, nobody waits for what is begun later, and as no share is
 * less than a tile, nobody waits for long. */
struct rdt_wide_part {
  int tile, first, end, rounds; /* rounds: of a tile; end 0: there are no more */
  int stored;                   /* tiles that it has finished before */
};
template <int depth> /* of a round */
RDT_DEVICE int rdt_wide_rounds(const rdt_wgmma_args &g) {
  return (g.p.k + depth - 1) / depth;
}
template <int depth>
RDT_DEVICE rdt_wide_part rdt_wide_part_of(const rdt_wgmma_args &g, int turn) {
  int clusters = (int)gridDim.x / RDT_WGMMA_CLUSTER, rounds = rdt_wide_rounds<depth>(g),
      me = (int)blockIdx.x / RDT_WGMMA_CLUSTER;
  asm volatile("" : "+r"(clusters), "+r"(rounds), "+r"(me)); /* found anew: registers are scarce */
  const int tile = me + turn * clusters;
  if (tile < g.dealt) return {tile, 0, rounds, rounds, turn};
  const int dealt = g.dealt / clusters, all = (g.tiles - g.dealt) * rounds, first = me * g.share,
            end = min(first + g.share, all), last = (end - 1) / rounds, of = last - (turn - dealt),
            before = of * rounds;
  if (!g.share || first >= end || before + rounds <= first) return {0, 0, 0, rounds, 0};
  return {g.dealt + of, max(first - before, 0), min(end - before, rounds), rounds,
          turn - (turn > dealt && end < (last + 1) * rounds)};
}

/* Which set of sums this run writes: asked for long after the last warp has read it. */
template <class Shape>
RDT_DEVICE unsigned rdt_wide_turn_now(uint32_t shared) {
  rdt_mbarrier_wait(shared + Shape::turn, 0);
  return rdt_load4_shared(shared + Shape::turn + 8);
}

struct rdt_tile_place {
  int m, n, batch; /* in tiles, m of its batch */
  int line;        /* rows of clusters before it, over all batches */
  int all;         /* m over all batches, each of whole clusters */
};
/* Where there are fewer rows of tiles, or columns, than clusters have place for, some have none. */
RDT_DEVICE bool rdt_tile_there(const rdt_wgmma_args &g, rdt_tile_place at) {
  return at.m < g.row_blocks && at.n < g.p.column_blocks;
}

/* Tiles that are computed at the same time lie in a patch: what they load is found in L2. */
RDT_DEVICE rdt_tile_place rdt_tile_of(const rdt_wgmma_args &g, int tile, int rank) {
  constexpr int rows = RDT_WGMMA_PATCH;
  const int strip = tile / (rows * g.width), within = tile - strip * rows * g.width,
            height = min(rows, g.lines - strip * rows), line = strip * rows + within % height,
            batch = g.p.splits > 1 ? line / g.each_lines : 0, row = line - batch * g.each_lines,
            column = within / height;
  if (g.across) return {row, 2 * column + rank, batch, line, line};
  return {2 * row + rank, column, batch, line, 2 * line + rank};
}
/* Behind the tiles of C, of kernels that compare columns: strips of 256 columns, of which a cluster has two. */
template <class Ring>
RDT_DEVICE bool rdt_wide_is_strip(rdt_tile_place at) {
  return Ring::columns && at.all < 0;
}
template <class Ring>
RDT_DEVICE rdt_tile_place rdt_wide_tile_at(const rdt_wgmma_args &g, int tile, int rank) {
  if (Ring::columns && tile >= g.tiles) return {g.row_blocks, 2 * (tile - g.tiles) + rank, 0, 0, -1};
  return rdt_tile_of(g, tile, rank);
}
/* Of each two rows of tiles one column of tiles has all that is expected of them: of a cluster that has the time for
 * it, or in turns. */
RDT_DEVICE bool rdt_wide_expects(const rdt_wgmma_args &g, rdt_tile_place at) {
  if (!g.light) return at.line % g.p.column_blocks == at.n;
  return rdt_wide_first((int)blockIdx.x / RDT_WGMMA_CLUSTER, at.n, rdt_wide_height(at.line, g.lines), g.light);
}

/* In which rounds a tile multiplies the sums of columns. SUMS: where they are columns more of an instruction, in those
 * of one tile of a row of tiles, so that no tile has instructions of two shapes; where they have their own (apart), in
 * those of one that has the time for them, or each in a share. */
struct rdt_rounds {
  int first, end;
};
template <int check, int apart>
RDT_DEVICE rdt_rounds rdt_wide_checked(const rdt_wgmma_args &g, rdt_tile_place at, int rounds) {
  if (check == RDT_MMA_NONE) return {0, 0};
  if (check == RDT_WGMMA_TILE) return {0, rounds};
  if (at.n >= g.p.column_blocks) return {0, 0};
  if (check == RDT_WGMMA_ROWCOL && (at.all < 0 || !g.columns.rows)) return {0, 0};
  if (!apart || g.whole) return {0, rdt_wide_expects(g, at) ? rounds : 0};
  return {rounds * at.n / g.p.column_blocks, rounds * (at.n + 1) / g.p.column_blocks};
}

#endif
