// mbarriers, and copies in the background: of threads (cp.async), of bytes and boxes (cp.async.bulk), st.async.
#include <stdlib.h>
#include <string.h>

#include "barrier.h"
#include "later.h"
#include "race.h"

#define EACH_LANE(lane, lanes) \
  for (uint32_t rest_ = (lanes), lane = 0; rest_ && (lane = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)

typedef struct copy {  // of the lanes of a warp; or, without bytes, they arrive at barriers behind what they copied
  struct copy *next;
  const em_instruction *in;
  uint32_t lanes, bytes;
  uint32_t group[EM_LANES];
  uint8_t *to[EM_LANES];
  const uint8_t *from[EM_LANES];
  uint32_t read[EM_LANES];  // bytes, the rest is zeros; of an arrival its barrier
} copy;

typedef struct mine {  // warp->bulk
  em_later later;      // of the copies, while there are any
  copy *first, **last;
  uint32_t groups[EM_LANES], bulk_groups[EM_LANES];  // that a lane has committed
} mine;

static mine *of_warp(em_warp *warp) {
  if (!warp->bulk) {
    mine *m = calloc(1, sizeof *m);
    if (!m) abort();
    m->last = &m->first;
    warp->bulk = m;
  }
  return warp->bulk;
}

static uint64_t address_of(const em_warp *warp, const em_operand *o, uint32_t lane) {
  const uint64_t base = em_get(warp, o, (int)lane);
  if (o->kind != EM_ADDRESS) return base;
  const uint64_t address = base + (uint64_t)o->offset;
  return o->bytes == 4 ? (uint32_t)address : address;
}

static bool among(const char *word, const char *list) {
  const size_t n = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

static const char *only(const em_instruction *in, const char *words) {
  for (int i = 0; i < EM_MODIFIERS && in->modifier[i]; i++)
    if (!among(in->modifier[i], words)) return "a modifier that is not known";
  return NULL;
}

// ---- mbarriers ----

static uint64_t *barrier_at(em_warp *warp, const em_instruction *in, uint32_t lane, const em_operand *o,
                            em_block **block) {
  const uint32_t at = (uint32_t)address_of(warp, o, lane);
  if (in->space == EM_SHARED && at >> 24 && (at >> 24) - 1 != warp->block->rank) {
    em_fault(warp, in, (int)lane, "the mbarrier is another block's, which takes .shared::cluster");
    return NULL;
  }
  return em_shared(warp, in, (int)lane, at, 8, 8, block);
}

static uint32_t offset_in(const em_block *block, const void *place) {
  return (uint32_t)((const uint8_t *)place - block->shared);
}

static em_turn run_init(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  EACH_LANE(lane, lanes) {
    em_block *block;
    uint64_t *word = barrier_at(warp, in, lane, &in->operand[0], &block);
    const uint64_t count = em_get(warp, &in->operand[1], (int)lane);
    if (!word) return EM_FAULT;
    if (!count || count > EM_BARRIER_MOST)
      return em_fault(warp, in, (int)lane, "an mbarrier of %u arrivals", (uint32_t)count);
    if (em_race_on && !em_race_init(warp, in, (int)lane, block, offset_in(block, word))) return EM_FAULT;
    *word = em_barrier_made((uint32_t)count, (uint32_t)count, 0, false);
  }
  return EM_NEXT;
}

static em_turn run_inval(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  EACH_LANE(lane, lanes) {
    uint64_t *word = barrier_at(warp, in, lane, &in->operand[0], NULL);
    if (!word) return EM_FAULT;
    if (!em_barrier_valid(*word)) return em_fault(warp, in, (int)lane, "no mbarrier has been initialised there");
    *word = 0;
  }
  return EM_NEXT;
}

enum { ARRIVES = 1, EXPECTS = 2 };

// form: what of it. more: where the address is; behind it a count or bytes, if any.
static em_turn run_arrive(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_operand *o = &in->operand[in->more];
  const bool counted = in->operands > in->more + 1;
  EACH_LANE(lane, lanes) {
    em_block *block;
    uint64_t *word = barrier_at(warp, in, lane, o, &block);
    if (!word) return EM_FAULT;
    if (em_race_on && in->form & ARRIVES && !em_race_arrive(warp, in, (int)lane, block, offset_in(block, word)))
      return EM_FAULT;
    const uint64_t before = *word, n = counted ? (uint32_t)em_get(warp, o + 1, (int)lane) : 1;
    // As one: what is expected counts before the arrival does.
    const char *wrong =
        in->form & EXPECTS ? em_barrier_change(word, in->form & ARRIVES, (int64_t)n) : em_barrier_change(word, n, 0);
    if (wrong) return em_fault(warp, in, (int)lane, "%s", wrong);
    if (in->more && in->operand[0].kind == EM_REGISTER) em_set(warp, &in->operand[0], (int)lane, before);
  }
  return EM_NEXT;
}

enum { PARITY = 1, TRIES = 2 };

// 1: the phase is over; 0: it is not; -1: a fault.
static int is_over(em_warp *warp, const em_instruction *in, uint32_t lane) {
  em_block *block;
  uint64_t *word = barrier_at(warp, in, lane, &in->operand[1], &block);
  if (!word) return -1;
  const uint64_t with = em_get(warp, &in->operand[2], (int)lane);
  const bool phase = in->form & PARITY ? with & 1 : em_barrier_phase(with);
  if (!em_barrier_valid(*word)) {
    em_fault(warp, in, (int)lane, "no mbarrier has been initialised there");
    return -1;
  }
  const uint32_t at = offset_in(block, word);
  if (em_barrier_phase(*word) == phase) {
    if (!em_later_until(block, at)) return -1;
    if (em_barrier_phase(*word) == phase) return 0;
  }
  return em_race_on && !em_race_waited(warp, in, (int)lane, block, at) ? -1 : 1;
}

static em_turn run_wait(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  uint32_t over = 0;
  EACH_LANE(lane, lanes) {
    const int is = is_over(warp, in, lane);
    if (is < 0) return EM_FAULT;
    over |= (uint32_t)is << lane;
  }
  if (!over && in->form & TRIES) return EM_WAIT;
  uint32_t *p = em_bits(warp, &in->operand[0]);
  *p = (*p & ~lanes) | over;
  return over == lanes ? EM_NEXT : EM_PAUSE;
}

#define WHERE "shared shared::cta shared::cluster b64 release relaxed acquire cta cluster "

static const char *bind_init(em_instruction *in) {
  const int operands = in->form = in->operands;
  return operands > 2 || in->operand[0].kind != EM_ADDRESS ? "operands that are not known" : only(in, WHERE);
}

static const char *bind_arrive(em_instruction *in) {
  in->more = in->operand[0].kind != EM_ADDRESS;
  in->form = ARRIVES | (em_has(in, "expect_tx") ? EXPECTS : 0);
  if (in->operands <= in->more || in->operand[in->more].kind != EM_ADDRESS) return "operands that are not known";
  return only(in, WHERE "expect_tx");
}

static const char *bind_expect(em_instruction *in) {
  in->form = EXPECTS;
  return in->operands != 2 || in->operand[0].kind != EM_ADDRESS ? "operands that are not known" : only(in, WHERE);
}

static const char *bind_wait(em_instruction *in) {
  in->form |= em_has(in, "parity") ? PARITY : 0;
  if (in->operands < 3 || in->operand[0].kind != EM_PREDICATE || in->operand[1].kind != EM_ADDRESS)
    return "operands that are not known";
  return only(in, WHERE "parity");
}

static const char *bind_try(em_instruction *in) {
  in->form = TRIES;
  return bind_wait(in);
}

static em_turn run_mapa(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_operand *to = &in->operand[0];
  EACH_LANE(lane, lanes) {
    const uint64_t at = address_of(warp, &in->operand[1], lane);
    const uint32_t rank = (uint32_t)em_get(warp, &in->operand[2], (int)lane);
    if (rank >= (uint32_t)warp->block->cluster->blocks)
      return em_fault(warp, in, (int)lane, "block %u of a cluster of %d", rank, warp->block->cluster->blocks);
    const uint64_t there = (at & 0xffffff) | (uint64_t)(rank + 1) << 24;
    em_set(warp, to, (int)lane, to->bytes == 8 ? EM_SHARED_BASE | there : there);
  }
  return EM_NEXT;
}

static const char *bind_mapa(em_instruction *in) {
  return in->operands != 3 ? "operands that are not known" : only(in, "shared::cluster u32 u64");
}

// ---- cp.async ----

static bool do_copy(copy *c, em_later *later) {
  EACH_LANE(lane, c->lanes) {
    if (c->bytes) {
      if (c->read[lane]) memcpy(c->to[lane], c->from[lane], c->read[lane]);
      memset(c->to[lane] + c->read[lane], 0, c->bytes - c->read[lane]);
    } else {
      const char *wrong = em_barrier_change((uint64_t *)(void *)(later->block->shared + c->read[lane]), 1, 0);
      if (wrong) {
        em_fault(NULL, c->in, (int)lane, "%s", wrong);
        return false;
      }
    }
  }
  return true;
}

// The warp's first copy; the others follow in their order, which is one of those that are allowed.
static bool first_copy(em_later *later) {
  mine *m = (mine *)(void *)later;
  copy *c = m->first;
  if (!do_copy(c, later)) return false;
  m->first = c->next;
  if (!m->first) {
    m->last = &m->first;
    em_later_done(later);
  }
  free(c);
  return true;
}

static void drop_copies(em_later *later) {
  mine *m = (mine *)(void *)later;
  while (m->first) {
    copy *next = m->first->next;
    free(m->first);
    m->first = next;
  }
  m->last = &m->first;
}

static bool copies_until(em_later *later, uint32_t barrier) {
  mine *m = (mine *)(void *)later;
  int n = 0, most = 0;
  for (const copy *c = m->first; c; c = c->next) {
    n++;
    if (c->bytes) continue;
    EACH_LANE(lane, c->lanes) {
      if (c->read[lane] == barrier) most = n;
    }
  }
  while (most--)
    if (!first_copy(later)) return false;
  return true;
}

static copy *new_copy(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  mine *m = of_warp(warp);
  copy *c = calloc(1, sizeof *c);
  if (!c) abort();
  c->in = in, c->lanes = lanes;
  memcpy(c->group, m->groups, sizeof c->group);
  return c;
}

static bool add_copy(em_warp *warp, copy *c) {
  mine *m = of_warp(warp);
  if (!m->first) {
    m->later = (em_later){.one = first_copy, .until = copies_until, .drop = drop_copies};
    em_later_add(&m->later, warp->block->grid, warp->block);
  }
  *m->last = c;
  m->last = &c->next;
  return !em_later_now(warp->block->grid) || first_copy(&m->later);
}

// [to], [from], bytes{, bytes that are read, or a predicate of nothing is}
static em_turn run_copy(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  copy *c = new_copy(warp, in, lanes);
  c->bytes = (uint32_t)em_get(warp, &in->operand[2], (int)__builtin_ctz(lanes));
  EACH_LANE(lane, lanes) {
    em_block *block;
    const em_operand *last = &in->operand[3];
    uint32_t n = c->bytes;
    if (in->operands > 3 && last->kind == EM_PREDICATE)
      n = (*em_bits(warp, last) >> lane & 1) != last->negated ? 0 : n;
    else if (in->operands > 3)
      n = (uint32_t)em_get(warp, last, (int)lane);
    c->read[lane] = n;
    if (n > c->bytes || (c->bytes != 16 && (in->form || (c->bytes != 4 && c->bytes != 8)))) {
      em_fault(warp, in, (int)lane, "%u bytes of %u are copied", n, c->bytes);
      free(c);
      return EM_FAULT;
    }
    c->to[lane] =
        em_shared(warp, in, (int)lane, (uint32_t)address_of(warp, &in->operand[0], lane), c->bytes, c->bytes, &block);
    if (c->to[lane] && n)
      c->from[lane] = em_memory(warp, in, (int)lane, EM_GLOBAL, address_of(warp, &in->operand[1], lane), n, c->bytes);
    if (!c->to[lane] || (n && !c->from[lane]) ||
        (em_race_on && !em_race_copy(warp, in, (int)lane, block, offset_in(block, c->to[lane]), c->bytes))) {
      free(c);
      return EM_FAULT;
    }
  }
  return add_copy(warp, c) ? EM_NEXT : EM_FAULT;
}

static const char *bind_copy(em_instruction *in) {
  in->form = em_has(in, "cg");
  if (in->operands < 3 || in->operands > 4) return "operands that are not known";
  return only(in, "ca cg shared shared::cta global L2::64B L2::128B L2::256B");
}

// What was copied before by these lanes, or nothing more: they arrive.
static em_turn run_copied(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  copy *c = new_copy(warp, in, lanes);
  EACH_LANE(lane, lanes) {
    em_block *block;
    uint64_t *word = barrier_at(warp, in, lane, &in->operand[0], &block);
    const char *wrong = NULL;
    if (word && !in->form) {  // it is one more that the phase waits for
      if (!em_barrier_valid(*word) || (*word & 0xffff) == EM_BARRIER_MOST)
        wrong = "no mbarrier that one more could use";
      if (!wrong) ++*word;
    }
    if (word && block != warp->block) wrong = "the mbarrier is another block's";
    if (!word || wrong) {
      free(c);
      return word ? em_fault(warp, in, (int)lane, "%s", wrong) : EM_FAULT;
    }
    c->read[lane] = offset_in(block, word);
    if (em_race_on) em_race_arrive_copies(warp, block, c->read[lane]);
  }
  return add_copy(warp, c) ? EM_NEXT : EM_FAULT;
}

static const char *bind_copied(em_instruction *in) {
  in->form = em_has(in, "noinc");
  return in->operands != 1 ? "operands that are not known" : only(in, WHERE "noinc");
}

static em_turn run_commit(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  mine *m = of_warp(warp);
  (void)in;
  EACH_LANE(lane, lanes) m->groups[lane]++;
  if (em_race_on) em_race_commit(warp, EM_COPIES, lanes);
  return EM_NEXT;
}

static em_turn run_wait_copies(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  mine *m = of_warp(warp);
  const uint32_t n = in->form ? 0 : (uint32_t)em_get(warp, &in->operand[0], (int)__builtin_ctz(lanes));
  int at = 0, most = 0;
  for (const copy *c = m->first; c; c = c->next) {
    at++;
    EACH_LANE(lane, c->lanes & lanes) {
      if (in->form || c->group[lane] + n < m->groups[lane]) most = at;
    }
  }
  while (most--)
    if (!first_copy(&m->later)) return EM_FAULT;
  if (em_race_on && in->form) em_race_commit(warp, EM_COPIES, lanes);
  if (em_race_on) em_race_wait(warp, EM_COPIES, lanes, n);
  return EM_NEXT;
}

static const char *bind_wait_all(em_instruction *in) {
  in->form = 1;
  return only(in, "");
}

static const char *bind_none(em_instruction *in) {
  return only(in, "");
}

// ---- Of bytes and boxes ----

typedef struct bulk {
  em_later later;
  const em_instruction *in;
  uint32_t to, barrier, bytes;  // in the block's shared memory
  uint64_t from;                // of bytes; 0: a box
  em_box box;
  uint8_t value[16];     // st.async
  em_warp *warp;         // of a store, until it ends
  uint32_t lane, group;  // of a store
  uint8_t *data;         // of a store, as it was read
} bulk;

static bool fails(const bulk *b, const char *wrong) {
  if (wrong) em_fault(NULL, b->in, -1, "%s", wrong);
  return wrong;
}

static bool arrive_bulk(em_later *later) {
  bulk *b = (bulk *)(void *)later;
  em_block *block = later->block;
  if (!block->alive) return !fails(b, "the block that it is sent to has ended");
  if (b->box.map.magic) {
    if (fails(b, em_box_load(&b->box, block->shared, b->to))) return false;
  } else if (b->from) {
    if (!em_allocated(b->from, b->bytes)) return !fails(b, "what is copied has not been allocated");
    memcpy(block->shared + b->to, (const void *)(uintptr_t)b->from, b->bytes);
  } else {
    memcpy(block->shared + b->to, b->value, b->bytes);
  }
  uint64_t *word = (uint64_t *)(void *)(block->shared + b->barrier);
  if (fails(b, em_barrier_change(word, 0, -(int64_t)b->bytes))) return false;
  em_later_done(later);
  free(b);
  return true;
}

static bool arrive_until(em_later *later, uint32_t barrier) {
  return ((bulk *)(void *)later)->barrier != barrier || arrive_bulk(later);
}

static void drop_bulk(em_later *later) {
  free(((bulk *)(void *)later)->data);
  free(later);
}

static bool never_waited(em_later *later) {
  return !fails((bulk *)(void *)later, "its block ended while it was under way: nobody waited for it");
}

// A copy of it is sent to the block. value: st.async.
static bool send(const bulk *b, em_warp *warp, uint32_t lane, em_block *block, bool value) {
  em_grid *grid = warp->block->grid;
  if (em_race_on && !em_race_load(warp, b->in, (int)lane, block, b->to, b->bytes, b->barrier, !value)) return false;
  bulk *sent = malloc(sizeof *sent);
  if (!sent) abort();
  *sent = *b;
  sent->later = (em_later){.one = arrive_bulk, .until = arrive_until, .end = never_waited, .drop = drop_bulk};
  em_later_add(&sent->later, grid, block);
  return !em_later_now(grid) || arrive_bulk(&sent->later);
}

// Where it goes and whose barrier counts it: of one block, or of all blocks that the mask has.
static em_turn send_all(em_warp *warp, uint32_t lane, bulk *b, uint32_t to, uint32_t barrier, uint32_t mask) {
  em_block *block, *counts;
  const uint8_t *place = em_shared(warp, b->in, (int)lane, to, b->bytes, 16, &block);
  const uint8_t *word = place ? em_shared(warp, b->in, (int)lane, barrier, 8, 8, &counts) : NULL;
  if (!word) return EM_FAULT;
  if (block != counts) return em_fault(warp, b->in, (int)lane, "the mbarrier is not in the block that it is sent to");
  b->to = (uint32_t)(place - block->shared), b->barrier = (uint32_t)(word - block->shared);
  if (!mask) return send(b, warp, lane, block, false) ? EM_NEXT : EM_FAULT;
  em_cluster *cluster = warp->block->cluster;
  if (mask >> cluster->blocks)
    return em_fault(warp, b->in, (int)lane, "a mask of blocks %#x of %d", mask, cluster->blocks);
  EACH_LANE(rank, mask) {
    block = &cluster->block[rank];
    if (!block->alive) return em_fault(warp, b->in, (int)lane, "block %u of the cluster has ended", rank);
    if (!send(b, warp, lane, block, false)) return EM_FAULT;
  }
  return EM_NEXT;
}

static em_turn run_bytes(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  EACH_LANE(lane, lanes) {
    bulk b = {.in = in, .from = address_of(warp, &in->operand[1], lane)};
    b.bytes = (uint32_t)em_get(warp, &in->operand[2], (int)lane);
    if (!b.bytes || b.bytes % 16) return em_fault(warp, in, (int)lane, "%u bytes, no multiple of 16", b.bytes);
    if (!em_memory(warp, in, (int)lane, EM_GLOBAL, b.from, b.bytes, 16)) return EM_FAULT;
    const uint32_t mask = in->form ? (uint32_t)em_get(warp, &in->operand[4], (int)lane) & 0xffff : 0;
    if (in->form && !mask) continue;
    const em_turn turn = send_all(warp, lane, &b, (uint32_t)address_of(warp, &in->operand[0], lane),
                                  (uint32_t)address_of(warp, &in->operand[3], lane), mask);
    if (turn != EM_NEXT) return turn;
  }
  return EM_NEXT;
}

static const char *bind_bytes(em_instruction *in) {
  in->form = em_has(in, "multicast::cluster");
  if (in->operands != 4 + in->form || !em_has(in, "mbarrier::complete_tx::bytes") || !em_has(in, "shared::cluster"))
    return "a form that is not known";
  return only(in, "shared::cluster global mbarrier::complete_tx::bytes multicast::cluster");
}

static em_turn run_prefetch(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  EACH_LANE(lane, lanes) {
    const uint32_t bytes = (uint32_t)em_get(warp, &in->operand[1], (int)lane);
    if (bytes % 16) return em_fault(warp, in, (int)lane, "%u bytes, no multiple of 16", bytes);
    if (!em_memory(warp, in, (int)lane, EM_GLOBAL, address_of(warp, &in->operand[0], lane), bytes, 16)) return EM_FAULT;
  }
  return EM_NEXT;
}

static const char *bind_prefetch(em_instruction *in) {
  return in->operands != 2 ? "operands that are not known" : only(in, "L2 global");
}

// The map and the place that two operands say.
static bool read_box(em_warp *warp, const em_instruction *in, uint32_t lane, int operand, em_box *box) {
  const em_map *map =
      em_memory(warp, in, (int)lane, EM_GENERIC, address_of(warp, &in->operand[operand], lane), 128, 64);
  const em_operand *at = &in->operand[operand + 1];
  if (!map) return false;
  box->map = *map;
  if (map->magic != EM_MAP_MAGIC || map->rank != at->count || map->im2col != em_has(in, "im2col")) {
    em_fault(warp, in, (int)lane, "no tensor map of this kind is there");
    return false;
  }
  for (int i = 0; i < at->count; i++) box->at[i] = (int32_t)em_get(warp, &at->items[i], (int)lane);
  return true;
}

static em_turn run_load(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  EACH_LANE(lane, lanes) {
    bulk b = {.in = in};
    if (!read_box(warp, in, lane, 1, &b.box)) return EM_FAULT;
    const uint32_t to = (uint32_t)address_of(warp, &in->operand[0], lane);
    const char *wrong = em_box_refused(&b.box, to);
    if (wrong) return em_fault(warp, in, (int)lane, "%s", wrong);
    b.bytes = (uint32_t)em_box_bytes(&b.box.map);
    int next = 4;
    for (int i = 0; em_has(in, "im2col") && i < b.box.map.rank - 2; i++)
      b.box.offset[i] = (uint16_t)em_get(warp, &in->operand[4].items[i], (int)lane), next = 5;
    const uint32_t mask = in->form ? (uint32_t)em_get(warp, &in->operand[next], (int)lane) & 0xffff : 0;
    if (in->form && !mask) continue;
    const em_turn turn = send_all(warp, lane, &b, to, (uint32_t)address_of(warp, &in->operand[3], lane), mask);
    if (turn != EM_NEXT) return turn;
  }
  return EM_NEXT;
}

// ---- Stores ----

static void pick(bulk *b) {
  b->data = malloc(b->bytes);
  if (!b->data) abort();
  em_box_pick(&b->box, b->later.block->shared, b->to, b->data);
  em_later_leave(&b->later);
}

static bool store(em_later *later) {
  bulk *b = (bulk *)(void *)later;
  if (!b->data) {
    pick(b);
    return true;
  }
  if (fails(b, em_box_store(&b->box, b->data))) return false;
  em_later_done(later);
  free(b->data);
  free(b);
  return true;
}

static bool never_read(em_later *later) {
  return !fails((bulk *)(void *)later, "its block ended while it was still to be read: nobody waited for it");
}

static em_turn run_store(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  EACH_LANE(lane, lanes) {
    bulk *b = calloc(1, sizeof *b);
    if (!b) abort();
    const uint32_t from = (uint32_t)address_of(warp, &in->operand[2], lane);
    *b = (bulk){.in = in, .warp = warp, .lane = lane, .group = of_warp(warp)->bulk_groups[lane]};
    const bool read = read_box(warp, in, lane, 0, &b->box);
    const char *wrong = read ? em_box_refused(&b->box, from) : NULL;
    const uint8_t *place = NULL;
    if (wrong) em_fault(warp, in, (int)lane, "%s", wrong);
    if (read && !wrong) {
      b->bytes = (uint32_t)em_box_bytes(&b->box.map);
      place = em_shared(warp, in, (int)lane, from, b->bytes, 16, NULL);
    }
    if (!place ||
        (em_race_on && !em_race_store(warp, in, (int)lane, warp->block, offset_in(warp->block, place), b->bytes))) {
      free(b);
      return EM_FAULT;
    }
    b->to = (uint32_t)(place - warp->block->shared);
    b->later = (em_later){.one = store, .end = never_read, .drop = drop_bulk};
    em_later_add(&b->later, warp->block->grid, warp->block);
    if (em_later_now(warp->block->grid)) pick(b);
  }
  return EM_NEXT;
}

static em_turn run_tensor(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  return in->more ? run_store(warp, in, lanes) : run_load(warp, in, lanes);
}

static const char *bind_tensor(em_instruction *in) {
  in->more = em_has(in, "bulk_group");
  in->form = em_has(in, "multicast::cluster");
  const int operands = in->more ? 3 : 4 + em_has(in, "im2col") + in->form, map = in->more ? 0 : 1;
  if (in->operands != operands || in->operand[map + 1].kind != EM_VECTOR) return "operands that are not known";
  const char *d = in->modifier[0];
  if (!d || in->operand[map + 1].count != d[0] - '0') return "coordinates that are not as many as the dimensions";
  if (in->more)
    return em_has(in, "global") && in->modifier[1] && !strcmp(in->modifier[1], "global")
               ? only(in, "1d 2d 3d 4d 5d global shared::cta bulk_group tile")
               : "a form that is not known";
  if (!em_has(in, "mbarrier::complete_tx::bytes")) return "a form that is not known";
  return only(in, "1d 2d 3d 4d 5d shared::cluster global mbarrier::complete_tx::bytes multicast::cluster tile im2col");
}

static em_turn run_bulk_commit(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  mine *m = of_warp(warp);
  (void)in;
  EACH_LANE(lane, lanes) m->bulk_groups[lane]++;
  if (em_race_on) em_race_commit(warp, EM_STORES, lanes);
  return EM_NEXT;
}

static em_turn run_bulk_wait(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  mine *m = of_warp(warp);
  const uint32_t n = (uint32_t)em_get(warp, &in->operand[0], (int)__builtin_ctz(lanes));
  int count;
  em_later **item = em_later_list(warp->block->grid, &count);
  for (int i = count; i-- > 0;) {  // what is done makes room for the last one, which has been seen
    bulk *b = (bulk *)(void *)item[i];
    if (item[i]->one != store || b->warp != warp || !(lanes >> b->lane & 1)) continue;
    if (b->group + n >= m->bulk_groups[b->lane]) continue;
    if (!b->data) pick(b);
    if (!in->form && !store(&b->later)) return EM_FAULT;
  }
  if (em_race_on) em_race_wait(warp, EM_STORES, lanes, n);
  return EM_NEXT;
}

static const char *bind_bulk_wait(em_instruction *in) {
  in->form = em_has(in, "read");
  return in->operands != 1 ? "operands that are not known" : only(in, "read");
}

void em_later_warp(em_warp *warp) {
  mine *m = warp->bulk;
  em_matrix_warp(warp);
  if (!m) return;
  while (m->first)
    if (!first_copy(&m->later)) return;
  int count;
  em_later **item = em_later_list(warp->block->grid, &count);
  for (int i = 0; i < count; i++)
    if (item[i]->one == store && ((bulk *)(void *)item[i])->warp == warp) ((bulk *)(void *)item[i])->warp = NULL;
}

// ---- st.async: [to], value, [barrier] ----

static em_turn run_send(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_operand *value = &in->operand[1];
  const int n = value->kind == EM_VECTOR ? value->count : 1;
  EACH_LANE(lane, lanes) {
    bulk b = {.in = in, .bytes = (uint32_t)n * (uint32_t)in->form};
    const uint32_t to = (uint32_t)address_of(warp, &in->operand[0], lane);
    if (to % b.bytes) return em_fault(warp, in, (int)lane, "shared address %#x is not aligned to %u", to, b.bytes);
    for (int i = 0; i < n; i++) {
      const uint64_t x = em_get(warp, value->kind == EM_VECTOR ? &value->items[i] : value, (int)lane);
      memcpy(b.value + i * in->form, &x, (size_t)in->form);
    }
    em_block *block, *counts;
    const uint8_t *place = em_shared(warp, in, (int)lane, to, b.bytes, b.bytes, &block);
    const uint8_t *word =
        place ? em_shared(warp, in, (int)lane, (uint32_t)address_of(warp, &in->operand[2], lane), 8, 8, &counts) : NULL;
    if (!word) return EM_FAULT;
    if (block != counts) return em_fault(warp, in, (int)lane, "the mbarrier is not in the block that it is sent to");
    b.to = (uint32_t)(place - block->shared), b.barrier = (uint32_t)(word - block->shared);
    if (!send(&b, warp, lane, block, true)) return EM_FAULT;
  }
  return EM_NEXT;
}

static const char *bind_send(em_instruction *in) {
  in->form = (int16_t)em_type_bytes(in->type);
  if (in->operands != 3 || (in->form != 4 && in->form != 8)) return "operands that are not known";
  return only(in, "weak shared::cluster mbarrier::complete_tx::bytes v2 v4 b32 b64 u32 u64 s32 s64 f32 f64");
}

const em_op em_ops_bulk[] = {{"cp.async.bulk.prefetch", run_prefetch, bind_prefetch},
                             {"cp.async.bulk.tensor", run_tensor, bind_tensor},
                             {"cp.async.bulk.commit_group", run_bulk_commit, bind_none},
                             {"cp.async.bulk.wait_group", run_bulk_wait, bind_bulk_wait},
                             {"cp.async.bulk", run_bytes, bind_bytes},
                             {"cp.async.mbarrier.arrive", run_copied, bind_copied},
                             {"cp.async.commit_group", run_commit, bind_none},
                             {"cp.async.wait_group", run_wait_copies, bind_none},
                             {"cp.async.wait_all", run_wait_copies, bind_wait_all},
                             {"cp.async", run_copy, bind_copy},
                             {"mbarrier.init", run_init, bind_init},
                             {"mbarrier.inval", run_inval, bind_init},
                             {"mbarrier.arrive", run_arrive, bind_arrive},
                             {"mbarrier.expect_tx", run_arrive, bind_expect},
                             {"mbarrier.try_wait", run_wait, bind_try},
                             {"mbarrier.test_wait", run_wait, bind_wait},
                             {"mapa", run_mapa, bind_mapa},
                             {"st.async", run_send, bind_send},
                             {NULL, NULL, NULL}};
