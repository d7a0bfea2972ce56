#include <stdio.h>
#include <string.h>

#include "outofcore/pipeline_state.h"

/* ---- what the threads have in common ---- */

static void stop(rdt_pipeline *p, rdt_status status, const rdt_reason *why) {
  pthread_mutex_lock(&p->lock);
  if (p->status == RDT_OK && status != RDT_OK) {
    p->status = status;
    p->why = *why;
  }
  if (status != RDT_OK) p->stop = true;
  pthread_cond_broadcast(&p->moved);
  pthread_mutex_unlock(&p->lock);
}

/* Until a counter is at least so far. false: it stops. */
static bool wait_for(rdt_pipeline *p, const int64_t *counter, int64_t least) {
  pthread_mutex_lock(&p->lock);
  while (!p->stop && *counter < least) pthread_cond_wait(&p->moved, &p->lock);
  const bool go = !p->stop;
  pthread_mutex_unlock(&p->lock);
  return go;
}

static void count(rdt_pipeline *p, int64_t *counter, int64_t n) {
  pthread_mutex_lock(&p->lock);
  *counter += n;
  pthread_cond_broadcast(&p->moved);
  pthread_mutex_unlock(&p->lock);
}

/* A span that ends now. */
static void note(rdt_pipeline *p, rdt_span span, double since) {
  rdt_pipeline_shared *x = p->job->shared;
  if (!p->job->asked->measured) return;
  span.device = p->job->number;
  span.begin = since - x->began;
  span.end = rdt_clock() - x->began;
  pthread_mutex_lock(&x->lock);
  rdt_timeline_add(p->job->asked->measured, &span);
  pthread_mutex_unlock(&x->lock);
}

/* ---- blocks ---- */

rdt_part_of rdt_pipeline_part(const rdt_pipeline *p, const rdt_step *s, int x) {
  const rdt_pipeline_job *j = p->job;
  return x == 0 ? rdt_part_of_a(j->task, j->splits, s->i, s->t) : rdt_part_of_b(j->task, j->splits, s->t, s->j);
}

static const rdt_matrix *matrix_of(const rdt_pipeline *p, int x) {
  return x == 0 ? p->job->a : p->job->b;
}

rdt_tensor rdt_pipeline_operand(const rdt_pipeline *p, const rdt_step *s, int x) {
  const rdt_part_of part = rdt_pipeline_part(p, s, x);
  return rdt_backend_view(p->job->task->on, matrix_of(p, x), &part, p->job->where->slot[x][s->slot[x]]);
}

/* Whole blocks have the same signs, the last one of a dimension has its own. */
static rdt_block_signs signs_of(const rdt_pipeline *p, int64_t rows, int64_t cols) {
  const rdt_arrangement *w = p->job->where;
  const int last[2] = {rows < p->job->splits->m, cols < p->job->splits->n};
  return (rdt_block_signs){w->signs[0][last[0]], w->signs[1][last[1]], w->far_signs[0][last[0]],
                           w->far_signs[1][last[1]]};
}

static rdt_status make_signs(const rdt_pipeline *p, rdt_reason *why) {
  const rdt_task *t = p->job->task;
  const rdt_arrangement *w = p->job->where;
  const int64_t whole[2] = {p->job->splits->m, p->job->splits->n}, all[2] = {t->m, t->n};
  for (int axis = 0; axis < 2; axis++)
    for (int last = 0; last < 2; last++) {
      const int64_t n = last ? all[axis] % whole[axis] : whole[axis];
      if (n == 0) continue;
      rdt_checks_signs(w->signs[axis][last], n, n, (uint64_t)axis + 1);
      if (t->on->far)
        RDT_TRY(t->on->put(t->dev, 0, w->far_signs[axis][last], w->signs[axis][last], (size_t)n * sizeof(double), why));
    }
  return RDT_OK;
}

static rdt_loading loading_of(const rdt_pipeline *p, const rdt_step *s, int x) {
  const rdt_task *t = p->job->task;
  rdt_loading l = {.m = matrix_of(p, x),
                   .part = rdt_pipeline_part(p, s, x),
                   .to = rdt_pipeline_operand(p, s, x),
                   .axis = x,
                   .protected = t->protected,
                   .strassen = t->strassen,
                   .sums = p->job->where->sums[x][s->slot[x]],
                   .most = p->job->splits->k};
  const rdt_block_signs signs = signs_of(p, x == 0 ? l.part.rows : 0, x == 1 ? l.part.cols : 0);
  if (t->on->far)
    l.signs = x == 0 ? signs.far_rows : signs.far_cols;
  else
    l.signs = x == 0 ? signs.rows : signs.cols;
  return l;
}

