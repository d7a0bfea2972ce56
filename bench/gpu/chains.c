/* make gpu-bench: networks' products end to end.
 *     gpu_bench_chains [RECORD.json|- [NETWORK,...|- [FAULTS]]]
 * Each workload (src/plan/workloads.def) as the chain of its products, in one CUDA graph: a layer reads what the layer
 * before it has stored (where that is shorter than its A, then what lies behind it), weights are each layer's own.
 * Three graphs are replayed in turn: of cuBLAS, each layer by what is the fastest of cublasGemmEx and of cuBLASLt's
 * proposals; of own kernels without a check; and of own kernels with theirs, which complain into the host's memory: at
 * the end it has all verdicts. Layers are as often there as they occur, one after the other; lengths are multiples of
 * eight. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "chain.h"
#include "cuda/sms.h"
#include "plan/workloads.h"
#include "turns.h"

enum { KEPT = 6, PLANS = 2, KNOWN = 1024, LAYERS = 256, LAUNCHES = 8, TRIALS = 15, WARM = 2, EIGHT = 8, NETWORKS = 64 };
/* What a layer takes longer behind one of another kernel, whose code has been in the caches: a guess by which a second
 * plan is made; the faster one is taken. */
static const double CHANGE_US[PLANS] = {0.0, 0.8};
static const double LEAST_US = 150.0; /* of a graph: what is shorter is in it several times, one behind the other */

typedef struct choice { /* of a shape, for each side: the fastest first */
  chain_shape shape;
  int count[CHAIN_SIDES];
  chain_way way[CHAIN_SIDES][KEPT];
  chain_layer like[CHAIN_SIDES][KEPT]; /* one that was made so */
} choice;

typedef struct network {
  char name[64];
  int count; /* of distinct shapes */
  int times[LAYERS];
  choice *what[LAYERS];
  int pick[CHAIN_SIDES][LAYERS]; /* of what is kept */
  int layers;                    /* of the chain */
  int repeat;                    /* in a graph */
  double mhz;                    /* afterwards */
  chain_tally tally;
  turns graphs[CHAIN_SIDES];
} network;

static chain_bench bench;
static cudaStream_t side;
static cudaEvent_t fork_, join_;
static choice known[KNOWN];
static int n_known;
static char *buffers[3]; /* the first layer's A, and two that layers read and write in turns */
static size_t room;
static int code;
static rdt_cuda_verdict *verdicts; /* of layers, in the host's pinned memory */
static FILE *record;
static int64_t faults; /* of a network */
static char *spare;    /* where results with faults go */

static void must(rdt_status s, const rdt_reason *why) {
  if (s != RDT_OK) fprintf(stderr, "gpu-bench: %s\n", why->text), exit(3);
}

static void *take(size_t bytes) {
  void *p;
  rdt_reason why = {""};
  must(rdt_cuda_alloc(bytes, &p, &why), &why);
  return p;
}

static size_t half_bytes(int64_t x, int64_t y) {
  return (size_t)x * (size_t)y * 2;
}

/* Weights whose products are as large as what goes in. */
static void fill_weights(void *to, const chain_shape *s, uint64_t seed) {
  enum { SOME = 65521 };
  static uint16_t some[SOME];
  const double scale = sqrt(12.0 / s->k);
  const size_t bytes = half_bytes(s->n, s->k);
  for (int i = 0; i < SOME; i++) rdt_store(some, RDT_F16, i, (rdt_bench_uniform(&seed) - 0.5) * scale);
  size_t done = bytes < sizeof some ? bytes : sizeof some;
  turns_must(cudaMemcpyAsync(to, some, done, cudaMemcpyHostToDevice, bench.stream), "weights");
  for (; done < bytes; done *= 2)
    turns_must(cudaMemcpyAsync((char *)to + done, to, bytes - done < done ? bytes - done : done,
                               cudaMemcpyDeviceToDevice, bench.stream),
               "weights");
  turns_must(cudaStreamSynchronize(bench.stream), "weights");
}

