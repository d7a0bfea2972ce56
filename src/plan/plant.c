/* Planting the armed fault. Nothing here runs in a plan without one. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "plan/plan.h"

/* What is due at a site: the armed fault, or the one that gives recovery a reason and comes before. */
static const rdt_fault *due(const rdt_plan *p, rdt_site site) {
  if (!p->fault || p->injection->done) return NULL;
  const bool later = p->fault->site == RDT_SITE_RECOVERY || p->fault->site == RDT_SITE_VOTE;
  const bool first = later && !p->injection->reason;
  if (first) return site == RDT_SITE_ACCUM || site == RDT_SITE_NONLINEAR ? &p->reason : NULL;
  return p->fault->site == site ? p->fault : NULL;
}

bool rdt_plan_armed(const rdt_plan *p, rdt_site site) {
  return due(p, site) != NULL;
}

void rdt_plan_reason(rdt_plan *p) {
  if (!p->fault || (p->fault->site != RDT_SITE_RECOVERY && p->fault->site != RDT_SITE_VOTE)) return;
  p->injection->reason = false;
  p->reason = rdt_fault_reason(p->fault, rdt_kop_is_linear(p->prob.op) ? p->prob.acc : p->prob.out.dtype);
}

static void tell(rdt_plan *p, const rdt_fault *f, rdt_dtype t, int64_t element, double before, double after,
                 const char *where) {
  rdt_injection *j = p->injection;
  const double error = fabs(after - before);
  if (f == &p->reason) {
    j->reason = true;
    return;
  }
  *j = (rdt_injection){.done = true,
                       .site = f->site,
                       .element = element,
                       .before = before,
                       .after = after,
                       .turns = j->turns,
                       .bit = rdt_fault_highest(t, before, after)};
  j->changed = -1;
  j->left = -1.0;
  j->error = isnan(error) ? INFINITY : error;
  j->weighted = j->error;
  memcpy(j->node, p->name, sizeof j->node);
  snprintf(j->text, sizeof j->text, "%s of node %s%s, element %lld: %.9g -> %.9g", rdt_site_name(f->site), p->name,
           where, (long long)element, before, after);
}

/* The others of several faults: in the same row (channels of a pixel) or column (pixels of a channel) of a raw result,
 * each at a place of its own. */
static void plant_more(rdt_plan *p, const rdt_tensor *t, int64_t at) {
  const rdt_along along = rdt_fault_along(p->fault);
  const int channel = rdt_problem_channel(&p->prob);
  int64_t index[RDT_MAX_RANK], length = 1, first = 0;
  double before, after;
  rdt_tensor_index(t, at, index);
  for (int d = 0; d < t->rank; d++) {
    if ((d == channel) != (along == RDT_ALONG_ROW)) continue;
    length *= t->shape[d];
    first = first * t->shape[d] + index[d];
  }
  int more = 0;
  for (int i = 1; i < rdt_fault_count(p->fault) && i < length; i++, more++) {
    const rdt_fault one = rdt_fault_at(p->fault, i);
    int64_t place = rdt_fault_position(p->fault, first, length, i), offset = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
      int64_t in = index[d];
      if ((d == channel) == (along == RDT_ALONG_ROW)) {
        in = place % t->shape[d];
        place /= t->shape[d];
      }
      offset += in * t->stride[d];
    }
    rdt_fault_apply(&one, t->data, t->dtype, offset, &before, &after);
  }
  const size_t used = strlen(p->injection->text);
  snprintf(p->injection->text + used, sizeof p->injection->text - used, "; %d more in its %s", more,
           along == RDT_ALONG_ROW ? "row" : "column");
}

bool rdt_plan_takes(const rdt_plan *p, const rdt_fault *f) {
  const bool thrice = p && p->scheme->id == RDT_SCHEME_TMR_SM;
  const bool of_three = f->copies != RDT_COPIES_ONE || f->cores > 0 || f->core == RDT_ANY_CORE;
  return rdt_plan_has_site(p, f->site) && (thrice || !of_three);
}

/* Bits of one element; copies lie alike. */
static uint64_t bits_at(const rdt_tensor *t, int64_t at) {
  const size_t size = rdt_dtype_size(t->dtype);
  uint64_t bits = 0;
  memcpy(&bits, (const char *)t->data + at * (int64_t)size, size);
  return bits;
}

