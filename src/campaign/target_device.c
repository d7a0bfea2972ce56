/* One product on a GPU as a target, by an own kernel and its injecting instantiation (cuda/kernels.def); or three of
 * them and a vote (tmr-kernel), one of which is struck; or by kernels whose copies vote on the way (tmr-block). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "campaign/device_target.h"
#include "core/memory.h"
#include "cuda/probe.h"
#include "cuda/sm80/gemm_mma.h"
#include "screen/screen.h"

typedef rdt_device_target device_target;

/* ---- kernels ---- */

/* The one with the largest tile that the rows fill, of those that take B as a target has it: its rows side by side. */
static const rdt_cuda_kernel *find(rdt_dtype dtype, const char *scheme, int64_t rows) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n), *best = NULL;
  for (int i = 0; i < n; i++) {
    const rdt_cuda_kernel *k = &table[i];
    if (k->dtype != dtype || strcmp(k->scheme, scheme) != 0 || !rdt_cuda_kernel_inject(k) || !k->code[0]) continue;
    if (!best || (k->family == best->family && k->tile->rows <= rows && k->tile->rows > best->tile->rows)) best = k;
  }
  return best;
}

static rdt_status choose_kernel(device_target *t, rdt_reason *why) {
  int n;
  char known[160] = "";
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  const rdt_dtype dtype = t->op.prob.in[0].dtype;
  const int64_t rows = t->op.out.shape[0];
  const char *asked = strcmp(t->ctx->scheme, "auto") == 0 ? "thread1" : t->ctx->scheme;
  const bool on_the_way = rdt_copies_on_way(t, asked), copies = rdt_copies_of(t, asked);
  const rdt_scheme_info *scheme = rdt_scheme_parse(asked, &t->sets);
  t->kernel = scheme ? find(dtype, copies ? "thread1" : scheme->name, rows) : NULL;
  if (on_the_way && dtype != RDT_F16)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "faults are planted in copies that vote on the way where these are of f16, not of %s",
                    rdt_dtype_name(dtype));
  if (t->kernel && t->sets > rdt_cuda_kernel_sets(t->kernel))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s has up to %d checks of a line, not %s", t->kernel->name,
                    rdt_cuda_kernel_sets(t->kernel), asked);
  if (scheme) rdt_scheme_name(scheme, t->sets, t->scheme);
  for (int i = 0; i < n; i++) {
    const bool there =
        table[i].dtype == dtype && find(dtype, table[i].scheme, rows) == &table[i] && rdt_scheme_find(table[i].scheme);
    if (there) snprintf(known + strlen(known), sizeof known - strlen(known), " %s", table[i].scheme);
    if (t->kernel && table[i].dtype == dtype && table[i].tile == t->kernel->tile && table[i].check == RDT_MMA_NONE)
      t->bare = &table[i];
  }
  if (!t->kernel)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "no kernel for a GPU plants faults in products of %s checked by %s; such kernels are there for:%s",
                    rdt_dtype_name(dtype), asked, *known ? known : " nothing of this datatype");
  return rdt_cuda_gemm_accept(t->kernel, &t->op.prob, why);
}

/* Where its checks are to notice a fault. Fragments of A are copies that a check in registers shares with the product:
 * row sums, which are formed of other ones, see them. */
static bool has_site(const device_target *t, rdt_site site) {
  const rdt_cuda_kernel *k = t->kernel;
  const bool threads = k->check < RDT_MMA_SUMS;
  if (rdt_copies_there(t)) return rdt_copies_have_site(t, site);
  switch (site) {
    case RDT_SITE_ACCUM:
      return true;
    case RDT_SITE_PACKED:
      return k->check == RDT_MMA_SUMS || strcmp(k->scheme, "rowcol") == 0;
    case RDT_SITE_EPILOGUE: /* the sum over all k, after it was checked: bits are compared */
      return threads;
    case RDT_SITE_CHECKSUM:
      return threads && k->check != RDT_MMA_REPLICATE && k->check != RDT_MMA_REPLICATE1;
    default:
      return false;
  }
}

