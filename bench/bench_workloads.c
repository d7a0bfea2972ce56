#include "bench_workloads.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench_conv.h"
#include "bench_gemm.h"
#include "core/cpu_info.h"
#include "core/memory.h"
#include "plan/profile.h"

static rdt_status add(rdt_bench_networks *n, const rdt_workload *w, int64_t batch, rdt_reason *why) {
  if (n->count == RDT_BENCH_NETWORKS)
    return rdt_fail(why, RDT_ERR_ARG, "more than %d workloads: take fewer", RDT_BENCH_NETWORKS);
  rdt_bench_network *x = &n->at[n->count++];
  *x = (rdt_bench_network){.workload = w, .batch = batch};
  rdt_workload_name(w, batch, x->name, sizeof x->name);
  return RDT_OK;
}

static rdt_status add_word(const char *word, rdt_bench_networks *n, rdt_reason *why) {
  int count;
  bool group = false;
  const rdt_workload *w = rdt_workload_table(&count);
  int64_t batch;
  for (int i = 0; i < count; i++) {
    if (strcmp(w[i].group, word) != 0) continue;
    group = true;
    for (int j = 0; j < w[i].batches; j++) RDT_TRY(add(n, &w[i], w[i].batch[j], why));
  }
  if (group) return RDT_OK;
  RDT_TRY(rdt_workload_find(word, &w, &batch, why));
  return add(n, w, batch, why);
}

rdt_status rdt_bench_take_networks(const char *words, rdt_bench_networks *n, rdt_reason *why) {
  char word[64];
  for (n->count = 0; *words; words += strcspn(words, ",") + (words[strcspn(words, ",")] == ',')) {
    snprintf(word, sizeof word, "%.*s", (int)strcspn(words, ","), words);
    RDT_TRY(add_word(word, n, why));
  }
  int layers = 0;
  for (int i = 0; i < n->count; i++) layers += n->at[i].workload->count;
  if (layers > RDT_BENCH_CASES)
    return rdt_fail(why, RDT_ERR_ARG, "%d layers, of %d at a time: take fewer workloads", layers, RDT_BENCH_CASES);
  return layers > 0 ? RDT_OK : rdt_fail(why, RDT_ERR_ARG, "no workload is named: `redoubt list workloads`");
}

/* ---- layers ---- */

typedef struct job {
  const rdt_bench_ask *ask;
  const rdt_bench_networks *networks;
  rdt_layer layers[RDT_BENCH_CASES]; /* as they are run */
  int network[RDT_BENCH_CASES];
  bool cold[RDT_BENCH_CASES];
} job;

static rdt_layer unfolded(const rdt_layer *l) {
  rdt_layer x = {.name = l->name, .op = RDT_KOP_GEMM, .groups = 1, .times = l->times * l->groups};
  rdt_layer_mnk(l, 1, &x.m, &x.n, &x.k);
  return x;
}

static int64_t batch_of(const job *j, int i) {
  return j->networks->at[j->network[i]].batch;
}

static rdt_status fill(void *user, int i, rdt_problem *p, uint64_t *seed, rdt_reason *why) {
  const job *j = user;
  const char *epilogue = j->ask->epilogue;
  const bool bias = strcmp(epilogue, "none") != 0;
  rdt_problem_clear(p);
  RDT_TRY(rdt_layer_problem(&j->layers[i], batch_of(j, i), j->ask->dtype, p, why));
  if (bias && p->acc != RDT_F32)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "--epilogue %s: only f32, bf16 and f16 layers take one", epilogue);
  if (bias) p->epilogue.bias = rdt_tensor_dense(NULL, RDT_F32, 1, &p->out.shape[rdt_problem_channel(p)]);
  if (strcmp(epilogue, "bias+relu") == 0) p->epilogue.act.fn = RDT_FN_RELU;
  const bool ok = rdt_bench_random(&p->in[0], seed) && rdt_bench_random_weights(&p->in[1], seed) &&
                  rdt_bench_random(&p->out, seed) && (!bias || rdt_bench_random(&p->epilogue.bias, seed));
  return ok ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

static void gather(void *user, rdt_field *f) {
  const job *j = user;
  if (f->problems->op == RDT_KOP_CONV)
    rdt_bench_gather_conv(j->ask->baselines, f);
  else
    rdt_bench_gather_gemm(j->ask->baselines, f);
}

static const char *network_of(const void *user, int64_t group) {
  const job *j = user;
  return j->networks->at[group].name;
}