/* Other bits than it has, and than the other copy. */
static void differ_from(const rdt_fault *f, const rdt_tensor *t, int64_t at, uint64_t other) {
  const uint64_t was = bits_at(t, at);
  double before, after;
  rdt_fault one = rdt_fault_at(f, 1);
  for (int i = 0; i == 0 || bits_at(t, at) == was || bits_at(t, at) == other; i++) {
    memcpy((char *)t->data + at * (int64_t)rdt_dtype_size(t->dtype), &was, rdt_dtype_size(t->dtype));
    one.kind = i ? RDT_FAULT_BIT : one.kind;
    one.bits = i ? i - 1 : one.bits;
    rdt_fault_apply(&one, t->data, t->dtype, at, &before, &after);
  }
}

void rdt_plan_plant_second(rdt_plan *p, const rdt_tensor *struck, const rdt_tensor *t) {
  static const char *const words[] = {[RDT_COPIES_APART] = "; another copy elsewhere",
                                      [RDT_COPIES_DIFFER] = "; another copy there, with other bits",
                                      [RDT_COPIES_ALIKE] = "; another copy alike"};
  const rdt_fault *f = p->fault;
  rdt_injection *j = p->injection;
  const int64_t n = rdt_tensor_count(t), e = j->element;
  if (!f || f->copies == RDT_COPIES_ONE || !j->done || e < 0) return;
  const int64_t at = rdt_tensor_is_packed(t) ? e : rdt_tensor_offset(t, e);
  const size_t size = rdt_dtype_size(t->dtype);
  double before, after;
  if (f->copies == RDT_COPIES_ALIKE) {
    const uint64_t bits = bits_at(struck, at);
    j->alike = bits != bits_at(t, at);
    memcpy((char *)t->data + at * (int64_t)size, &bits, size);
  } else if (f->copies == RDT_COPIES_DIFFER) {
    differ_from(f, t, at, bits_at(struck, at));
  } else if (n > 1) {
    const rdt_fault one = rdt_fault_at(f, 1);
    const int64_t other = rdt_fault_position(f, e, n, 1);
    rdt_fault_apply(&one, t->data, t->dtype, rdt_tensor_is_packed(t) ? other : rdt_tensor_offset(t, other), &before,
                    &after);
  }
  const size_t used = strlen(j->text);
  snprintf(j->text + used, sizeof j->text - used, "%s", words[f->copies]);
}

/* Into every bit of a raw result, with a probability. */
static void scatter(rdt_plan *p, const rdt_tensor *t) {
  double before = 0.0, after = 0.0;
  int64_t first;
  if (!rdt_tensor_is_packed(t)) return;
  const int64_t n = rdt_fault_scatter(p->fault, t->data, t->dtype, rdt_tensor_count(t), &first, &before, &after);
  char more[48];
  snprintf(more, sizeof more, " (%lld bits flipped)", (long long)n);
  tell(p, p->fault, t->dtype, first, before, after, more);
}

void rdt_plan_plant(rdt_plan *p, rdt_site site, const rdt_tensor *t) {
  double before, after;
  const rdt_fault *f = due(p, site);
  if (!f) return;
  if (f->kind == RDT_FAULT_BER) {
    scatter(p, t);
    return;
  }
  const int64_t e = rdt_fault_element(f, rdt_tensor_count(t), t->rank ? t->shape[t->rank - 1] : 1);
  if (e < 0) return;
  const int64_t at = rdt_tensor_is_packed(t) ? e : rdt_tensor_offset(t, e);
  rdt_fault_apply(f, t->data, t->dtype, at, &before, &after);
  const bool several = f->count[1] > 1;
  tell(p, f, t->dtype, e, before, after, "");
  if (several) plant_more(p, t, at);
}

bool rdt_plan_plants_several(const rdt_plan *p) {
  if (p->broken && p->broken->lane >= 0) return true;
  return rdt_plan_armed(p, RDT_SITE_ACCUM) && (p->fault->count[1] > 1 || p->fault->kind == RDT_FAULT_BER);
}

static bool hit_in(const rdt_plan *p, rdt_site site, const rdt_tensor *out, rdt_kernel_hit *hit) {
  const rdt_fault *f = due(p, site);
  if (!f || !p->kernel->run_inject || rdt_plan_plants_several(p)) return false;
  const int64_t e = rdt_fault_element(f, rdt_tensor_count(out), out->rank ? out->shape[out->rank - 1] : 1);
  if (e < 0) return false;
  *hit = (rdt_kernel_hit){.element = e, .position = (double)(rdt_fault_random(f, 7) >> 11) * 0x1p-53, .fault = f};
  return true;
}

