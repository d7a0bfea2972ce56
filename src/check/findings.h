/* What the checks of one op found. Filled by schemes, read by recovery and reports. */
#ifndef RDT_CHECK_FINDINGS_H
#define RDT_CHECK_FINDINGS_H

#include "check/strike.h"
#include "check/tolerance.h"

typedef enum rdt_check_kind {
  RDT_CHECK_ROW,
  RDT_CHECK_COL,
  RDT_CHECK_TILE,
  RDT_CHECK_SCALAR,
  RDT_CHECK_BITS,
  RDT_CHECK_UNIT
} rdt_check_kind;
enum { RDT_TILE_SIDE = 128 };                      /* rows and columns of a tile check, fewer at the edges */
const char *rdt_check_kind_name(rdt_check_kind k); /* "row" */

#define RDT_MAX_SUSPECTS 16

typedef struct rdt_suspect {
  rdt_check_kind kind;
  rdt_outcome outcome;
  int64_t place[2]; /* row and column where known, else -1. Conv: row = pixel (n oh ow), column = oc. Tile, unit: its
                       first */
  double residual;
  rdt_bound bound;
} rdt_suspect;

/* Every check is compared twice, in two ways, and booked twice: by how it failed, and among the complement of those
 * that passed. No fault in one of the comparisons, bounds or counters makes both say that all is well. */
typedef struct rdt_findings {
  int64_t checks, suspects, certain, cannot;
  int64_t seconded;                   /* ~: how many the second comparison let pass */
  double ratio;                       /* largest |residual| / tau2 */
  rdt_suspect worst;                  /* the check of that ratio, suspect or not */
  double floor;                       /* 2 x the largest tau2 */
  rdt_suspect list[RDT_MAX_SUSPECTS]; /* the first suspects; what could not be checked is only counted */
  int listed;
  int64_t unit[2];    /* rows and columns of a unit, where such were checked */
  rdt_strike *strike; /* planted; NULL: nothing */
} rdt_findings;

void rdt_findings_init(rdt_findings *f);
void rdt_findings_merge(rdt_findings *into, const rdt_findings *from); /* of another thread or part */
/* Must the ladder settle it? Where a check did not pass, and where the two comparisons do not agree. */
bool rdt_findings_complain(const rdt_findings *f);
bool rdt_findings_agree(const rdt_findings *f);
/* Compares, books, and keeps the place. place -1 where unknown. */
rdt_outcome rdt_findings_check(rdt_findings *f, rdt_check_kind kind, int64_t row, int64_t col, double observed,
                               double expected, rdt_bound b);
/* The same; the second comparison has a bound that was evaluated in another way (rdt_squared_at). */
rdt_outcome rdt_findings_check_twice(rdt_findings *f, rdt_check_kind kind, int64_t row, int64_t col, double observed,
                                     double expected, rdt_bound b, double squared);
/* The first comparison of a check alone. */
rdt_outcome rdt_findings_check_first(rdt_findings *f, rdt_check_kind kind, const int64_t place[2], double observed,
                                     double expected, rdt_bound b);
/* Books count checks that are known to have passed: worst is the one of the largest residual with its own bound, floor
 * at least the largest of their floors. Of the first comparison alone. */
void rdt_findings_pass(rdt_findings *f, int64_t count, const rdt_suspect *worst, double floor);
/* Books that the second comparison let count checks pass. */
void rdt_findings_second(rdt_findings *f, int64_t count);
/* Books a comparison of count elements bit by bit: so many differ, the first of them here, -1 for none. One suspect at
 * most. Where the two say different things they neither failed nor passed. */
void rdt_findings_bits(rdt_findings *f, int64_t count, int64_t differ, int64_t first);
rdt_outcome rdt_findings_check_exact(rdt_findings *f, rdt_check_kind kind, int64_t row, int64_t col, uint32_t observed,
                                     uint32_t expected);
/* Does the suspect speak of this row (axis 0) or column (axis 1)? One without a place speaks of all. */
bool rdt_suspect_covers(const rdt_findings *f, const rdt_suspect *s, int axis, int64_t at);
/* Rows (axis 0) or columns that it speaks of, from its place on. */
int64_t rdt_suspect_extent(const rdt_findings *f, const rdt_suspect *s, int axis);
/* Row and column suspects that cross: the place, or -1. */
void rdt_findings_locate(const rdt_findings *f, int64_t place[2]);
/* How far two good results may be apart at a place. Suspects beyond the list are not known by place: what the listed
 * ones do not cover is held to the narrowest of them. */
double rdt_findings_allowed(const rdt_findings *f, const int64_t place[2], double lambda);

#endif