rdt_status rdt_pipeline_load(rdt_pipeline *p, const rdt_step *s, int x, const rdt_lines *lines, double *seconds,
                             rdt_reason *why) {
  const rdt_task *t = p->job->task;
  rdt_loading l = loading_of(p, s, x);
  if (lines) l.from = lines->from, l.count = lines->count;
  if (l.from == 0) rdt_peers_leave(p->job->peers, p->job->number, x, s->slot[x]);
  RDT_TRY(t->on->load(t->dev, &l, why));
  uint64_t *seal = &p->seal[x][s->slot[x]];
  *seal = l.from > 0 ? *seal + l.seal : l.seal;
  *seconds += l.seconds;
  return RDT_OK;
}

/* An operand that has changed in memory since it was loaded: 0 A, 1 B; -1 none. */
static rdt_status find_changed(const rdt_pipeline *p, const rdt_step *s, int *which, rdt_reason *why) {
  const rdt_task *t = p->job->task;
  *which = -1;
  for (int x = 0; x < 2 && *which < 0; x++) {
    const rdt_tensor o = rdt_pipeline_operand(p, s, x);
    bool yes;
    RDT_TRY(t->on->changed(t->dev, s->lane, x, &o, p->seal[x][s->slot[x]], p->threads, &yes, why));
    if (yes) *which = x;
  }
  return RDT_OK;
}

void rdt_pipeline_place(const rdt_pipeline *p, const rdt_step *s, int64_t place[2]) {
  place[0] = s->i * p->job->splits->m;
  place[1] = s->j * p->job->splits->n;
}

rdt_status rdt_pipeline_check(rdt_pipeline *p, const rdt_step *s, rdt_findings *f, rdt_reason *why) {
  int64_t place[2];
  rdt_pipeline_place(p, s, place);
  return rdt_block_check(&p->block[s->slot[2]], place, f, s->last ? &p->entry[s->slot[2]].sum : NULL, why);
}

/* Rows of a block of C that are computed at once. The first one of all comes by parts, each as soon as its rows of A
 * are loaded: until then there is nothing to compute. Always the same ones, so that bits are the same when it is
 * computed again. */
static int64_t rows_at_once(const rdt_pipeline *p, const rdt_step *s) {
  const rdt_task *t = p->job->task;
  const int64_t rows = rdt_pipeline_part(p, s, 0).rows, unit = t->on->unit;
  const bool parts = t->on->far && !t->fortran[0] && !t->strassen && s->i == 0 && s->j == 0 && s->part == 0 &&
                     rdt_strategy_info(p->job->splits->strategy)->lanes == 1;
  return parts ? ((rows + RDT_FIRST_PARTS - 1) / RDT_FIRST_PARTS + unit - 1) / unit * unit : rows;
}

static rdt_tensor some_rows(const rdt_tensor *x, int64_t from, int64_t count) {
  rdt_tensor t = *x;
  t.data = (char *)x->data + (size_t)(from * x->stride[0]) * rdt_dtype_size(x->dtype);
  t.shape[0] = count;
  return t;
}

static rdt_status multiply_by_rows(rdt_pipeline *p, const rdt_step *s, const rdt_block_product *x, bool other,
                                   rdt_reason *why) {
  const rdt_task *t = p->job->task;
  const int64_t rows = x->a.shape[0], each = rows_at_once(p, s);
  for (int64_t from = 0; from < rows; from += each) {
    const int64_t count = rows - from < each ? rows - from : each;
    rdt_block_product part = *x;
    part.a = some_rows(&x->a, from, count);
    part.c = some_rows(&x->c, from, count);
    if (!wait_for(p, &p->rows, from + count)) return rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
    RDT_TRY(t->on->multiply(t->dev, p->job->ctx, s->lane, &part, other, p->threads, why));
  }
  return RDT_OK;
}