static void fill_buffers(void) {
  for (int i = 0; i < 3; i++) turns_fill(buffers[i], RDT_F16, room / 2, (uint64_t)i + 1, true, bench.stream);
}

/* ---- which way ---- */

typedef struct contender {
  chain_way *way;
  chain_layer layers[LAUNCHES]; /* with weights of their own, or one for all */
  int made;
  turns turns;
} contender;

/* Sums that launches have left are compared beside those that follow, of so many at once: what is not in order with the
 * launches does not let the next one begin early. */
enum { TOGETHER = 8 };
typedef struct left_sums {
  rdt_cuda_gemm *list[TOGETHER];
  int count;
  bool beside; /* something is compared there */
} left_sums;

static void compare_beside(left_sums *of, cudaStream_t stream) {
  rdt_reason why = {""};
  turns_must(cudaEventRecord(fork_, stream), "event"), turns_must(cudaStreamWaitEvent(side, fork_, 0), "event");
  must(rdt_cuda_gemm_settle(of->list, of->count, side, &why), &why);
  of->count = 0, of->beside = true;
}
static void leave(left_sums *of, const chain_layer *l, cudaStream_t stream) {
  if (!chain_leaves_sums(&l->way)) return;
  of->list[of->count++] = l->gemm;
  if (of->count == TOGETHER) compare_beside(of, stream);
}
static void meet(left_sums *of, cudaStream_t stream) {
  if (of->count) compare_beside(of, stream);
  if (!of->beside) return;
  turns_must(cudaEventRecord(join_, side), "event"), turns_must(cudaStreamWaitEvent(stream, join_, 0), "event");
  of->beside = false;
}

static bool launch_one(void *user, int i, cudaStream_t stream) {
  static left_sums sums;
  contender *c = user;
  const chain_layer *l = &c->layers[i % c->made];
  if (i == 0) sums = (left_sums){.count = 0}; /* what was launched once to warm up, its next launch compares */
  const bool good = chain_launch(&bench, l, buffers[1], buffers[2], stream);
  if (good) leave(&sums, l, stream);
  if (i == LAUNCHES - 1) meet(&sums, stream);
  return good;
}

static void drop(contender *c) {
  turns_free(&c->turns);
  for (int i = 0; i < c->made; i++) chain_drop(&c->layers[i]);
  c->made = 0;
}

/* Copies of the weights that launches take in turn, so that as few of them lie in the L2 as in a network. */
static int copies_of(const chain_shape *s) {
  const size_t cold = (size_t)64 << 20, bytes = half_bytes(s->n, s->k);
  return bytes * LAUNCHES < cold ? 1 : LAUNCHES;
}

static void prune(contender *list, int n, double most) {
  double least = INFINITY;
  for (int i = 0; i < n; i++)
    if (list[i].made) least = fmin(least, turns_at(&list[i].turns, 0.0));
  for (int i = 0; i < n; i++)
    if (list[i].made && turns_at(&list[i].turns, 0.0) > most * least) drop(&list[i]);
}

static void replay(contender *list, int n, int warm, int trials) {
  static turns *all[CHAIN_WAYS];
  int left = 0;
  for (int i = 0; i < n; i++)
    if (list[i].made) all[left++] = &list[i].turns;
  turns_take(all, left, warm, trials, bench.stream);
}

