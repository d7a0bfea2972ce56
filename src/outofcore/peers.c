#include "outofcore/peers.h"

enum { PIECE = 256 << 20 /* bytes at most, as far as there are so many pieces */ };

void rdt_peers_open(rdt_peers *e, const rdt_backend *on) {
  *e = (rdt_peers){.on = on};
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->moved, NULL);
}

void rdt_peers_add(rdt_peers *e, void *dev, const unsigned char *done) {
  const int i = e->n++;
  e->device[i].dev = dev;
  e->device[i].done = done;
  for (int j = 0; j < i && e->on->near; j++)
    e->device[i].near[j] = e->device[j].near[i] =
        e->on->near(dev, e->device[j].dev) && e->on->near(e->device[j].dev, dev);
}

void rdt_peers_close(rdt_peers *e) {
  pthread_cond_destroy(&e->moved);
  pthread_mutex_destroy(&e->lock);
}

bool rdt_peers_need(const rdt_peers *e, int number, const rdt_task *t, const rdt_splits *s, const rdt_step *step,
                    int x) {
  const int64_t down = rdt_blocks_of(t->m, s->m), across = rdt_blocks_of(t->n, s->n);
  for (int d = 0; d < e->n; d++)
    for (int64_t i = 0; e->device[number].near[d] && i < (x == 0 ? across : down); i++)
      if (!rdt_block_is_done(e->device[d].done, x == 0 ? step->i * across + i : i * across + step->j)) return true;
  return false;
}

/* Under the lock. Who copies waits for nobody meanwhile; what he copies stays until then. */
static void leave(rdt_peers *e, rdt_peer_block *b) {
  b->row = -1;
  while (b->readers > 0) pthread_cond_wait(&e->moved, &e->lock);
}

void rdt_peers_leave(rdt_peers *e, int number, int x, int slot) {
  pthread_mutex_lock(&e->lock);
  leave(e, &e->device[number].block[x][slot]);
  pthread_mutex_unlock(&e->lock);
}

typedef struct cut { /* of a block into pieces of whole lines, the same for all devices */
  int64_t lines, each;
  int pieces;
} cut;

static cut cut_of(const rdt_peers *e, const rdt_loading *l) {
  const double bytes = (double)l->part.rows * (double)l->part.cols * (double)rdt_dtype_size(l->m->dtype);
  const int64_t lines = l->m->fortran ? l->part.cols : l->part.rows, want = (int64_t)(bytes / PIECE) + 1;
  const int64_t least = 2 * e->n, n = want < least ? least : want > RDT_MOST_PIECES ? RDT_MOST_PIECES : want;
  const int64_t each = (lines + n - 1) / n;
  return (cut){lines, each, (int)((lines + each - 1) / each)};
}

static rdt_loading piece_of(const rdt_loading *l, const cut *c, int i) {
  rdt_loading p = *l;
  p.piece = true;
  p.from = i * c->each;
  p.count = c->lines - p.from < c->each ? c->lines - p.from : c->each;
  return p;
}

static int64_t lines_of(const cut *c, uint64_t pieces) {
  int64_t n = 0;
  for (int i = 0; i < c->pieces; i++)
    if (pieces >> i & 1) n += c->lines - i * c->each < c->each ? c->lines - i * c->each : c->each;
  return n;
}

typedef struct source { /* pieces that another device has */
  rdt_peer_block *block;
  void *dev;
  uint64_t pieces;
} source;
typedef struct turn {
  source from[RDT_MOST_DEVICES * RDT_MOST_SLOTS];
  int n;
  uint64_t taken, read; /* pieces: from them; from the file, one at most */
} turn;

