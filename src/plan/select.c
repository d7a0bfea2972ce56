/* Which kernel, which scheme, and why the others not. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "plan/plan.h"

static rdt_status book(rdt_plan *p, rdt_choice c, const char *reason) {
  rdt_choice_row *rows = rdt_grow(p->choices, (size_t)p->n_choices, (size_t)p->n_choices + 1, sizeof *rows);
  if (!rows) return RDT_ERR_NOMEM;
  p->choices = rows;
  rdt_choice_row *row = &rows[p->n_choices++];
  memset(row, 0, sizeof *row);
  row->choice = c;
  strncpy(row->text, reason, sizeof row->text - 1);
  return RDT_OK;
}

typedef struct kernel_log {
  rdt_plan *p;
  rdt_status status;
} kernel_log;

static void log_refusal(const rdt_kernel *k, const char *reason, void *user) {
  kernel_log *log = user;
  if (log->status == RDT_OK)
    log->status = book(log->p, (rdt_choice){.kind = "kernel", .name = k->name, .refused = 1, .cost = NAN}, reason);
}

/* A kernel that takes the problem only without its epilogue is still better than the reference with it. */
static bool finish_apart(const rdt_plan *p, const rdt_problem *whole) {
  const bool linear = rdt_kop_is_linear(p->prob.op);
  if (!linear || p->scheme->id != RDT_SCHEME_NONE || rdt_epilogue_is_none(&whole->epilogue)) return false;
  rdt_problem raw = *whole;
  raw.epilogue = RDT_EPILOGUE_NONE;
  raw.out = rdt_plan_raw_view(p);
  const rdt_kernel *reference = rdt_cpu_reference(whole);
  return rdt_cpu_dispatch(whole, p->ctx->isa, NULL, NULL) == reference &&
         rdt_cpu_dispatch(&raw, p->ctx->isa, NULL, NULL) != reference;
}

/* The first kernel that makes the scheme's check as it goes and takes the problem with its epilogue; NULL: none. Such a
 * kernel keeps no raw result, and without it nothing can be rebuilt. */
static const rdt_kernel *fusing_kernel(const rdt_plan *p, const rdt_scheme_info *scheme, int sets) {
  const bool keep = p->ctx->policy.on_fault == RDT_ON_FAULT_CORRECT;
  const bool dynamic = !p->prob.in[1].data && scheme->forms != RDT_FORM_ROWS;
  const unsigned forms = keep || sets > 1 || dynamic ? 0 : scheme->forms;
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  for (int i = 0; i < n && forms; i++) {
    rdt_reason why;
    const rdt_kernel *k = rows[i];
    if (k->op == p->prob.op && (forms & ~k->fuses) == 0 && k->isa <= p->ctx->isa &&
        k->accept_fused(&p->prob, &why) == RDT_OK)
      return k;
  }
  return NULL;
}

/* The kernel gets the problem without the epilogue where checks come between. */
static rdt_status select_kernel(rdt_plan *p, rdt_reason *why) {
  rdt_problem raw;
  RDT_TRY(rdt_problem_copy(&raw, &p->prob));
  p->finish = finish_apart(p, &raw);
  if (p->finish || (rdt_kop_is_linear(p->prob.op) && p->scheme->id != RDT_SCHEME_NONE)) {
    raw.epilogue = RDT_EPILOGUE_NONE;
    raw.out = rdt_plan_raw_view(p);
  }
  kernel_log log = {.p = p, .status = RDT_OK};
  p->kernel = fusing_kernel(p, p->scheme, p->sets);
  p->kernel_fuses = p->kernel != NULL;
  if (!p->kernel) p->kernel = rdt_cpu_dispatch(&raw, p->ctx->isa, log_refusal, &log);
  p->other = rdt_cpu_reference(&raw);
  rdt_status status = log.status;
  if (status == RDT_OK && !p->kernel)
    status = rdt_fail(why, RDT_ERR_UNSUPPORTED, "node %s: no kernel takes %s of %s", p->name, rdt_kop_name(p->prob.op),
                      rdt_dtype_name(p->prob.out.dtype));
  if (status == RDT_OK)
    status = book(p, (rdt_choice){.kind = "kernel", .name = p->kernel->name, .taken = 1, .cost = NAN},
                  p->kernel_fuses ? "forms the sums of this scheme's check while it multiplies"
                  : p->finish     ? "first row of the table that takes this problem, its epilogue apart"
                                  : "first row of the table that takes this problem");
  const bool twice = p->scheme->id == RDT_SCHEME_DUP; /* each copy on one thread, both at the same time */
  if (status == RDT_OK) status = p->kernel->create(&raw, twice ? 1 : p->threads, &p->state, why);
  if (status == RDT_OK && twice) status = p->kernel->create(&raw, 1, &p->twin, why);
  rdt_problem_clear(&raw);
  return status;
}

/* Up to this share of the op's own work the finest location is taken, beyond it the cheapest scheme. */
static const double affordable = 0.01; /* row and column cover of a 2048^3 product (bench gemm) */

typedef struct candidate {
  const rdt_scheme_info *scheme;
  int sets;
  double cost; /* share of the op's own work */
  bool refused;
  rdt_reason why;
} candidate;

/* Where a filter reads one channel, sums over the results cost more than the results. */
static bool is_depthwise(const rdt_problem *p) {
  return p->op == RDT_KOP_CONV && p->window.groups > 1 && p->in[1].shape[1] == 1;
}

/* Of a second copy with its comparison, in flops of the convolution's own kernel, as the schemes' costs: fitted to
 * depthwise layers of MobileNet, which wait for memory. */
static double cost_of_copy(const rdt_problem *p) {
  return rdt_problem_flops(p) + 18.0 * (double)(rdt_tensor_count(&p->in[0]) + rdt_tensor_count(&p->out));
}

