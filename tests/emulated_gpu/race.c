// Who has touched what of shared memory, and who knows of it: see race.h.
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier.h"

enum {
  WORD = 4,         // bytes that are followed together; a mask says which of them
  BARRIERS = 16,    // bar.sync's
  MBARRIERS = 128,  // of a block, at most
  READERS = 3,      // of a word that are kept in place
  GROUPS = 64,      // that a warp may have committed and not waited for
  ATOMIC = 1,       // flags of a touch
  GENERIC = 2,      // written by the generic proxy
};

bool em_race_on;

typedef struct epoch {
  uint32_t clock;
  uint16_t actor;
  uint8_t bytes, flags;  // a mask; flags
} epoch;

typedef struct readers {
  int n, room;
  epoch of[];
} readers;

typedef struct word {  // who wrote it last, and who has read that since
  epoch wrote, read[READERS];
  uint32_t n;  // of read
  readers *more;
  const em_instruction *write, *reader;
} word;

// What somebody knows: of each actor the clock up to which all that it did is done, and up to which it is fenced.
typedef struct knowledge {
  uint32_t *done, *fenced;
} knowledge;

typedef struct agent_state {
  uint32_t now, lanes;           // clock of what is asked for next; who has ever asked
  uint32_t commits, at[GROUPS];  // clock of each group
} agent_state;

typedef struct warp_knows {
  knowledge knows, fence;  // fence: as the last fence was
  bool is_fenced;
  agent_state agent[EM_AGENTS];
} warp_knows;

typedef struct mbarrier {
  uint32_t at, phase;
  bool parity;
  knowledge arriving, done;  // of those who have arrived in this phase; of all before
} mbarrier;

typedef struct block_race {
  word *word;
  size_t words;
  knowledge bar[BARRIERS];
  mbarrier *mbarrier;
  int mbarriers;
} block_race;

typedef struct race {                // of a cluster
  int blocks, warps, groups, ended;  // warps, groups: of a block
  uint32_t actors, room;
  warp_knows *warp;
  block_race *block;
  knowledge arriving, passing;  // at the cluster's barrier
} race;

// ---- Knowledge ----

static void *must(void *p) {
  if (!p) abort();  // a test without memory
  return p;
}

static knowledge nothing(const race *r) {
  uint32_t *p = must(calloc(2 * (size_t)r->room, sizeof(*p)));
  return (knowledge){p, p + r->room};
}

static void join_row(uint32_t *to, const uint32_t *from, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) to[i] = to[i] > from[i] ? to[i] : from[i];
}

static void join(const race *r, knowledge *to, const knowledge *from) {
  if (!from->done) return;
  if (!to->done) *to = nothing(r);
  join_row(to->done, from->done, r->actors);
  join_row(to->fenced, from->fenced, r->actors);
}

static void forget(const race *r, knowledge *k) {
  if (k->done) memset(k->done, 0, 2 * (size_t)r->room * sizeof(*k->done));
}

static inline void learn(uint32_t *row, uint32_t actor, uint32_t clock) {
  if (row[actor] < clock) row[actor] = clock;
}

// ---- Actors ----

static race *race_of(const em_block *block) {
  return block->cluster->sync;
}

static inline uint32_t actor_of(const race *r, const em_warp *warp) {
  return warp->block->rank * (uint32_t)r->warps + (uint32_t)warp->index;
}

static warp_knows *knows_of(const em_warp *warp) {
  race *r = race_of(warp->block);
  return &r->warp[actor_of(r, warp)];
}

static uint32_t agent_of(const race *r, const em_warp *warp, em_agent agent) {
  const uint32_t all = (uint32_t)(r->blocks * r->warps);
  if (agent != EM_WGMMA) return all * (1 + (uint32_t)agent) + actor_of(r, warp);
  return all * 3 + warp->block->rank * (uint32_t)r->groups + (uint32_t)warp->index / 4;
}

static uint32_t first_mbarrier(const race *r) {
  return (uint32_t)(r->blocks * (r->warps * 3 + r->groups));
}

