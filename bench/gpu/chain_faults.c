/* Faults in the layers of a chain, by the injecting instantiations of the kernels that they have, and in weights at
 * rest. What a check finds is computed again, and has the bits of the clean chain. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "cuda/sm90/fused_wgmma.h"
#include "cuda/sm90/mlp_wgmma.h"
#include "cuda/wide.h"
#include "turns.h"

enum { BATCH = 64, STAGE = 64 /* k of the fused kernels */ };

typedef struct planted { /* into one run of a layer */
  rdt_cuda_strike s;     /* own products; hit.before, after, bound of all */
  rdt_mma_hit hit;       /* fused */
  rdt_mlp_hit run;
  bool weight; /* that a fused kernel has loaded */
  rdt_cuda_verdict found;
} planted;

typedef struct plot { /* a layer, its operands, results of a batch */
  const chain_bench *b;
  const chain_layer *l;
  char *a, *c, *spare;
  size_t bytes, apart;
  int room; /* results in spare */
  char *host, *clean;
  uint64_t seed;
  chain_tally *t;
} plot;

static void must(rdt_status s, const rdt_reason *why) {
  if (s != RDT_OK) fprintf(stderr, "gpu-bench: %s\n", why->text), exit(3);
}

static uint64_t draw(plot *p, uint64_t below) {
  p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
  return (p->seed >> 20) % below;
}

static bool complains(const rdt_cuda_verdict *v) {
  return v->suspect + v->certain > 0;
}

static void miss(const plot *p, const char *what, const rdt_mma_hit *h, double before, double after, double bound) {
  if (p->t->missed++ > 8) return;
  printf("WRONG %s of %d x %d x %d: %s is missed: site %d, %g to %g, bound %g\n", p->l->way.name, p->l->shape.m,
         p->l->shape.n, p->l->shape.k, what, h ? h->site : -1, before, after, bound);
}

static char *result(const plot *p, int i) {
  return p->spare + (size_t)i * p->apart;
}

static bool other(const plot *p, int i) {
  return memcmp(p->host + (size_t)i * p->apart, p->clean, p->bytes) != 0;
}

static void fetch(const plot *p, int n) {
  rdt_reason why = {""};
  must(rdt_cuda_get(p->host, p->spare, (size_t)n * p->apart, p->b->stream, &why), &why);
}

static rdt_cuda_verdict *own_verdict(const chain_layer *l) {
  if (l->run) return rdt_cuda_mlp_verdict(l->run);
  return l->gemm ? rdt_cuda_gemm_found(l->gemm) : rdt_box_wide_verdict(l->fused);
}

/* What the layer as it is shipped has found since somebody asked. */
static rdt_cuda_verdict ask(const plot *p) {
  rdt_cuda_verdict v, *there = own_verdict(p->l);
  rdt_reason why = {""};
  if (p->l->gemm) must(rdt_cuda_gemm_settle(&p->l->gemm, 1, p->b->stream, &why), &why);
  must(rdt_cuda_get(&v, there, sizeof v, p->b->stream, &why), &why);
  must(rdt_cuda_clear(there, sizeof v, p->b->stream, &why), &why);
  return v;
}

/* Of those that were found: once more, as it is shipped. */
static void repair(plot *p, const planted *list, int n) {
  for (int i = 0; i < n; i++)
    if (complains(&list[i].found) && !chain_launch(p->b, p->l, p->a, result(p, i), p->b->stream)) exit(3);
  fetch(p, n);
  const rdt_cuda_verdict v = ask(p);
  if (complains(&v)) p->t->wrong++, printf("WRONG %s complains of a repair\n", p->l->way.name);
  for (int i = 0; i < n; i++) {
    if (!complains(&list[i].found)) continue;
    if (other(p, i))
      p->t->wrong++, printf("WRONG %s: a repair has other bits\n", p->l->way.name);
    else
      p->t->repaired++;
  }
}

/* ---- own products ---- */