static rdt_status name_layer(device_target *t, int i, const char *name, const char *kernel, rdt_reason *why) {
  rdt_target *b = &t->base;
  RDT_TRY(rdt_target_layer_set(b, i, name, "gemm", kernel, t->scheme, NULL, why));
  b->layers[i].info = rdt_scheme_parse(t->scheme, &t->sets);
  /* Nobody says on which multiprocessors copies are computed; or all are on one. */
  b->layers[i].one_core = rdt_copies_there(t) && !t->apart;
  if (!b->layers[i].info) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int s = 0; s < RDT_SITE_COUNT; s++)
    if (has_site(t, (rdt_site)s)) b->spots[b->n_spots++] = (rdt_spot){i, (rdt_site)s};
  return RDT_OK;
}

static rdt_status describe(device_target *t, rdt_reason *why) {
  rdt_target *b = &t->base;
  const int layers = t->n_voted > 1 ? t->n_voted : 1;
  const char *name, *kernel;
  snprintf(b->device, sizeof b->device, "%s", t->machine->device.name);
  RDT_TRY(rdt_target_layers(b, layers, why));
  b->spots = rdt_calloc((size_t)layers * RDT_SITE_COUNT, sizeof *b->spots);
  if (!b->spots) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (!t->n_voted) return name_layer(t, 0, t->op.name, t->kernel->name, why);
  for (int i = 0; rdt_copies_layer(t, i, &name, &kernel); i++) RDT_TRY(name_layer(t, i, name, kernel, why));
  return RDT_OK;
}

/* ---- data ---- */

static void drop_products(device_target *t) {
  if (t->gemm) t->machine->gemm_destroy(t->gemm);
  if (t->plain) t->machine->gemm_destroy(t->plain);
  t->gemm = t->plain = NULL;
}

static rdt_status draw(device_target *t, uint64_t drawing, rdt_reason *why) {
  rdt_machine *m = t->machine;
  const rdt_fault dice = {.seed = t->data.seed};
  drop_products(t);
  RDT_TRY(rdt_op_fill(&t->op, rdt_fault_random(&dice, drawing), why));
  for (int i = 0; i < 2; i++)
    RDT_TRY(m->put(m, RDT_LANE_MAIN, t->there[i], t->op.prob.in[i].data, rdt_device_target_bytes(t, i), why));
  RDT_TRY(m->wait(m, why));
  return m->gemm_create(m, t->kernel, &t->p, t->sets, t->ctx->policy.lambda, &t->gemm, why);
}

/* ---- runs ---- */

/* The result, on the host too; strike NULL: by the kernel that is shipped. */
static rdt_status compute(device_target *t, rdt_cuda_strike *strike, rdt_cuda_verdict *v, rdt_reason *why) {
  rdt_machine *m = t->machine;
  const rdt_operands o = {.in = t->p.in, .n_in = 2, .out = t->p.out, .epilogue = &t->p.epilogue};
  if (rdt_copies_there(t)) return rdt_copies_compute(t, v, why);
  RDT_TRY(m->gemm_run(m, t->gemm, &o, strike, v, NULL, why));
  return rdt_device_target_fetch(t, t->there[2], why);
}

static bool found(const rdt_cuda_verdict *v) {
  return v->suspect + v->certain > 0;
}

static rdt_status expect(device_target *t, rdt_reason *why) {
  rdt_cuda_verdict v;
  if (t->op.clean) return RDT_OK;
  RDT_TRY(rdt_op_refer(&t->op, &t->acc, why));
  RDT_TRY(compute(t, NULL, &v, why));
  if (v.certain || v.cannot)
    return rdt_fail(why, RDT_ERR_FAULT, "a run without a planted fault reports one: %s, row %d", t->kernel->name,
                    v.list[0].row);
  return rdt_op_keep(&t->op, &t->base.deviation, why);
}