/* Under the lock. false: there is nothing to do while others read what is missing. */
static bool plan(rdt_peers *e, int number, int x, const rdt_peer_block *own, uint64_t missing, turn *t) {
  uint64_t busy = 0;
  *t = (turn){.n = 0};
  for (int d = 0; d < e->n; d++)
    for (int i = 0; i < RDT_MOST_SLOTS && e->device[number].near[d]; i++) {
      rdt_peer_block *b = &e->device[d].block[x][i];
      if (b->row != own->row || b->col != own->col) continue;
      const uint64_t give = b->there & missing & ~t->taken;
      busy |= b->begun;
      t->taken |= give;
      if (give) t->from[t->n++] = (source){b, e->device[d].dev, give};
    }
  const uint64_t left = missing & ~t->taken & ~busy;
  t->read = left & (~left + 1); /* the first of them */
  return t->n > 0 || t->read || !missing;
}

/* What was planned, without the lock. Copies go on while the piece is read. */
static rdt_status carry_out(const rdt_peers *e, void *dev, const turn *t, const cut *c, bool whole, rdt_loading *l,
                            uint64_t *seal, rdt_reason *why) {
  rdt_status status = RDT_OK;
  rdt_reason other;
  for (int i = 0; i < t->n; i++)
    for (int k = 0; k < c->pieces && status == RDT_OK; k++) {
      const rdt_loading p = piece_of(l, c, k);
      if (t->from[i].pieces >> k & 1) status = e->on->fetch(dev, t->from[i].dev, t->from[i].block->data, &p, why);
    }
  for (int k = 0; k < c->pieces && status == RDT_OK; k++) {
    if (!(t->read >> k & 1)) continue;
    rdt_loading p = piece_of(l, c, k);
    status = e->on->load(dev, &p, why);
    *seal = p.seal;
    l->seconds = p.seconds;
  }
  /* Copies are waited for in any case: what they come from is given free. */
  const rdt_status end = e->on->fetched(dev, l, whole && status == RDT_OK, status == RDT_OK ? why : &other);
  return status == RDT_OK ? end : status;
}

/* Under the lock: others may have it, too. */
static void keep(rdt_peer_block *own, const turn *t, const cut *c, uint64_t seal) {
  for (int k = 0; k < c->pieces; k++) {
    if (t->read >> k & 1) own->seal[k] = seal;
    for (int i = 0; i < t->n; i++)
      if (t->from[i].pieces >> k & 1) own->seal[k] = t->from[i].block->seal[k];
  }
  own->there |= t->read | t->taken;
}

rdt_status rdt_peers_load(rdt_peers *e, int number, const rdt_step *step, rdt_loading *l, bool wait, rdt_peers_got *got,
                          rdt_reason *why) {
  const int x = l->axis;
  const int64_t row = x == 0 ? step->i : step->t, col = x == 0 ? step->t : step->j;
  rdt_peer_block *own = &e->device[number].block[x][step->slot[x]];
  const cut c = cut_of(e, l);
  const uint64_t all = UINT64_MAX >> (RDT_MOST_PIECES - c.pieces);
  turn t;
  uint64_t seal = 0;
  rdt_status status = RDT_OK;
  pthread_mutex_lock(&e->lock);
  if (!own->data || own->row != row || own->col != col) {
    leave(e, own);
    *own = (rdt_peer_block){.data = l->to.data, .row = row, .col = col};
  }
  while (!plan(e, number, x, own, all & ~own->there, &t) && wait) pthread_cond_wait(&e->moved, &e->lock);
  own->begun = t.read;
  for (int i = 0; i < t.n; i++) t.from[i].block->readers++;
  const uint64_t after = own->there | t.read | t.taken;
  pthread_mutex_unlock(&e->lock);
  if (t.read || t.taken) status = carry_out(e, e->device[number].dev, &t, &c, after == all, l, &seal, why);
  pthread_mutex_lock(&e->lock);
  if (status == RDT_OK) keep(own, &t, &c, seal);
  own->begun = 0;
  for (int i = 0; i < t.n; i++) t.from[i].block->readers--;
  pthread_cond_broadcast(&e->moved);
  *got =
      (rdt_peers_got){.there = lines_of(&c, own->there), .read = lines_of(&c, t.read), .taken = lines_of(&c, t.taken)};
  for (int k = 0; k < c.pieces; k++) got->seal += own->there >> k & 1 ? own->seal[k] : 0;
  pthread_mutex_unlock(&e->lock);
  return status;
}