static rdt_cuda_strike strike_of(plot *p) {
  const rdt_cuda_kernel *k = p->l->way.kernel;
  const bool sums = k->check == RDT_MMA_SUMS || k->check == RDT_WGMMA_TILE, bits = k->check == RDT_MMA_REPLICATE;
  const uint64_t site = draw(p, 4), elements = (uint64_t)p->l->shape.m * (uint64_t)p->l->shape.n;
  rdt_cuda_strike s = {.hit = {.element = (int64_t)draw(p, elements),
                               .position = (double)draw(p, 1000) / 999.0,
                               .mask = (uint64_t)1 << draw(p, 32)},
                       .sm = -1};
  s.reduced = site == 1;
  s.limit = site == 2 && !bits;
  s.checksum = site == 3 && !bits && (!sums || k->check == RDT_WGMMA_TILE);
  if (s.checksum && k->family == RDT_CUDA_MMA) s.hit.mask = 1u << (10 + draw(p, 5)); /* fp16's exponent */
  return s;
}

static void plant_own(plot *p, planted *list, int n) {
  static rdt_cuda_strike strikes[BATCH];
  static rdt_cuda_verdict found[BATCH];
  rdt_reason why = {""};
  rdt_tensor in[2];
  const rdt_operands o = chain_operands(p->l, p->a, p->spare, in);
  for (int i = 0; i < n; i++) strikes[i] = strike_of(p);
  must(rdt_cuda_gemm_strike(p->l->gemm, &o, p->apart, strikes, n, found, p->b->stream, &why), &why);
  for (int i = 0; i < n; i++) list[i].s = strikes[i], list[i].found = found[i];
}

/* Must it be found? */
static bool beyond_own(const plot *p, const planted *x, bool changed) {
  const int check = p->l->way.kernel->check;
  const rdt_cuda_strike *s = &x->s;
  if (s->checksum || s->limit) return false;                                              /* the result is right */
  if (check == RDT_MMA_REPLICATE || (s->reduced && check < RDT_MMA_SUMS)) return changed; /* bits are compared */
  return !(fabs(s->hit.after - s->hit.before) <= 2.0 * s->bound);
}

/* ---- fused ---- */

static const rdt_fused_wide_kernel *tile_of(const chain_layer *l) {
  int i = 0;
  while (strcmp(rdt_fused_wide_kernels[i].name, rdt_box_wide_kernel(l->fused)) != 0) i++;
  return &rdt_fused_wide_kernels[i];
}

/* Where an element is: of m64 tiles of wgmma, four warps each. */
static rdt_mma_hit hit_of(plot *p) {
  enum { SUM, CHECKSUM, WEIGHTS, SQUARES, INPUTS, SITES };
  const rdt_fused_wide_kernel *k = tile_of(p->l);
  const chain_shape *s = &p->l->shape;
  const int stages = (s->k + STAGE - 1) / STAGE, splits = rdt_box_wide_splits(p->l->fused),
            rounds = (stages + splits - 1) / splits, site = (int)draw(p, SITES);
  const int row = (int)draw(p, (uint64_t)s->m), column = (int)draw(p, (uint64_t)s->n);
  const int r = row % k->rows, c = column % k->columns, high = k->rows / 64, round = (int)draw(p, (uint64_t)stages);
  const int in = site == CHECKSUM ? k->part + (int)draw(p, 2) : c % k->part,
            warp = (c / k->part * high + r / 64) * 4 + r % 64 / 16, byte = 2 * (int)draw(p, 64),
            line = c / k->part * (k->part + RDT_FUSED_WIDE_MORE) + c % k->part;
  rdt_mma_hit h = {.site = site <= CHECKSUM  ? RDT_MMA_ACCUM
                           : site == WEIGHTS ? RDT_MMA_FRAGMENT
                                             : RDT_MMA_BOUND,
                   .block = {column / k->columns, row / k->rows, round / rounds},
                   .step = round % rounds,
                   .thread = 32 * warp + r % 8 * 4 + in % 8 / 2,
                   .fragment = in / 8 * 4 + r % 16 / 8 * 2 + in % 2,
                   .columns = site == WEIGHTS || site == INPUTS,
                   .element = {row, column},
                   .mask = (uint64_t)1 << draw(p, 32),
                   .sm = -1,
                   .bound = NAN};
  if (site == WEIGHTS) h.fragment = 128 * line + byte, h.mask = (uint64_t)1 << (byte % 4 / 2 * 16 + (int)draw(p, 16));
  return h;
}

