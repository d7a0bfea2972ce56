#include "shapes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/workloads.h"

static rdt_status add_length(const char *option, int64_t length, rdt_bench_lengths *l, rdt_reason *why) {
  if (l->count == RDT_BENCH_LENGTHS)
    return rdt_fail(why, RDT_ERR_ARG, "--%s gives more than %d lengths: take a larger step", option, RDT_BENCH_LENGTHS);
  l->at[l->count++] = length;
  return RDT_OK;
}

/* One item of a list: a length, or from:to:step. */
static rdt_status take_item(const char *option, const char *item, rdt_bench_lengths *l, rdt_reason *why) {
  long long v[3];
  int used = 0, n = sscanf(item, "%lld%n", &v[0], &used);
  if (n == 1 && item[used] == ':') n = sscanf(item, "%lld:%lld:%lld%n", &v[0], &v[1], &v[2], &used);
  if ((n != 1 && n != 3) || item[used] != '\0')
    return rdt_fail(why, RDT_ERR_ARG, "--%s takes lengths as in 1024, 1,8,32 or FROM:TO:STEP, not '%s'", option, item);
  if (n == 1) v[1] = v[0], v[2] = 1;
  if (v[2] < 1) return rdt_fail(why, RDT_ERR_ARG, "--%s %s: the step must be 1 or more", option, item);
  if (v[1] < v[0])
    return rdt_fail(why, RDT_ERR_ARG, "--%s %s is empty: write %lld:%lld:%lld", option, item, v[1], v[0], v[2]);
  if (v[0] < 1 || v[1] > RDT_BENCH_LONGEST)
    return rdt_fail(why, RDT_ERR_ARG, "--%s %s: lengths go from 1 to %d", option, item, RDT_BENCH_LONGEST);
  for (long long at = v[0]; at <= v[1]; at += v[2]) {
    RDT_TRY(add_length(option, at, l, why));
    if (v[2] > v[1]) break; /* at + step might overflow */
  }
  return RDT_OK;
}

/* The next item of a comma-separated list; false: there is none. Items that are too long are cut, and refused. */
static bool next_item(const char **text, char *item, size_t size) {
  if (!*text) return false;
  const size_t n = strcspn(*text, ",");
  snprintf(item, size, "%.*s", (int)n, *text);
  *text = (*text)[n] ? *text + n + 1 : NULL;
  return true;
}

rdt_status rdt_bench_take_lengths(const char *option, const char *text, rdt_bench_lengths *l, rdt_reason *why) {
  char item[64];
  while (next_item(&text, item, sizeof item)) RDT_TRY(take_item(option, item, l, why));
  return RDT_OK;
}

static rdt_status add_shape(rdt_bench_shapes *s, const char *layer, const int64_t mnk[3], int64_t times,
                            rdt_reason *why) {
  if (s->count == RDT_BENCH_SHAPES)
    return rdt_fail(why, RDT_ERR_ARG, "more than %d shapes: take fewer lengths or larger steps", RDT_BENCH_SHAPES);
  rdt_bench_shape *x = &s->at[s->count++];
  *x = (rdt_bench_shape){.m = mnk[0], .n = mnk[1], .k = mnk[2], .times = times};
  snprintf(x->layer, sizeof x->layer, "%s", layer);
  return RDT_OK;
}

rdt_status rdt_bench_cross(const rdt_bench_lengths *m, const rdt_bench_lengths *n, const rdt_bench_lengths *k,
                           rdt_bench_shapes *s, rdt_reason *why) {
  static const rdt_bench_lengths usual = {{1024}, 1};
  if (m->count > 0 && n->count == 0 && k->count == 0) {
    for (int i = 0; i < m->count; i++) RDT_TRY(add_shape(s, "", (int64_t[]){m->at[i], m->at[i], m->at[i]}, 1, why));
    return RDT_OK;
  }
  if (m->count == 0) m = &usual;
  if (n->count == 0) n = &usual;
  if (k->count == 0) k = &usual;
  for (int a = 0; a < m->count; a++)
    for (int b = 0; b < n->count; b++)
      for (int c = 0; c < k->count; c++) RDT_TRY(add_shape(s, "", (int64_t[]){m->at[a], n->at[b], k->at[c]}, 1, why));
  return RDT_OK;
}

rdt_status rdt_bench_take_mnk(const char *text, rdt_bench_shapes *s, rdt_reason *why) {
  char item[96];
  while (next_item(&text, item, sizeof item)) {
    long long v[3];
    int used = 0;
    bool good = sscanf(item, "%lld:%lld:%lld%n", &v[0], &v[1], &v[2], &used) == 3 && item[used] == '\0';
    for (int i = 0; good && i < 3; i++) good = v[i] > 0 && v[i] <= RDT_BENCH_LONGEST;
    if (!good)
      return rdt_fail(why, RDT_ERR_ARG, "--mnk takes three lengths from 1 to %d as in 1024:1024:1024, not '%s'",
                      RDT_BENCH_LONGEST, item);
    RDT_TRY(add_shape(s, "", (int64_t[]){v[0], v[1], v[2]}, 1, why));
  }
  return RDT_OK;
}

/* ---- sets ---- */

/* Of a workload's layer, a convolution as the product of its unfolded image and its filters, once for each group. */
static rdt_status take_workload(const char *name, rdt_bench_shapes *s, rdt_reason *why) {
  const rdt_workload *w;
  int64_t batch, mnk[3];
  RDT_TRY(rdt_workload_find(name, &w, &batch, why));
  for (int i = 0; i < w->count; i++) {
    const rdt_layer *l = &w->layers[i];
    rdt_layer_mnk(l, batch, &mnk[0], &mnk[1], &mnk[2]);
    RDT_TRY(add_shape(s, l->name, mnk, l->times * l->groups, why));
  }
  return RDT_OK;
}

rdt_status rdt_bench_take_set(const char *name, rdt_bench_shapes *s, rdt_reason *why) {
  static const int64_t squares[] = {1024, 2048, 4096}, weights[] = {1024, 4096}, rows[] = {1, 8, 32, 64};
  if (strcmp(name, "squares") == 0) {
    for (int i = 0; i < 3; i++) RDT_TRY(add_shape(s, "", (int64_t[]){squares[i], squares[i], squares[i]}, 1, why));
    return RDT_OK;
  }
  if (strcmp(name, "skinny") == 0) {
    for (int i = 0; i < 8; i++)
      RDT_TRY(add_shape(s, "", (int64_t[]){rows[i % 4], weights[i / 4], weights[i / 4]}, 1, why));
    return RDT_OK;
  }
  return take_workload(name, s, why);
}
