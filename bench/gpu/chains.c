/* make gpu-bench: networks' products end to end.
 *     gpu_bench_chains [RECORD.json|- [NETWORK,...|- [FAULTS]]]
 * Each workload (src/plan/workloads.def) as the chain of its products, in one CUDA graph: a layer reads what the layer
 * before it has stored (where that is shorter than its A, then what lies behind it), weights are each layer's own.
 * Three graphs are replayed in turn: of cuBLAS, each layer by what is the fastest of cublasGemmEx and of cuBLASLt's
 * proposals; of own kernels without a check; and of own kernels with theirs, which complain into the host's memory: at
 * the end it has all verdicts. Layers are as often there as they occur, one after the other; lengths are multiples of
 * eight. Of own kernels, layers that read all that the one before has written go together, as one launch, where that is
 * faster: what lies between them is then not in memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "chain_network.h"
#include "cuda/sms.h"
#include "plan/workloads.h"

enum { CHANGES = 2, PLANS = 2 * CHANGES, KNOWN = 1024, LAUNCHES = 8, TRIALS = 15, WARM = 2, EIGHT = 8 };
/* What a layer takes longer behind one of another kernel, whose code has been in the caches: a guess by which a second
 * plan is made; the faster one is taken. */
static const double CHANGE_US[CHANGES] = {0.0, 0.8};
static const double LEAST_US = 150.0; /* of a graph: what is shorter is in it several times, one behind the other */

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

/* The end of two results: the same but for roundings, of as many layers. */
static void compare_bits(const chain_layer *l, const char *mine, const char *other) {
  enum { SOME = 1 << 16 };
  static uint16_t ours[SOME], theirs[SOME];
  const chain_shape *s = &l->shape;
  const size_t bytes = half_bytes(s->m, s->n), some = bytes < sizeof ours ? bytes : sizeof ours;
  rdt_reason why = {""};
  double most = 0.0;
  must(rdt_cuda_get(ours, mine + bytes - some, some, bench.stream, &why), &why);
  must(rdt_cuda_get(theirs, other + bytes - some, some, bench.stream, &why), &why);
  for (size_t i = 0; i < some / 2; i++) {
    const double x = rdt_load(ours, RDT_F16, (int64_t)i), y = rdt_load(theirs, RDT_F16, (int64_t)i);
    const double d = fabs(x - y) / (fabs(y) + 0.5);
    if (!(d <= most)) most = d;
  }
  if (!(most < 3e-3 * l->length))
    printf("WRONG %s of %d x %d x %d: off by %g\n", l->way.name, s->m, s->n, s->k, most), code = 1;
}

/* What is computed is what cuBLAS computes of the same operands. */
static void compare(const chain_layer *l, void *a) {
  const cublas_gemm g = chain_gemm(&l->shape, l->way.transposed);
  if (!bench.library) return;
  if (!chain_launch(&bench, l, a, buffers[0], bench.stream) ||
      !cublas_ex(bench.library, &g, a, l->weights, buffers[2], bench.stream))
    exit(3);
  compare_bits(l, buffers[0], buffers[2]);
}