bool rdt_plan_kernel_hit(const rdt_plan *p, rdt_site site, rdt_kernel_hit *hit) {
  return hit_in(p, site, &p->prob.out, hit);
}

bool rdt_plan_recovery_hit(const rdt_plan *p, const rdt_tensor *out, rdt_kernel_hit *hit) {
  return hit_in(p, RDT_SITE_RECOVERY, out, hit);
}

/* A core that is wrong only now and then: does it happen this time? */
static bool is_wrong(const rdt_plan *p) {
  if (!p->broken || !rdt_plan_takes(p, p->broken)) return false;
  if (p->broken->rate >= 1.0) return true;
  const uint64_t r = rdt_fault_random(p->broken, 1000 + (uint64_t)p->injection->turns++);
  return (double)(r >> 11) * 0x1p-53 < p->broken->rate;
}

bool rdt_plan_core_hit(const rdt_plan *p, rdt_kernel_hit *hit) {
  if (!is_wrong(p)) return false;
  *hit = (rdt_kernel_hit){.position = 0.5, .fault = p->broken, .everywhere = true, .core = p->broken->core};
  return true;
}

/* Does the fault strike what that core computes? */
static bool strikes(const rdt_fault *f, int core) {
  return f->core == RDT_ANY_CORE || f->core == core;
}

/* A core that is broken is so in the same way each time; what comes and goes strikes another place, other bits. */
static rdt_fault of_this_time(const rdt_plan *p) {
  enum { STREAM = 3000 };
  rdt_fault f = *p->broken;
  if (f.core == RDT_ANY_CORE) f.seed = rdt_fault_random(p->broken, STREAM + (uint64_t)p->injection->turns);
  return f;
}

/* The element at (row, column), as checks name them. */
static int64_t offset_at(const rdt_tensor *t, int channel, int64_t row, int64_t column) {
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 0; d--) {
    int64_t *from = d == channel ? &column : &row;
    offset += *from % t->shape[d] * t->stride[d];
    *from /= t->shape[d];
  }
  return offset;
}

/* Vectors go along the columns of a result: so many of its elements do they hold. The reference has none. */
static int64_t lanes_of(const rdt_plan *p, const rdt_kernel *k, const rdt_tensor *raw) {
  enum { LEAST = 32 };
  if (k == p->other || p->ctx->isa == RDT_ISA_GENERIC) return 0;
  return (p->ctx->isa == RDT_ISA_AVX512 ? 2 * LEAST : LEAST) / (int64_t)rdt_dtype_size(raw->dtype);
}

/* All that went through the lane. */
static void strike_lane(const rdt_plan *p, int64_t lanes, const rdt_tensor *raw, const int64_t at[2],
                        const int64_t end[2], rdt_kernel_hit *hit) {
  const int channel = rdt_problem_channel(&p->prob);
  const int64_t columns = raw->shape[channel];
  double before, after, most = -1.0;
  for (int64_t row = at[0]; lanes > 0 && row < end[0]; row++)
    for (int64_t j = at[1] + (p->broken->lane % lanes + lanes - at[1] % lanes) % lanes; j < end[1]; j += lanes) {
      rdt_fault_apply(p->broken, raw->data, raw->dtype, offset_at(raw, channel, row, j), &before, &after);
      const double off = isfinite(after) ? fabs(after - before) : INFINITY;
      if (!(off > most)) continue;
      most = off;
      hit->done = true;
      hit->element = row * columns + j;
      hit->before = before;
      hit->after = after;
    }
}