static void weigh(const rdt_plan *p, candidate *c) {
  const double flops = rdt_problem_flops(&p->prob);
  c->cost = NAN;
  if (!rdt_scheme_serves(c->scheme, p->prob.op)) {
    c->refused = true;
    rdt_fail(&c->why, RDT_ERR_UNSUPPORTED, "not for this op");
  } else if (c->scheme->id == RDT_SCHEME_NONE) {
    c->cost = 0.0;
  } else if (c->scheme->id == RDT_SCHEME_DUP) {
    c->cost = rdt_kop_is_linear(p->prob.op) && flops > 0.0 ? cost_of_copy(&p->prob) / flops : 1.0;
  } else if (c->scheme->impl->accept(&p->prob, &c->why) != RDT_OK) {
    c->refused = true;
  } else if (c->sets > 1 && p->prob.acc == RDT_S32) { /* two flipped top bits cancel under any weights */
    c->refused = true;
    rdt_fail(&c->why, RDT_ERR_UNSUPPORTED, "integers are checked modulo 2^32: there %s:%d is no more than %s",
             c->scheme->name, c->sets, c->scheme->name);
  } else {
    const bool fused = fusing_kernel(p, c->scheme, c->sets) != NULL;
    if (!fused && (c->scheme->forms & RDT_FORM_UNITS)) {
      c->refused = true;
      rdt_fail(&c->why, RDT_ERR_UNSUPPORTED, "checked in registers only, and no own kernel takes this");
      return;
    }
    const double work = fused ? rdt_fused_cost(&p->prob, c->scheme->forms) : c->sets * c->scheme->impl->cost(&p->prob);
    c->cost = flops > 0.0 ? work / flops : 0.0;
    snprintf(c->why.text, sizeof c->why.text, "asked for: %d independent checks of each line", c->sets);
  }
}

static bool locates_elements(const candidate *c) {
  return strcmp(c->scheme->granularity, "element") == 0;
}

/* Checksums for linear ops: the cheapest that locates, or the finest where that is nearly free. Twice for the others,
 * and for depthwise convolutions where that is cheaper: their few weights are verified on every run then. */
static const candidate *choose(const rdt_plan *p, const candidate *list, int n) {
  const candidate *best = NULL;
  const bool linear = rdt_kop_is_linear(p->prob.op);
  for (int i = 0; i < n; i++) {
    const candidate *c = &list[i];
    if (c->refused || !c->scheme->locates || (linear && c->scheme->id == RDT_SCHEME_DUP && !is_depthwise(&p->prob)))
      continue;
    if (linear && c->cost <= affordable && locates_elements(c)) return c;
    if (!best || c->cost < best->cost) best = c;
  }
  return best;
}

static const char *explain(const rdt_plan *p, const candidate *c, const candidate *taken, bool automatic) {
  const bool linear = rdt_kop_is_linear(p->prob.op);
  if (c->refused) return c->why.text;
  if (!automatic && c == taken) return c->sets > 1 ? c->why.text : "asked for";
  if (!automatic) return "another scheme was asked for";
  if (c == taken && !linear) return "the only scheme for an op without an algebra of checksums";
  if (c == taken && c->scheme->id == RDT_SCHEME_DUP) return "each filter reads one channel: a second copy costs least";
  if (c == taken)
    return locates_elements(c) ? "locates to the element, and is nearly free here" : "the cheapest that locates";
  if (c->scheme->id == RDT_SCHEME_NONE) return "no protection";
  if (!c->scheme->locates) return "finds a fault, but does not locate it";
  if (linear && c->scheme->id == RDT_SCHEME_DUP) return "both copies would read the same weights";
  if (c->cost < taken->cost) return "cheaper, but coarser, and the finer one is nearly free here";
  return "dearer";
}

static rdt_status select_scheme(rdt_plan *p, const char *asked, rdt_reason *why) {
  candidate list[RDT_SCHEME_COUNT];
  int n, sets;
  const rdt_scheme_info *table = rdt_scheme_table(&n);
  const rdt_scheme_info *wanted = rdt_scheme_parse(asked, &sets);
  memset(list, 0, sizeof list);
  const candidate *taken = NULL;
  for (int i = 0; i < n; i++) {
    list[i].scheme = &table[i];
    list[i].sets = wanted == &table[i] ? sets : 1;
    weigh(p, &list[i]);
    if (wanted == &table[i] && !list[i].refused) taken = &list[i];
  }
  /* A scheme that was asked for but is not for this op (row for a pool) leaves the op to the automatic choice. */
  const bool automatic = !taken;
  if (automatic) taken = choose(p, list, n);
  if (!taken)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "node %s: no scheme protects %s", p->name, rdt_kop_name(p->prob.op));
  p->scheme = taken->scheme;
  p->sets = taken->sets;
  rdt_scheme_name(p->scheme, p->sets, p->scheme_name);
  for (int i = 0; i < n; i++) {
    const candidate *c = &list[i];
    const rdt_choice choice = {
        .kind = "scheme", .name = c->scheme->name, .taken = c == taken, .refused = c->refused, .cost = c->cost};
    RDT_TRY(book(p, choice, explain(p, c, taken, automatic)));
  }
  return RDT_OK;
}

/* A product this small is done before a second thread has woken up: 2 MFLOP take some 20 us on one core. */
static const double worth_a_thread = 2e6;

rdt_status rdt_plan_select(rdt_plan *p, const char *scheme, rdt_reason *why) {
  const bool small = rdt_kop_is_linear(p->prob.op) && rdt_problem_flops(&p->prob) < worth_a_thread;
  p->threads = small ? 1 : p->ctx->threads;
  RDT_TRY(select_scheme(p, scheme, why));
  return select_kernel(p, why);
}