/* The first that the fault may strike; -1: none. */
static int layer_of(const device_target *t, const rdt_fault *f) {
  for (int i = 0; i < t->base.n_layers; i++)
    if (rdt_fault_matches(f, t->base.layers[i].name)) return i;
  return -1;
}

static rdt_status take_fault(const device_target *t, const char *spec, rdt_fault *f, rdt_reason *why) {
  RDT_TRY(rdt_fault_parse(spec, f, why));
  rdt_fault once = *f; /* of what a device cannot do, three copies take two, and a rate */
  if (rdt_copies_there(t)) once.copies = RDT_COPIES_ONE;
  if (t->votes) once.rate = f->kind == RDT_FAULT_BER ? f->rate : 1.0;
  RDT_TRY(rdt_target_strikes_once(&once, spec, why));
  if (f->core >= t->machine->device.sms)
    return rdt_fail(why, RDT_ERR_ARG, "%s: %s has multiprocessors 0 to %d", spec, t->machine->device.name,
                    t->machine->device.sms - 1);
  RDT_TRY(rdt_copies_take(t, f, spec, why));
  if (!has_site(t, f->site) || layer_of(t, f) < 0)
    return rdt_fail(why, RDT_ERR_ARG, "%s has no %s to plant a fault in, in a layer '%s'", t->kernel->name,
                    rdt_site_name(f->site), f->layer);
  return RDT_OK;
}

static rdt_status prepare(rdt_target *base, int64_t id, const char *spec, rdt_reason *why) {
  enum { EXPECT_EVERY = 64 }; /* a golden result takes a hundred times as long as what it is compared with */
  device_target *t = (device_target *)base;
  rdt_fault f;
  if (spec) RDT_TRY(take_fault(t, spec, &f, why));
  if (!spec && t->data.fresh) {
    RDT_TRY(draw(t, (uint64_t)id, why));
    if (id % EXPECT_EVERY != 0) return RDT_OK;
  }
  return expect(t, why);
}

static rdt_status strike_once(device_target *t, const rdt_fault *f, rdt_cuda_strike *s, rdt_cuda_verdict *v,
                              rdt_reason *why) {
  return rdt_copies_there(t) ? rdt_copies_strike(t, f, s, v, why) : compute(t, s, v, why);
}

/* What bits are there is asked first, of those kinds of faults that depend on them. */
static rdt_status strike(device_target *t, const rdt_fault *f, rdt_cuda_strike *s, rdt_cuda_verdict *v,
                         rdt_reason *why) {
  const rdt_tensor *out = &t->op.out;
  const rdt_dtype type = rdt_copies_dtype(t);
  uint64_t bits = 0;
  *s = (rdt_cuda_strike){.hit = {.element = rdt_fault_element(f, rdt_tensor_count(out), out->shape[1]),
                                 .position = (double)(rdt_fault_random(f, 7) >> 11) * 0x1p-53},
                         .checksum = f->site == RDT_SITE_CHECKSUM,
                         .reduced = f->site == RDT_SITE_EPILOGUE,
                         .fragment = f->site == RDT_SITE_PACKED,
                         .sm = f->core};
  if (s->hit.element < 0) return RDT_OK;
  if (rdt_fault_mask(f, 0, type) != rdt_fault_mask(f, ~(uint64_t)0, type)) {
    RDT_TRY(strike_once(t, f, s, v, why));
    rdt_store(&bits, type, 0, s->hit.before);
    s->hit.done = false;
  }
  s->hit.mask = rdt_fault_mask(f, bits, type);
  return strike_once(t, f, s, v, why);
}