static bool strike(rdt_plan *p, const rdt_kernel *k, const rdt_tensor *raw, const int64_t from[2],
                   const int64_t to[2]) {
  const int channel = rdt_problem_channel(&p->prob);
  const int64_t all = rdt_tensor_count(raw), columns = channel >= 0 ? raw->shape[channel] : 1;
  const int64_t most[2] = {columns ? all / columns : 0, columns};
  int64_t at[2], end[2];
  const rdt_fault now = of_this_time(p);
  rdt_kernel_hit hit = {.fault = p->broken, .everywhere = true, .core = p->broken->core};
  for (int i = 0; i < 2; i++) {
    end[i] = to[i] < most[i] ? to[i] : most[i];
    if (from[i] >= end[i]) return false;
    at[i] = from[i] + (int64_t)(rdt_fault_random(&now, 1 + 2 * (uint64_t)i) % (uint64_t)(end[i] - from[i]));
  }
  if (p->broken->lane >= 0) {
    if (channel >= 0) strike_lane(p, lanes_of(p, k, raw), raw, from, end, &hit);
  } else {
    hit.element = at[0] * columns + at[1];
    rdt_fault_apply(&now, raw->data, raw->dtype, offset_at(raw, channel, at[0], at[1]), &hit.before, &hit.after);
    hit.done = true;
  }
  rdt_plan_book_hit(p, &hit);
  return hit.done;
}

/* Nobody knows the shares: as if the team had shared the rows evenly, or the first of it had computed all. */
static void strike_by_thread(rdt_plan *p, const rdt_kernel *k, const rdt_tensor *raw, const int *cores, int n) {
  const int channel = rdt_problem_channel(&p->prob);
  const int64_t columns = channel >= 0 ? raw->shape[channel] : 1;
  const int64_t rows = columns ? rdt_tensor_count(raw) / columns : 0;
  for (int i = 0; i < n; i++) {
    const bool shared = rows >= n;
    const int64_t from[2] = {shared ? rows * i / n : 0, 0}, to[2] = {shared ? rows * (i + 1) / n : rows, INT64_MAX};
    if (!strikes(p->broken, cores[i])) continue;
    if (strike(p, k, raw, from, to) && p->broken->lane < 0) return;
  }
}

void rdt_plan_core_strike(rdt_plan *p, const rdt_kernel *k, const rdt_tensor *raw, const rdt_shares *s,
                          const int *cores, int n) {
  if (!is_wrong(p)) return;
  const int first = p->broken->core == RDT_ANY_CORE && s->n > 0
                        ? (int)(rdt_fault_random(p->broken, 4000 + (uint64_t)p->injection->turns) % (uint64_t)s->n)
                        : 0; /* whose share it is */
  for (int i = first; i < s->n; i++)
    if (strikes(p->broken, s->list[i].core) && strike(p, k, raw, s->list[i].from, s->list[i].to) && p->broken->lane < 0)
      return;
  if (s->n == 0) strike_by_thread(p, k, raw, cores, n);
}

void rdt_plan_book_hit(rdt_plan *p, const rdt_kernel_hit *hit) {
  char where[64] = "";
  if (!hit->done || (hit->everywhere && p->injection->done)) return;
  if (hit->everywhere && hit->fault->lane >= 0)
    snprintf(where, sizeof where, " (on core %d, the worst of lane %d)", hit->core, hit->fault->lane);
  else if (hit->everywhere && hit->core != RDT_ANY_CORE)
    snprintf(where, sizeof where, " (on core %d)", hit->core);
  else if (hit->fault->site == RDT_SITE_ACCUM)
    snprintf(where, sizeof where, " (after %.0f %% of the reduction)", 100.0 * hit->position);
  tell(p, hit->fault, hit->fault->site == RDT_SITE_EPILOGUE ? p->prob.out.dtype : p->prob.acc, hit->element,
       hit->before, hit->after, where);
}

void rdt_plan_plant_words(rdt_plan *p, rdt_site site, void *words, int n, rdt_dtype dtype) {
  if (!rdt_plan_armed(p, site)) return;
  const rdt_tensor view = rdt_tensor_dense(words, dtype, 1, (const int64_t[]){n});
  rdt_plan_plant(p, site, &view);
}

static void plant_in_buffer(rdt_plan *p, rdt_site site, void *data, size_t bytes, rdt_dtype dtype) {
  const int64_t shape[2] = {(int64_t)(bytes / rdt_dtype_size(dtype)), 1};
  const rdt_tensor column = rdt_tensor_dense(data, dtype, 2, shape);
  rdt_plan_plant(p, site, &column);
}