/* What is computed is what cuBLAS computes of the same operands. */
static void compare(const choice *c, const chain_layer *l, void *a) {
  enum { SOME = 1 << 16 };
  static uint16_t ours[SOME], theirs[SOME];
  const chain_shape *s = &c->shape;
  const size_t bytes = half_bytes(s->m, s->n), some = bytes < sizeof ours ? bytes : sizeof ours;
  const cublas_gemm g = chain_gemm(s, l->way.transposed);
  rdt_reason why = {""};
  double most = 0.0;
  if (!bench.library) return;
  for (int turn = 0; turn < 2; turn++) {
    if (turn ? !cublas_ex(bench.library, &g, a, l->weights, buffers[2], bench.stream)
             : !chain_launch(&bench, l, a, buffers[2], bench.stream))
      exit(3);
    must(rdt_cuda_get(turn ? theirs : ours, buffers[2] + bytes - some, some, bench.stream, &why), &why);
  }
  for (size_t i = 0; i < some / 2; i++) {
    const double x = rdt_load(ours, RDT_F16, (int64_t)i), y = rdt_load(theirs, RDT_F16, (int64_t)i);
    const double d = fabs(x - y) / (fabs(y) + 0.5);
    if (!(d <= most)) most = d;
  }
  if (!(most < 3e-3)) printf("WRONG %s of %d x %d x %d: off by %g\n", l->way.name, s->m, s->n, s->k, most), code = 1;
}

static void keep(choice *c, chain_side which, contender *list, int n) {
  void *const trial[2] = {buffers[1], buffers[2]};
  for (int kept = 0; kept < KEPT; kept++) {
    contender *best = NULL;
    for (int i = 0; i < n; i++)
      if (list[i].made && (!best || turns_at(&list[i].turns, 0.5) < turns_at(&best->turns, 0.5))) best = &list[i];
    if (!best) return;
    chain_layer *l = &best->layers[0];
    if (which != CHAIN_LIBRARY) compare(c, l, buffers[1]);
    c->way[which][kept] = l->way;
    c->way[which][kept].us = 1e6 * turns_at(&best->turns, 0.5);
    if (l->fused && !chain_make(&bench, &l->way, &c->shape, l->weights, trial, l, &c->like[which][kept])) exit(3);
    c->count[which]++;
    drop(best);
  }
}

static void choose(choice *c, chain_side which, void *const weights[LAUNCHES], int copies) {
  static chain_way ways[CHAIN_WAYS];
  static contender list[CHAIN_WAYS];
  const int n = chain_ways(&bench, which, &c->shape, ways);
  for (int i = 0; i < n; i++) {
    contender *x = &list[i];
    /* What leaves sums is launched again when they have been compared: each launch has its own. */
    const int each = chain_leaves_sums(&ways[i]) ? LAUNCHES : copies;
    *x = (contender){.way = &ways[i]};
    for (int j = 0; j < each; j++, x->made++)
      if (!chain_make(&bench, x->way, &c->shape, weights[j % copies], (void *const[]){buffers[1], buffers[2]},
                      j ? &x->layers[0] : NULL, &x->layers[j]))
        break;
    if (x->made < each || !turns_capture(&x->turns, LAUNCHES, launch_one, x, bench.stream)) drop(x);
  }
  replay(list, n, 1, 2);
  prune(list, n, 1.3);
  replay(list, n, 0, 7);
  keep(c, which, list, n);
  for (int i = 0; i < n; i++) drop(&list[i]);
}

static choice *choice_of(const chain_shape *s) {
  for (int i = 0; i < n_known; i++)
    if (memcmp(&known[i].shape, s, sizeof *s) == 0) return &known[i];
  if (n_known == KNOWN) exit(2);
  choice *c = &known[n_known++];
  void *weights[LAUNCHES] = {NULL};
  *c = (choice){.shape = *s};
  const int copies = copies_of(s);
  for (int i = 0; i < copies; i++) weights[i] = take(half_bytes(s->n, s->k)), fill_weights(weights[i], s, 7);
  for (chain_side which = CHAIN_LIBRARY; which < CHAIN_SIDES; which++) choose(c, which, weights, copies);
  for (int i = 0; i < copies; i++) rdt_cuda_free(weights[i]);
  return c;
}

/* ---- a network ---- */

static chain_shape shape_of(const rdt_layer *l, int64_t batch) {
  int64_t m, n, k;
  rdt_layer_mnk(l, batch, &m, &n, &k);
  return (chain_shape){(int)((m + EIGHT - 1) / EIGHT * EIGHT), (int)((n + EIGHT - 1) / EIGHT * EIGHT),
                       (int)((k + EIGHT - 1) / EIGHT * EIGHT)};
}

