/* --on-fault correct: a raw result is rebuilt where row and column checks locate what is wrong. */
#include <math.h>

#include "plan/plan.h"
#include "schemes/lines.h"

enum { SIDES = 2 }; /* checks by rows (pixels) and by columns (channels) */

typedef struct sides {
  const rdt_scheme *scheme[SIDES];
  void *state[SIDES];
  bool own[SIDES]; /* made here; else the plan's, which was just compared with its seal */
} sides;

static void close_sides(sides *s) {
  for (int i = 0; i < SIDES; i++)
    if (s->own[i] && s->state[i]) s->scheme[i]->destroy(s->state[i]);
}

/* *taken false: a check refuses the op. */
static rdt_status open_sides(const rdt_plan *p, const rdt_operands *o, sides *s, bool *taken, rdt_reason *why) {
  const bool conv = p->prob.op == RDT_KOP_CONV;
  rdt_problem now = p->prob; /* with weights, which may be another matrix at each run */
  now.in = (rdt_tensor *)o->in;
  *s = (sides){.scheme = {conv ? &rdt_scheme_fc : &rdt_scheme_row, conv ? &rdt_scheme_ic : &rdt_scheme_col}};
  *taken = true;
  for (int i = 0; i < SIDES && *taken; i++) {
    *taken = s->scheme[i]->accept(&now, why) == RDT_OK;
    s->own[i] = s->scheme[i] != p->scheme->impl || !p->sums || p->sets > 1;
    if (!*taken) break;
    if (s->own[i])
      RDT_TRY(s->scheme[i]->create(&now, true, p->ctx->policy.lambda, 1, p->threads, &s->state[i], why));
    else
      s->state[i] = p->sums;
  }
  return RDT_OK;
}

static rdt_status check_sides(const sides *s, const rdt_operands *o, rdt_findings f[SIDES], rdt_reason *why) {
  for (int i = 0; i < SIDES; i++) {
    rdt_findings_init(&f[i]);
    RDT_TRY(s->scheme[i]->verify(s->state[i], o, NULL, &f[i], why));
  }
  return RDT_OK;
}

static rdt_status rebuild(const rdt_plan *p, const sides *s, const rdt_operands *o, rdt_rebuilt *b, rdt_reason *why) {
  rdt_findings f[SIDES];
  rdt_lines lines;
  RDT_TRY(check_sides(s, o, f, why));
  RDT_TRY(rdt_lines_create(&p->prob, o, p->ctx->policy.lambda, &lines, why));
  rdt_correct(&lines, &f[0], &f[1], b);
  rdt_lines_destroy(&lines);
  if (b->count == 0) return RDT_OK;
  RDT_TRY(check_sides(s, o, f, why));
  b->passed = rdt_correct_holds(b, &f[0], &f[1]);
  b->bound += fmax(f[0].floor, f[1].floor); /* a fault too small to be seen may lie in the same checksum */
  return RDT_OK;
}

rdt_status rdt_plan_rebuild(const rdt_plan *p, const rdt_operands *o, rdt_rebuilt *b, rdt_reason *why) {
  sides s;
  bool taken;
  *b = (rdt_rebuilt){.count = 0};
  rdt_status status = open_sides(p, o, &s, &taken, why);
  if (status == RDT_OK && taken) status = rebuild(p, &s, o, b, why);
  close_sides(&s);
  return status;
}

void rdt_plan_book_left(rdt_plan *p, const rdt_operands *o, const rdt_tensor *clean, const rdt_tensor *now) {
  const int64_t n = rdt_tensor_count(clean);
  double left = 0.0;
  for (int64_t i = 0; i < n; i++) {
    const double d = fabs(rdt_load(now->data, now->dtype, i) - rdt_load(clean->data, clean->dtype, i));
    if (!(d <= left)) left = isnan(d) ? INFINITY : d;
  }
  p->injection->left = left;
  p->injection->left_weighted = left > 0.0 && isfinite(left) ? rdt_plan_weigh(p, o, clean, now) : left;
}
