// Where warps and their lanes meet: barriers of a block and of a cluster, shuffles and votes, fences, and what a block
// says to the launches around its own.
#include <stdlib.h>
#include <string.h>

#include "emulated.h"
#include "race.h"

enum { BARRIERS = 16, REGISTERS = 65536 };

typedef struct barrier {
  uint32_t expected, arrived;  // threads; expected 0: nobody is there
  bool all;                    // nobody said how many: those that have not ended
  bool reduces;
  uint32_t count;  // of bar.red: threads that say yes
} barrier;

typedef struct warp_state {
  int waits;                              // for barrier waits - 1 of its block; 0: for none
  bool done;                              // it has completed
  uint32_t count, threads;                // what it came to
  uint32_t cluster_here, cluster_passed;  // lanes that have arrived at the cluster's barrier; that may go on behind it
  uint32_t registers;                     // a thread has, by setmaxnreg
} warp_state;

typedef struct block_state {
  barrier barrier[BARRIERS];
  int64_t registers;  // that nobody has; setmaxnreg.dec gives, .inc takes
  warp_state warp[];
} block_state;

#define EACH_LANE(lane, lanes) \
  for (uint32_t rest_ = (lanes), lane = 0; rest_ && (lane = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)

// What a thread of the launch has at first: as many as fit, which is what a kernel that uses setmaxnreg is compiled
// for.
static uint32_t registers_at_first(const em_block *block) {
  const em_function *f = block->grid->launch.function;
  const uint32_t threads = f->max_threads > 0 ? (uint32_t)f->max_threads : (uint32_t)block->warps * EM_LANES;
  const uint32_t blocks = f->min_blocks > 1 ? (uint32_t)f->min_blocks : 1;
  const uint32_t each = REGISTERS / (threads * blocks) / 8 * 8;
  return each < 255 ? each : 255;
}

void em_block_begin(em_block *block) {
  block_state *s = calloc(1, sizeof(*s) + sizeof(*s->warp) * (size_t)block->warps);
  for (int i = 0; s && i < block->warps; i++) s->warp[i].registers = registers_at_first(block);
  block->sync = s;
  if (em_race_on) em_race_begin(block);
}

void em_block_end(em_block *block) {
  em_race_end(block);
  free(block->sync);
  block->sync = NULL;
}

static block_state *state_of(const em_warp *warp, const em_instruction *in) {
  if (!warp->block->sync) em_fault(warp, in, -1, "no memory for the block's barriers");
  return warp->block->sync;
}

static uint32_t first_lane(uint32_t lanes) {
  return (uint32_t)__builtin_ctz(lanes);
}

// A value that all lanes agree on.
static bool uniform(em_warp *warp, const em_instruction *in, const em_operand *o, uint32_t lanes, uint32_t *value) {
  *value = (uint32_t)em_get(warp, o, (int)first_lane(lanes));
  EACH_LANE(i, lanes) {
    if ((uint32_t)em_get(warp, o, (int)i) != *value) {
      em_fault(warp, in, (int)i, "lanes that say different numbers: %u, %u", *value, (uint32_t)em_get(warp, o, (int)i));
      return false;
    }
  }
  return true;
}

static inline uint32_t bits_of(em_warp *warp, const em_operand *o) {
  return o->negated ? ~*em_bits(warp, o) : *em_bits(warp, o);
}

// An instruction that says .aligned: all lanes of the warp that have not ended, at once. EM_NEXT: they are here.
static em_turn whole_warp(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  if (warp->standing != warp->alive) return EM_WAIT;
  if (lanes == warp->alive) return EM_NEXT;
  return em_fault(warp, in, -1, "takes all lanes of a warp, %#x, and only %#x are here", warp->alive, lanes);
}

// ---- Barriers of a block ----

static void complete(em_block *block, int id) {
  block_state *s = block->sync;
  barrier *b = &s->barrier[id];
  const uint32_t needed = b->all ? (uint32_t)block->alive * EM_LANES : b->expected;
  if (!b->expected || b->arrived < needed) return;
  for (int i = 0; i < block->warps; i++) {
    warp_state *w = &s->warp[i];
    if (w->waits != id + 1 || w->done) continue;
    w->done = true;
    w->count = b->count;
    w->threads = b->arrived;
    if (em_race_on) em_race_bar_pass(block, id, i);
  }
  if (em_race_on) em_race_bar_done(block, id);
  memset(b, 0, sizeof(*b));
}

// The warp arrives; operand first is the barrier's number, behind it, where counted, how many threads it is for.
static bool arrive(em_warp *warp, const em_instruction *in, uint32_t lanes, int first, bool counted, int *id_out) {
  block_state *s = state_of(warp, in);
  const uint32_t all = (uint32_t)warp->block->warps * EM_LANES;
  uint32_t id, threads = all;
  if (!s || !uniform(warp, in, in->operand + first, lanes, &id)) return false;
  if (counted && !uniform(warp, in, in->operand + first + 1, lanes, &threads)) return false;
  const bool reduces = in->form == 'r';
  barrier *b = id < BARRIERS ? &s->barrier[id] : NULL;
  const char *why = NULL;
  if (!b) {
    em_fault(warp, in, -1, "barrier %u of %d", id, BARRIERS);
  } else if (!threads || threads % EM_LANES || threads > all) {
    em_fault(warp, in, -1, "barrier %u for %u threads, in a block of %u", id, threads, all);
  } else if (b->expected && b->expected != threads) {
    em_fault(warp, in, -1, "barrier %u for %u threads, where others wait at it for %u", id, threads, b->expected);
  } else if (b->expected && b->reduces != reduces) {
    em_fault(warp, in, -1, "barrier %u with and without a reduction", id);
  } else {
    why = "";
  }
  if (!why) return false;
  b->all = b->expected ? b->all && !counted : !counted;
  b->expected = threads;
  b->reduces = reduces;
  b->arrived += EM_LANES;
  if (em_race_on) em_race_bar_arrive(warp, (int)id);
  *id_out = (int)id;
  return true;
}

static em_turn run_bar_arrive(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  int id;
  const em_turn turn = whole_warp(warp, in, lanes);
  if (turn != EM_NEXT) return turn;
  if (!arrive(warp, in, lanes, 0, true, &id)) return EM_FAULT;
  complete(warp->block, id);
  return EM_NEXT;
}

static void put_reduced(em_warp *warp, const em_instruction *in, uint32_t lanes, const warp_state *w) {
  const em_operand *d = in->operand;
  if (in->more == 'p') {
    EACH_LANE(i, lanes) em_set(warp, d, (int)i, w->count);
    return;
  }
  const bool yes = in->more == 'o' ? w->count > 0 : w->count == w->threads;
  uint32_t *bits = em_bits(warp, d);
  *bits = (*bits & ~lanes) | (yes ? lanes : 0);
}

// bar.sync, bar.red: arrives once, then asks until the barrier has completed.
static em_turn run_bar_wait(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  block_state *s = state_of(warp, in);
  if (!s) return EM_FAULT;
  warp_state *w = &s->warp[warp->index];
  const bool reduces = in->form == 'r';
  if (!w->waits) {
    int id;
    const em_turn turn = whole_warp(warp, in, lanes);
    if (turn != EM_NEXT) return turn;
    if (!arrive(warp, in, lanes, reduces, in->operands == (reduces ? 4 : 2), &id)) return EM_FAULT;
    if (reduces) {
      const uint32_t yes = bits_of(warp, in->operand + in->operands - 1) & lanes;
      // Lanes that have ended say neither yes nor no; of .and they do not count.
      s->barrier[id].count += (uint32_t)__builtin_popcount(yes);
      if (in->more == 'a') s->barrier[id].count += (uint32_t)__builtin_popcount(~lanes);
    }
    w->waits = id + 1;
    w->done = false;
  }
  complete(warp->block, w->waits - 1);
  if (!w->done) return EM_WAIT;
  w->waits = 0;
  if (reduces) put_reduced(warp, in, lanes, w);
  return EM_NEXT;
}

static const char *check_words(const em_instruction *in, const char *const *words) {
  for (int i = 0; in->modifier[i]; i++) {
    bool known = false;
    for (int k = 0; words[k]; k++) known = known || !strcmp(words[k], in->modifier[i]);
    if (!known) return "a modifier that is not known";
  }
  return NULL;
}

static const char *bind_bar(em_instruction *in) {
  static const char *const words[] = {"cta", "sync", "arrive", "red",     "popc", "or",
                                      "and", "pred", "u32",    "aligned", NULL};
  const em_operand *o = in->operand;
  const char *why = check_words(in, words);
  if (why) return why;
  in->run = em_has(in, "arrive") ? run_bar_arrive : run_bar_wait;
  in->form = em_has(in, "red") ? 'r' : em_has(in, "arrive") ? 'a' : 's';
  in->more = em_has(in, "popc") ? 'p' : em_has(in, "or") ? 'o' : 'a';
  const int first = in->form == 'r', last = in->operands - first;  // behind the numbers
  const int numbers = last - first;
  if (numbers < 1 + (in->form == 'a') || numbers > 2) return "operands that are not known";
  for (int i = first; i < last; i++) {
    if (o[i].kind != EM_REGISTER) return "operands that are not known";
  }
  if (!first) return NULL;
  if (!em_has(in, "popc") && !em_has(in, "or") && !em_has(in, "and")) return "a reduction that is not known";
  const bool fits = o[0].kind == (in->more == 'p' ? EM_REGISTER : EM_PREDICATE) && o[last].kind == EM_PREDICATE;
  return fits ? NULL : "operands that are not known";
}

// ---- The barrier of a cluster ----

static warp_state *state_in(em_block *block, int warp) {
  return block->sync ? &((block_state *)block->sync)->warp[warp] : NULL;
}

// All lanes of all of its blocks that have not ended have arrived: they may go on.
static void complete_cluster(em_cluster *cluster) {
  for (int pass = 0; pass < 2; pass++) {
    for (int b = 0; b < cluster->blocks; b++) {
      em_block *block = &cluster->block[b];
      for (int i = 0; block->alive && i < block->warps; i++) {
        warp_state *w = state_in(block, i);
        if (!block->warp[i].alive || !w) continue;
        if (!pass) {
          if (block->warp[i].alive & ~w->cluster_here) return;
        } else {
          w->cluster_passed |= w->cluster_here;
          w->cluster_here = 0;
        }
      }
    }
  }
  if (em_race_on) em_race_cluster_done(cluster);
}

static em_turn run_cluster_arrive(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  block_state *s = state_of(warp, in);
  if (!s) return EM_FAULT;
  const em_turn turn = in->form ? whole_warp(warp, in, lanes) : EM_NEXT;
  if (turn != EM_NEXT) return turn;
  warp_state *w = &s->warp[warp->index];
  if ((w->cluster_here | w->cluster_passed) & lanes) {
    return em_fault(warp, in, -1, "arrives a second time without a wait");
  }
  w->cluster_here |= lanes;
  if (em_race_on) em_race_cluster_arrive(warp, em_has(in, "relaxed"));
  complete_cluster(warp->block->cluster);
  return EM_NEXT;
}

static em_turn run_cluster_wait(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  block_state *s = state_of(warp, in);
  if (!s) return EM_FAULT;
  const em_turn turn = in->form ? whole_warp(warp, in, lanes) : EM_NEXT;
  if (turn != EM_NEXT) return turn;
  warp_state *w = &s->warp[warp->index];
  if (lanes & ~(w->cluster_here | w->cluster_passed)) return em_fault(warp, in, -1, "waits without having arrived");
  if (lanes & ~w->cluster_passed) complete_cluster(warp->block->cluster);
  if (lanes & ~w->cluster_passed) return EM_WAIT;
  w->cluster_passed &= ~lanes;
  if (em_race_on) em_race_cluster_pass(warp);
  return EM_NEXT;
}

static const char *bind_cluster(em_instruction *in) {
  static const char *const words[] = {"arrive", "wait", "release", "relaxed", "acquire", "aligned", NULL};
  in->form = em_has(in, "aligned");
  in->run = em_has(in, "arrive") ? run_cluster_arrive : run_cluster_wait;
  if (em_has(in, "arrive") == em_has(in, "wait") || in->operands) return "operands that are not known";
  return check_words(in, words);
}

// ---- Lanes of a warp that meet ----

// Every lane says whom it expects; they are here, or EM_WAIT. Lanes that have ended are not expected.
static em_turn meet(em_warp *warp, const em_instruction *in, uint32_t lanes, const em_operand *mask) {
  uint32_t missing = 0, off = 0;
  EACH_LANE(i, lanes) {
    const uint32_t members = (uint32_t)em_get(warp, mask, (int)i);
    if (!(members >> i & 1)) return em_fault(warp, in, (int)i, "a lane that its own mask, %#x, leaves out", members);
    missing |= members & warp->alive & ~warp->standing;
    off |= members & warp->alive & ~lanes;
  }
  if (missing) return EM_WAIT;
  if (off) return em_fault(warp, in, -1, "lanes %#x of the mask pass by", off);
  return EM_NEXT;
}

static em_turn run_warp_sync(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  return meet(warp, in, lanes, in->operand);
}

static const char *bind_warp_sync(em_instruction *in) {
  return in->operands == 1 && in->operand[0].kind == EM_REGISTER ? NULL : "operands that are not known";
}

enum { UP, DOWN, BUTTERFLY, INDEX };

// The lane whose value a lane takes, or its own number where that is out of its segment (*in_range false).
static uint32_t source_lane(int form, uint32_t lane, uint32_t b, uint32_t c, bool *inside) {
  const uint32_t segment = c >> 8 & 31, clamp = c & 31, by = b & 31;
  const uint32_t least = lane & segment, last = least | (clamp & ~segment);
  int64_t from = 0;
  switch (form) {
    case UP:
      from = (int64_t)lane - by;
      *inside = from >= last;
      break;
    case DOWN:
      from = lane + by;
      *inside = from <= last;
      break;
    case BUTTERFLY:
      from = lane ^ by;
      *inside = from <= last;
      break;
    default:
      from = least | (by & ~segment);
      *inside = from <= last;
  }
  return *inside ? (uint32_t)from : lane;
}

// d{|p}, a, b, c, mask
static em_turn run_shfl(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_operand *d = in->operand, *p = in->more ? d + 1 : NULL, *a = d + 1 + in->more;
  const em_turn turn = meet(warp, in, lanes, a + 3);
  if (turn != EM_NEXT) return turn;
  uint32_t from[EM_LANES], to[EM_LANES], inside_bits = 0;
  memcpy(from, EM_ROW(const uint32_t, warp, a), sizeof(from));
  EACH_LANE(i, lanes) {
    bool inside;
    const uint32_t b = (uint32_t)em_get(warp, a + 1, (int)i), c = (uint32_t)em_get(warp, a + 2, (int)i);
    const uint32_t source = source_lane(in->form, i, b, c, &inside);
    const uint32_t members = (uint32_t)em_get(warp, a + 3, (int)i) & lanes;
    to[i] = members >> source & 1 ? from[source] : UINT32_C(0xdeadbeef) ^ i;  // a lane that is not there says anything
    inside_bits |= (uint32_t)inside << i;
  }
  if (d->kind == EM_REGISTER) {
    uint32_t *row = EM_ROW(uint32_t, warp, d);
    EACH_LANE(i, lanes) row[i] = to[i];
  }
  if (p && p->kind == EM_PREDICATE) {
    uint32_t *bits = em_bits(warp, p);
    *bits = (*bits & ~lanes) | inside_bits;
  }
  return EM_NEXT;
}

static const char *bind_shfl(em_instruction *in) {
  static const char *const mode[] = {"up", "down", "bfly", "idx"};
  in->form = -1;
  for (int i = 0; i < 4; i++) {
    if (em_has(in, mode[i])) in->form = (int16_t)i;
  }
  in->more = in->operands == 6;
  if (!em_has(in, "sync") || in->form < 0 || !em_has(in, "b32")) return "a form that is not known";
  const em_operand *o = in->operand;
  if (in->operands != 5 + in->more) return "operands that are not known";
  if (in->more && o[1].kind != EM_PREDICATE && o[1].kind != EM_SINK) return "operands that are not known";
  for (int i = 0; i < in->operands; i++) {
    const bool may_lack = i <= in->more && o[i].kind != EM_REGISTER;
    if (may_lack && (i == in->more && in->more)) continue;
    if (may_lack && o[i].kind == EM_SINK) continue;
    if (o[i].kind != EM_REGISTER || o[i].bytes != 4) return "a register that is not of 32 bits";
  }
  return NULL;
}

// For each set of lanes that name the same mask.
#define EACH_MEETING(set, warp, mask, lanes) \
  for (uint32_t left_ = (lanes), set = 0;    \
       left_ && (set = left_ & (uint32_t)em_get(warp, mask, (int)first_lane(left_)), true); left_ &= ~set)

// d, {!}a, mask
static em_turn run_vote(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_operand *d = in->operand, *mask = d + 2;
  const em_turn turn = meet(warp, in, lanes, mask);
  if (turn != EM_NEXT) return turn;
  const uint32_t said = bits_of(warp, d + 1);
  EACH_MEETING(set, warp, mask, lanes) {
    const uint32_t yes = said & set;
    if (in->form == 'b') {
      EACH_LANE(i, set) em_set(warp, d, (int)i, yes);
      continue;
    }
    const bool result = in->form == 'y' ? yes != 0 : in->form == 'l' ? yes == set : yes == set || !yes;
    uint32_t *bits = em_bits(warp, d);
    *bits = (*bits & ~set) | (result ? set : 0);
  }
  return EM_NEXT;
}

static const char *bind_vote(em_instruction *in) {
  in->form = em_has(in, "ballot") ? 'b'
             : em_has(in, "any")  ? 'y'
             : em_has(in, "all")  ? 'l'
             : em_has(in, "uni")  ? 'u'
                                  : 0;
  if (!in->form || !em_has(in, "sync")) return "a form that is not known";
  const em_operand *o = in->operand;
  const bool fits = in->operands == 3 && o[0].kind == (in->form == 'b' ? EM_REGISTER : EM_PREDICATE) &&
                    o[1].kind == EM_PREDICATE && o[2].kind == EM_REGISTER;
  return fits ? NULL : "operands that are not known";
}

static uint32_t reduced(const em_instruction *in, uint32_t a, uint32_t b) {
  const bool is_signed = in->type == EM_S32;
  const bool less = is_signed ? (int32_t)b < (int32_t)a : b < a;
  switch (in->form) {
    case '+':
      return a + b;
    case '<':
      return less ? b : a;
    case '>':
      return less ? a : b;
    case '&':
      return a & b;
    case '|':
      return a | b;
    default:
      return a ^ b;
  }
}

// d, a, mask
static em_turn run_redux(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_operand *d = in->operand, *mask = d + 2;
  const em_turn turn = meet(warp, in, lanes, mask);
  if (turn != EM_NEXT) return turn;
  uint32_t from[EM_LANES];
  memcpy(from, EM_ROW(const uint32_t, warp, d + 1), sizeof(from));
  EACH_MEETING(set, warp, mask, lanes) {
    uint32_t sum = from[first_lane(set)];
    EACH_LANE(i, set & (set - 1)) sum = reduced(in, sum, from[i]);
    EACH_LANE(i, set) em_set(warp, d, (int)i, sum);
  }
  return EM_NEXT;
}

static const char *bind_redux(em_instruction *in) {
  static const struct {
    const char *word;
    char form;
  } row[] = {{"add", '+'}, {"min", '<'}, {"max", '>'}, {"and", '&'}, {"or", '|'}, {"xor", '^'}};
  in->form = 0;
  for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
    if (em_has(in, row[i].word)) in->form = row[i].form;
  }
  if (!in->form || !em_has(in, "sync")) return "an operation that is not known";
  if (in->type != EM_U32 && in->type != EM_S32) return "a type that is not known";
  for (int i = 0; i < 3; i++) {
    const em_operand *o = in->operand + i;
    if (in->operands != 3 || o->kind != EM_REGISTER || o->bytes != 4) return "operands that are not known";
  }
  return NULL;
}