static void add_layers(network *n, const rdt_workload *w, int64_t batch) {
  for (int i = 0; i < w->count; i++) {
    const chain_shape s = shape_of(&w->layers[i], batch);
    if (n->count == LAYERS) exit(2);
    n->times[n->count] = (int)w->layers[i].times;
    n->what[n->count++] = choice_of(&s);
    n->layers += (int)w->layers[i].times;
  }
}

typedef struct chain {
  chain_layer *layers;
  int count;
  chain_side which;
} chain;

/* All layers; sums that some leave are compared beside those that follow. */
static bool launch_chain(void *user, int turn, cudaStream_t stream) {
  const chain *c = user;
  left_sums sums = {.count = 0};
  (void)turn;
  for (int i = 0; i < c->count; i++) {
    const chain_layer *l = &c->layers[i];
    if (!chain_launch(&bench, l, buffers[i ? 1 + i % 2 : 0], buffers[2 - i % 2], stream)) return false;
    leave(&sums, l, stream);
  }
  meet(&sums, stream);
  return true;
}

/* The least of all layers' times by themselves and of changes of kernels. */
static void plan(network *n, chain_side which, double change) {
  static double cost[LAYERS][KEPT];
  static int from[LAYERS][KEPT];
  int best = 0;
  for (int i = 0; i < n->count; i++) {
    const choice *c = n->what[i], *before = i ? n->what[i - 1] : NULL;
    for (int j = 0; j < c->count[which]; j++) {
      double least = i ? INFINITY : 0.0;
      for (int b = 0; before && b < before->count[which]; b++) {
        const bool same = strcmp(before->way[which][b].name, c->way[which][j].name) == 0;
        const double x = cost[i - 1][b] + (same ? 0.0 : change);
        if (x < least) least = x, from[i][j] = b;
      }
      cost[i][j] = least + n->times[i] * c->way[which][j].us;
    }
  }
  const int last = n->count - 1;
  for (int j = 1; j < n->what[last]->count[which]; j++)
    if (cost[last][j] < cost[last][best]) best = j;
  for (int i = last; i >= 0; i--) n->pick[which][i] = best, best = from[i][best];
}

static const chain_way *way_of(const network *n, chain_side which, int i) {
  return &n->what[i]->way[which][n->pick[which][i]];
}

static void make_chain(const network *n, void *const *weights, chain *c) {
  c->layers = calloc((size_t)n->layers, sizeof *c->layers);
  if (!c->layers) exit(2);
  for (int i = 0, j = 0; i < n->count; i++)
    for (int t = 0; t < n->times[i]; t++, j++) {
      const choice *what = n->what[i];
      if (!chain_make(&bench, way_of(n, c->which, i), &what->shape, weights[j], (void *const[]){buffers[1], buffers[2]},
                      &what->like[c->which][n->pick[c->which][i]], &c->layers[j]))
        fprintf(stderr, "gpu-bench: %s is refused\n", way_of(n, c->which, i)->name), exit(3);
      chain_tell(&c->layers[j], &verdicts[j]);
      c->count++;
    }
}

/* Layer by layer: clean, then with faults. */
static void plant(network *n, const chain *c) {
  if (!faults) return;
  if (!spare) spare = take(room);
  fill_buffers();
  for (int i = 0; i < c->count; i++) {
    char *a = buffers[i ? 1 + i % 2 : 0], *to = buffers[2 - i % 2];
    const int64_t share = faults * (i + 1) / c->count - faults * i / c->count;
    chain_tell(&c->layers[i], NULL);
    if (!chain_launch(&bench, &c->layers[i], a, to, bench.stream)) exit(3);
    if (share) chain_plant(&bench, &c->layers[i], a, to, spare, room, share, (uint64_t)i + 1, &n->tally);
  }
  if (n->tally.missed || n->tally.wrong) code = 1;
}