/* What a strike is told is kept, and is not told again. */
static void keep_found(const plot *p, rdt_cuda_verdict *to, rdt_cuda_verdict *there) {
  rdt_reason why = {""};
  must(rdt_cuda_move(to, there, sizeof *there, p->b->stream, &why), &why);
  must(rdt_cuda_clear(there, sizeof *there, p->b->stream, &why), &why);
}

static void plant_fused(plot *p, planted *list, int n) {
  static rdt_mma_hit hits[BATCH];
  rdt_reason why = {""};
  rdt_tensor in[2];
  void *memory;
  rdt_operands o = chain_operands(p->l, p->a, p->spare, in);
  rdt_cuda_verdict *there = own_verdict(p->l);
  must(rdt_cuda_alloc(sizeof hits + BATCH * sizeof *there, &memory, &why), &why);
  rdt_mma_hit *on_device = memory;
  rdt_cuda_verdict *found = (rdt_cuda_verdict *)(on_device + BATCH);
  for (int i = 0; i < n; i++) hits[i] = hit_of(p);
  must(rdt_cuda_put(on_device, hits, sizeof hits, p->b->stream, &why), &why);
  for (int i = 0; i < n; i++) {
    o.out.data = result(p, i);
    must(rdt_box_wide_strike(p->l->fused, &o, on_device + i, p->b->stream, &why), &why);
    keep_found(p, found + i, there);
  }
  must(rdt_cuda_get(hits, on_device, sizeof hits, p->b->stream, &why), &why);
  for (int i = 0; i < n; i++) {
    must(rdt_cuda_get(&list[i].found, found + i, sizeof *found, p->b->stream, &why), &why);
    list[i].hit = hits[i];
    list[i].s.hit = (rdt_kernel_hit){.before = hits[i].before, .after = hits[i].after, .done = hits[i].done > 0};
    list[i].s.bound = hits[i].bound;
  }
  rdt_cuda_free(memory);
}

static double half_at(const plot *p, const void *there) {
  uint16_t bits;
  rdt_reason why = {""};
  must(rdt_cuda_get(&bits, there, sizeof bits, p->b->stream, &why), &why);
  return rdt_load(&bits, RDT_F16, 0);
}

static double half_of(double word, int shift) {
  const uint16_t bits = (uint16_t)((uint32_t)word >> shift);
  return rdt_load(&bits, RDT_F16, 0);
}

static bool beyond_fused(const plot *p, const planted *x) {
  const rdt_mma_hit *h = &x->hit;
  const chain_shape *s = &p->l->shape;
  const int stages = (s->k + STAGE - 1) / STAGE, splits = rdt_box_wide_splits(p->l->fused),
            rounds = (stages + splits - 1) / splits, part = tile_of(p->l)->part;
  if (h->site == RDT_MMA_BOUND) return false;
  double change = h->after - h->before;
  if (h->site == RDT_MMA_FRAGMENT) {
    const int64_t k = (int64_t)(h->block[2] * rounds + h->step) * STAGE + h->fragment % 128 / 2;
    const int shift = h->fragment % 4 / 2 * 16;
    const double a = k < s->k ? half_at(p, p->a + 2 * ((int64_t)h->element[0] * s->k + k)) : 0.0;
    change = a * (half_of(h->after, shift) - half_of(h->before, shift));
  } else if (h->fragment / 4 * 8 >= part && h->fragment % 2) {
    change *= 0x1p-11; /* the second part of a checksum */
  }
  return !(fabs(change) <= 2.0 * x->s.bound) || !isfinite(x->s.bound);
}

/* ---- runs of layers ---- */

static int tiles_of(int n) {
  return (n + RDT_MLPW_TILE - 1) / RDT_MLPW_TILE;
}