rdt_status rdt_pipeline_multiply(rdt_pipeline *p, const rdt_step *s, bool other, rdt_reason *why) {
  const rdt_task *t = p->job->task;
  rdt_block *b = &p->block[s->slot[2]];
  b->lane = s->lane;
  if (s->part == 0) {
    const rdt_part_of part = rdt_part_of_c(t, p->job->splits, s->i, s->j);
    const rdt_block_signs signs = signs_of(p, part.rows, part.cols);
    b->c = rdt_backend_view(t->on, p->job->c, &part, p->job->where->slot[2][s->slot[2]]);
    if (t->protected) RDT_TRY(rdt_block_begin(b, &signs, why));
  }
  const rdt_block_product product = {.a = rdt_pipeline_operand(p, s, 0),
                                     .b = rdt_pipeline_operand(p, s, 1),
                                     .c = b->c,
                                     .add = s->part > 0,
                                     .strassen = b->strassen};
  RDT_TRY(multiply_by_rows(p, s, &product, other, why));
  if (!t->protected) return RDT_OK;
  double *const sums[2] = {p->job->where->sums[0][s->slot[0]], p->job->where->sums[1][s->slot[1]]};
  return rdt_block_expect(b, &product.a, &product.b, sums, p->job->splits->k, why);
}

/* ---- the threads ---- */

/* Who loads: where it stands, and the next block of the operand that stays, which is loaded by pieces while it waits
 * for a place. */
typedef struct load_state {
  rdt_pipeline *p;
  rdt_walk walk;
  rdt_step step, ahead; /* ahead: the one that needs that block */
  int stays;            /* 0: A, 1: B */
  int64_t number;       /* of that step; 0: it is not known */
  int64_t there;        /* lines of its block that are loaded */
  rdt_reason why;
} load_state;

enum { LOOK = 4096 /* steps that it looks ahead */, PIECE = 192 << 20 /* bytes at most */, PIECES = 4 /* at least */ };

static int64_t lines_of(const rdt_pipeline *p, const rdt_step *s, int x) {
  const rdt_part_of part = rdt_pipeline_part(p, s, x);
  return p->job->task->fortran[x] ? part.cols : part.rows;
}

static double bytes_of(const rdt_pipeline *p, const rdt_part_of *part) {
  return (double)part->rows * (double)part->cols * (double)rdt_dtype_size(p->job->task->in);
}

static double bytes_of_lines(const rdt_pipeline *p, const rdt_step *s, int x, int64_t lines) {
  const rdt_part_of part = rdt_pipeline_part(p, s, x);
  return bytes_of(p, &part) * ((double)lines / (double)lines_of(p, s, x));
}

/* Lines of an operand of a step that were loaded are booked and drawn. */
static void book_load(rdt_pipeline *p, const rdt_step *s, int x, int64_t lines, double since) {
  const double bytes = bytes_of_lines(p, s, x, lines);
  p->result->load_bytes += bytes;
  note(p,
       (rdt_span){.kind = x == 0 ? RDT_SPAN_LOAD_A : RDT_SPAN_LOAD_B,
                  .row = x == 0 ? s->i : s->t,
                  .col = x == 0 ? s->t : s->j,
                  .bytes = bytes},
       since);
}

static rdt_status load_lines(load_state *l, const rdt_step *s, int x, const rdt_lines *lines) {
  rdt_pipeline *p = l->p;
  const double since = rdt_clock();
  RDT_TRY(rdt_pipeline_load(p, s, x, lines, &p->result->load_seconds, &l->why));
  book_load(p, s, x, lines ? lines->count : lines_of(p, s, x), since);
  return RDT_OK;
}

static bool is_shared(const rdt_pipeline *p, const rdt_step *s, int x) {
  return rdt_peers_need(p->job->peers, p->job->number, p->job->task, p->job->splits, s, x);
}

/* A block that other devices need, too: all of it, or what can be had at once. there: lines of it, then. */
static rdt_status load_shared(load_state *l, const rdt_step *s, int x, bool all, int64_t *there) {
  rdt_pipeline *p = l->p;
  rdt_peers_got got;
  do {
    rdt_loading what = loading_of(p, s, x);
    const double since = rdt_clock();
    RDT_TRY(rdt_peers_load(p->job->peers, p->job->number, s, &what, all, &got, &l->why));
    p->result->load_seconds += what.seconds;
    p->result->peer_bytes += bytes_of_lines(p, s, x, got.taken);
    if (got.read > 0) book_load(p, s, x, got.read, since);
  } while (all && got.there < lines_of(p, s, x));
  p->seal[x][s->slot[x]] = got.seal;
  *there = got.there;
  return RDT_OK;
}