static const char *name_of(const race *r, uint32_t actor, char text[96]) {
  static const char *const what[] = {"", "cp.async of ", "a bulk store of "};
  const uint32_t all = (uint32_t)(r->blocks * r->warps), first = first_mbarrier(r);
  if (actor < 3 * all) {
    const uint32_t w = actor % all;
    snprintf(text, 96, "%swarp %u of block %u of the cluster", what[actor / all], w % (uint32_t)r->warps,
             w / (uint32_t)r->warps);
  } else if (actor < first) {
    const uint32_t g = actor - 3 * all;
    snprintf(text, 96, "wgmma of warpgroup %u of block %u of the cluster", g % (uint32_t)r->groups,
             g / (uint32_t)r->groups);
  } else {
    const uint32_t b = (actor - first) % (uint32_t)r->blocks, i = (actor - first) / (uint32_t)r->blocks;
    snprintf(text, 96, "what arrives at the mbarrier at %#x of block %u of the cluster", r->block[b].mbarrier[i].at, b);
  }
  return text;
}

void em_race_begin(em_block *block) {
  race *r = race_of(block);
  if (!r) {
    r = must(calloc(1, sizeof(*r)));
    r->blocks = block->cluster->blocks, r->warps = block->warps, r->groups = (block->warps + 3) / 4;
    r->actors = first_mbarrier(r);
    r->room = r->actors + (uint32_t)r->blocks * MBARRIERS;
    r->warp = must(calloc((size_t)(r->blocks * r->warps), sizeof(*r->warp)));
    r->block = must(calloc((size_t)r->blocks, sizeof(*r->block)));
    block->cluster->sync = r;
  }
  block_race *b = &r->block[block->rank];
  b->words = (block->shared_bytes + WORD - 1) / WORD;
  b->word = must(calloc(b->words, sizeof(*b->word)));
  b->mbarrier = must(calloc(MBARRIERS, sizeof(*b->mbarrier)));
  for (int i = 0; i < r->warps; i++) {
    const uint32_t actor = block->rank * (uint32_t)r->warps + (uint32_t)i;
    r->warp[actor].knows = nothing(r);
    r->warp[actor].knows.done[actor] = 1;
    for (int a = 0; a < EM_AGENTS; a++) r->warp[actor].agent[a].now = 1;
  }
}

static void free_all(race *r) {
  for (int i = 0; i < r->blocks; i++) {
    block_race *b = &r->block[i];
    for (size_t k = 0; k < b->words; k++) free(b->word[k].more);
    for (int k = 0; k < BARRIERS; k++) free(b->bar[k].done);
    for (int k = 0; k < b->mbarriers; k++) free(b->mbarrier[k].arriving.done), free(b->mbarrier[k].done.done);
    free(b->word), free(b->mbarrier);
  }
  for (int i = 0; i < r->blocks * r->warps; i++) free(r->warp[i].knows.done), free(r->warp[i].fence.done);
  free(r->arriving.done), free(r->passing.done);
  free(r->warp), free(r->block), free(r);
}

void em_race_end(em_block *block) {
  race *r = race_of(block);
  if (!r || ++r->ended < r->blocks) return;
  free_all(r);
  block->cluster->sync = NULL;
}

// ---- Touches ----

typedef struct touch {
  em_warp *warp;
  const em_instruction *in;
  int lane;
  const uint32_t *done, *fenced;  // what is known; fenced NULL: by the generic proxy, to which no fence is owed
  epoch as;                       // who it is, bytes to be set
  bool writes;
} touch;

static bool cry(const touch *t, const race *r, em_block *block, size_t at, const epoch *other, const em_instruction *by,
                bool wrote, bool fence) {
  char one[96], two[96], text[160] = "";
  if (by && by->text) snprintf(text, sizeof(text), "%.*s", (int)strcspn(by->text, ";\n"), by->text);
  em_fault(t->warp, t->in, t->lane,
           "a race for shared memory at %#zx of block %u of the cluster: %s %s it, but %s %s it (%s) and %s", at,
           block->rank, name_of(r, t->as.actor, one), t->writes ? "writes" : "reads", name_of(r, other->actor, two),
           wrote ? "wrote" : "reads", text,
           fence ? "no fence.proxy.async is in between" : "nothing says that this is over");
  return false;
}

static inline bool is_over(const touch *t, const epoch *e) {
  return t->done[e->actor] >= e->clock;
}