/* The elements of the result that differ: how many, the largest difference, the largest of signed sums over rows. */
static void measure(const device_target *t, rdt_injection *hit, double *weighted) {
  const rdt_tensor *out = &t->op.out;
  const int64_t columns = out->shape[1];
  const size_t size = rdt_dtype_size(out->dtype);
  hit->changed = 0;
  *weighted = 0.0;
  for (int64_t row = 0; row < out->shape[0]; row++) {
    const size_t at = (size_t)(row * columns) * size;
    double sum = 0.0;
    if (memcmp((char *)out->data + at, t->op.clean + at, (size_t)columns * size) == 0) continue;
    for (int64_t j = 0; j < columns; j++) {
      const int64_t e = row * columns + j;
      const double d = rdt_load(out->data, out->dtype, e) - rdt_load(t->op.clean, out->dtype, e);
      if (memcmp((char *)out->data + (size_t)e * size, t->op.clean + (size_t)e * size, size) == 0) continue;
      hit->changed++;
      hit->error = fmax(hit->error, isnan(d) ? INFINITY : fabs(d));
      sum += rdt_mma_sign((unsigned)j) ? -d : d;
    }
    *weighted = fmax(*weighted, isnan(sum) ? INFINITY : fabs(sum));
  }
}

static rdt_injection injected(const device_target *t, const rdt_fault *f, const rdt_cuda_strike *s) {
  const rdt_dtype dtype = rdt_copies_dtype(t);
  const double change = fabs(s->hit.after - s->hit.before);
  rdt_injection hit = {.done = s->hit.done,
                       .site = f->site,
                       .element = s->hit.element,
                       .before = s->hit.before,
                       .after = s->hit.after,
                       .bit = rdt_fault_highest(dtype, s->hit.before, s->hit.after),
                       .left = -1.0,
                       .left_weighted = NAN};
  double rows;
  snprintf(hit.node, sizeof hit.node, "%s", t->op.name);
  measure(t, &hit, &rows);
  hit.weighted = rows;
  if (f->site == RDT_SITE_ACCUM && f->core < 0 && !t->n_voted) { /* what has left the accumulator */
    hit.weighted = isnan(change) ? INFINITY : change;
    hit.error = fmax(hit.error, hit.weighted);
  }
  static const char *const more[] = {[RDT_COPIES_ONE] = "",
                                     [RDT_COPIES_APART] = "; another copy elsewhere",
                                     [RDT_COPIES_DIFFER] = "; another copy there, with other bits",
                                     [RDT_COPIES_ALIKE] = "; another copy alike"};
  if (f->site == RDT_SITE_VOTE)
    snprintf(hit.text, sizeof hit.text, "the vote on node %s, on element %lld, of which a copy was hit", t->op.name,
             (long long)s->hit.element);
  else if (f->core >= 0)
    snprintf(hit.text, sizeof hit.text, "all that multiprocessor %d of node %s accumulates, after %.0f %% of k",
             f->core, t->op.name, 100.0 * s->hit.position);
  else if (t->n_voted)
    snprintf(hit.text, sizeof hit.text,
             "accum of node %s (after %.0f %% of the votes), element %lld: bits %08x of a copy%s", t->op.name,
             100.0 * s->hit.position, (long long)s->hit.element, (unsigned)s->hit.mask, more[f->copies]);
  else
    snprintf(hit.text, sizeof hit.text, "%s of node %s (after %.0f %% of the reduction), element %lld: %.9g -> %.9g%s",
             rdt_site_name(f->site), t->op.name, 100.0 * s->hit.position, (long long)s->hit.element, s->hit.before,
             s->hit.after, more[f->copies]);
  return hit;
}

static void words_of_vote(const device_target *t, const rdt_shot *s, const rdt_cuda_finding *l, int sm, char *text,
                          size_t size) {
  const bool undecided = l->k_first < 0;
  char who[64] = "all three copies differ", named[96] = "";
  if (sm >= 0)
    snprintf(
        named, sizeof named,
        t->n_voted ? "; multiprocessor %d computed it" : "; multiprocessor %d fails products whose results are known",
        sm);
  if (!undecided) snprintf(who, sizeof who, "copy %d of three lost", l->k_first);
  snprintf(text, size, "%s: %s at row %d, column %d, %s%s", t->op.name, who, l->row, l->column,
           s->verdict == RDT_DETECTED            ? "and three more did not decide"
           : l->complaint == (int)RDT_CUDA_AGAIN ? "and agreed when it had been computed again from an earlier vote"
           : undecided                           ? "and three more decided"
           : s->diagnosis == RDT_DIAG_PERSISTENT ? "and once more: the other two are the result"
                                                 : "not once more: the other two are the result",
           named);
}

