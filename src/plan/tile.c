/* Kernels that are no black box compute again only the tile that the suspects name: rows by columns of a product,
 * images by channels of a convolution. Their bits do not depend on what is computed beside. */
#include "plan/cores.h"

static void widen(int64_t range[2], int64_t at) {
  if (range[0] < 0 || at < range[0]) range[0] = at;
  if (at > range[1]) range[1] = at;
}

bool rdt_plan_tile(const rdt_plan *p, const rdt_findings *f, rdt_tile *tile) {
  const rdt_problem *prob = &p->prob;
  const rdt_tensor *out = &prob->out;
  const bool conv = prob->op == RDT_KOP_CONV;
  if (p->kernel->black_box || (!conv && out->rank != 2)) return false;
  if (f->suspects == 0 || f->suspects > f->listed || f->cannot > 0) return false; /* the list does not name all */
  int64_t range[2][2] = {{-1, -1}, {-1, -1}};
  bool known[2] = {true, !conv || prob->window.groups == 1};
  for (int i = 0; i < f->listed; i++) {
    const rdt_suspect *s = &f->list[i];
    for (int axis = 0; axis < 2; axis++) {
      const int64_t side = rdt_suspect_extent(f, s, axis);
      if (s->place[axis] < 0) continue;
      const int64_t unit = conv && axis == 0 ? rdt_tensor_pixels(out) : 1, end = out->shape[axis] - 1;
      const int64_t last = (s->place[axis] + side - 1) / unit;
      widen(range[axis], s->place[axis] / unit);
      widen(range[axis], last < end ? last : end);
    }
  }
  bool part = false;
  for (int axis = 0; axis < 2; axis++) {
    known[axis] = known[axis] && range[axis][0] >= 0;
    tile->from[axis] = known[axis] ? range[axis][0] : 0;
    tile->length[axis] = known[axis] ? range[axis][1] - range[axis][0] + 1 : out->shape[axis];
    part = part || tile->length[axis] < out->shape[axis];
  }
  return part;
}

static rdt_tensor slice(const rdt_tensor *t, int dim, int64_t from, int64_t length) {
  rdt_tensor s = *t;
  s.shape[dim] = length;
  if (s.data) s.data = (unsigned char *)s.data + from * t->stride[dim] * (int64_t)rdt_dtype_size(t->dtype);
  return s;
}

static rdt_tensor slice_both(const rdt_tensor *t, const rdt_tile *tile) {
  const rdt_tensor rows = slice(t, 0, tile->from[0], tile->length[0]);
  return slice(&rows, 1, tile->from[1], tile->length[1]);
}

/* The problem of a part, without an epilogue. */
static rdt_status cut(const rdt_plan *p, const rdt_operands *o, const rdt_tile *tile, rdt_problem *part) {
  const int weight_dim = p->prob.op == RDT_KOP_CONV ? 0 : 1;
  RDT_TRY(rdt_problem_copy(part, &p->prob));
  part->epilogue = RDT_EPILOGUE_NONE;
  part->in[0] = slice(&o->in[0], 0, tile->from[0], tile->length[0]);
  part->in[1] = slice(&o->in[1], weight_dim, tile->from[1], tile->length[1]);
  part->out = slice_both(&o->out, tile);
  return RDT_OK;
}

unsigned rdt_plan_checkpoints(const rdt_plan *p) {
  return p->scheme->forms & RDT_FORM_UNITS ? 0 : p->kernel->fuses & RDT_FORM_CHECKPOINTS;
}

rdt_status rdt_plan_fuse_again(const rdt_plan *p, rdt_where *w, const rdt_fused_check *check, void *state,
                               const rdt_operands *o, rdt_fused *sums, rdt_findings *f, bool *rounding,
                               rdt_reason *why) {
  const rdt_fused asked = *sums;
  *rounding = false;
  const unsigned more = rdt_plan_checkpoints(p) & ~sums->forms;
  RDT_TRY(rdt_where_run_fused(w, &w->again, state, o, sums, why));
  rdt_fused_judge(check, sums, f);
  if (sums->differ || f->suspects == 0 || f->certain > 0 || !more) return RDT_OK;
  *sums = asked;
  sums->forms |= more;
  rdt_findings_init(f);
  RDT_TRY(rdt_where_run_fused(w, &w->again, state, o, sums, why));
  rdt_fused_judge(check, sums, f);
  *rounding = !rdt_findings_complain(f);
  return RDT_OK;
}

rdt_status rdt_plan_fuse_tile(const rdt_plan *p, rdt_where *w, const rdt_operands *o, const rdt_tile *tile,
                              rdt_findings *f, bool *differ, bool *rounding, rdt_reason *why) {
  rdt_problem part;
  rdt_fused_check *check = NULL;
  void *state = NULL;
  *differ = false;
  RDT_TRY(cut(p, o, tile, &part));
  rdt_epilogue e = o->epilogue ? *o->epilogue : RDT_EPILOGUE_NONE;
  if (e.bias.rank >= 0) e.bias = slice(&e.bias, 0, tile->from[1], tile->length[1]);
  if (e.factor.rank >= 0) e.factor = slice(&e.factor, 0, tile->from[1], tile->length[1]);
  if (e.residual.rank >= 0) e.residual = slice_both(&e.residual, tile);
  const rdt_operands operands = {.in = part.in, .n_in = 2, .out = part.out, .epilogue = &e};
  rdt_status status = rdt_fused_create(&part, p->kernel, p->scheme->forms, p->ctx->policy.lambda, &check, why);
  if (status == RDT_OK) status = p->kernel->create(&part, p->threads, &state, why);
  if (status == RDT_OK) {
    rdt_fused sums = rdt_fused_ask(check);
    status = rdt_plan_fuse_again(p, w, check, state, &operands, &sums, f, rounding, why);
    *differ = sums.differ;
  }
  if (state) p->kernel->destroy(state);
  rdt_fused_destroy(check);
  rdt_problem_clear(&part);
  return status;
}

rdt_status rdt_plan_compute_tile(const rdt_plan *p, rdt_where *w, const rdt_operands *o, const rdt_tile *tile,
                                 rdt_reason *why) {
  rdt_problem part;
  void *state = NULL;
  RDT_TRY(cut(p, o, tile, &part));
  const rdt_operands operands = {.in = part.in, .n_in = 2, .out = part.out};
  rdt_status status = p->kernel->create(&part, p->threads, &state, why);
  if (status == RDT_OK) status = rdt_where_run(w, &w->again, p->kernel, state, p->threads, &operands, NULL, why);
  if (state) p->kernel->destroy(state);
  rdt_problem_clear(&part);
  return status;
}