static void keep_reader(const touch *t, word *w) {
  for (uint32_t i = 0; i < w->n; i++) {  // one that this one comes behind needs not be remembered
    epoch *e = &w->read[i];
    if ((e->actor == t->as.actor || is_over(t, e)) && !(e->bytes & ~t->as.bytes) && e->flags >= t->as.flags) {
      *e = t->as;
      return;
    }
  }
  if (w->n < READERS) {
    w->read[w->n++] = t->as;
    return;
  }
  readers *m = w->more;
  for (int i = 0; m && i < m->n; i++) {
    if (m->of[i].actor == t->as.actor) {
      m->of[i].clock = t->as.clock, m->of[i].bytes |= t->as.bytes, m->of[i].flags &= t->as.flags;
      return;
    }
  }
  if (!m || m->n == m->room) {
    const int room = m ? 2 * m->room : 8, n = m ? m->n : 0;
    w->more = m = must(realloc(m, sizeof(*m) + (size_t)room * sizeof(*m->of)));
    m->room = room, m->n = n;
  }
  m->of[m->n++] = t->as;
}

static inline bool against(const touch *t, const epoch *e) {
  return (e->bytes & t->as.bytes) && !(e->flags & t->as.flags & ATOMIC) && !is_over(t, e);
}

static bool touch_word(const touch *t, const race *r, em_block *block, size_t at) {
  word *w = &r->block[block->rank].word[at];
  epoch *const wrote = &w->wrote;
  if (wrote->clock) {
    if (against(t, wrote)) return cry(t, r, block, at * WORD, wrote, w->write, true, false);
    if (t->fenced && (wrote->flags & GENERIC) && (wrote->bytes & t->as.bytes) &&
        t->fenced[wrote->actor] < wrote->clock) {
      return cry(t, r, block, at * WORD, wrote, w->write, true, true);
    }
  }
  if (!t->writes) {
    w->reader = t->in;
    if (!w->n || w->read[0].actor != t->as.actor || w->read[0].clock != t->as.clock ||
        (t->as.bytes & ~w->read[0].bytes)) {
      keep_reader(t, w);
    }
    return true;
  }
  for (uint32_t i = 0; i < w->n; i++) {
    if (against(t, &w->read[i])) return cry(t, r, block, at * WORD, &w->read[i], w->reader, false, false);
  }
  for (int i = 0; w->more && i < w->more->n; i++) {
    if (against(t, &w->more->of[i])) return cry(t, r, block, at * WORD, &w->more->of[i], w->reader, false, false);
  }
  const bool same = wrote->actor == t->as.actor && wrote->clock == t->as.clock && wrote->flags == t->as.flags;
  const uint8_t bytes = same ? wrote->bytes : 0;
  *wrote = t->as;
  wrote->bytes |= bytes;
  w->write = t->in;
  w->n = 0;
  if (w->more) w->more->n = 0;
  return true;
}

static bool touch_bytes(touch *t, em_block *block, uint32_t at, size_t bytes) {
  const race *r = race_of(block);
  for (size_t i = at / WORD; i * WORD < at + bytes; i++) {
    uint32_t mask = 15;
    if (i * WORD < at) mask &= 15u << (at - i * WORD);
    if ((i + 1) * WORD > at + bytes) mask &= 15u >> ((i + 1) * WORD - at - bytes);
    t->as.bytes = (uint8_t)mask;
    if (!touch_word(t, r, block, i)) return false;
  }
  return true;
}

static touch by_warp(em_warp *warp, const em_instruction *in, int lane, em_touch how) {
  const race *r = race_of(warp->block);
  const uint32_t actor = actor_of(r, warp);
  const uint32_t *done = r->warp[actor].knows.done;
  return (touch){
      warp,           in,   lane,
      done,           NULL, {done[actor], (uint16_t)actor, 0, (uint8_t)(GENERIC | (how == EM_ATOMIC ? ATOMIC : 0))},
      how != EM_READS};
}

bool em_race_touch(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t at, size_t bytes,
                   em_touch how) {
  touch t = by_warp(warp, in, lane, how);
  return touch_bytes(&t, block, at, bytes);
}

