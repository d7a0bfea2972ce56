// Launches: their blocks are placed on the multiprocessors as these have room, whole clusters at once, and run in
// turns. Nothing runs side by side: what waits is asked again, and when nobody can go on, what happens late happens;
// when there is nothing of that left either, the launch ends with a message.
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  WARP_TURN = 4096,  // instructions at a stretch
  CLUSTER_TURN = 200000,
  SPIN_STEPS = 256,  // who does no more before it waits again spins
  SPINS = 1 << 22,   // and so many times in a row, all of them: for ever
  CLUSTER_MOST = 16,
};

// A cluster that has its place.
typedef struct placed {
  em_cluster cluster;
  em_block block[CLUSTER_MOST];
  em_grid *grid;
  bool begun;
  int alive, released;  // blocks
} placed;

typedef struct em_flight {
  uint64_t next, clusters, ended, released;  // clusters: the next that is to be placed, all, that have ended; blocks
} em_flight;

typedef struct em_sm {
  size_t shared;
  uint32_t threads, blocks;
} em_sm;

static em_sm sms[EM_SMS];
static em_grid *grids[256];
static int flying;
static placed **here;  // in flight
static int heres, here_room, turn;
static unsigned faults;
static char message[4096];
uint64_t em_clock;

// ---- Messages ----

em_turn em_fault(const em_warp *w, const em_instruction *in, int lane, const char *format, ...) {
  char said[2048];
  va_list more;
  va_start(more, format);
  vsnprintf(said, sizeof said, format, more);
  va_end(more);
  size_t n = 0;
  faults++;
  message[0] = 0;
  if (w && w->block && w->block->grid) {
    const em_block *b = w->block;
    n += (size_t)snprintf(message, 1500, "%.1200s: block (%u, %u, %u) warp %d", b->grid->launch.function->name,
                          b->id[0], b->id[1], b->id[2], w->index);
    if (lane >= 0) n += (size_t)snprintf(message + n, 20, " lane %d", lane);
    n += (size_t)snprintf(message + n, 3, ": ");
  }
  if (in && in->text) {
    size_t length = strcspn(in->text, ";\n");
    n += (size_t)snprintf(message + n, 300, "%.*s: ", (int)(length < 200 ? length : 200), in->text);
  }
  snprintf(message + n, sizeof message - n, "%s", said);
  return EM_FAULT;
}

const char *em_message(void) {
  return message;
}

static void deadlock(em_grid *grid, const char *what) {
  char where[1600] = "";
  int n = 0;
  for (int i = 0; i < heres; i++) {
    const placed *p = here[i];
    for (int b = 0; p->begun && b < p->cluster.blocks; b++) {
      for (int k = 0; k < p->block[b].warps && n < 1200; k++) {
        if (p->block[b].warp[k].alive) n += em_warp_say(&p->block[b].warp[k], where + n, sizeof where - (size_t)n);
      }
    }
  }
  em_fault(NULL, NULL, -1, "%.400s: %s:%s%s", grid->launch.function->name, what, where, n < 1200 ? "" : " ..");
}

// ---- Places ----

static uint32_t volume(const uint32_t *size) {
  return size[0] * size[1] * size[2];
}

static size_t shared_of(const em_launch *launch) {
  return em_dynamic_at(launch->function) + launch->dynamic_bytes;
}

// The emptiest multiprocessor that has room for a block; -1: none.
static int place(em_sm *of, const em_launch *launch) {
  uint32_t threads = (volume(launch->block) + EM_LANES - 1) / EM_LANES * EM_LANES;
  size_t shared = shared_of(launch);  // what the machine keeps of each block is in front
  int best = -1;
  for (int i = 0; i < EM_SMS; i++) {
    if (of[i].shared + shared > EM_SM_SHARED || of[i].threads + threads > EM_SM_THREADS ||
        of[i].blocks == EM_SM_BLOCKS) {
      continue;
    }
    if (best < 0 || of[i].shared < of[best].shared ||
        (of[i].shared == of[best].shared && of[i].threads < of[best].threads)) {
      best = i;
    }
  }
  if (best >= 0) of[best].shared += shared, of[best].threads += threads, of[best].blocks++;
  return best;
}

static void unplace(const em_block *block) {
  const em_launch *launch = &block->grid->launch;
  em_sm *sm = &sms[block->sm];
  sm->shared -= shared_of(launch), sm->blocks--;
  sm->threads -= (volume(launch->block) + EM_LANES - 1) / EM_LANES * EM_LANES;
}

