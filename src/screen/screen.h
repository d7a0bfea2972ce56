/* A burn-in of cores, or of a GPU's multiprocessors: every one computes products whose results are known, on every
 * instruction path, all at the same time; one whose bits are others is named. */
#ifndef RDT_SCREEN_SCREEN_H
#define RDT_SCREEN_SCREEN_H

#include "cuda/sms.h"
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
  rdt_sms *sms;           /* a GPU: its multiprocessors in place of the cores of the process; NULL: these */
  bool (*progress)(void *user, double part, const char *what); /* false: stop, RDT_ERR_CANCELLED; NULL: nobody asks */
  void *user;
} rdt_screen_job;

/* The instructions that a kernel is compiled for, and a datatype. */
typedef struct rdt_screen_path {
  const rdt_kernel *kernel; /* NULL: a GPU's */
  rdt_isa isa;
  rdt_dtype dtype;
  char name[64]; /* "gemm_f32_native avx2", "wgmma f16" */
} rdt_screen_path;

/* A product that a core computed wrongly: the first time. */
typedef struct rdt_screen_failed {
  int path, known;         /* in the screen's lists */
  int64_t failures, wrong; /* how often; elements, the first time */
  int64_t row, column;     /* the first of them, */
  double expected, actual; /* what it had to be and was, */
  uint64_t bits;           /* and the bits in which they differ */
  int retested, retests_failed;
  void *result; /* all of it, as known->c; NULL: not kept (a GPU's) */
} rdt_screen_failed;

typedef struct rdt_screen_unit {
  int core; /* or multiprocessor */
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
 * threads cannot be kept on a core each, or a multiprocessor cannot be reached; RDT_ERR_FAULT: no core forms the known
 * products; RDT_ERR_CANCELLED. Clear in any case. */
rdt_status rdt_screen_run(const rdt_screen_job *job, rdt_screen *s, rdt_reason *why);
void rdt_screen_clear(rdt_screen *s);
/* all.c: several devices at the same time, job i's into s[i]; the cores of the process are one of them at most. A fault
 * is of those whose names its layer= matches: "cpu", "cuda:0". progress is called for one at a time, with the part of
 * the one that is behind. The first error ends all. Clear each of them in any case. */
rdt_status rdt_screen_run_all(const rdt_screen_job *jobs, int n, rdt_screen *s, rdt_reason *why);
const char *rdt_screen_device(const rdt_screen_job *job); /* "cpu", "cuda:0" */

/* For those who screen: the known products of a list of datatypes, up to the level's size (create forms them); from
 * what was counted, who is bad. */
typedef rdt_status rdt_screen_form(void *self, rdt_dtype t, rdt_known_pattern p, rdt_known_size size, rdt_known *k,
                                   rdt_reason *why);
rdt_status rdt_screen_list_known(rdt_screen *s, int level, const rdt_dtype *dtypes, int n, rdt_screen_form *form,
                                 void *self, rdt_reason *why);
void rdt_screen_judge(rdt_screen *s);
int rdt_screen_listed(const rdt_screen_unit *u); /* of its failed products those that are in the list */
/* Each product once: the first multiprocessor that is wrong, -1: none is. */
rdt_status rdt_screen_suspect(rdt_sms *m, const rdt_fault *fault, int *sm, rdt_reason *why);
/* multiprocessors.c: the part of rdt_screen_run that is theirs */
rdt_status rdt_screen_sms(const rdt_screen_job *job, rdt_screen *s, double seconds, rdt_reason *why);

/* sensors.c: root: "", or a folder with sys and proc in it, for tests */
double rdt_sensor_clock(const char *root, int core); /* MHz; NaN: not readable */
double rdt_sensor_temperature(const char *root);     /* of the hottest sensor of processors, degrees Celsius; NaN */

#endif