static void keep(choice *c, chain_side which, contender *list, int n) {
  void *const trial[2] = {buffers[1], buffers[2]};
  for (int kept = 0; kept < CHAIN_KEPT; kept++) {
    contender *best = NULL;
    for (int i = 0; i < n; i++)
      if (list[i].made && (!best || turns_at(&list[i].turns, 0.5) < turns_at(&best->turns, 0.5))) best = &list[i];
    if (!best) return;
    chain_layer *l = &best->layers[0];
    if (which != CHAIN_LIBRARY) compare(l, buffers[1]);
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
    if (n->count == CHAIN_LAYERS) exit(2);
    const int times = (int)w->layers[i].times;
    if (n->layers + times > CHAIN_LAYERS) exit(2);
    n->times[n->count] = times;
    n->what[n->count++] = choice_of(&s);
    for (int t = 0; t < times; t++) n->shapes[n->layers++] = s;
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
  static double cost[CHAIN_LAYERS][CHAIN_KEPT];
  static int from[CHAIN_LAYERS][CHAIN_KEPT];
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

/* Each layer's time by itself. */
static void times_of(const network *n, chain_side which, double us[CHAIN_LAYERS]) {
  for (int i = 0, j = 0; i < n->count; i++)
    for (int t = 0; t < n->times[i]; t++) us[j++] = chain_way_of(n, which, i)->us;
}

static void make_run(const network *n, void *const *weights, const chain_run *r, const chain *c, chain_layer *l) {
  void *const trial[2] = {buffers[1], buffers[2]};
  if (!chain_make_run(&bench, c->which == CHAIN_PROTECTED, &n->shapes[r->first], &weights[r->first], r->length, trial,
                      l))
    fprintf(stderr, "gpu-bench: %s: a run is refused\n", n->name), exit(3);
}

static void make_chain(const network *n, void *const *weights, chain *c) {
  const chain_run *r = n->runs[c->which], *const last = r + n->n_runs[c->which];
  c->layers = calloc((size_t)n->layers, sizeof *c->layers);
  if (!c->layers) exit(2);
  for (int i = 0, j = 0; i < n->count; i++)
    for (int t = 0; t < n->times[i]; t++, j++) {
      const choice *what = n->what[i];
      chain_layer *l = &c->layers[c->count];
      if (r < last && j == r->first + r->length) r++;
      if (r < last && j > r->first) continue;
      if (r < last && j == r->first)
        make_run(n, weights, r, c, l);
      else if (!chain_make(&bench, chain_way_of(n, c->which, i), &what->shape, weights[j],
                           (void *const[]){buffers[1], buffers[2]}, &what->like[c->which][n->pick[c->which][i]], l))
        fprintf(stderr, "gpu-bench: %s is refused\n", chain_way_of(n, c->which, i)->name), exit(3);
      chain_tell(l, &verdicts[j]);
      c->count++;
    }
}

/* What runs compute is what cuBLAS computes layer by layer, but for what roundings of results lead to. */
static void compare_runs(const network *n, void *const *weights, const chain *c) {
  if (!bench.library) return;
  for (int i = 0, j = 0; i < c->count; j += c->layers[i++].length) {
    const chain_layer *l = &c->layers[i];
    if (!l->run) continue;
    fill_buffers();
    if (!chain_launch(&bench, l, buffers[1], buffers[0], bench.stream)) exit(3);
    for (int k = 0; k < l->length; k++) {
      const cublas_gemm g = chain_gemm(&n->shapes[j + k], false);
      if (!cublas_ex(bench.library, &g, buffers[1 + k % 2], weights[j + k], buffers[2 - k % 2], bench.stream)) exit(3);
    }
    compare_bits(l, buffers[0], buffers[1 + l->length % 2]);
  }
}

/* Layer by layer: clean, then with faults. */
static void plant(network *n, const chain *c) {
  if (!faults) return;
  if (!spare) spare = take(room);
  fill_buffers();
  for (int i = 0, j = 0; i < c->count; j += c->layers[i++].length) {
    char *a = buffers[i ? 1 + i % 2 : 0], *to = buffers[2 - i % 2];
    const int64_t share = faults * (j + c->layers[i].length) / n->layers - faults * j / n->layers;
    chain_tell(&c->layers[i], NULL);
    if (!chain_launch(&bench, &c->layers[i], a, to, bench.stream)) exit(3);
    if (share) chain_plant(&bench, &c->layers[i], a, to, spare, room, share, (uint64_t)i + 1, &n->tally);
  }
  if (n->tally.missed || n->tally.wrong) code = 1;
}

static void drop_chain(chain *c, turns *graph) {
  for (int i = 0; i < c->count; i++) chain_drop(&c->layers[i]);
  free(c->layers);
  *c = (chain){.count = 0};
  turns_free(graph);
}

typedef struct draft { /* a plan of a side */
  int pick[CHAIN_LAYERS];
  chain_run runs[CHAIN_LAYERS / 2];
  int n_runs;
  chain chain;
  turns graph;
} draft;

static void find_runs(network *n, chain_side which, void *const *weights) {
  void *const trial[2] = {buffers[1], buffers[2]};
  double us[CHAIN_LAYERS];
  times_of(n, which, us);
  n->n_runs[which] =
      chain_find_runs(&bench, which == CHAIN_PROTECTED, n->shapes, us, weights, n->layers, trial, n->runs[which]);
}

static void note(const network *n, chain_side which, draft *d) {
  *d = (draft){.n_runs = n->n_runs[which], .chain = {.which = which}};
  memcpy(d->pick, n->pick[which], sizeof d->pick);
  memcpy(d->runs, n->runs[which], (size_t)d->n_runs * sizeof *d->runs);
}

static bool same(const network *n, const draft *x, const draft *y) {
  bool runs = x->n_runs == y->n_runs;
  for (int i = 0; runs && i < x->n_runs; i++)
    runs = x->runs[i].first == y->runs[i].first && x->runs[i].length == y->runs[i].length;
  return runs && memcmp(x->pick, y->pick, (size_t)n->count * sizeof(int)) == 0;
}

/* All plans of a side, with runs and without; the fastest one stays. */
static void contest(network *n, chain_side which, void *const *weights, chain *c) {
  static draft drafts[PLANS];
  turns *list[PLANS];
  int plans = 0, best = 0;
  for (int i = 0; i < PLANS; i++) {
    draft *d = &drafts[plans];
    bool again = false;
    n->n_runs[which] = 0;
    plan(n, which, CHANGE_US[i / 2]);
    if (i % 2 && which != CHAIN_LIBRARY) find_runs(n, which, weights);
    note(n, which, d);
    for (int j = 0; j < plans; j++) again |= same(n, d, &drafts[j]);
    if (again) continue;
    make_chain(n, weights, &d->chain);
    if (!turns_capture(&d->graph, n->repeat, launch_chain, &d->chain, bench.stream))
      fprintf(stderr, "gpu-bench: %s: a layer does not run\n", n->name), exit(3);
    list[plans++] = &d->graph;
  }
  if (plans > 1) turns_take(list, plans, 1, 7, bench.stream);
  for (int i = 1; i < plans; i++)
    if (turns_at(&drafts[i].graph, 0.5) < turns_at(&drafts[best].graph, 0.5)) best = i;
  for (int i = 0; i < plans; i++)
    if (i != best) drop_chain(&drafts[i].chain, &drafts[i].graph);
  const draft *d = &drafts[best];
  memcpy(n->pick[which], d->pick, sizeof d->pick);
  memcpy(n->runs[which], d->runs, (size_t)d->n_runs * sizeof *d->runs);
  *c = d->chain, n->graphs[which] = d->graph, n->n_runs[which] = d->n_runs;
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
  const double us = chain_sum_of(n, CHAIN_PLAIN);
  n->repeat = us < LEAST_US ? (int)(LEAST_US / us) + 1 : 1;
  memset(verdicts, 0, CHAIN_LAYERS * sizeof *verdicts);
  fill_buffers();
  for (chain_side which = bench.library ? CHAIN_LIBRARY : CHAIN_PLAIN; which < CHAIN_SIDES; which++) {
    contest(n, which, weights, &chains[which]);
    compare_runs(n, weights, &chains[which]);
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
  chain_print(&n, faults > 0);
  chain_put(record, &n, faults > 0);
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
  turns_must(cudaMallocHost((void **)&verdicts, CHAIN_LAYERS * sizeof *verdicts), "memory");
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