void rdt_plan_plant_at_rest(rdt_plan *p, rdt_reason *why) {
  size_t bytes;
  rdt_dtype dtype = RDT_U8;
  if (rdt_plan_armed(p, RDT_SITE_WEIGHT) && p->fixed_weights) {
    const rdt_tensor *w = &p->prob.in[1];
    rdt_plan_plant(p, RDT_SITE_WEIGHT, w);
    if (p->kernel->pack && p->kernel->pack(p->state, w, why) == RDT_OK) { /* the kernel works with the rotten weight */
      void *data = rdt_plan_packed(p, p->state, &bytes, &dtype);
      p->packed_seal = data ? rdt_bitsum(data, bytes) : 0;
    }
  }
  if (rdt_plan_armed(p, RDT_SITE_PACKED)) {
    void *data = rdt_plan_packed(p, p->state, &bytes, &dtype);
    if (data) plant_in_buffer(p, RDT_SITE_PACKED, data, bytes, dtype);
  }
  if (rdt_plan_armed(p, RDT_SITE_CHECKSUM)) {
    void *data = rdt_plan_checksums(p, &bytes, &dtype);
    if (data) plant_in_buffer(p, RDT_SITE_CHECKSUM, data, bytes, dtype);
  }
}

/* Is that word of a vault half of a pointer to what is there? */
static bool is_address(const rdt_vault *v, const unsigned char *word) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int64_t i = 0; i < v->lid.n; i++) {
    const unsigned char *from = v->lid.parts[i].data, *end = from + v->lid.parts[i].bytes;
    uintptr_t value;
    if (word < from || word >= end) continue;
    const unsigned char *at = word - (uintptr_t)word % sizeof value; /* pointers are aligned */
    if (at < from || at + sizeof value > end) return false;
    memcpy(&value, at, sizeof value);
    return value >= page && msync((void *)(value - value % page), 1, MS_ASYNC) == 0; /* fails where nothing is mapped */
  }
  return false;
}

/* An address is another one each time: what a bit of it was before the seed says, so that the fault does the same
 * wherever memory lies. */
static void apply_to_address(const rdt_fault *f, void *word) {
  enum { STREAM = 20 };
  uint32_t bits;
  memcpy(&bits, word, sizeof bits);
  bits ^= (uint32_t)rdt_fault_mask(f, (uint32_t)rdt_fault_random(f, STREAM), RDT_S32);
  memcpy(word, &bits, sizeof bits);
}

void rdt_plan_plant_plan(rdt_plan *p) {
  if (!rdt_plan_armed(p, RDT_SITE_PLAN)) return;
  const size_t frame = rdt_vault_bytes(&p->frame) / 4, all = frame + rdt_vault_bytes(&p->tables) / 4;
  const int64_t e = rdt_fault_element(p->fault, (int64_t)all, 1);
  const size_t i = e < 0 ? all : (size_t)e;
  const rdt_vault *vault = i < frame ? &p->frame : &p->tables;
  void *word = rdt_vault_word(vault, i < frame ? i : i - frame);
  uint32_t was, is;
  double before = 0.0, after = 0.0;
  if (!word) return;
  memcpy(&was, word, sizeof was);
  if (is_address(vault, word))
    apply_to_address(p->fault, word);
  else
    rdt_fault_apply(p->fault, word, RDT_S32, 0, &before, &after);
  memcpy(&is, word, sizeof is);
  tell(p, p->fault, RDT_S32, e, before, after, "");
  /* what is told is the same whenever it is told */
  p->injection->error = p->injection->weighted = was != is;
  p->injection->bit = -1;
  snprintf(p->injection->text, sizeof p->injection->text, "plan of node %s, word %lld: %s", p->name, (long long)e,
           was == is ? "no bit is another one" : "bits have changed");
}

void rdt_plan_strike(const rdt_plan *p, rdt_findings *f, rdt_strike *s) {
  if (!rdt_plan_armed(p, RDT_SITE_SUM) && !rdt_plan_armed(p, RDT_SITE_BOUND) && !rdt_plan_armed(p, RDT_SITE_COMPARISON))
    return;
  *s = rdt_strike_of(p->fault);
  f->strike = s;
}

void rdt_plan_struck(rdt_plan *p, rdt_findings *f) {
  const rdt_dtype t = p->fault && p->fault->site == RDT_SITE_COMPARISON ? RDT_S32 : RDT_F64;
  if (f->strike && f->strike->done) tell(p, p->fault, t, f->strike->at, f->strike->before, f->strike->after, "");
  f->strike = NULL;
}