bool em_race_lanes(em_warp *warp, const em_instruction *in, uint32_t lanes, uint8_t *const place[EM_LANES],
                   size_t bytes, em_touch how) {
  em_cluster *cluster = warp->block->cluster;
  em_block *block = warp->block;
  touch t = by_warp(warp, in, 0, how);
  for (; lanes; lanes &= lanes - 1) {
    t.lane = __builtin_ctz(lanes);
    const uint8_t *p = place[t.lane];
    if ((size_t)(p - block->shared) >= block->shared_bytes) {
      block = warp->block;
      for (int i = 0; i < cluster->blocks; i++) {
        em_block *b = &cluster->block[i];
        if ((size_t)(p - b->shared) < b->shared_bytes) block = b;
      }
      if ((size_t)(p - block->shared) >= block->shared_bytes) continue;
    }
    if (!touch_bytes(&t, block, (uint32_t)(p - block->shared), bytes)) return false;
  }
  return true;
}

// ---- What warps ask for ----

static touch by_agent(em_warp *warp, const em_instruction *in, int lane, em_agent agent, bool async, bool writes) {
  const race *r = race_of(warp->block);
  warp_knows *w = knows_of(warp);
  agent_state *a = &w->agent[agent];
  if (lane >= 0) a->lanes |= UINT32_C(1) << lane;
  return (touch){warp,
                 in,
                 lane,
                 w->knows.done,
                 async ? w->knows.fenced : NULL,
                 {a->now, (uint16_t)agent_of(r, warp, agent), 0, async ? 0 : GENERIC},
                 writes};
}

bool em_race_copy(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t at, size_t bytes) {
  touch t = by_agent(warp, in, lane, EM_COPIES, false, true);
  return touch_bytes(&t, block, at, bytes);
}

bool em_race_store(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t at, size_t bytes) {
  touch t = by_agent(warp, in, lane, EM_STORES, true, false);
  return touch_bytes(&t, block, at, bytes);
}

bool em_race_wgmma(em_warp *warp, const em_instruction *in, em_block *block, uint32_t at, size_t bytes) {
  touch t = by_agent(warp, in, -1, EM_WGMMA, true, false);
  return touch_bytes(&t, block, at, bytes);
}

void em_race_commit(em_warp *warp, em_agent agent, uint32_t lanes) {
  agent_state *a = &knows_of(warp)->agent[agent];
  if (agent != EM_WGMMA && a->lanes && !(a->lanes & lanes)) return;  // of lanes that have asked for nothing
  a->at[a->commits++ % GROUPS] = a->now++;
}

void em_race_wait(em_warp *warp, em_agent agent, uint32_t lanes, uint32_t left) {
  const race *r = race_of(warp->block);
  warp_knows *w = knows_of(warp);
  agent_state *a = &w->agent[agent];
  if (a->lanes & ~lanes || a->commits <= left || left >= GROUPS) return;
  learn(w->knows.done, agent_of(r, warp, agent), a->at[(a->commits - 1 - left) % GROUPS]);
}

// ---- mbarriers ----

// The one there, with what its phase says now; NULL: too many.
static mbarrier *mbarrier_at(em_block *block, uint32_t at, uint32_t *actor) {
  race *r = race_of(block);
  block_race *b = &r->block[block->rank];
  int i = 0;
  while (i < b->mbarriers && b->mbarrier[i].at != at) i++;
  if (i == MBARRIERS) return NULL;
  mbarrier *m = &b->mbarrier[i];
  const bool parity = em_barrier_phase(*(const uint64_t *)(const void *)(block->shared + at));
  *actor = first_mbarrier(r) + (uint32_t)(i * r->blocks) + block->rank;
  if (*actor >= r->actors) r->actors = *actor + 1;
  if (i == b->mbarriers) {
    b->mbarriers++;
    *m = (mbarrier){.at = at, .parity = parity, .arriving = nothing(r), .done = nothing(r)};
  }
  if (m->parity != parity) {  // a phase is over since we were here
    m->parity = parity, m->phase++;
    join(r, &m->done, &m->arriving);
    forget(r, &m->arriving);
  }
  return m;
}

static bool too_many(em_warp *warp, const em_instruction *in, int lane) {
  em_fault(warp, in, lane, "races are followed with up to %d mbarriers a block", MBARRIERS);
  return false;
}

bool em_race_init(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t barrier) {
  uint32_t actor;
  mbarrier *m = mbarrier_at(block, barrier, &actor);
  if (!m) return too_many(warp, in, lane);
  m->parity = false;  // as it is from now on
  return em_race_touch(warp, in, lane, block, barrier, 8, EM_WRITES);
}

