#include <stdatomic.h>
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

/* ---- blocks ---- */

rdt_part_of rdt_pipeline_part(const rdt_pipeline *p, const rdt_step *s, int x) {
  const rdt_pipeline_job *j = p->job;
  return x == 0 ? rdt_part_of_a(j->task, j->splits, s->i, s->t) : rdt_part_of_b(j->task, j->splits, s->t, s->j);
}

static const rdt_matrix *matrix_of(const rdt_pipeline *p, int x) {
  return x == 0 ? p->job->a : p->job->b;
}

static rdt_tensor operand(const rdt_pipeline *p, const rdt_step *s, int x) {
  const rdt_part_of part = rdt_pipeline_part(p, s, x);
  return rdt_matrix_view(matrix_of(p, x), &part, p->job->where->slot[x][s->slot[x]]);
}

static size_t bytes_of(const rdt_tensor *t) {
  return (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
}

rdt_pair rdt_pipeline_sums(const rdt_pipeline *p, int x, int slot) {
  double *base = p->job->where->sums[x][slot];
  return (rdt_pair){base, base + p->job->splits->k};
}

/* Signs of the rows of a block (axis 0), or of its columns: whole blocks have the same ones, the last one its own. */
static const double *signs_of(const rdt_pipeline *p, int axis, int64_t length) {
  const int64_t whole = axis == 0 ? p->job->splits->m : p->job->splits->n;
  return p->job->where->signs[axis][length < whole];
}

static void make_signs(const rdt_pipeline *p) {
  const rdt_task *t = p->job->task;
  const int64_t whole[2] = {p->job->splits->m, p->job->splits->n}, all[2] = {t->m, t->n};
  for (int axis = 0; axis < 2; axis++) {
    rdt_checks_signs(p->job->where->signs[axis][0], whole[axis], whole[axis], (uint64_t)axis + 1);
    const int64_t last = all[axis] % whole[axis];
    if (last > 0) rdt_checks_signs(p->job->where->signs[axis][1], last, last, (uint64_t)axis + 1);
  }
}

enum { PIECE = 1 << 18 /* bytes that are summed while a cache has them */ };

/* Some lines of the file's: loaded, added to the seal, summed. Lines along the axis that is summed over give parts of
 * the sums. */
static rdt_status load_piece(rdt_pipeline *p, const rdt_step *s, int x, int64_t from, int64_t count, double *seconds,
                             rdt_reason *why) {
  const rdt_backend *on = p->job->task->on;
  const rdt_matrix *m = matrix_of(p, x);
  const int lines = m->fortran; /* the dimension that they count */
  rdt_part_of part = rdt_pipeline_part(p, s, x);
  const int64_t length = m->fortran ? part.rows : part.cols, summed = x == 0 ? part.rows : part.cols;
  const size_t size = rdt_dtype_size(m->dtype), at = (size_t)(from * length) * size;
  *(lines ? &part.col : &part.row) += from;
  *(lines ? &part.cols : &part.rows) = count;
  const rdt_tensor t = rdt_matrix_view(m, &part, p->job->where->slot[x][s->slot[x]] + at);
  const double began = rdt_clock();
  RDT_TRY(on->load(m, &part, t.data, why));
  *seconds += rdt_clock() - began;
  if (!p->job->task->protected) return RDT_OK;
  p->seal[x][s->slot[x]] += on->seal_part(t.data, at, bytes_of(&t));
  const rdt_pair all = rdt_pipeline_sums(p, x, s->slot[x]);
  const double *signs = signs_of(p, x, summed) + (lines == x ? from : 0);
  const int64_t k = t.shape[1 - x];
  rdt_pair to = {all.dot + (lines == x ? 0 : from), all.sq + (lines == x ? 0 : from)};
  if (lines == x && from > 0) to = (rdt_pair){all.sq + p->job->splits->k, all.sq + 2 * p->job->splits->k};
  if (rdt_operand_sums(on, &t, x, signs, to, 1) != RDT_OK)
    return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for the sums of a block");
  for (int64_t i = 0; to.dot != all.dot && lines == x && i < k; i++) {
    all.dot[i] += to.dot[i];
    all.sq[i] += to.sq[i];
  }
  return RDT_OK;
}

rdt_status rdt_pipeline_load(rdt_pipeline *p, const rdt_step *s, int x, double *seconds, rdt_reason *why) {
  const rdt_part_of part = rdt_pipeline_part(p, s, x);
  const bool fortran = matrix_of(p, x)->fortran;
  const int64_t lines = fortran ? part.cols : part.rows, length = fortran ? part.rows : part.cols;
  const int64_t fit = PIECE / (length * (int64_t)rdt_dtype_size(p->job->task->in)), piece = fit > 1 ? fit : 1;
  p->seal[x][s->slot[x]] = 0;
  for (int64_t at = 0; at < lines; at += piece)
    RDT_TRY(load_piece(p, s, x, at, lines - at < piece ? lines - at : piece, seconds, why));
  if (p->job->task->protected)
    rdt_operand_sums_end(p->job->task->in, rdt_pipeline_sums(p, x, s->slot[x]), x == 0 ? part.cols : part.rows);
  return RDT_OK;
}

int rdt_pipeline_changed(const rdt_pipeline *p, const rdt_step *s) {
  for (int x = 0; x < 2; x++) {
    const rdt_tensor t = operand(p, s, x);
    if (p->job->task->on->seal(t.data, bytes_of(&t), p->threads) != p->seal[x][s->slot[x]]) return x;
  }
  return -1;
}

void rdt_pipeline_place(const rdt_pipeline *p, const rdt_step *s, int64_t place[2]) {
  place[0] = s->i * p->job->splits->m;
  place[1] = s->j * p->job->splits->n;
}

void rdt_pipeline_seal(rdt_pipeline *p, const rdt_step *s) {
  const rdt_block *b = &p->block[s->slot[2]];
  p->entry[s->slot[2]].sum = p->job->task->on->seal(b->c.data, bytes_of(&b->c), p->threads);
}

rdt_status rdt_pipeline_multiply(rdt_pipeline *p, const rdt_step *s, bool other, rdt_reason *why) {
  const rdt_task *t = p->job->task;
  rdt_block *b = &p->block[s->slot[2]];
  if (s->part == 0) {
    const rdt_part_of part = rdt_part_of_c(t, p->job->splits, s->i, s->j);
    b->c = rdt_matrix_view(p->job->c, &part, p->job->where->slot[2][s->slot[2]]);
    if (t->protected) rdt_block_begin(b, signs_of(p, 0, part.rows), signs_of(p, 1, part.cols));
  }
  const rdt_block_product product = {.a = operand(p, s, 0), .b = operand(p, s, 1), .c = b->c, .add = s->part > 0};
  RDT_TRY(t->on->multiply(p->job->ctx, &product, other, p->threads, p->job->where->workspace[s->lane], why));
  if (!t->protected) return RDT_OK;
  const rdt_pair sums[2] = {rdt_pipeline_sums(p, 0, s->slot[0]), rdt_pipeline_sums(p, 1, s->slot[1])};
  const rdt_status status = rdt_block_expect(b, &product.a, &sums[0], &product.b, &sums[1]);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "out of memory for the sums of a block");
}

