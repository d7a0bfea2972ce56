#include "plan/book.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"

void rdt_entry_clear(rdt_entry *e) {
  for (int i = 0; i < e->n; i++) rdt_free(e->list[i].seconds);
  rdt_free(e->list);
  rdt_free(e->key);
  *e = (rdt_entry){.choice = -1};
}

void rdt_book_free(rdt_book *b) {
  if (!b) return;
  for (int i = 0; i < b->n; i++) rdt_entry_clear(&b->list[i]);
  rdt_free(b->list);
  rdt_free(b);
}

/* Where the key is, or is to be: entries are in the order of their keys. */
static int place_of(const rdt_book *b, const char *key, bool *there) {
  int from = 0, to = b->n;
  *there = false;
  while (from < to) {
    const int middle = from + (to - from) / 2, order = strcmp(b->list[middle].key, key);
    if (order == 0) {
      *there = true;
      return middle;
    }
    if (order < 0)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

rdt_entry *rdt_book_find(const rdt_book *b, const char *key) {
  bool there = false;
  const int at = b ? place_of(b, key, &there) : 0;
  return there ? &b->list[at] : NULL;
}

rdt_status rdt_book_put(rdt_book *b, rdt_entry *e) {
  bool there;
  const int at = place_of(b, e->key, &there);
  if (there) {
    rdt_entry_clear(&b->list[at]);
  } else {
    rdt_entry *grown = rdt_grow(b->list, (size_t)b->n, (size_t)b->n + 1, sizeof *grown);
    if (!grown) return RDT_ERR_NOMEM;
    b->list = grown;
    memmove(grown + at + 1, grown + at, (size_t)(b->n - at) * sizeof *grown);
    b->n++;
  }
  b->list[at] = *e;
  *e = (rdt_entry){.choice = -1};
  return RDT_OK;
}

rdt_timed *rdt_entry_add(rdt_entry *e, const rdt_way *w, int trials) {
  rdt_timed *grown = rdt_grow(e->list, (size_t)e->n, (size_t)e->n + 1, sizeof *grown);
  double *seconds = rdt_calloc((size_t)trials, sizeof *seconds);
  if (grown) e->list = grown;
  if (!grown || !seconds) {
    rdt_free(seconds);
    return NULL;
  }
  rdt_timed *t = &grown[e->n++];
  *t = (rdt_timed){.fused = w->fused, .n = trials, .seconds = seconds};
  if (w->kernel) snprintf(t->kernel, sizeof t->kernel, "%s", w->kernel->name);
  if (w->scheme) rdt_scheme_name(w->scheme, w->sets, t->scheme);
  return t;
}

static const rdt_timed *find(const rdt_entry *e, const rdt_way *w) {
  char scheme[RDT_SCHEME_TEXT];
  rdt_scheme_name(w->scheme, w->sets, scheme);
  for (int k = 0; k < e->n; k++) {
    const rdt_timed *t = &e->list[k];
    if (t->fused == w->fused && strcmp(t->kernel, w->kernel->name) == 0 && strcmp(t->scheme, scheme) == 0) return t;
  }
  return NULL;
}

int rdt_entry_consult(const rdt_entry *e, rdt_offers *o, bool *complete) {
  int choice = -1;
  *complete = true;
  for (int i = 0; i < o->n; i++) {
    rdt_offer *x = &o->list[i];
    const rdt_timed *t = x->refused ? NULL : find(e, &x->way);
    if (!t) {
      *complete = *complete && x->refused;
      continue;
    }
    x->times = (rdt_timing_samples){t->seconds, t->n};
    if (e->choice >= 0 && t == &e->list[e->choice]) choice = i;
  }
  for (int i = 0; !*complete && i < o->n; i++) o->list[i].times.n = 0;
  return choice;
}

rdt_status rdt_entry_choose(rdt_entry *e, const rdt_way *w) {
  const rdt_timed *t = find(e, w);
  if (!t) t = rdt_entry_add(e, w, 0);
  if (!t) return RDT_ERR_NOMEM;
  e->choice = (int)(t - e->list);
  return RDT_OK;
}

/* ---- keys ---- */

typedef struct writer {
  char *at, *end;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(w->at, (size_t)(w->end - w->at), format, args);
  va_end(args);
  w->at = n < 0 || n >= w->end - w->at ? w->end - 1 : w->at + n;
}

/* "f32 1x64x56x56", and the strides where they are not those of a dense tensor */
static void put_tensor(writer *w, const char *what, const rdt_tensor *t) {
  put(w, " %s=%s ", what, rdt_dtype_name(t->dtype));
  for (int d = 0; d < t->rank; d++) put(w, "%s%lld", d ? "x" : "", (long long)t->shape[d]);
  const rdt_tensor last = rdt_tensor_channels_last(NULL, t->dtype, t->rank, t->shape);
  if (rdt_tensor_is_dense(t)) return;
  if (rdt_tensor_is_channels_last(t) && rdt_tensor_same_strides(t, &last)) {
    put(w, " nhwc");
    return;
  }
  for (int d = 0; d < t->rank; d++) put(w, "%s%lld", d ? "," : " by ", (long long)t->stride[d]);
}

static void put_list(writer *w, const char *what, const int64_t *list, int n) {
  put(w, " %s=", what);
  for (int i = 0; i < n; i++) put(w, "%s%lld", i ? "," : "", (long long)list[i]);
}

static void put_window(writer *w, const rdt_problem *p) {
  const int n = p->out.rank - 2;
  const rdt_window *v = &p->window;
  put_list(w, "stride", v->stride, n);
  put_list(w, "dilation", v->dilation, n);
  put_list(w, "before", v->before, n);
  put_list(w, "after", v->after, n);
  put(w, " groups=%lld", (long long)v->groups);
}

static void put_epilogue(writer *w, const rdt_epilogue *e) {
  if (e->alpha != 1.0) put(w, " alpha=%g", e->alpha);
  if (e->bias.rank >= 0) put(w, " bias");
  if (e->residual.rank >= 0) {
    put_tensor(w, "residual", &e->residual);
    put(w, " beta=%g", e->beta);
  }
  if (e->factor.rank >= 0) put(w, " factor%s", e->factor.rank > 0 && e->factor.stride[0] != 0 ? "s" : "");
  if (e->act.fn != RDT_FN_NONE) {
    put(w, " act=%s", rdt_fn_info(e->act.fn)->name);
    for (int i = 0; i < RDT_PARAMS; i++)
      if (e->act.param[i] != 0.0) put(w, ",%d:%g", i, e->act.param[i]);
  }
}

bool rdt_problem_key(const rdt_problem *p, bool cold, const rdt_demand *d, char key[RDT_KEY_TEXT]) {
  writer w = {key, key + RDT_KEY_TEXT};
  put(&w, "%s", rdt_kop_name(p->op));
  put_tensor(&w, "in", &p->in[0]);
  put_tensor(&w, p->in[1].data ? cold ? "cold" : "warm" : "run", &p->in[1]);
  put_tensor(&w, "out", &p->out);
  if (p->zero[0] || p->zero[1]) put(&w, " zero=%d,%d", p->zero[0] != 0, p->zero[1] != 0);
  if (p->op == RDT_KOP_CONV) put_window(&w, p);
  put_epilogue(&w, &p->epilogue);
  if (d->keep) put(&w, " kept");
  if (d->wanted && d->sets > 1) put(&w, " %s:%d", d->wanted->name, d->sets);
  return w.at < w.end - 1;
}