/* The first element from i on whose bits differ; n: none. */
static int64_t next_other(const rdt_tensor *a, const rdt_tensor *b, int64_t i, int64_t n) {
  const int64_t size = (int64_t)rdt_dtype_size(a->dtype);
  const char *x = a->data, *y = b->data;
  return i + (int64_t)rdt_memory_alike(x + i * size, y + i * size, (size_t)((n - i) * size)) / size;
}

/* Asks the plan's checks about a result. A weight that has rotted is on both sides of a check of columns, where the
 * kernel forms it: of rows and columns only those along rows see it. */
static rdt_status ask(rdt_plan *p, const rdt_operands *o, rdt_findings *f) {
  const bool weight = p->injection->site == RDT_SITE_WEIGHT || p->injection->site == RDT_SITE_PACKED;
  rdt_reason why;
  void *rows = NULL;
  if (p->scheme->id != RDT_SCHEME_ROWCOL || !weight) {
    RDT_TRY(rdt_plan_sums(p, &why));
    return p->scheme->impl->verify(p->sums, o, NULL, f, &why);
  }
  RDT_TRY(rdt_scheme_row.create(&p->prob, p->fixed_weights, p->ctx->policy.lambda, p->sets, p->threads, &rows, &why));
  const rdt_status status = rdt_scheme_row.verify(rows, o, NULL, f, &why);
  rdt_scheme_row.destroy(rows);
  return status;
}

/* What the checks can see of the errors: sums are linear, so the scheme itself is asked, with the errors as result of
 * an input of zeros. */
double rdt_plan_weigh(rdt_plan *p, const rdt_operands *o, const rdt_tensor *clean, const rdt_tensor *faulty) {
  enum { MAX_IN = 8 };
  const int64_t n = rdt_tensor_count(clean);
  rdt_tensor in[MAX_IN];
  rdt_findings f;
  int64_t first = 0, last = 0;
  double weighted = NAN;
  if (o->n_in > MAX_IN) return weighted;
  memcpy(in, o->in, (size_t)o->n_in * sizeof *in);
  for (int d = 0; d < in[0].rank; d++) {
    const int64_t reach = (in[0].shape[d] - 1) * in[0].stride[d];
    *(reach < 0 ? &first : &last) += reach;
  }
  char *zeros = rdt_calloc((size_t)(last - first + 1), rdt_dtype_size(in[0].dtype));
  void *errors = rdt_alloc((size_t)n, rdt_dtype_size(clean->dtype));
  if (zeros && errors) {
    memset(zeros, p->prob.zero[0], (size_t)(last - first + 1) * rdt_dtype_size(in[0].dtype));
    rdt_operands probe = {.in = in, .n_in = o->n_in, .out = *clean};
    in[0].data = zeros - first * (int64_t)rdt_dtype_size(in[0].dtype);
    probe.out.data = errors;
    memset(errors, 0, (size_t)n * rdt_dtype_size(clean->dtype));
    for (int64_t i = 0; (i = next_other(clean, faulty, i, n)) < n; i++) {
      const double d = rdt_load(faulty->data, clean->dtype, i) - rdt_load(clean->data, clean->dtype, i);
      rdt_store(errors, clean->dtype, i, d);
    }
    rdt_findings_init(&f);
    if (ask(p, &probe, &f) == RDT_OK && f.checks > f.cannot) weighted = f.worst.residual;
  }
  rdt_free(zeros);
  rdt_free(errors);
  return weighted;
}

void rdt_plan_book_effect(rdt_plan *p, const rdt_operands *o, const rdt_tensor *clean, const rdt_tensor *faulty) {
  rdt_injection *j = p->injection;
  const int64_t n = rdt_tensor_count(clean);
  int64_t first;
  j->changed = rdt_tensors_differ(clean, faulty, 1, &first, NULL);
  j->error = j->weighted = 0.0;
  for (int64_t i = 0; (i = next_other(clean, faulty, i, n)) < n; i++) {
    const double x = rdt_load(clean->data, clean->dtype, i), y = rdt_load(faulty->data, faulty->dtype, i);
    const double d = fabs(x - y);
    if (isnan(d) ? !(isnan(x) && isnan(y)) : d > j->error) j->error = isnan(d) ? INFINITY : d;
  }
  /* An error beyond all numbers makes every sum that it goes into one. */
  if (j->changed > 0) j->weighted = isfinite(j->error) ? rdt_plan_weigh(p, o, clean, faulty) : INFINITY;
}