static bool place_cluster(em_sm *of, const em_launch *launch, int *sm) {
  em_sm before[EM_SMS];
  memcpy(before, of, sizeof before);
  for (uint32_t i = 0; i < volume(launch->cluster); i++) {
    if ((sm[i] = place(of, launch)) < 0) return memcpy(of, before, sizeof before), false;
  }
  return true;
}

// A launch as the machine takes it: a function's own cluster, what it must not ask for. NULL, or what is wrong.
static const char *settle(em_launch *l) {
  const em_function *f = l->function;
  for (int i = 0; i < 3; i++) {
    if (f->cluster[0]) l->cluster[i] = (uint32_t)f->cluster[i];
    if (!l->cluster[i]) l->cluster[i] = 1;
    if (!l->grid[i] || !l->block[i]) return "a launch of nothing";
    if (l->grid[i] % l->cluster[i]) return "a grid that is not made of whole clusters";
  }
  uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
  if (threads > 1024 || l->block[2] > 64 || (f->max_threads && threads > (uint64_t)f->max_threads)) {
    return "more threads in a block than there may be";
  }
  if (volume(l->cluster) > CLUSTER_MOST) return "too large a cluster";
  if (l->grid[1] > 65535 || l->grid[2] > 65535) return "too large a grid";
  if (shared_of(l) > EM_BLOCK_SHARED + EM_SHARED_FIRST) return "more shared memory than a block may have";
  return NULL;
}

int em_clusters_at_once(const em_launch *launch) {
  em_launch l = *launch;
  em_sm empty[EM_SMS] = {{0}};
  int sm[CLUSTER_MOST], n = 0;
  if (settle(&l)) return 0;
  while (place_cluster(empty, &l, sm)) n++;
  return n;
}

// ---- Shared memory: of blocks that have ended, for the next ones ----

static struct spare {
  uint8_t *bytes;
  size_t room;
} spare[64];

static uint8_t *shared_take(size_t bytes) {
  size_t room = (bytes + 4095) & ~(size_t)4095;
  uint8_t *got = NULL;
  for (int i = 0; i < 64 && !got; i++) {
    if (spare[i].bytes && spare[i].room == room) got = spare[i].bytes, spare[i].bytes = NULL;
  }
  if (!got) got = aligned_alloc(4096, room);
  if (got) memset(got, 0xff, room);  // nothing that makes sense
  return got;
}

static void shared_give(uint8_t *bytes, size_t size) {
  size_t room = (size + 4095) & ~(size_t)4095;
  for (int i = 0; i < 64 && bytes; i++) {
    if (!spare[i].bytes) {
      spare[i] = (struct spare){bytes, room};
      return;
    }
  }
  free(bytes);
}

// ---- Clusters ----

static bool begin_cluster(placed *p) {
  const em_launch *l = &p->grid->launch;
  uint32_t threads = volume(l->block);
  p->begun = true;
  for (int b = 0; b < p->cluster.blocks; b++) {
    em_block *block = &p->block[b];
    block->shared_bytes = shared_of(l);
    block->shared = shared_take(block->shared_bytes);
    block->warp = calloc((threads + EM_LANES - 1) / EM_LANES, sizeof *block->warp);
    if (!block->shared || !block->warp) return false;
    block->warps = block->alive = (int)((threads + EM_LANES - 1) / EM_LANES);
  }
  for (int b = 0; b < p->cluster.blocks; b++) {
    em_block *block = &p->block[b];
    em_block_begin(block);
    for (int i = 0; i < block->warps; i++) {
      em_warp *w = &block->warp[i];
      uint32_t left = threads - (uint32_t)i * EM_LANES;
      w->block = block, w->index = i;
      if (!em_warp_begin(w, left >= EM_LANES ? UINT32_MAX : (UINT32_C(1) << left) - 1)) return false;
    }
  }
  return true;
}

static void free_cluster(placed *p) {
  for (int b = 0; b < p->cluster.blocks; b++) {
    em_block *block = &p->block[b];
    if (p->begun) em_block_end(block);
    for (int i = 0; block->warp && i < block->warps; i++) {
      em_warp *w = &block->warp[i];
      em_later_warp(w);
      em_warp_end(w);
      free(w->sync), free(w->matrix), free(w->bulk);
    }
    free(block->bulk), free(block->warp);
    shared_give(block->shared, block->shared_bytes);
    unplace(block);
  }
  free(p);
}