// ---- Fences, and what is around the launch ----

// Everything here is seen by all at once and in order.
static em_turn run_fence(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  (void)lanes;
  if (em_race_on) (in->form ? em_race_proxy_fence : em_race_fence)(warp);
  return EM_NEXT;
}

static const char *bind_fence(em_instruction *in) {
  static const char *const words[] = {"acq_rel", "sc",    "cta",         "cluster",         "gpu",    "sys",
                                      "proxy",   "async", "shared::cta", "shared::cluster", "global", "mbarrier_init",
                                      "release", "gl",    NULL};
  in->form = em_has(in, "proxy");
  return in->operands ? "operands that are not known" : check_words(in, words);
}

static em_turn run_griddepcontrol(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  (void)lanes;
  em_block *block = warp->block;
  if (in->form) {
    const em_grid *before = block->grid->launch.before;
    return before && !before->ended ? EM_WAIT : EM_NEXT;
  }
  block->released = true;
  return EM_NEXT;
}

static const char *bind_griddepcontrol(em_instruction *in) {
  in->form = em_has(in, "wait");
  return in->form || em_has(in, "launch_dependents") ? NULL : "a form that is not known";
}

static em_turn run_nanosleep(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  uint32_t most = 0;
  EACH_LANE(i, lanes) {
    const uint32_t t = (uint32_t)em_get(warp, in->operand, (int)i);
    most = t > most ? t : most;
  }
  em_clock += most < 1000000 ? most : 1000000;
  return EM_PAUSE;
}