/* In either block. What the last layer stores, nobody looks at here: bit-sums are a network's. */
static rdt_mlp_hit run_hit_of(plot *p) {
  const chain_layer *l = p->l;
  const int rows = rdt_cuda_mlp_rows(l->run), site = (int)draw(p, RDT_MLP_SITES);
  const bool goes_on = site == RDT_MLP_STORED;
  const int layer = (int)draw(p, (uint64_t)(goes_on ? l->length - 1 : l->length));
  const int clusters = (l->shape.m + rows - 1) / rows, chunks = tiles_of(l->shapes[layer].k);
  rdt_mlp_hit h = {.site = site,
                   .layer = layer,
                   .block = (int)draw(p, (uint64_t)(2 * clusters)),
                   .thread = (int)draw(p, 128),
                   .column = (int)draw(p, (uint64_t)tiles_of(l->shapes[layer].n)),
                   .mask = 1u << draw(p, 32)};
  int places = site == RDT_MLP_ACCUM ? rows / 2 : site == RDT_MLP_WEIGHT ? RDT_MLPW_PIECE / 4 : rows / 4;
  if (site == RDT_MLP_WEIGHT) h.row = (int)draw(p, (uint64_t)chunks);
  if (site == RDT_MLP_INPUT) h.row = (int)draw(p, (uint64_t)rows), places = RDT_MLPW_TILE / 2 * chunks;
  for (int i = 0; site == RDT_MLP_CHECKSUM && i < layer; i++) h.column += tiles_of(l->shapes[i].n);
  h.place = (int)draw(p, (uint64_t)places);
  return h;
}

static void plant_run(plot *p, planted *list, int n) {
  static rdt_mlp_hit hits[BATCH];
  rdt_reason why = {""};
  void *memory;
  rdt_cuda_verdict *there = own_verdict(p->l);
  must(rdt_cuda_alloc(sizeof hits + BATCH * sizeof *there, &memory, &why), &why);
  rdt_mlp_hit *on_device = memory;
  rdt_cuda_verdict *found = (rdt_cuda_verdict *)(on_device + BATCH);
  for (int i = 0; i < n; i++) hits[i] = run_hit_of(p);
  must(rdt_cuda_put(on_device, hits, sizeof hits, p->b->stream, &why), &why);
  for (int i = 0; i < n; i++) {
    must(rdt_cuda_mlp_strike(p->l->run, p->a, result(p, i), (rdt_box_sum_to){NULL, NULL}, on_device + i, p->b->stream,
                             &why),
         &why);
    keep_found(p, found + i, there);
  }
  must(rdt_cuda_get(hits, on_device, sizeof hits, p->b->stream, &why), &why);
  for (int i = 0; i < n; i++) {
    must(rdt_cuda_get(&list[i].found, found + i, sizeof *found, p->b->stream, &why), &why);
    list[i].run = hits[i];
    list[i].s.hit = (rdt_kernel_hit){.before = hits[i].before, .after = hits[i].after, .done = hits[i].done > 0};
    list[i].hit.site = hits[i].site;
  }
  rdt_cuda_free(memory);
}

/* Bits are compared, of results and of what the blocks say of them. */
static bool beyond_run(const planted *x, bool changed) {
  return changed || x->run.site == RDT_MLP_TAKEN || x->run.site == RDT_MLP_CHECKSUM;
}

/* ---- weights at rest ---- */

static bool sums_weights(const chain_layer *l) { /* made before the weights change */
  return l->run || l->fused || l->way.kernel->check == RDT_MMA_SUMS || l->way.kernel->check == RDT_WGMMA_TILE;
}