static rdt_status load_whole(load_state *l, const rdt_step *s, int x) {
  int64_t there;
  return is_shared(l->p, s, x) ? load_shared(l, s, x, true, &there) : load_lines(l, s, x, NULL);
}

/* Is a block that is needed later known, and is anything of it left to load? */
static bool look_ahead(load_state *l) {
  const rdt_pipeline *p = l->p;
  if (!p->job->task->on->far) return false;
  if (l->number < l->walk.steps) {
    rdt_walk w = l->walk;
    l->number = l->there = 0;
    for (int i = 0; i < LOOK && rdt_walk_next(&w, &l->ahead); i++)
      if (l->ahead.load[l->stays]) {
        l->number = w.steps;
        break;
      }
  }
  return l->number > l->walk.steps && l->there < lines_of(p, &l->ahead, l->stays);
}

static bool has_come(rdt_pipeline *p, const int64_t *counter, int64_t least) {
  pthread_mutex_lock(&p->lock);
  const bool yes = p->stop || *counter >= least;
  pthread_mutex_unlock(&p->lock);
  return yes;
}

/* Until so many steps are computed; meanwhile that block is loaded, as far as there is a place for it. */
static rdt_status wait_for_place(load_state *l, int64_t after, bool *go) {
  rdt_pipeline *p = l->p;
  while (!has_come(p, &p->computed, after) && look_ahead(l) && has_come(p, &p->computed, l->ahead.after[l->stays])) {
    const int64_t before = l->there;
    if (is_shared(p, &l->ahead, l->stays)) {
      RDT_TRY(load_shared(l, &l->ahead, l->stays, false, &l->there));
      if (l->there == before) break; /* others read what is left */
      continue;
    }
    const rdt_part_of part = rdt_pipeline_part(p, &l->ahead, l->stays);
    const int64_t all = lines_of(p, &l->ahead, l->stays),
                  fit = (int64_t)((double)PIECE / (bytes_of(p, &part) / (double)all));
    const int64_t most = fit < all / PIECES ? fit : all / PIECES, left = all - l->there, some = most < 1 ? 1 : most;
    const rdt_lines lines = {l->there, left < some ? left : some};
    RDT_TRY(load_lines(l, &l->ahead, l->stays, &lines));
    l->there += lines.count;
  }
  *go = wait_for(p, &p->computed, after);
  return RDT_OK;
}

static rdt_status load_operand(load_state *l, int x, bool *go) {
  const rdt_step *s = &l->step;
  RDT_TRY(wait_for_place(l, s->after[x], go));
  if (!*go) return RDT_OK;
  if (x != l->stays || l->number != l->walk.steps || l->there == 0 || is_shared(l->p, s, x)) return load_whole(l, s, x);
  const rdt_lines rest = {l->there, lines_of(l->p, s, x) - l->there};
  return rest.count > 0 ? load_lines(l, s, x, &rest) : RDT_OK;
}

/* B's block, then A's by rows. */
static rdt_status load_first(load_state *l) {
  rdt_pipeline *p = l->p;
  const int64_t rows = rdt_pipeline_part(p, &l->step, 0).rows, each = rows_at_once(p, &l->step);
  RDT_TRY(load_whole(l, &l->step, 1));
  for (int64_t from = 0; from < rows; from += each) {
    const rdt_lines lines = {from, rows - from < each ? rows - from : each};
    RDT_TRY(load_lines(l, &l->step, 0, &lines));
    count(p, &p->rows, lines.count);
  }
  return RDT_OK;
}

/* Is it the first block, that comes by rows? */
static bool by_rows(const rdt_pipeline *p, const rdt_step *s) {
  return rows_at_once(p, s) < rdt_pipeline_part(p, s, 0).rows;
}

static rdt_status load_step(load_state *l, bool *go) {
  if (l->walk.steps == 1 && by_rows(l->p, &l->step)) return load_first(l);
  for (int x = 0; x < 2 && *go; x++)
    if (l->step.load[x]) RDT_TRY(load_operand(l, x, go));
  return RDT_OK;
}

static void *load_all(void *self) {
  load_state l = {.p = self};
  rdt_pipeline *p = l.p;
  rdt_walk_begin(&l.walk, p->job->task, p->job->splits, (unsigned char *)p->job->where->done);
  l.stays = rdt_walk_stays(&l.walk);
  while (rdt_walk_next(&l.walk, &l.step)) {
    bool go = true;
    const rdt_status status = load_step(&l, &go);
    if (status != RDT_OK) stop(p, status, &l.why);
    if (status != RDT_OK || !go) return NULL;
    if (l.walk.steps == 1) count(p, &p->rows, INT64_MAX - p->rows);
    count(p, &p->loaded, 1);
  }
  return NULL;
}

