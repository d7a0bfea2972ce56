/* How a product is cut into blocks, in which order they are computed, where each lies in memory, and how long that
 * takes by a predicted time line. */
#ifndef RDT_OUTOFCORE_SPLITS_H
#define RDT_OUTOFCORE_SPLITS_H

#include "outofcore/block.h"
#include "outofcore/timeline.h"

typedef enum rdt_strategy {
#define X(id, ...) RDT_STRATEGY_##id,
#include "outofcore/strategies.def"
#undef X
  RDT_STRATEGY_COUNT,
  RDT_STRATEGY_AUTO = RDT_STRATEGY_COUNT
} rdt_strategy;
typedef struct rdt_strategy_row {
  const char *name;
  int slots[3]; /* of A, B, C */
  int lanes;    /* products at a time */
  const char *text;
} rdt_strategy_row;
const rdt_strategy_row *rdt_strategy_info(rdt_strategy s);
rdt_strategy rdt_strategy_find(const char *name); /* RDT_STRATEGY_COUNT: there is none; "auto" is none */

/* What is to be computed. */
typedef struct rdt_task {
  const rdt_context *ctx;
  const rdt_backend *on;
  void *dev; /* its state, while it is open */
  int64_t m, n, k;
  rdt_dtype in, out;
  bool fortran[2]; /* A, B */
  bool protected, strassen;
  int threads;
  int devices; /* that share the blocks of C; 0 as 1 */
} rdt_task;

/* Largest blocks; those at the edges are smaller. */
typedef struct rdt_splits {
  rdt_strategy strategy;
  int64_t m, n, k;
} rdt_splits;

/* ---- memory ---- */

/* Where everything lies: in the backend's memory, or in the host's. */
enum { RDT_MEMORY_BACKEND, RDT_MEMORY_HOST, RDT_MEMORIES };
typedef struct rdt_arrangement {
  char *slot[3][RDT_MOST_SLOTS];                       /* blocks of A, B and C */
  double *sums[2][RDT_MOST_SLOTS];                     /* of a block, and of a part of it; as the backend has them */
  double *block[RDT_MOST_SLOTS];                       /* vectors of C's blocks */
  double *signs[2][2];                                 /* of rows, of columns: of whole blocks, of the last one */
  double *far_block[RDT_MOST_SLOTS], *far_signs[2][2]; /* the same of a backend whose memory is not the host's */
  double *line[RDT_MOST_SLOTS];                        /* of each block of C: a row or column */
  rdt_backend_room room;
  unsigned char *done; /* a bit for each block of C */
  char *buffer;        /* for reading back */
  size_t bytes[RDT_MEMORIES];
  size_t beside; /* what threads, sums and files take beside it while they run */
} rdt_arrangement;
enum { RDT_ARRANGED_BUFFER = 65536 };
/* base NULL: only counted. */
rdt_status rdt_arrange(const rdt_task *t, const rdt_splits *s, char *const base[RDT_MEMORIES], rdt_arrangement *out,
                       rdt_reason *why);
/* What --mem-limit is about: of a backend with memory of its own, that. */
size_t rdt_arranged_bytes(const rdt_task *t, const rdt_arrangement *a);

/* ---- order ---- */

enum { RDT_FIRST_PARTS = 4 /* of the first block of C, by rows, each computed as soon as its rows of A are there */ };

typedef struct rdt_step {
  int64_t i, j, t, part;       /* block of C; part of the reduction, which is the part-th that is added */
  bool first, last, backwards; /* of its block of C; parts come in that order */
  bool again;                  /* the next step goes on at the same time */
  int lane, slot[3];           /* where A, B, C lie */
  bool load[2];                /* A, B: they are not there yet */
  int64_t after[2];            /* that load may begin after so many steps are done */
  int64_t ordinal;             /* of the block of C: it may begin when so many less slots are stored */
} rdt_step;

typedef struct rdt_walk {
  const rdt_splits *s;
  const unsigned char *done;
  int64_t count[3]; /* of blocks along m, n, k */
  bool down;        /* blocks of C come by columns */
  int64_t at, part; /* the next group of them; the next part */
  int lanes, lane;  /* of the group at hand */
  int64_t group[RDT_MOST_SLOTS];
  bool backwards;
  int64_t steps, blocks;
  struct {
    int64_t row, col, user;
  } slot[2][RDT_MOST_SLOTS];
  int newest[2];
} rdt_walk;
/* Do blocks of C come by columns, so that B's block stays and A's change? Where all of the reduction is one part and
 * lines of A's file are the longer ones; the bits are the same. */
bool rdt_walks_down(const rdt_task *t, const rdt_splits *s);
/* Which blocks of C are done, a bit each. done NULL: none. */
bool rdt_block_is_done(const unsigned char *done, int64_t block);
void rdt_block_mark(unsigned char *done, int64_t block, bool is_done);
void rdt_walk_begin(rdt_walk *w, const rdt_task *t, const rdt_splits *s, const unsigned char *done);
bool rdt_walk_next(rdt_walk *w, rdt_step *step);
static inline int rdt_walk_stays(const rdt_walk *w) { /* the operand whose blocks change less often */
  return w->down ? 1 : 0;
}
rdt_part_of rdt_part_of_a(const rdt_task *t, const rdt_splits *s, int64_t i, int64_t part);
rdt_part_of rdt_part_of_b(const rdt_task *t, const rdt_splits *s, int64_t part, int64_t j);
rdt_part_of rdt_part_of_c(const rdt_task *t, const rdt_splits *s, int64_t i, int64_t j);
int64_t rdt_blocks_of(int64_t length, int64_t block);

/* ---- time ---- */

typedef struct rdt_forecast {
  double seconds, best; /* best: if products at a time do not hinder each other; else the same */
  double loading, multiplying, storing;
  double load_bytes, store_bytes, flops;
  int64_t steps, blocks;
} rdt_forecast;
/* spans: what is done when, best: of the best case; NULL: nobody asks. */
void rdt_forecast_of(const rdt_task *t, const rdt_splits *s, const unsigned char *done, const rdt_rates *r,
                     rdt_forecast *f, rdt_timeline *spans, rdt_timeline *best);

/* Splits within limit bytes: of a strategy always the same ones; of all of them, the strategy that is the quickest by
 * these rates. RDT_ERR_NOMEM names the least limit. */
rdt_status rdt_splits_choose(const rdt_task *t, rdt_strategy strategy, size_t limit, const rdt_rates *r,
                             rdt_splits *out, rdt_reason *why);

#endif