/* ---- the threads ---- */

static void *load_all(void *self) {
  rdt_pipeline *p = self;
  rdt_walk w;
  rdt_step s;
  rdt_reason why = {""};
  rdt_walk_begin(&w, p->job->task, p->job->splits, (unsigned char *)p->job->where->done);
  while (rdt_walk_next(&w, &s)) {
    for (int x = 0; x < 2; x++) {
      if (!s.load[x]) continue;
      if (!wait_for(p, &p->computed, s.after[x])) return NULL;
      const rdt_status status = rdt_pipeline_load(p, &s, x, &p->result->load_seconds, &why);
      if (status != RDT_OK) {
        stop(p, status, &why);
        return NULL;
      }
      const rdt_tensor t = operand(p, &s, x);
      p->result->load_bytes += (double)bytes_of(&t);
    }
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
  const double began = rdt_clock();
  RDT_TRY(j->task->on->store(j->c, &part, b->c.data, why));
  p->result->store_seconds += rdt_clock() - began;
  p->result->store_bytes += (double)bytes_of(&b->c);
  if (j->task->on->seal(b->c.data, bytes_of(&b->c), 1) != e->sum)
    return rdt_fail(why, RDT_ERR_FAULT,
                    "block %lld, %lld of C changed in memory while it was written; --resume computes it again",
                    (long long)e->i, (long long)e->j);
  return rdt_ledger_append(j->ledger, j->ledger_path, e, why);
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
  rdt_block *b = &p->block[s->slot[2]];
  rdt_reason *why = &p->lane[lane].why;
  int64_t place[2];
  rdt_pipeline_plant(p, s, RDT_SITE_INPUT, 0);
  RDT_TRY(rdt_pipeline_multiply(p, s, false, why));
  rdt_pipeline_plant(p, s, RDT_SITE_ACCUM, 0);
  p->entry[s->slot[2]] = (rdt_ledger_block){s->i, s->j, 0, p->entry[s->slot[2]].verdict};
  if (s->part == 0) p->entry[s->slot[2]].verdict = p->job->task->protected ? RDT_CLEAN : RDT_UNCHECKED;
  if (s->last) rdt_pipeline_seal(p, s); /* before the check, which then is one of what was sealed */
  p->lane[lane].changed = -1;
  if (!p->job->task->protected) return RDT_OK;
  rdt_pipeline_plant(p, s, RDT_SITE_CHECKSUM, 0);
  rdt_pipeline_place(p, s, place);
  const rdt_status status = rdt_block_check(b, place, &p->lane[lane].found);
  if (status != RDT_OK) return rdt_fail(why, status, "out of memory for the sums of a block");
  p->lane[lane].changed = rdt_pipeline_changed(p, s);
  return RDT_OK;
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

static void tell(const rdt_pipeline *p, double began) {
  const rdt_matmul_job *asked = p->job->asked;
  const rdt_matmul_result *r = p->result;
  if (!asked->progress) return;
  const double seconds = rdt_clock() - began;
  asked->progress(asked->user, r->flops / r->forecast.flops, seconds > 0.0 ? 1e-9 * r->flops / seconds : 0.0);
}

static rdt_status compute_all(rdt_pipeline *p, rdt_reason *why) {
  const rdt_task *t = p->job->task;
  const int slots = rdt_strategy_info(p->job->splits->strategy)->slots[2];
  const double began = rdt_clock();
  rdt_walk w;
  rdt_walk_begin(&w, t, p->job->splits, (unsigned char *)p->job->where->done);
  while (rdt_walk_next(&w, &p->lane[0].step)) {
    int n = 1;
    while (p->lane[n - 1].step.again && rdt_walk_next(&w, &p->lane[n].step)) n++;
    if (atomic_load(&p->job->ctx->cancelled)) return rdt_fail(why, RDT_ERR_CANCELLED, "cancelled; --resume goes on");
    if (!wait_for(p, &p->loaded, w.steps)) return RDT_OK;
    for (int i = 0; i < n; i++)
      if (p->lane[i].step.first && !wait_for(p, &p->stored, p->lane[i].step.ordinal - slots + 1)) return RDT_OK;
    const double since = rdt_clock();
    compute_group(p, n);
    RDT_TRY(end_group(p, n, why));
    p->result->busy_seconds += rdt_clock() - since;
    for (int i = 0; i < n; i++) {
      const rdt_part_of a = rdt_pipeline_part(p, &p->lane[i].step, 0), b = rdt_pipeline_part(p, &p->lane[i].step, 1);
      p->result->flops += 2.0 * (double)a.rows * (double)a.cols * (double)b.cols;
    }
    tell(p, began);
  }
  return RDT_OK;
}

static void prepare(rdt_pipeline *p) {
  const rdt_task *t = p->job->task;
  const rdt_strategy_row *row = rdt_strategy_info(p->job->splits->strategy);
  p->threads = t->threads / row->lanes > 1 ? t->threads / row->lanes : 1;
  if (t->protected) make_signs(p);
  for (int i = 0; i < row->slots[2]; i++) {
    p->block[i] = (rdt_block){.on = t->on, .in = t->in, .threads = p->threads, .lambda = p->job->ctx->policy.lambda};
    if (t->protected) rdt_block_lend(&p->block[i], p->job->where->block[i], p->job->splits->m, p->job->splits->n);
  }
  rdt_pipeline_choose_plant(p);
}

rdt_status rdt_pipeline_run(const rdt_pipeline_job *job, rdt_matmul_result *result, rdt_reason *why) {
  rdt_pipeline p = {.job = job, .result = result};
  pthread_t loader, saver;
  rdt_reason own = {""};
  pthread_mutex_init(&p.lock, NULL);
  pthread_cond_init(&p.moved, NULL);
  prepare(&p);
  const double began = rdt_clock();
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
  result->seconds = rdt_clock() - began;
  pthread_cond_destroy(&p.moved);
  pthread_mutex_destroy(&p.lock);
  return p.status == RDT_OK ? RDT_OK : rdt_fail(why, p.status, "%s", p.why.text);
}