static const char *bind_nanosleep(em_instruction *in) {
  return in->operands == 1 && in->operand[0].kind == EM_REGISTER ? NULL : "operands that are not known";
}

// The registers of a block are what its threads began with; more for some is there once others have given theirs.
static em_turn run_setmaxnreg(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  block_state *s = state_of(warp, in);
  if (!s) return EM_FAULT;
  const em_turn turn = whole_warp(warp, in, lanes);
  if (turn != EM_NEXT) return turn;
  warp_state *w = &s->warp[warp->index];
  const uint32_t now = (uint32_t)em_get(warp, in->operand, (int)first_lane(lanes));
  if (now % 8 || now < 24 || now > 256)
    return em_fault(warp, in, -1, "%u registers: not a multiple of 8 of 24 to 256", now);
  if (in->form ? now < w->registers : now > w->registers) {
    return em_fault(warp, in, -1, "from %u registers a thread to %u", w->registers, now);
  }
  const int64_t more = ((int64_t)now - w->registers) * EM_LANES;
  if (more > s->registers) return EM_WAIT;
  s->registers -= more;
  w->registers = now;
  return EM_NEXT;
}

static const char *bind_setmaxnreg(em_instruction *in) {
  in->form = em_has(in, "inc");
  if (!in->form && !em_has(in, "dec")) return "a form that is not known";
  return in->operands == 1 && in->operand[0].kind == EM_REGISTER ? NULL : "operands that are not known";
}

const em_op em_ops_sync[] = {{"bar", NULL, bind_bar},
                             {"barrier", NULL, bind_bar},
                             {"barrier.cluster", NULL, bind_cluster},
                             {"bar.warp.sync", run_warp_sync, bind_warp_sync},
                             {"shfl", run_shfl, bind_shfl},
                             {"vote", run_vote, bind_vote},
                             {"redux", run_redux, bind_redux},
                             {"fence", run_fence, bind_fence},
                             {"membar", run_fence, bind_fence},
                             {"griddepcontrol", run_griddepcontrol, bind_griddepcontrol},
                             {"nanosleep", run_nanosleep, bind_nanosleep},
                             {"setmaxnreg", run_setmaxnreg, bind_setmaxnreg},
                             {0}};