/* Writes a finished block and appends it to the list. */
static rdt_status store_one(rdt_pipeline *p, int slot, rdt_reason *why) {
  const rdt_pipeline_job *j = p->job;
  const rdt_ledger_block *e = &p->entry[slot];
  const rdt_block *b = &p->block[slot];
  const rdt_part_of part = rdt_part_of_c(j->task, j->splits, e->i, e->j);
  rdt_ledger_block done = *e;
  uint64_t sum;
  const double began = rdt_clock();
  RDT_TRY(j->task->on->store(j->task->dev, j->c, &part, &b->c, &sum, why));
  p->result->store_seconds += rdt_clock() - began;
  const double bytes = (double)part.rows * (double)part.cols * (double)rdt_dtype_size(j->task->out);
  p->result->store_bytes += bytes;
  note(p, (rdt_span){.kind = RDT_SPAN_STORE, .row = e->i, .col = e->j, .bytes = bytes}, began);
  if (j->task->protected && sum != e->sum)
    return rdt_fail(why, RDT_ERR_FAULT,
                    "block %lld, %lld of C changed in memory while it was written; --resume computes it again",
                    (long long)e->i, (long long)e->j);
  done.sum = sum;
  snprintf(done.device, sizeof done.device, "%s", j->device);
  pthread_mutex_lock(&j->shared->lock);
  const rdt_status status = rdt_ledger_append(j->ledger, j->ledger_path, &done, why);
  pthread_mutex_unlock(&j->shared->lock);
  return status;
}

static bool next_finished(rdt_pipeline *p, int64_t ordinal) {
  pthread_mutex_lock(&p->lock);
  while (!p->stop && !p->ended && p->finished <= ordinal) pthread_cond_wait(&p->moved, &p->lock);
  const bool there = !p->stop && p->finished > ordinal;
  pthread_mutex_unlock(&p->lock);
  return there;
}

static void *store_all(void *self) {
  rdt_pipeline *p = self;
  rdt_reason why = {""};
  const int slots = rdt_strategy_info(p->job->splits->strategy)->slots[2];
  for (int64_t ordinal = 0; next_finished(p, ordinal); ordinal++) {
    const rdt_status status = store_one(p, (int)(ordinal % slots), &why);
    if (status != RDT_OK) {
      stop(p, status, &why);
      return NULL;
    }
    count(p, &p->stored, 1);
  }
  return NULL;
}

/* ---- computing ---- */

typedef struct lane_job {
  rdt_pipeline *p;
  int lane;
} lane_job;

static rdt_status compute(rdt_pipeline *p, int lane) {
  const rdt_step *s = &p->lane[lane].step;
  const rdt_task *t = p->job->task;
  rdt_reason *why = &p->lane[lane].why;
  if (s->part == 0) p->block[s->slot[2]].strassen = t->strassen;
  RDT_TRY(rdt_pipeline_plant(p, s, RDT_SITE_INPUT, 0, why));
  RDT_TRY(rdt_pipeline_multiply(p, s, false, why));
  RDT_TRY(rdt_pipeline_plant(p, s, RDT_SITE_ACCUM, 0, why));
  p->entry[s->slot[2]] = (rdt_ledger_block){.i = s->i, .j = s->j, .verdict = p->entry[s->slot[2]].verdict};
  if (s->part == 0) p->entry[s->slot[2]].verdict = t->protected ? RDT_CLEAN : RDT_UNCHECKED;
  p->lane[lane].changed = -1;
  if (!t->protected) return t->on->wait(t->dev, lane, why);
  RDT_TRY(rdt_pipeline_plant(p, s, RDT_SITE_CHECKSUM, 0, why));
  RDT_TRY(rdt_pipeline_check(p, s, &p->lane[lane].found, why));
  return find_changed(p, s, &p->lane[lane].changed, why);
}

static void *compute_lane(void *self) {
  const lane_job *j = self;
  j->p->lane[j->lane].status = compute(j->p, j->lane);
  return NULL;
}