/* sm: that computed what was hit; -1: nobody knows. */
static void tell(const device_target *t, const rdt_shot *s, const rdt_cuda_verdict *v, int sm) {
  const rdt_cuda_finding *l = &v->list[0];
  const rdt_tensor *out = &t->op.out;
  const bool rounding = s->faults == 0;
  char text[320], by[40] = "";
  if (sm >= 0) snprintf(by, sizeof by, " (multiprocessor %d)", sm);
  if (rdt_copies_there(t))
    words_of_vote(t, s, l, sm, text, sizeof text);
  else
    snprintf(text, sizeof text, "%s: %s at row %d%s, %s", t->op.name,
             rounding ? "a residual above the statistical bound" : "a fault in the result", l->row, by,
             rounding                              ? "was rounding: the same bits again"
             : s->verdict == RDT_DETECTED          ? "found and not repaired"
             : s->diagnosis == RDT_DIAG_CHECKER    ? "found; the result was right"
             : s->diagnosis == RDT_DIAG_PERSISTENT ? "found again, and computed by another one"
                                                   : "found and computed again");
  rdt_event e = {.kind = rounding ? RDT_EVENT_SUSPECT : RDT_EVENT_FAULT,
                 .node = t->op.name,
                 .op = "gemm",
                 .scheme = t->scheme,
                 .kernel = t->kernel->name,
                 .what = s->diagnosis == RDT_DIAG_CHECKER ? "checksum" : "result",
                 .place = {l->row, l->column},
                 .residual = s->residual,
                 .bound = s->bound,
                 .bound_rigorous = (double)l->tau0,
                 .verdict = s->verdict,
                 .diagnosis = s->diagnosis,
                 .changed = -1,
                 .text = text,
                 .dtype = rdt_dtype_name(out->dtype),
                 .rank = out->rank,
                 .floor = 2.0 * s->bound,
                 .element = -1,
                 .core = -1};
  memcpy(e.shape, out->shape, sizeof e.shape);
  if (sm >= 0) e.device = rdt_context_device(t->ctx), e.multiprocessor = sm;
  rdt_cores_book_complaint(&t->ctx->sms, &e);
  rdt_context_emit(t->ctx, &e);
}

/* Checks in registers are made by whoever multiplies; row sums are compared by the last block of all. */
static int complainer(const device_target *t, const rdt_cuda_verdict *v) {
  return !rdt_copies_there(t) && v->listed && t->kernel->family == RDT_CUDA_MMA && t->kernel->check < RDT_MMA_SUMS
             ? v->list[0].sm
             : -1;
}

static void take_residual(rdt_shot *s, const rdt_cuda_verdict *v) {
  const rdt_cuda_finding *l = &v->list[0];
  if (!v->listed) return;
  s->residual = fabs((double)l->observed - (double)l->expected);
  s->bound = (double)l->tau2;
  s->ratio = s->bound > 0.0 ? s->residual / s->bound : 0.0;
}