/* A bit that makes a weight 2^16 times as large: the rows that meet it are far beyond their bounds. */
static void plant_weight(plot *p) {
  const int layer = p->l->run ? (int)draw(p, (uint64_t)p->l->length) : 0;
  const chain_shape *s = p->l->run ? &p->l->shapes[layer] : &p->l->shape;
  const int64_t k = (int64_t)draw(p, (uint64_t)s->k), column = (int64_t)draw(p, (uint64_t)s->n);
  uint16_t was, is;
  rdt_reason why = {""};
  char *at = p->l->run     ? rdt_cuda_mlp_copy(p->l->run, (int)draw(p, 2), layer, k, column)
             : p->l->fused ? rdt_box_wide_copy(p->l->fused, k, column)
                           : rdt_cuda_gemm_copy(p->l->gemm, k, column);
  if (!at) at = (char *)p->l->weights + 2 * (p->l->way.transposed ? column * s->k + k : k * s->n + column);
  must(rdt_cuda_get(&was, at, sizeof was, p->b->stream, &why), &why);
  is = was ^ 0x4000;
  must(rdt_cuda_put(at, &is, sizeof is, p->b->stream, &why), &why);
  if (!chain_launch(p->b, p->l, p->a, p->spare, p->b->stream)) exit(3);
  planted x = {.found = ask(p)};
  must(rdt_cuda_put(at, &was, sizeof was, p->b->stream, &why), &why);
  must(rdt_cuda_wait(p->b->stream, &why), &why);
  p->t->planted++, p->t->above++, p->t->found += complains(&x.found);
  if (!complains(&x.found)) miss(p, "a weight", NULL, rdt_load(&was, RDT_F16, 0), rdt_load(&is, RDT_F16, 0), NAN);
  repair(p, &x, 1);
}

/* ---- all ---- */

static bool injects(const chain_layer *l) {
  return l->run || l->fused || rdt_cuda_kernel_inject(l->way.kernel);
}

static void plant(plot *p, int n) {
  static planted list[BATCH];
  memset(list, 0, sizeof list);
  if (p->l->run)
    plant_run(p, list, n);
  else if (p->l->fused)
    plant_fused(p, list, n);
  else
    plant_own(p, list, n);
  fetch(p, n);
  for (int i = 0; i < n; i++) {
    const bool changed = other(p, i), found = complains(&list[i].found);
    const bool above = p->l->run     ? beyond_run(&list[i], changed)
                       : p->l->fused ? beyond_fused(p, &list[i])
                                     : beyond_own(p, &list[i], changed);
    if (!list[i].s.hit.done) p->t->wrong++, printf("WRONG %s: a fault was not planted\n", p->l->way.name);
    p->t->planted++, p->t->found += found, p->t->above += above, p->t->unchanged += !found && !above && !changed;
    if (above && !found) miss(p, "a fault", &list[i].hit, list[i].s.hit.before, list[i].s.hit.after, list[i].s.bound);
  }
  repair(p, list, n);
}

void chain_plant(const chain_bench *b, const chain_layer *l, void *a, void *c, void *spare, size_t room, int64_t faults,
                 uint64_t seed, chain_tally *t) {
  static char *host;
  static size_t host_bytes;
  const size_t bytes = (size_t)l->shape.m * (size_t)l->shape.n * 2, apart = (bytes + 255) / 256 * 256;
  plot p = {.b = b, .l = l, .a = a, .c = c, .spare = spare, .bytes = bytes, .apart = apart, .seed = seed, .t = t};
  rdt_reason why = {""};
  p.room = (int)(room / apart < BATCH ? room / apart : BATCH);
  if ((int64_t)p.room > faults) p.room = (int)faults;
  const size_t wanted = apart * (size_t)(p.room + 1);
  if (wanted > host_bytes) {
    if (host) turns_must(cudaFreeHost(host), "memory");
    turns_must(cudaMallocHost((void **)&host, wanted), "memory");
    host_bytes = wanted;
  }
  p.clean = host, p.host = host + apart;
  chain_tell(l, NULL);
  must(rdt_cuda_get(p.clean, c, bytes, b->stream, &why), &why);
  const rdt_cuda_verdict v = ask(&p);
  if (complains(&v) || v.cannot) t->wrong++, printf("WRONG %s complains of clean data\n", l->way.name);
  const int64_t at_rest = !sums_weights(l) ? 0 : injects(l) ? faults / 8 : faults;
  for (int64_t i = 0; i < at_rest; i++) plant_weight(&p);
  if (!injects(l)) {
    t->elsewhere += faults - at_rest;
    return;
  }
  for (int64_t done = at_rest; done < faults;) {
    const int n = (int)(faults - done < p.room ? faults - done : p.room);
    plant(&p, n);
    done += n;
  }
}