/* The products of a group at the same time, each by threads of its own. */
static void compute_group(rdt_pipeline *p, int n) {
  pthread_t thread[RDT_MOST_SLOTS];
  bool begun[RDT_MOST_SLOTS] = {false};
  lane_job job[RDT_MOST_SLOTS];
  for (int i = n - 1; i >= 0; i--) {
    job[i] = (lane_job){p, i};
    if (i > 0) begun[i] = pthread_create(&thread[i], NULL, compute_lane, &job[i]) == 0;
    if (!begun[i]) compute_lane(&job[i]);
  }
  for (int i = 1; i < n; i++)
    if (begun[i]) pthread_join(thread[i], NULL);
}

static void book(rdt_matmul_result *r, const rdt_findings *f) {
  r->checks += f->checks;
  if (f->ratio > r->ratio) r->ratio = f->ratio;
  if (f->floor > r->floor) r->floor = f->floor;
}

static rdt_status end_group(rdt_pipeline *p, int n, rdt_reason *why) {
  int finished = 0;
  for (int i = 0; i < n; i++) {
    const rdt_step *s = &p->lane[i].step;
    if (p->lane[i].status != RDT_OK) return rdt_fail(why, p->lane[i].status, "%s", p->lane[i].why.text);
    if (p->job->task->protected) {
      book(p->result, &p->lane[i].found);
      RDT_TRY(rdt_pipeline_settle(p, i, why));
    }
    if (!s->last) continue;
    const rdt_verdict v = p->entry[s->slot[2]].verdict;
    if (v > p->result->verdict) p->result->verdict = v;
    finished++;
  }
  if (finished > 0) count(p, &p->finished, finished);
  count(p, &p->computed, n);
  return RDT_OK;
}

static void see_memory(const rdt_pipeline *p) {
  const rdt_task *t = p->job->task;
  const double taken = t->on->taken(t->dev);
  if (taken > p->result->peak) p->result->peak = taken;
}

static void tell(const rdt_pipeline *p, double flops) {
  const rdt_matmul_job *asked = p->job->asked;
  rdt_pipeline_shared *x = p->job->shared;
  pthread_mutex_lock(&x->lock);
  x->flops += flops;
  const double seconds = rdt_clock() - x->began;
  if (asked->progress) asked->progress(asked->user, x->flops / x->all, seconds > 0.0 ? 1e-9 * x->flops / seconds : 0.0);
  pthread_mutex_unlock(&x->lock);
}

/* Another device has failed: nobody waits any more. */
static rdt_status halt(rdt_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->moved);
  pthread_mutex_unlock(&p->lock);
  return RDT_OK;
}

/* Where the time has gone, up to the verdict on the first block, and behind it. */
typedef struct phases {
  double first, products; /* seconds until then; the device's of them in products */
  double waited[2];
} phases;

static double products_of(const rdt_pipeline *p) {
  const rdt_task *t = p->job->task;
  return t->on->far ? t->on->product_seconds(t->dev) - p->products_before : p->result->busy_seconds;
}

static void end_first(const rdt_pipeline *p, phases *x) {
  x->first = rdt_clock() - p->job->shared->began;
  x->products = products_of(p);
  memcpy(x->waited, p->waited, sizeof x->waited);
}

/* drain: when it begins, as yet. */
static void end_phases(const rdt_pipeline *p, const phases *x) {
  rdt_matmul_phases *r = &p->result->phases;
  r->drain = rdt_clock() - p->job->shared->began;
  r->products = products_of(p);
  r->fill = x->first - x->products;
  r->loads = p->waited[0] - x->waited[0];
  r->places = p->waited[1] - x->waited[1];
  r->checks = r->drain - r->fill - r->products - r->loads - r->places;
}

/* Of the computing thread. */
static bool wait_and_count(rdt_pipeline *p, const int64_t *counter, int64_t least, double *waited) {
  const double since = rdt_clock();
  const bool go = wait_for(p, counter, least);
  *waited += rdt_clock() - since;
  return go;
}