static void place_some(void) {
  for (int i = 0; i < flying; i++) {
    em_grid *grid = grids[i];
    const em_launch *l = &grid->launch;
    int sm[CLUSTER_MOST];
    while (grid->flight->next < grid->flight->clusters) {
      if (heres == here_room) {
        placed **grown = realloc(here, sizeof *here * (size_t)(here_room + 64));
        if (!grown) return;
        here = grown, here_room += 64;
      }
      placed *p = calloc(1, sizeof *p);
      if (!p || !place_cluster(sms, l, sm)) {
        free(p);
        return;  // later launches' blocks wait for those of earlier ones
      }
      uint64_t n = grid->flight->next++;
      const uint32_t *c = l->cluster;
      uint32_t across = l->grid[0] / c[0], down = l->grid[1] / c[1];
      uint32_t at[3] = {(uint32_t)(n % across), (uint32_t)(n / across % down), (uint32_t)(n / across / down)};
      *p = (placed){.grid = grid, .cluster = {.block = p->block, .blocks = (int)volume(c)}};
      p->alive = p->cluster.blocks;
      for (uint32_t b = 0; b < volume(c); b++) {
        uint32_t in[3] = {b % c[0], b / c[0] % c[1], b / c[0] / c[1]};
        em_block *block = &p->block[b];
        *block = (em_block){.cluster = &p->cluster, .grid = grid, .rank = b, .sm = sm[b]};
        for (int k = 0; k < 3; k++) block->id[k] = at[k] * c[k] + in[k];
      }
      here[heres++] = p;
    }
  }
}

// ---- Turns ----

static uint64_t turn_of(em_grid *grid, uint64_t most) {
  return grid->launch.seed ? 16 + em_random(grid) % most : most;
}

static bool later(em_grid *grid, bool *some) {
  unsigned before = faults;
  *some |= em_later_one(grid);
  return faults == before;
}

static bool end_warp(em_warp *w) {
  unsigned before = faults;
  em_later_warp(w);
  w->block->alive--;
  return faults == before;
}

// All warps of the cluster in turn, until all wait. EM_WAIT: none could do anything; EM_PAUSE: they spin, at most.
static em_turn run_cluster(placed *p) {
  em_grid *grid = p->grid;
  const uint64_t begun = em_clock, most = turn_of(grid, CLUSTER_TURN);
  em_turn all = EM_WAIT;
  if (!p->begun && !begin_cluster(p)) return em_fault(NULL, NULL, -1, "no memory for a cluster");
  for (bool more = true; more && em_clock - begun < most;) {
    more = false;
    for (int b = 0; b < p->cluster.blocks; b++) {
      em_block *block = &p->block[b];
      int first = grid->launch.seed ? (int)(em_random(grid) % (uint32_t)block->warps) : 0;
      for (int i = 0; i < block->warps; i++) {
        em_warp *w = &block->warp[(first + i) % block->warps];
        if (!w->alive) continue;
        uint64_t before = em_clock;
        em_turn turned = em_warp_turn(w, turn_of(grid, WARP_TURN));
        if (turned == EM_FAULT || (!w->alive && !end_warp(w))) return EM_FAULT;
        bool spins = turned == EM_PAUSE && em_clock - before < SPIN_STEPS && w->alive;
        if (spins && all == EM_WAIT) all = EM_PAUSE;
        if (turned != EM_WAIT && !spins) all = EM_NEXT, more = true;
      }
    }
  }
  grid->steps += em_clock - begun;
  return all;
}

// Counts the blocks that have ended or let the next launch begin; true: the grid has just become released.
static bool count_blocks(placed *p) {
  em_flight *f = p->grid->flight;
  int alive = 0, released = 0;
  for (int b = 0; b < p->cluster.blocks; b++) {
    alive += p->block[b].alive > 0;
    released += p->block[b].released || p->block[b].alive == 0;
  }
  f->released += (uint64_t)(released - p->released);
  p->alive = alive, p->released = released;
  bool now = !p->grid->released && f->released == f->clusters * (uint64_t)p->cluster.blocks;
  p->grid->released |= now;
  return now;
}

static bool end_cluster(placed *p) {
  bool fine = true;
  for (int b = 0; b < p->cluster.blocks && fine; b++) fine = em_later_block(&p->block[b]);
  p->grid->flight->ended++;
  if (!fine) em_later_drop(p->grid);
  free_cluster(p);
  return fine;
}

static void give_up(void) {
  for (int i = 0; i < flying; i++) em_later_drop(grids[i]);
  while (heres) free_cluster(here[--heres]);
  for (int i = 0; i < flying; i++) grids[i]->ended = grids[i]->released = true;
  flying = 0;
}