/* Kernels that are repaired in their stream: the same once more, with the repair behind it. */
static rdt_status settle_there(device_target *t, const rdt_cuda_strike *struck, const rdt_cuda_verdict *v, rdt_shot *s,
                               rdt_reason *why) {
  rdt_cuda_mended m = {0};
  rdt_cuda_verdict left;
  rdt_cuda_strike again = *struck;
  int sm = complainer(t, v);
  again.mended = &m;
  RDT_TRY(compute(t, &again, &left, why));
  rdt_cores_count_complaints(&t->ctx->sms, m.seen.sm, RDT_CUDA_SMS);
  take_residual(s, v);
  s->unchecked = v->cannot;
  s->verdict = m.unchecked ? RDT_UNCHECKED : RDT_CLEAN;
  if (m.left || m.persistent || m.transient || m.checker || !m.products) { /* not met again: it was not rounding */
    s->faults = 1;
    s->verdict = m.left ? RDT_DETECTED : RDT_RECOMPUTED;
    s->diagnosis = m.left || m.persistent       ? RDT_DIAG_PERSISTENT
                   : m.transient || !m.products ? RDT_DIAG_TRANSIENT
                                                : RDT_DIAG_CHECKER;
  }
  if (s->verdict == RDT_DETECTED) s->status = RDT_ERR_FAULT;
  for (int i = 0; i < RDT_CUDA_SMS; i++)
    if (m.wrong[i]) sm = i;
  tell(t, s, v, sm);
  return RDT_OK;
}

static bool settles_there(const device_target *t, const rdt_cuda_strike *s) {
  const rdt_on_fault policy = t->ctx->policy.on_fault;
  return s->hit.done && policy != RDT_ON_FAULT_REPORT && policy != RDT_ON_FAULT_ABORT &&
         t->kernel->check != RDT_MMA_CLASSIC;
}

/* After a complaint: once more, by the kernel that is shipped. */
static rdt_status settle(device_target *t, const rdt_cuda_verdict *v, rdt_shot *s, rdt_reason *why) {
  const size_t bytes = rdt_device_target_bytes(t, 2);
  const rdt_on_fault policy = t->ctx->policy.on_fault;
  rdt_cuda_verdict again;
  take_residual(s, v);
  rdt_cores_count_complaints(&t->ctx->sms, v->sm, RDT_CUDA_SMS);
  void *first = rdt_alloc(bytes, 1);
  if (!first) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory to compute a result again");
  memcpy(first, t->op.out.data, bytes);
  rdt_status status = compute(t, NULL, &again, why);
  const bool same = status == RDT_OK && memcmp(first, t->op.out.data, bytes) == 0;
  const bool report = policy == RDT_ON_FAULT_REPORT || policy == RDT_ON_FAULT_ABORT;
  s->verdict = v->cannot && !found(v) ? RDT_UNCHECKED : RDT_CLEAN;
  s->unchecked = v->cannot;
  if (!same || v->certain || (found(&again) && !found(v))) {
    const bool persists = again.certain > 0;
    s->faults = 1;
    s->verdict = persists || report ? RDT_DETECTED : RDT_RECOMPUTED;
    s->diagnosis = persists ? RDT_DIAG_PERSISTENT : same ? RDT_DIAG_CHECKER : RDT_DIAG_TRANSIENT;
    if (s->verdict == RDT_DETECTED) s->status = RDT_ERR_FAULT;
  }
  if (report && status == RDT_OK) memcpy(t->op.out.data, first, bytes);
  rdt_free(first);
  if (status == RDT_OK) tell(t, s, v, complainer(t, v));
  return status;
}

/* Where a copy lost, all three are computed once more: does it lose again? Where all differ, those decide. The vote has
 * written already, whatever the policy. */