static void cells(const void *user, int i, rdt_bench_out *t) {
  const job *j = user;
  const rdt_layer *l = &j->layers[i];
  int64_t mnk[3];
  rdt_layer_mnk(l, batch_of(j, i), &mnk[0], &mnk[1], &mnk[2]);
  rdt_bench_text(t, network_of(user, j->network[i]));
  rdt_bench_text(t, l->name);
  rdt_bench_text(t, rdt_kop_name(l->op));
  for (int d = 0; d < 3; d++) rdt_bench_integer(t, mnk[d]);
  rdt_bench_integer(t, l->groups);
  rdt_bench_integer(t, l->times);
  rdt_bench_text(t, rdt_dtype_name(j->ask->dtype));
  rdt_bench_text(t, j->ask->epilogue);
  rdt_bench_text(t, j->cold[i] ? "cold" : "warm");
  rdt_bench_fixed(t, rdt_work_intensity(rdt_layer_work(l, batch_of(j, i), j->ask->dtype, 1)), 2);
}

static const char *const columns[] = {"workload",       "layer", "op",    "m",        "n",       "k",
                                      "groups",         "times", "dtype", "epilogue", "weights", "intensity",
                                      RDT_BENCH_COLUMNS};

/* ---- weights as a network has them ---- */

enum { MOST_COPIES = 512 }; /* plans of each contender */

static rdt_bench_case case_of(const job *j, int i) {
  const rdt_layer *l = &j->layers[i];
  const int64_t batch = batch_of(j, i);
  const double size = (double)rdt_dtype_size(j->ask->dtype);
  rdt_problem p;
  rdt_bench_case x = {.op = l->op, .times = l->times, .group = j->network[i]};
  if (rdt_layer_problem(l, batch, j->ask->dtype, &p, NULL) != RDT_OK) return x;
  x.flops = rdt_problem_flops(&p);
  x.data = (double)rdt_tensor_count(&p.in[0]) * size + (double)rdt_tensor_count(&p.out) * (double)rdt_dtype_size(p.acc);
  x.weights = (double)rdt_tensor_count(&p.in[1]) * size;
  rdt_layer_text(l, batch, x.name, sizeof x.name);
  rdt_problem_clear(&p);
  return x;
}

/* Between two runs of a layer a network reads all of its other weights. Where those together are more than a cache
 * holds, by the planner's rule, so many copies of the layer's own take turns that each comes from memory, as there. */
static void set_copies(job *j, rdt_bench_case *cases, int count) {
  for (int i = 0; i < count; i++) {
    double all = 0.0;
    for (int k = 0; k < count; k++)
      if (cases[k].group == cases[i].group) all += cases[k].weights * (double)cases[k].times;
    j->cold[i] = rdt_weights_are_cold(all);
    const double turns = ceil(2.0 * rdt_cpu_cache() / fmax(cases[i].weights + cases[i].data, 1.0)) + 1.0;
    cases[i].copies = j->cold[i] ? (int)fmin(turns, MOST_COPIES) : 1;
  }
}

static int take_layers(job *j, bool convolutions) {
  int count = 0;
  for (int i = 0; i < j->networks->count; i++) {
    const rdt_workload *w = j->networks->at[i].workload;
    for (int k = 0; k < w->count && count < RDT_BENCH_CASES; k++, count++) {
      j->layers[count] = convolutions ? w->layers[k] : unfolded(&w->layers[k]);
      j->network[count] = i;
    }
  }
  return count;
}

int rdt_bench_workloads(const rdt_bench_ask *ask, const rdt_bench_networks *networks, bool convolutions) {
  int count = 0;
  job *j = rdt_calloc(1, sizeof *j);
  rdt_bench_case *cases = rdt_calloc(RDT_BENCH_CASES, sizeof *cases);
  if (j && cases) {
    j->ask = ask;
    j->networks = networks;
    count = take_layers(j, convolutions);
    for (int i = 0; i < count; i++) cases[i] = case_of(j, i);
    set_copies(j, cases, count);
  }
  const rdt_bench_ops o = {.ask = ask,
                           .name = "workloads",
                           .version = 1,
                           .cases = cases,
                           .count = count, /* 0: it complains */
                           .columns = columns,
                           .n_columns = sizeof columns / sizeof *columns,
                           .group = "workload",
                           .group_text = network_of,
                           .user = j,
                           .fill = fill,
                           .gather = gather,
                           .cells = cells};
  const int code = rdt_bench_ops_run(&o);
  rdt_free(cases);
  rdt_free(j);
  return code;
}
