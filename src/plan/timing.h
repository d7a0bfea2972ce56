/* Interleaved timing: cases run A B C A B C ... in one process, so that whatever else the machine does hits all alike.
 * Reported are medians, 10 % and 90 % quantiles, and ratios of medians with a bootstrap interval. */
#ifndef RDT_PLAN_TIMING_H
#define RDT_PLAN_TIMING_H

#include <stdbool.h>

enum { RDT_TIMING_CASES = 48 };
enum { RDT_TIMING_STOPPED = 128 }; /* in place of an exit code: what shows the progress said stop */

typedef int (*rdt_timing_fn)(void *user); /* one run; 0 = fine, anything else stops the timing */

typedef struct rdt_timing_case {
  const char *name;
  rdt_timing_fn fn;
  void (*before)(void *user); /* before each run, not timed; NULL: nothing */
  void *user;
  const double *took; /* fn leaves there how long a run took by a clock of its own; NULL: this one's counts */
  double rest;        /* seconds to wait before a sample, until others' threads no longer spin */
  int repeats;        /* runs a sample, so that a sample lasts long enough to be timed */
  int trials;         /* samples that it has */
  bool out;           /* takes no part in the trials that follow */
  double *seconds;    /* of one run, one value a trial */
} rdt_timing_case;

struct rdt_timing;
/* After each trial: takes cases out, or ends the timing with this trial (false). */
typedef bool (*rdt_timing_after_fn)(struct rdt_timing *t, void *user);

/* part: of the whole, 0 to 1; 1: it is over, well or not, and what is printed comes next; what: "8 threads", the one
 * that runs. false: it is to stop, and nothing is printed. */
typedef bool (*rdt_timing_progress_fn)(double part, const char *what);

typedef struct rdt_timing {
  rdt_timing_case cases[RDT_TIMING_CASES];
  int count, trials;
  int warm_up;                     /* samples beforehand that do not count; default 3 */
  double min_seconds;              /* least length of a sample; default 2 ms */
  bool warming;                    /* runs of now do not count */
  rdt_timing_progress_fn progress; /* before each sample; NULL: nobody asks */
  rdt_timing_after_fn after;       /* NULL: all cases run all trials */
  void *after_user;
  int turn, turns; /* this timing is one of so many of a benchmark; 0: the only one */
  char what[64];   /* which one, in words */
} rdt_timing;

typedef struct rdt_timing_stat {
  double median, p10, p90;
} rdt_timing_stat;

typedef struct rdt_timing_ratio {
  double ratio, low, high; /* 95 % bootstrap interval over trials */
} rdt_timing_ratio;

double rdt_timing_now(void); /* seconds, monotonic */
void rdt_timing_init(rdt_timing *t, int trials);
/* Index of the case, -1 where the table is full. name must outlive t. */
int rdt_timing_add(rdt_timing *t, const char *name, rdt_timing_fn fn, void *user);
/* Warms every case up, then runs the trials; the order rotates from trial to trial. What a case returned if not 0, else
 * 0; -1 without memory; RDT_TIMING_STOPPED where progress says so. */
int rdt_timing_run(rdt_timing *t);
double rdt_timing_median(double *values, int n); /* reorders them; NaN where there are none */
rdt_timing_stat rdt_timing_stat_of(const rdt_timing *t, int i);
rdt_timing_ratio rdt_timing_ratio_of(const rdt_timing *t, int i, int base); /* median of i / median of base */
/* Sums of times x medians, one over the other, of samples that were taken in turn. */
typedef struct rdt_timing_samples {
  const double *seconds;
  int n;
} rdt_timing_samples;
typedef struct rdt_timing_pair {
  rdt_timing_samples of, base;
  double times;
} rdt_timing_pair;
rdt_timing_samples rdt_timing_samples_of(const rdt_timing *t, int i);
rdt_timing_stat rdt_timing_samples_stat(rdt_timing_samples s);
/* Do they vary by more than runs of one thing on a quiet machine do? */
bool rdt_timing_is_noisy(rdt_timing_samples s);
rdt_timing_ratio rdt_timing_sum_ratio(const rdt_timing_pair *pairs, int n);
void rdt_timing_free(rdt_timing *t);

#endif