static rdt_status settle_votes(device_target *t, const rdt_cuda_verdict *v, rdt_cuda_strike *strike,
                               const rdt_fault *broken, rdt_shot *s, rdt_reason *why) {
  rdt_cuda_verdict again;
  int sm = -1;
  if (broken) { /* a multiprocessor is so every time, or in its share of them */
    t->turns += RDT_VOTERS;
    bool alike = false;
    RDT_TRY(strike_once(t, broken, strike, &again, why));
    if (t->votes && t->op.clean) RDT_TRY(rdt_copies_alike(t, &alike, why));
    s->hit.alike = s->hit.alike || alike;
    if (t->votes) RDT_TRY(rdt_copies_vote(t, &again, why));
  } else {
    RDT_TRY(compute(t, NULL, &again, why));
  }
  s->faults = 1;
  s->verdict = again.certain ? RDT_DETECTED : RDT_RECOMPUTED;
  s->diagnosis =
      again.certain ? RDT_DIAG_UNKNOWN
      : again.suspect && !v->certain && v->list[0].k_first >= 0 && again.list[0].k_first == v->list[0].k_first
          ? RDT_DIAG_PERSISTENT
          : RDT_DIAG_TRANSIENT;
  if (s->verdict == RDT_DETECTED) s->status = RDT_ERR_FAULT;
  if (t->n_voted && !v->certain) sm = v->list[0].sm; /* who lost names its own */
  if (t->votes && t->apart && s->diagnosis == RDT_DIAG_PERSISTENT) {
    if (!t->sms) RDT_TRY(t->machine->sms_open(t->machine, &t->sms, why));
    RDT_TRY(rdt_screen_suspect(t->sms, broken, &sm, why));
  }
  tell(t, s, v, sm);
  return RDT_OK;
}

static rdt_status shoot(rdt_target *base, int64_t id, const char *spec, rdt_shot *s, rdt_reason *why) {
  device_target *t = (device_target *)base;
  const rdt_cuda_tile *tile = t->kernel->tile;
  const rdt_tensor *out = &t->op.out;
  rdt_cuda_verdict v = {0};
  rdt_cuda_strike hit = {.bound = NAN};
  rdt_fault f;
  (void)id;
  t->turns = 0, t->layer = 0, t->voter.mask = 0;
  *s = (rdt_shot){.layer = -1, .same = true, .verdict = RDT_CLEAN};
  s->checks = rdt_copies_there(t) ? rdt_tensor_count(out)
                                  : ((out->shape[0] + tile->rows - 1) / tile->rows) *
                                        ((out->shape[1] + tile->columns - 1) / tile->columns);
  if (spec) RDT_TRY(take_fault(t, spec, &f, why));
  if (spec) t->layer = layer_of(t, &f);
  RDT_TRY(spec ? strike(t, &f, &hit, &v, why) : compute(t, NULL, &v, why));
  if (spec) s->hit = injected(t, &f, &hit);
  if (spec && t->votes && s->hit.done && t->op.clean) RDT_TRY(rdt_copies_alike(t, &s->hit.alike, why));
  if (spec && t->votes) RDT_TRY(rdt_copies_vote(t, &v, why));
  if (spec && t->voter.mask) s->hit.done = t->voter.done, t->voter.mask = 0; /* it is once */
  if (spec && t->n_voted && s->hit.done) { /* copies are seen by nobody but the vote */
    s->hit.alike = f.copies == RDT_COPIES_ALIKE;
    if (found(&v) && s->hit.changed == 0) s->hit.changed = 1, s->hit.error = s->hit.weighted = INFINITY;
  }
  if (s->hit.done || (!spec && t->data.fresh)) s->layer = t->layer;
  const bool bits = rdt_copies_there(t) || t->kernel->check == RDT_MMA_REPLICATE || t->op.prob.acc == RDT_S32;
  s->floor = bits || !(hit.bound > 0.0) ? 0.0 : 2.0 * hit.bound;
  s->suspects = v.suspect + v.certain > 0;
  if (found(&v) || v.cannot)
    RDT_TRY(rdt_copies_there(t)      ? settle_votes(t, &v, &hit, spec && f.core >= 0 ? &f : NULL, s, why)
            : settles_there(t, &hit) ? settle_there(t, &hit, &v, s, why)
                                     : settle(t, &v, s, why));
  if (t->op.clean && s->status == RDT_OK) rdt_op_compare(&t->op, s);
  return RDT_OK;
}

