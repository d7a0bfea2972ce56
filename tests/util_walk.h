/* A model that runs on a machine of util_machine.h, with what was found in its last run. */
#ifndef TEST_UTIL_WALK_H
#define TEST_UTIL_WALK_H

#include <redoubt/redoubt.h>

#include "util_machine.h"
#include "util_onnx.h"

typedef struct seen {
  int events;
  rdt_event first; /* strings are gone */
  char what[32], node[64], text[400];
} seen;

typedef struct walk {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor in[2];
  int n_in;
  void *clean;
  util_machine_faults *faults;
} walk;

extern seen walk_found; /* of the last run */

void walk_must(rdt_status status, const walk *w); /* or the test fails */
rdt_status walk_run(walk *w, rdt_run_result *r);
size_t bytes_of(const rdt_tensor *t);
bool as_clean(walk *w); /* output 0 has the bits of the first run */
/* linear: has the device products? */
walk walk_start(const char *path, const char *scheme, bool linear, bool device, rdt_on_fault on_fault, int scrub);
void walk_first_run(walk *w);
void walk_end(walk *w);
/* Six faults of this spec: each is found as that, repaired, and gone in the next run. */
void expect_repair(walk *w, const char *fault, const char *what, rdt_diagnosis diagnosis);
/* A constant of f16, of at most 1024 numbers. */
void halves(util_onnx *m, const char *name, int rank, const int64_t *shape, uint64_t seed);

#endif