static double sum_of(const network *n, chain_side which) { /* of layers by themselves */
  double us = 0.0;
  for (int i = 0; i < n->count; i++) us += n->times[i] * way_of(n, which, i)->us;
  return us;
}

static void drop_chain(chain *c, turns *graph) {
  for (int i = 0; i < c->count; i++) chain_drop(&c->layers[i]);
  free(c->layers);
  *c = (chain){.count = 0};
  turns_free(graph);
}

/* Both plans of a side; the faster one stays. */
static void contest(network *n, chain_side which, void *const *weights, chain *c) {
  int picks[PLANS][LAYERS], plans = 0, best = 0;
  chain chains[PLANS];
  turns graphs[PLANS], *list[PLANS];
  for (; plans < PLANS; plans++) {
    plan(n, which, CHANGE_US[plans]);
    memcpy(picks[plans], n->pick[which], sizeof picks[plans]);
    if (plans && memcmp(picks[plans], picks[plans - 1], (size_t)n->count * sizeof(int)) == 0) break;
    chains[plans] = (chain){.which = which};
    make_chain(n, weights, &chains[plans]);
    if (!turns_capture(&graphs[plans], n->repeat, launch_chain, &chains[plans], bench.stream))
      fprintf(stderr, "gpu-bench: %s: a layer does not run\n", n->name), exit(3);
    list[plans] = &graphs[plans];
  }
  if (plans > 1) turns_take(list, plans, 1, 7, bench.stream);
  for (int i = 1; i < plans; i++)
    if (turns_at(&graphs[i], 0.5) < turns_at(&graphs[best], 0.5)) best = i;
  for (int i = 0; i < plans; i++)
    if (i != best) drop_chain(&chains[i], &graphs[i]);
  memcpy(n->pick[which], picks[best], sizeof picks[best]);
  *c = chains[best], n->graphs[which] = graphs[best];
}

static void look_at_clock(network *n) {
  char bus[32];
  double celsius;
  turns_must(cudaDeviceGetPCIBusId(bus, sizeof bus, bench.device.index), "bus");
  rdt_cuda_sense(bus, &n->mhz, &celsius);
}

static void measure(network *n) {
  static chain chains[CHAIN_SIDES];
  void **weights = calloc((size_t)n->layers, sizeof *weights);
  turns *list[CHAIN_SIDES];
  int sides = 0;
  if (!weights) exit(2);
  for (int i = 0, j = 0; i < n->count; i++)
    for (int t = 0; t < n->times[i]; t++, j++) {
      const chain_shape *s = &n->what[i]->shape;
      weights[j] = take(half_bytes(s->n, s->k)), fill_weights(weights[j], s, (uint64_t)j + 1);
    }
  plan(n, CHAIN_PLAIN, 0.0);
  const double us = sum_of(n, CHAIN_PLAIN);
  n->repeat = us < LEAST_US ? (int)(LEAST_US / us) + 1 : 1;
  memset(verdicts, 0, LAYERS * sizeof *verdicts);
  fill_buffers();
  for (chain_side which = bench.library ? CHAIN_LIBRARY : CHAIN_PLAIN; which < CHAIN_SIDES; which++) {
    contest(n, which, weights, &chains[which]);
    list[sides++] = &n->graphs[which];
  }
  fill_buffers();
  turns_take(list, sides, WARM, TRIALS, bench.stream);
  look_at_clock(n);
  for (int i = 0; i < n->layers; i++)
    if (verdicts[i].suspect | verdicts[i].certain | verdicts[i].cannot)
      printf("WRONG %s: layer %d complains of clean data\n", n->name, i), code = 1;
  plant(n, &chains[CHAIN_PROTECTED]);
  for (chain_side which = CHAIN_LIBRARY; which < CHAIN_SIDES; which++) drop_chain(&chains[which], &n->graphs[which]);
  for (int i = 0; i < n->layers; i++) rdt_cuda_free(weights[i]);
  free(weights);
}

/* ---- what is told ---- */