static rdt_status run_either(void *user, bool protected, rdt_reason *why) {
  device_target *t = user;
  const rdt_operands o = {.in = t->p.in, .n_in = 2, .out = t->p.out, .epilogue = &t->p.epilogue};
  rdt_cuda_verdict v;
  if (protected && rdt_copies_there(t)) return rdt_copies_compute(t, &v, why);
  return t->machine->gemm_run(t->machine, protected ? t->gemm : t->plain, &o, NULL, &v, NULL, why);
}

static rdt_status take_time(rdt_target *base, double seconds[2], rdt_reason *why) {
  device_target *t = (device_target *)base;
  if (!t->plain) RDT_TRY(t->machine->gemm_create(t->machine, t->bare, &t->p, 1, t->ctx->policy.lambda, &t->plain, why));
  return rdt_target_clock(run_either, t, seconds, why);
}

/* ---- all of it ---- */

static void destroy(rdt_target *base) {
  device_target *t = (device_target *)base;
  if (t->machine) drop_products(t);
  rdt_copies_drop(t);
  if (t->sms) t->sms->close(t->sms);
  for (int i = 0; i < 3; i++)
    if (t->there[i]) t->machine->release(t->machine, t->there[i]);
  rdt_problem_clear(&t->p);
  rdt_op_clear(&t->op);
  rdt_free(t);
}

static rdt_status make(device_target *t, const char *text, rdt_reason *why) {
  rdt_problem p = {0};
  const rdt_family family = t->data.family ? rdt_family_find(t->data.family) : RDT_FAMILY_NORMAL;
  if (family == RDT_FAMILY_COUNT)
    return rdt_fail(why, RDT_ERR_NAME, "on a GPU a product has one family of data, not '%s'", t->data.family);
  rdt_status status = rdt_target_gemm(text, &p, why);
  if (status != RDT_OK) {
    rdt_problem_clear(&p);
    return status;
  }
  if (t->data.family && !rdt_dtype_is_float(p.in[0].dtype))
    status =
        rdt_fail(why, RDT_ERR_ARG, "families of data are of real numbers: %s is not", rdt_dtype_name(p.in[0].dtype));
  const rdt_status taken = rdt_op_init(&t->op, t->ctx, "gemm", family, &p, status == RDT_OK ? why : NULL);
  RDT_TRY(status);
  RDT_TRY(taken);
  RDT_TRY(choose_kernel(t, why));
  t->acc = rdt_accumulator_of(t->op.prob.in[0].dtype, t->op.prob.acc);
  if (rdt_copies_on_way(t, t->scheme))
    t->acc = rdt_accumulator_mma(t->machine->device.major, t->machine->device.minor, RDT_F16);
  else if (rdt_dtype_is_half(t->op.prob.in[0].dtype))
    RDT_TRY(rdt_probe(&t->machine->device, t->op.prob.in[0].dtype, NULL, &t->acc, why));
  RDT_TRY(rdt_problem_copy(&t->p, &t->op.prob));
  for (int i = 0; i < 3; i++) {
    RDT_TRY(t->machine->alloc(t->machine, rdt_device_target_bytes(t, i), &t->there[i], why));
    (i < 2 ? &t->p.in[i] : &t->p.out)->data = t->there[i];
  }
  RDT_TRY(rdt_copies_make(t, why));
  RDT_TRY(draw(t, 0, why));
  RDT_TRY(describe(t, why));
  return expect(t, why);
}

rdt_status rdt_target_device(rdt_context *ctx, const char *text, const rdt_target_data *data, rdt_target **out,
                             rdt_reason *why) {
  device_target *t = rdt_calloc(1, sizeof *t);
  *out = NULL;
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  t->ctx = ctx;
  t->machine = ctx->machine;
  t->data = *data;
  t->base.inputs = !data->fresh;
  t->base.prepare = prepare;
  t->base.run = shoot;
  t->base.time = take_time;
  t->base.destroy = destroy;
  const rdt_status status = make(t, text, why);
  if (status == RDT_OK)
    *out = &t->base;
  else
    rdt_target_destroy(&t->base);
  return status;
}