static rdt_status compute_all(rdt_pipeline *p, rdt_reason *why) {
  const rdt_task *t = p->job->task;
  const int slots = rdt_strategy_info(p->job->splits->strategy)->slots[2];
  phases x = {0};
  bool first = true;
  rdt_walk w;
  rdt_walk_begin(&w, t, p->job->splits, (unsigned char *)p->job->where->done);
  while (rdt_walk_next(&w, &p->lane[0].step)) {
    int n = 1;
    while (p->lane[n - 1].step.again && rdt_walk_next(&w, &p->lane[n].step)) n++;
    if (atomic_load(&p->job->shared->stop)) return halt(p);
    if (atomic_load(&p->job->ctx->cancelled)) return rdt_fail(why, RDT_ERR_CANCELLED, "cancelled; --resume goes on");
    const bool comes = w.steps == 1 && by_rows(p, &p->lane[0].step) && p->job->asked->plant.count == 0;
    if (!comes && !wait_and_count(p, &p->loaded, w.steps, &p->waited[0])) return RDT_OK;
    for (int i = 0; i < n; i++)
      if (p->lane[i].step.first && !wait_and_count(p, &p->stored, p->lane[i].step.ordinal - slots + 1, &p->waited[1]))
        return RDT_OK;
    const double since = rdt_clock();
    if (first) end_first(p, &x);
    compute_group(p, n);
    RDT_TRY(end_group(p, n, why));
    p->result->busy_seconds += rdt_clock() - since;
    if (comes) end_first(p, &x); /* it was multiplied while it was loaded */
    first = false;
    for (int i = 0; i < n; i++) {
      const rdt_step *s = &p->lane[i].step;
      const rdt_part_of a = rdt_pipeline_part(p, s, 0), b = rdt_pipeline_part(p, s, 1);
      const double flops = 2.0 * (double)a.rows * (double)a.cols * (double)b.cols;
      p->result->flops += flops;
      tell(p, flops);
      note(p, (rdt_span){.kind = RDT_SPAN_PRODUCT, .lane = i, .row = s->i, .col = s->j, .flops = flops}, since);
    }
    see_memory(p);
  }
  end_phases(p, &x);
  return RDT_OK;
}

static rdt_status prepare(rdt_pipeline *p, rdt_reason *why) {
  const rdt_task *t = p->job->task;
  const rdt_strategy_row *row = rdt_strategy_info(p->job->splits->strategy);
  const rdt_arrangement *w = p->job->where;
  p->threads = t->threads / row->lanes > 1 ? t->threads / row->lanes : 1;
  t->on->lend(t->dev, &w->room);
  for (int i = 0; i < row->slots[2]; i++) {
    p->block[i] = (rdt_block){.on = t->on,
                              .dev = t->dev,
                              .in = t->in,
                              .threads = p->threads,
                              .lambda = p->job->ctx->policy.lambda,
                              .strassen = t->strassen,
                              .line = w->line[i]};
    if (w->block[i]) rdt_block_lend(&p->block[i], w->block[i], w->far_block[i], p->job->splits->m, p->job->splits->n);
  }
  rdt_pipeline_choose_plant(p);
  return t->protected ? make_signs(p, why) : RDT_OK;
}

rdt_status rdt_pipeline_run(const rdt_pipeline_job *job, rdt_matmul_result *result, rdt_reason *why) {
  rdt_pipeline p = {.job = job, .result = result};
  pthread_t loader, saver;
  rdt_reason own = {""};
  RDT_TRY(prepare(&p, why));
  pthread_mutex_init(&p.lock, NULL);
  pthread_cond_init(&p.moved, NULL);
  p.products_before = job->task->on->product_seconds(job->task->dev);
  rdt_status status = RDT_OK;
  const bool loads = pthread_create(&loader, NULL, load_all, &p) == 0;
  const bool stores = loads && pthread_create(&saver, NULL, store_all, &p) == 0;
  if (stores)
    status = compute_all(&p, &own);
  else
    status = rdt_fail(&own, RDT_ERR_NOMEM, "no threads can be had to load and store");
  stop(&p, status, &own);
  pthread_mutex_lock(&p.lock);
  p.ended = true;
  pthread_cond_broadcast(&p.moved);
  pthread_mutex_unlock(&p.lock);
  if (loads) pthread_join(loader, NULL);
  if (stores) pthread_join(saver, NULL);
  result->seconds = rdt_clock() - job->shared->began;
  if (p.status == RDT_OK) result->phases.drain = result->seconds - result->phases.drain;
  if (p.status != RDT_OK) atomic_store(&job->shared->stop, true);
  if (p.status == RDT_ERR_FAULT) result->verdict = RDT_DETECTED;
  result->product_seconds = job->task->on->product_seconds(job->task->dev) - p.products_before;
  pthread_cond_destroy(&p.moved);
  pthread_mutex_destroy(&p.lock);
  return p.status == RDT_OK ? RDT_OK : rdt_fail(why, p.status, "%s", p.why.text);
}