static em_grid *end_grid(em_grid *grid) {
  unsigned before = faults;
  bool fine = em_later_end(grid);
  int at = 0;
  while (grids[at] != grid) at++;
  memmove(grids + at, grids + at + 1, sizeof *grids * (size_t)(--flying - at));
  grid->ended = grid->released = true;
  return fine && faults == before ? grid : NULL;
}

// Everybody has had a turn, and nobody could do more than wait.
static bool stir(bool spins, int *spun) {
  bool some = false;
  for (int i = 0; i < flying; i++) {
    if (!later(grids[i], &some)) return false;
  }
  if (some) return *spun = 0, true;
  if (!spins) return deadlock(grids[0], "nothing can go on"), false;
  if (++*spun < SPINS) return true;
  return deadlock(grids[0], "waits for ever"), false;
}

em_grid *em_run_one(void) {
  int idle = 0, spun = 0;
  bool spins = false;
  place_some();
  while (flying) {
    if (!heres) return deadlock(grids[0], "has no place"), give_up(), NULL;
    if (turn >= heres) turn = 0;
    placed *p = here[turn];
    em_grid *grid = p->grid, *back = NULL;
    em_turn turned = run_cluster(p);
    bool some = false, fine = turned != EM_FAULT;
    if (turned == EM_NEXT) idle = spun = 0, spins = false;
    spins |= turned == EM_PAUSE;
    if (fine && em_random(grid) % 4 == 0) fine = later(grid, &some);
    bool released = fine && count_blocks(p);
    if (fine && p->alive == 0) {
      memmove(here + turn, here + turn + 1, sizeof *here * (size_t)(--heres - turn));
      fine = end_cluster(p);
      idle = 0;
      if (fine && grid->flight->ended == grid->flight->clusters && !(back = end_grid(grid))) fine = false;
      place_some();
    } else {
      if (turned != EM_NEXT) idle++;
      turn = grid->launch.seed && idle < heres ? (int)(em_random(grid) % (uint32_t)heres) : turn + 1;
      if (fine && idle > 2 * heres) {  // each of them at least once
        fine = stir(spins, &spun), idle = 0, spins = false;
      }
    }
    if (!fine) return give_up(), NULL;
    if (back || released) return grid;
  }
  em_fault(NULL, NULL, -1, "nothing is in flight");
  return NULL;
}

// ---- Launches ----

em_grid *em_launch_begin(const em_launch *launch) {
  const em_function *f = launch->function;
  em_launch l = *launch;
  const char *wrong = settle(&l);
  if (!wrong && !f->entry) wrong = "no kernel";
  if (!wrong && flying == 256) wrong = "too many launches at once";
  if (!wrong && l.cooperative &&
      (uint64_t)l.grid[0] * l.grid[1] * l.grid[2] > (uint64_t)em_clusters_at_once(&l) * volume(l.cluster)) {
    wrong = "a cooperative launch of more blocks than there is room for";
  }
  if (!wrong && !em_clusters_at_once(&l)) wrong = "a block for which there is no room";
  em_grid *grid = wrong ? NULL : calloc(1, sizeof *grid);
  if (grid) grid->flight = calloc(1, sizeof *grid->flight);
  if (grid) grid->params = aligned_alloc(128, (f->param_bytes + 255) & ~(size_t)127);
  if (!grid || !grid->flight || !grid->params) {
    em_fault(NULL, NULL, -1, "%s: %s", f->name, wrong ? wrong : "no memory");
    em_grid_free(grid);
    return NULL;
  }
  memset(grid->params, 0, f->param_bytes);
  for (int i = 0; i < f->params; i++) memcpy(grid->params + f->param_at[i], l.params[i], f->param_size[i]);
  grid->params_bytes = f->param_bytes;
  grid->launch = l, grid->launch.params = NULL;
  grid->random = l.seed;
  grid->flight->clusters = (uint64_t)l.grid[0] * l.grid[1] * l.grid[2] / volume(l.cluster);
  grids[flying++] = grid;
  return grid;
}

void em_grid_free(em_grid *grid) {
  if (!grid) return;
  free(grid->bulk), free(grid->params), free(grid->flight), free(grid);
}

bool em_launch_run(const em_launch *launch) {
  em_grid *grid = em_launch_begin(launch);
  if (!grid) return false;
  unsigned before = faults;
  while (!grid->ended) em_run_one();
  em_grid_free(grid);
  return faults == before;
}
