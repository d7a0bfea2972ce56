/* A burn-in of cores: every one computes products whose results are known, on every instruction path, all at the same
 * time; a core whose bits are others is named. */
#ifndef RDT_SCREEN_SCREEN_H
#define RDT_SCREEN_SCREEN_H

#include "plan/known.h"

/* X(level, seconds, size): as long as nobody asks for another time; products of which sizes */
#define RDT_SCREEN_LEVELS(X) \
  X(1, 3, RDT_KNOWN_SMALL)   \
  X(2, 120, RDT_KNOWN_LARGE) \
  X(3, 900, RDT_KNOWN_LARGE) \
  X(4, 3600, RDT_KNOWN_LARGE)
enum { RDT_SCREEN_MOST_LEVEL = 4, RDT_SCREEN_MOST_FAILED = 8 };
double rdt_screen_seconds(int level);

typedef struct rdt_screen_job {
  int level;
  double seconds;         /* 0: the level's; every product is made once, however long that takes */
  int retests;            /* of a product that failed, at once on the same core */
  const rdt_fault *fault; /* a core that computes wrongly, simulated (core=N); NULL: none */
  bool (*progress)(double part, const char *what); /* false: stop, RDT_ERR_CANCELLED; NULL: nobody asks */
} rdt_screen_job;

/* The instructions that a kernel is compiled for, and a datatype. */
typedef struct rdt_screen_path {
  const rdt_kernel *kernel;
  rdt_isa isa;
  rdt_dtype dtype;
  char name[64]; /* "gemm_f32_native avx2" */
} rdt_screen_path;

/* A product that a core computed wrongly: the first time. */
typedef struct rdt_screen_failed {
  int path, known;         /* in the screen's lists */
  int64_t failures, wrong; /* how often; elements, the first time */
  int64_t row, column;     /* the first of them, */
  double expected, actual; /* what it had to be and was, */
  uint64_t bits;           /* and the bits in which they differ */
  int retested, retests_failed;
  void *result; /* all of it, as known->c */
} rdt_screen_failed;

typedef struct rdt_screen_unit {
  int core;
  int64_t products, failures, retested, retests_failed;
  rdt_diagnosis diagnosis; /* NONE: it is good; PERSISTENT: a quarter of its retests failed; TRANSIENT: fewer; UNKNOWN:
                              nothing was retested */
  double clock;            /* MHz, at the end; NaN: nobody says */
  int n_failed;            /* different products; the list has the first ones */
  rdt_screen_failed failed[RDT_SCREEN_MOST_FAILED];
} rdt_screen_unit;

typedef struct rdt_screen {
  rdt_screen_path *paths;
  int n_paths;
  rdt_known *known;
  int n_known;
  rdt_screen_unit *units;
  int n_units, bad;
  int64_t cases, products;
  double seconds, temperature[2]; /* degrees Celsius, before and after; NaN: nobody says */
} rdt_screen;

/* RDT_OK also where units are bad. RDT_ERR_ARG: the fault is none of a core that is screened; RDT_ERR_UNSUPPORTED: the
 * threads cannot be kept on a core each; RDT_ERR_FAULT: no core forms the known products; RDT_ERR_CANCELLED. Clear in
 * any case. */
rdt_status rdt_screen_run(const rdt_screen_job *job, rdt_screen *s, rdt_reason *why);
void rdt_screen_clear(rdt_screen *s);

/* sensors.c: root: "", or a folder with sys and proc in it, for tests */
double rdt_sensor_clock(const char *root, int core); /* MHz; NaN: not readable */
double rdt_sensor_temperature(const char *root);     /* of the hottest sensor of processors, degrees Celsius; NaN */

#endif
