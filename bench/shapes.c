#include "shapes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- networks ---- */

int64_t rdt_bench_layer_out(const rdt_bench_layer *l) {
  return (l->side + 2 * l->pad - l->kernel) / l->stride + 1;
}

/* One that is there already counts once more, under the name of the first. Returns the side of its output. */
static int64_t add_layer(rdt_bench_layers *l, const rdt_bench_layer *x) {
  for (int i = 0; i < l->count; i++) {
    rdt_bench_layer *y = &l->at[i];
    if (y->ic == x->ic && y->oc == x->oc && y->side == x->side && y->kernel == x->kernel && y->stride == x->stride) {
      y->times++;
      return rdt_bench_layer_out(y);
    }
  }
  l->at[l->count++] = *x;
  return rdt_bench_layer_out(x);
}

/* ResNet-50: a stem, then four stages of bottlenecks: 1 x 1 to the width, 3 x 3 (with the stage's stride in its first
 * block), 1 x 1 to four times the width; the first block's shortcut is a 1 x 1 with the same stride. */
static void resnet50(rdt_bench_layers *l) {
  static const int blocks[] = {3, 4, 6, 3};
  const rdt_bench_layer stem = {
      .name = "stem", .ic = 3, .oc = 64, .side = 224, .kernel = 7, .stride = 2, .pad = 3, .times = 1};
  const rdt_bench_layer pool = {.side = add_layer(l, &stem), .kernel = 3, .stride = 2, .pad = 1};
  int64_t side = rdt_bench_layer_out(&pool), channels = stem.oc;
  for (int stage = 0; stage < 4; stage++)
    for (int block = 0; block < blocks[stage]; block++) {
      const int64_t width = 64 << stage, stride = stage > 0 && block == 0 ? 2 : 1;
      rdt_bench_layer in = {.ic = channels, .oc = width, .side = side, .kernel = 1, .stride = 1, .times = 1};
      rdt_bench_layer mid = {
          .ic = width, .oc = width, .side = side, .kernel = 3, .stride = stride, .pad = 1, .times = 1};
      rdt_bench_layer out = {.ic = width, .oc = 4 * width, .kernel = 1, .stride = 1, .times = 1};
      rdt_bench_layer shortcut = {
          .ic = channels, .oc = 4 * width, .side = side, .kernel = 1, .stride = stride, .times = 1};
      snprintf(in.name, sizeof in.name, "%d.%d in", stage + 1, block + 1);
      snprintf(mid.name, sizeof mid.name, "%d.%d mid", stage + 1, block + 1);
      snprintf(out.name, sizeof out.name, "%d.%d out", stage + 1, block + 1);
      snprintf(shortcut.name, sizeof shortcut.name, "%d.%d shortcut", stage + 1, block + 1);
      add_layer(l, &in);
      out.side = add_layer(l, &mid);
      add_layer(l, &out);
      if (block == 0) add_layer(l, &shortcut);
      side = out.side;
      channels = out.oc;
    }
}

rdt_status rdt_bench_take_layers(const char *name, rdt_bench_layers *l, rdt_reason *why) {
  if (strcmp(name, "resnet50") != 0)
    return rdt_fail(why, RDT_ERR_ARG, "--set takes %s, not '%s'", RDT_BENCH_CONV_SETS, name);
  resnet50(l);
  return RDT_OK;
}

/* Each convolution as the product of its image's pixels, unfolded, and its filters. */
static rdt_status take_network(const char *name, rdt_bench_shapes *s, rdt_reason *why) {
  rdt_bench_layers l = {.count = 0};
  RDT_TRY(rdt_bench_take_layers(name, &l, why));
  for (int i = 0; i < l.count; i++) {
    const rdt_bench_layer *x = &l.at[i];
    const int64_t out = rdt_bench_layer_out(x);
    RDT_TRY(add_shape(s, x->name, (int64_t[]){out * out, x->oc, x->ic * x->kernel * x->kernel}, x->times, why));
  }
  return RDT_OK;
}

rdt_status rdt_bench_take_set(const char *name, rdt_bench_shapes *s, rdt_reason *why) {
  static const int64_t squares[] = {1024, 2048, 4096}, weights[] = {1024, 4096}, rows[] = {1, 8, 32, 64};
  if (strcmp(name, "resnet50") == 0) return take_network(name, s, why);
  if (strcmp(name, "squares") == 0) {
    for (int i = 0; i < 3; i++) RDT_TRY(add_shape(s, "", (int64_t[]){squares[i], squares[i], squares[i]}, 1, why));
    return RDT_OK;
  }
  if (strcmp(name, "skinny") == 0) {
    for (int i = 0; i < 8; i++)
      RDT_TRY(add_shape(s, "", (int64_t[]){rows[i % 4], weights[i / 4], weights[i / 4]}, 1, why));
    return RDT_OK;
  }
  return rdt_fail(why, RDT_ERR_ARG, "--set takes one of %s, not '%s'", RDT_BENCH_GEMM_SETS, name);
}