bool em_race_arrive(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t barrier) {
  const race *r = race_of(block);
  uint32_t actor;
  mbarrier *m = mbarrier_at(block, barrier, &actor);
  if (!m) return too_many(warp, in, lane);
  if (!em_race_touch(warp, in, lane, block, barrier, 8, EM_ATOMIC)) return false;
  warp_knows *w = knows_of(warp);
  join(r, &m->arriving, &w->knows);
  w->knows.done[actor_of(r, warp)]++;
  return true;
}

void em_race_arrive_copies(em_warp *warp, em_block *block, uint32_t barrier) {
  const race *r = race_of(block);
  uint32_t actor;
  mbarrier *m = mbarrier_at(block, barrier, &actor);
  agent_state *a = &knows_of(warp)->agent[EM_COPIES];
  if (m) learn(m->arriving.done, agent_of(r, warp, EM_COPIES), a->now++);
}

bool em_race_load(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t at, size_t bytes,
                  uint32_t barrier, bool async) {
  const knowledge *k = &knows_of(warp)->knows;
  uint32_t actor;
  const mbarrier *m = mbarrier_at(block, barrier, &actor);
  if (!m) return too_many(warp, in, lane);
  if (!em_race_touch(warp, in, lane, block, barrier, 8, EM_ATOMIC)) return false;
  touch t = {warp, in, lane, k->done, async ? k->fenced : NULL, {m->phase + 1, (uint16_t)actor, 0, async ? 0 : GENERIC},
             true};
  return touch_bytes(&t, block, at, bytes);
}

bool em_race_waited(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t barrier) {
  const race *r = race_of(block);
  uint32_t actor;
  const mbarrier *m = mbarrier_at(block, barrier, &actor);
  if (!m) return too_many(warp, in, lane);
  if (!em_race_touch(warp, in, lane, block, barrier, 8, EM_ATOMIC)) return false;
  warp_knows *w = knows_of(warp);
  join(r, &w->knows, &m->done);
  learn(w->knows.done, actor, m->phase);
  return true;
}

// ---- Barriers and fences ----

void em_race_bar_arrive(em_warp *warp, int id) {
  race *r = race_of(warp->block);
  warp_knows *w = knows_of(warp);
  join(r, &r->block[warp->block->rank].bar[id], &w->knows);
  w->knows.done[actor_of(r, warp)]++;
}

void em_race_bar_pass(em_block *block, int id, int warp) {
  race *r = race_of(block);
  join(r, &r->warp[block->rank * (uint32_t)r->warps + (uint32_t)warp].knows, &r->block[block->rank].bar[id]);
}

void em_race_bar_done(em_block *block, int id) {
  race *r = race_of(block);
  forget(r, &r->block[block->rank].bar[id]);
}

// A relaxed arrival says nothing but what a fence before it has made ready.
void em_race_cluster_arrive(em_warp *warp, bool relaxed) {
  race *r = race_of(warp->block);
  warp_knows *w = knows_of(warp);
  if (relaxed && !w->is_fenced) return;
  join(r, &r->arriving, relaxed ? &w->fence : &w->knows);
  w->is_fenced = false;
  w->knows.done[actor_of(r, warp)]++;
}

void em_race_cluster_done(em_cluster *cluster) {
  race *r = cluster->sync;
  const knowledge old = r->passing;
  r->passing = r->arriving;
  r->arriving = old;
  forget(r, &r->arriving);
}

void em_race_cluster_pass(em_warp *warp) {
  race *r = race_of(warp->block);
  join(r, &knows_of(warp)->knows, &r->passing);
}

void em_race_proxy_fence(em_warp *warp) {
  const race *r = race_of(warp->block);
  knowledge *k = &knows_of(warp)->knows;
  memcpy(k->fenced, k->done, r->actors * sizeof(*k->done));
  k->done[actor_of(r, warp)]++;
}

void em_race_fence(em_warp *warp) {
  const race *r = race_of(warp->block);
  warp_knows *w = knows_of(warp);
  forget(r, &w->fence);
  join(r, &w->fence, &w->knows);
  w->is_fenced = true;
  w->knows.done[actor_of(r, warp)]++;
}