static const char *const sides_names[CHAIN_SIDES] = {"cublas", "plain", "protected"};

static void print_network(const network *n) {
  const turns *g = n->graphs;
  printf(
      "%-24s %3d layers x %2d: cuBLAS %8.2f us, own %8.2f, protected %8.2f: / cuBLAS %.3f, / own %.3f; alone %.1f %.1f "
      "%.1f; %.0f MHz\n",
      n->name, n->layers, n->repeat, 1e6 * turns_at(&g[0], 0.5), 1e6 * turns_at(&g[1], 0.5), 1e6 * turns_at(&g[2], 0.5),
      turns_ratio(&g[2], &g[0]), turns_ratio(&g[2], &g[1]), sum_of(n, 0), sum_of(n, 1), sum_of(n, 2), n->mhz);
  const chain_tally *t = &n->tally;
  if (faults)
    printf(
        "  %lld faults, %lld found, %lld above the floor, %lld of them missed; %lld repaired, %lld changed nothing; "
        "%lld "
        "not planted; %lld wrong\n",
        (long long)t->planted, (long long)t->found, (long long)t->above, (long long)t->missed, (long long)t->repaired,
        (long long)t->unchanged, (long long)t->elsewhere, (long long)t->wrong);
  for (int i = 0; i < n->count; i++) {
    const choice *c = n->what[i];
    const chain_way *w[CHAIN_SIDES];
    for (chain_side j = CHAIN_LIBRARY; j < CHAIN_SIDES; j++) w[j] = way_of(n, j, i);
    if (w[CHAIN_PROTECTED]->us > w[CHAIN_LIBRARY]->us)
      printf("  %3d x %6d x %5d x %5d: %s %.2f, %s %.2f, %s %.2f: %.2f\n", n->times[i], c->shape.m, c->shape.n,
             c->shape.k, w[0]->name, w[0]->us, w[1]->name, w[1]->us, w[2]->name, w[2]->us, w[2]->us / w[0]->us);
  }
  fflush(stdout);
}

static void put_record(const network *n) {
  static int before;
  if (!record) return;
  fprintf(record, "%s\n  {\"name\": \"%s\", \"layers\": %d, \"repeat\": %d, \"mhz\": %.0f", before++ ? "," : "",
          n->name, n->layers, n->repeat, isnan(n->mhz) ? 0.0 : n->mhz);
  for (int i = 0; i < CHAIN_SIDES; i++) {
    fprintf(record, ", \"%s\": {", sides_names[i]);
    turns_put(record, &n->graphs[i]);
    fprintf(record, "}");
  }
  const chain_tally *t = &n->tally;
  if (faults)
    fprintf(record,
            ",\n   \"faults\": {\"planted\": %lld, \"found\": %lld, \"above_floor\": %lld, \"missed\": %lld, "
            "\"repaired\": %lld, \"unchanged\": %lld, \"elsewhere\": %lld}",
            (long long)t->planted, (long long)t->found, (long long)t->above, (long long)t->missed,
            (long long)t->repaired, (long long)t->unchanged, (long long)t->elsewhere);
  fprintf(record, ", \"ratio\": %.4f, \"overhead\": %.4f,\n   \"shapes\": [",
          turns_ratio(&n->graphs[CHAIN_PROTECTED], &n->graphs[CHAIN_LIBRARY]),
          turns_ratio(&n->graphs[CHAIN_PROTECTED], &n->graphs[CHAIN_PLAIN]));
  for (int i = 0; i < n->count; i++) {
    const choice *c = n->what[i];
    fprintf(record, "%s\n    {\"m\": %d, \"n\": %d, \"k\": %d, \"times\": %d", i ? "," : "", c->shape.m, c->shape.n,
            c->shape.k, n->times[i]);
    for (chain_side j = CHAIN_LIBRARY; j < CHAIN_SIDES; j++)
      fprintf(record, ", \"%s\": {\"way\": \"%s\", \"scheme\": \"%s\", \"us\": %.3f}", sides_names[j],
              way_of(n, j, i)->name, chain_scheme(way_of(n, j, i)), way_of(n, j, i)->us);
    fprintf(record, "}");
  }
  fprintf(record, "]}");
}

/* ---- which networks ---- */

static bool wanted(const char *list, const char *name) {
  const size_t length = strlen(name);
  if (!list) return true;
  for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
    if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return true;
  return false;
}

static void run(const char *name, const rdt_workload *first, int count, int64_t batch, double *logs, int *networks) {
  static network n;
  n = (network){.layers = 0};
  snprintf(n.name, sizeof n.name, "%s", name);
  for (int i = 0; i < count; i++) add_layers(&n, &first[i], batch);
  measure(&n);
  print_network(&n);
  put_record(&n);
  *logs += log(turns_ratio(&n.graphs[CHAIN_PROTECTED], &n.graphs[CHAIN_LIBRARY]));
  ++*networks;
}

static bool in_group(const rdt_workload *w, const char *group) {
  return strcmp(w->group, group) == 0;
}

/* The largest operand of all. */
static size_t room_of(const rdt_workload *w, int n) {
  size_t most = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < w[i].count; j++)
      for (int b = 0; b < w[i].batches; b++) {
        const chain_shape s = shape_of(&w[i].layers[j], w[i].batch[b]);
        const size_t a = half_bytes(s.m, s.k), c = half_bytes(s.m, s.n);
        most = a > most ? a : most, most = c > most ? c : most;
      }
  return most;
}

int main(int argc, char **argv) {
  rdt_reason why = {""};
  char no_library[256], name[64];
  const char *list = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : NULL;
  faults = argc > 3 ? atoll(argv[3]) : 0;
  int n, networks = 0, squares = 0;
  double logs = 0.0;
  const rdt_workload *w = rdt_workload_table(&n), *square = NULL;
  if (rdt_cuda_count(&why) == 0) return printf("gpu-bench: skipped: %s\n", why.text), 0;
  must(rdt_cuda_open(0, &bench.device, &why), &why);
  turns_must(cudaStreamCreateWithFlags(&bench.stream, cudaStreamNonBlocking), "stream");
  turns_must(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "stream");
  turns_must(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "event");
  turns_must(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming), "event");
  turns_must(cudaMallocHost((void **)&verdicts, LAYERS * sizeof *verdicts), "memory");
  bench.library = cublas_open(no_library, sizeof no_library);
  room = room_of(w, n);
  for (int i = 0; i < 3; i++) buffers[i] = take(room);
  fill_buffers();
  printf("%s; cuBLAS %s\n", bench.device.name, bench.library ? cublas_version(bench.library) : no_library);
  record = turns_record(argc > 1 ? argv[1] : NULL, "bench-gpu-chains", bench.device.name);
  if (record)
    fprintf(record, ", \"cublas\": \"%s\", \"networks\": [", bench.library ? cublas_version(bench.library) : "none");
  for (int i = 0; i < n; i++) {
    if (in_group(&w[i], "square")) square = square ? square : &w[i], squares++;
    if (!in_group(&w[i], "cnn-224") && !in_group(&w[i], "cnn-1080p") && !in_group(&w[i], "dlrm") &&
        !in_group(&w[i], "noscope"))
      continue;
    for (int b = 0; b < w[i].batches; b++) {
      if (b && w[i].batch[b] != 2048) continue;
      rdt_workload_name(&w[i], w[i].batch[b], name, sizeof name);
      if (wanted(list, name)) run(name, &w[i], 1, w[i].batch[b], &logs, &networks);
    }
  }
  if (square && wanted(list, "squares")) run("squares", square, squares, 1, &logs, &networks);
  if (networks)
    printf("protected / cuBLAS, each a graph: geometric mean of %d networks %.3f (asked: 0.90)\n", networks,
           exp(logs / networks));
  if (record) fprintf(record, "]}\n"), fclose(record);
  return code;
}
