// One warp: its lanes stand in groups, each at an instruction. The group furthest behind goes on until it comes to
// where another stands, which it joins; one that waits or pauses lets the others go on.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"
#include "run.h"

// The registers of a function that runs or has been called. All lanes that are in the function at the same depth of
// their stacks share it: each has its own column, and knows where it goes back to.
typedef struct em_frame {
  struct em_frame *next;
  const em_function *function;
  size_t depot, params;  // in a lane's stack
  uint8_t *file;
  struct em_frame *back[EM_LANES];
  int32_t back_at[EM_LANES];
} em_frame;

typedef struct em_group {
  uint32_t lanes;
  int32_t at;
  bool rests;  // it has had its turn
  em_frame *frame;
} em_group;

typedef struct em_flow {
  em_group group[EM_LANES + 1];  // one more while a group divides
  int groups, now;               // now: the one that runs
  bool moved;                    // groups have changed: whose turn it is has to be asked again
  em_frame *frames;
} em_flow;

// ---- Frames ----

static uint64_t of_lane(const em_warp *w, const em_frame *frame, em_what what, int lane) {
  const em_block *block = w->block;
  const em_launch *launch = &block->grid->launch;
  uint32_t thread = (uint32_t)(w->index * EM_LANES + lane), bit = UINT32_C(1) << lane;
  const uint32_t *size = launch->block, *c = launch->cluster, *id = block->id;
  const uint8_t *stack = w->stack + (size_t)lane * w->stack_bytes;
  switch (what) {
    case EM_TID_X:
      return thread % size[0];
    case EM_TID_Y:
      return thread / size[0] % size[1];
    case EM_TID_Z:
      return thread / size[0] / size[1];
    case EM_NTID_X:
    case EM_NTID_Y:
    case EM_NTID_Z:
      return size[what - EM_NTID_X];
    case EM_CTAID_X:
    case EM_CTAID_Y:
    case EM_CTAID_Z:
      return id[what - EM_CTAID_X];
    case EM_NCTAID_X:
    case EM_NCTAID_Y:
    case EM_NCTAID_Z:
      return launch->grid[what - EM_NCTAID_X];
    case EM_LANEID:
      return (uint32_t)lane;
    case EM_WARPID:
      return (uint32_t)w->index;
    case EM_NWARPID:
      return EM_SM_THREADS / EM_LANES;
    case EM_SMID:
      return (uint32_t)block->sm;
    case EM_NSMID:
      return EM_SMS;
    case EM_GRIDID:
      return 1;
    case EM_LANEMASK_EQ:
      return bit;
    case EM_LANEMASK_LE:
      return bit | (bit - 1);
    case EM_LANEMASK_LT:
      return bit - 1;
    case EM_LANEMASK_GE:
      return (uint32_t) ~(bit - 1);
    case EM_LANEMASK_GT:
      return (uint32_t) ~(bit | (bit - 1));
    case EM_CLUSTERID_X:
    case EM_CLUSTERID_Y:
    case EM_CLUSTERID_Z:
      return id[what - EM_CLUSTERID_X] / c[what - EM_CLUSTERID_X];
    case EM_NCLUSTERID_X:
    case EM_NCLUSTERID_Y:
    case EM_NCLUSTERID_Z:
      return launch->grid[what - EM_NCLUSTERID_X] / c[what - EM_NCLUSTERID_X];
    case EM_CLUSTER_CTAID_X:
    case EM_CLUSTER_CTAID_Y:
    case EM_CLUSTER_CTAID_Z:
      return id[what - EM_CLUSTER_CTAID_X] % c[what - EM_CLUSTER_CTAID_X];
    case EM_CLUSTER_NCTAID_X:
    case EM_CLUSTER_NCTAID_Y:
    case EM_CLUSTER_NCTAID_Z:
      return c[what - EM_CLUSTER_NCTAID_X];
    case EM_CLUSTER_CTARANK:
      return block->rank;
    case EM_CLUSTER_NCTARANK:
      return (uint32_t)block->cluster->blocks;
    case EM_IS_EXPLICIT_CLUSTER:
      return block->cluster->blocks > 1;
    case EM_DYNAMIC_SMEM_SIZE:
      return launch->dynamic_bytes;
    case EM_TOTAL_SMEM_SIZE:
      return block->shared_bytes;
    case EM_CLOCK:
      return em_clock;
    case EM_PARAMS:
      return (uintptr_t)(frame->function->entry ? block->grid->params : stack + frame->params);
    case EM_DEPOT:
      return (uintptr_t)(stack + frame->depot);
    case EM_HANDED:
      return (uintptr_t)(stack + frame->depot + frame->function->local_bytes);
    case EM_DYNAMIC:
      return em_dynamic_at(launch->function);
  }
  return 0;
}

static bool of_lanes(em_what what) {  // not the same for all
  return what <= EM_TID_Z || what == EM_LANEID || (what >= EM_LANEMASK_EQ && what <= EM_LANEMASK_GT) ||
         what == EM_PARAMS || what == EM_DEPOT || what == EM_HANDED;
}

static void set_specials(const em_warp *w, const em_frame *frame) {
  for (int i = 0; i < frame->function->specials; i++) {
    const em_special *s = &frame->function->special[i];
    uint8_t *row = frame->file + s->at;
    uint32_t bits = 0;
    uint64_t value = of_lane(w, frame, s->what, 0) + (uint64_t)s->add;
    const bool differ = of_lanes(s->what);
    for (int lane = 0; lane < EM_LANES; lane++) {
      if (differ) value = of_lane(w, frame, s->what, lane) + (uint64_t)s->add;
      if (s->bytes) memcpy(row + lane * s->bytes, &value, s->bytes);
      bits |= (uint32_t)(value != 0) << lane;
    }
    if (!s->bytes) memcpy(row, &bits, sizeof bits);
  }
}

// The warp's frame of a function; registers hold nothing that makes sense.
static em_frame *frame_of(em_warp *w, const em_function *function, size_t depot, size_t params) {
  for (em_frame *f = w->flow->frames; f; f = f->next) {
    if (f->function == function && f->depot == depot && f->params == params) return f;
  }
  em_function *own = (em_function *)function;  // its spare files are run-time state
  em_frame *f = own->spare;
  if (f) {
    own->spare = f->next;
  } else {
    f = calloc(1, sizeof *f);
    if (f) f->file = aligned_alloc(64, function->file_bytes + 64);
    if (!f || !f->file) return free(f), NULL;
    memcpy(f->file, function->constants, function->constants_bytes);
    f->function = function;
  }
  memset(f->file + function->constants_bytes, 0xff, function->file_bytes - function->constants_bytes);
  f->depot = depot, f->params = params;
  f->next = w->flow->frames, w->flow->frames = f;
  set_specials(w, f);
  return f;
}

void em_frames_free(em_function *function) {
  for (em_frame *f = function->spare, *next; f; f = next) next = f->next, free(f->file), free(f);
  function->spare = NULL;
}

// ---- Groups ----

static em_group *current(em_warp *w) {
  return &w->flow->group[w->flow->now];
}

static void join(em_flow *flow, uint32_t lanes, em_frame *frame, int32_t at) {
  flow->moved = true;
  for (int i = 0; i < flow->groups; i++) {
    em_group *g = &flow->group[i];
    if (i != flow->now && g->lanes && g->frame == frame && g->at == at) {
      g->lanes |= lanes, g->rests = false;
      return;
    }
  }
  for (int i = 0; i < flow->groups; i++) {
    if (i != flow->now && !flow->group[i].lanes) {
      flow->group[i] = (em_group){lanes, at, false, frame};
      return;
    }
  }
  flow->group[flow->groups++] = (em_group){lanes, at, false, frame};
}

// The lanes leave the group that runs; the rest goes on.
static void leave(em_warp *w, const em_instruction *in, uint32_t lanes) {
  em_group *g = current(w);
  g->lanes &= ~lanes;
  g->at = (int32_t)(in - w->function->code) + 1;
  w->flow->moved = true;
}

void em_jump(em_warp *w, const em_instruction *in, uint32_t lanes) {
  em_group *g = current(w);
  if (lanes == g->lanes) {
    g->at = in->target;
  } else {
    leave(w, in, lanes);
    join(w->flow, lanes, g->frame, in->target);
  }
}

em_turn em_call(em_warp *w, const em_instruction *in, uint32_t lanes) {
  em_frame *from = current(w)->frame;
  size_t params = from->depot + from->function->local_bytes;
  if (in->target < 0) {
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
      const uint8_t *handed = w->stack + (size_t)__builtin_ctz(rest) * w->stack_bytes + params;
      uint64_t handle;
      uint32_t value;
      memcpy(&handle, handed, sizeof handle), memcpy(&value, handed + sizeof handle, sizeof value);
      em_set_conditional(handle, value);
    }
    return EM_NEXT;
  }
  const em_function *called = &from->function->module->function[in->target];
  size_t depot = w->stack_bytes - called->stack_bytes;  // whatever its callers keep lies in front of it
  em_frame *frame = frame_of(w, called, depot, params);
  if (!frame) return em_fault(w, in, -1, "no memory");
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    frame->back[lane] = from, frame->back_at[lane] = (int32_t)(in - from->function->code) + 1;
  }
  leave(w, in, lanes);
  join(w->flow, lanes, frame, 0);
  return EM_JUMPED;
}

void em_return(em_warp *w, const em_instruction *in, uint32_t lanes) {
  const em_frame *frame = current(w)->frame;
  if (frame->function->entry) {
    em_exit(w, in, lanes);
    return;
  }
  leave(w, in, lanes);
  while (lanes) {
    int first = __builtin_ctz(lanes);
    uint32_t same = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
      int lane = __builtin_ctz(rest);
      if (frame->back[lane] == frame->back[first] && frame->back_at[lane] == frame->back_at[first]) {
        same |= UINT32_C(1) << lane;
      }
    }
    join(w->flow, same, frame->back[first], frame->back_at[first]);
    lanes &= ~same;
  }
}

void em_exit(em_warp *w, const em_instruction *in, uint32_t lanes) {
  leave(w, in, lanes);
  w->alive &= ~lanes;
}

// ---- Turns ----

enum { DEPTH = 32 };
static int path_of(const em_group *g, int32_t *path) {
  const em_frame *frame = g->frame;
  int lane = __builtin_ctz(g->lanes), depth = DEPTH;
  path[--depth] = g->at;
  while (!frame->function->entry && depth > 0) {
    path[--depth] = frame->back_at[lane] - 1;
    frame = frame->back[lane];
  }
  return depth;
}

// Whether a stands further behind than b: in the program, calls followed.
static bool behind(const em_group *a, const em_group *b) {
  if (a->frame == b->frame && a->frame->function->entry) return a->at < b->at;
  int32_t x[DEPTH], y[DEPTH];
  int i = path_of(a, x), k = path_of(b, y);
  while (i < DEPTH && k < DEPTH && x[i] == y[k]) i++, k++;
  if (i == DEPTH || k == DEPTH) return i == DEPTH && k < DEPTH;  // before a call others are in
  return x[i] < y[k];
}

// Groups at one place are one; empty ones go.
static void merge(em_flow *flow) {
  int n = 0;
  for (int i = 0; i < flow->groups; i++) {
    em_group *g = &flow->group[i];
    if (!g->lanes) continue;
    int k = 0;
    while (k < n && (flow->group[k].frame != g->frame || flow->group[k].at != g->at)) k++;
    if (k < n) {
      flow->group[k].lanes |= g->lanes, flow->group[k].rests = false;
    } else {
      flow->group[n++] = *g;
    }
  }
  flow->groups = n;
}

// The group whose turn it is, -1: all have had theirs; *stop: where it comes to another one's place.
static int choose(const em_flow *flow, int32_t *stop) {
  int best = -1;
  *stop = INT32_MAX;
  for (int i = 0; i < flow->groups; i++) {
    const em_group *g = &flow->group[i];
    if (!g->rests && (best < 0 || behind(g, &flow->group[best]))) best = i;
  }
  for (int i = 0; i < flow->groups && best >= 0; i++) {
    const em_group *g = &flow->group[i];
    if (g->frame == flow->group[best].frame && g->at > flow->group[best].at && g->at < *stop) *stop = g->at;
  }
  return best;
}

// EM_NEXT: whose turn it is has to be asked again. EM_JUMPED: so many instructions have been done.
static em_turn run_group(em_warp *w, em_group *g, int32_t stop, uint64_t until) {
  const em_instruction *code = g->frame->function->code, *in = code + g->at, *end = code + stop;
  const bool alone = w->flow->groups == 1;
  w->function = g->frame->function, w->file = g->frame->file, w->standing = g->lanes;
  if (alone) end = NULL;
  for (;;) {
    uint32_t lanes = g->lanes;
    em_clock++;
    if (in->guard.kind != EM_SINK) {
      const uint32_t bits = *em_bits(w, &in->guard);
      lanes &= in->guard.negated ? ~bits : bits;
    }
    switch (lanes ? in->run(w, in, lanes) : EM_NEXT) {
      case EM_NEXT:
        if (++in != end) break;
        g->at = stop;
        return EM_NEXT;
      case EM_PAUSE:
        g->at = (int32_t)(in - code) + 1;
        return EM_PAUSE;
      case EM_WAIT:
        em_clock--;
        g->at = (int32_t)(in - code);
        return EM_WAIT;
      case EM_FAULT:
        return EM_FAULT;
      case EM_JUMPED: {
        if (w->flow->moved) return EM_NEXT;
        const em_instruction *to = code + g->at;
        const bool back = to <= in;
        if (back && em_clock >= until) return EM_JUMPED;
        if (!alone && (back || to >= end)) return EM_NEXT;
        in = to;
        break;
      }
    }
  }
}

em_turn em_warp_turn(em_warp *w, uint64_t most) {
  em_flow *flow = w->flow;
  const uint64_t begun = em_clock;
  bool pauses = false;
  for (int i = 0; i < flow->groups; i++) flow->group[i].rests = false;
  for (;;) {
    int32_t stop;
    flow->moved = false;
    if (flow->groups > 1 || !flow->group[0].lanes) merge(flow);
    if (!flow->groups) return EM_NEXT;
    flow->now = choose(flow, &stop);
    if (flow->now < 0) break;
    em_group *g = &flow->group[flow->now];
    em_turn turn = run_group(w, g, stop, begun + most);
    if (turn == EM_FAULT) return turn;
    pauses |= turn == EM_PAUSE;
    if (turn != EM_NEXT) g->rests = true;
  }
  w->standing = 0;
  return em_clock == begun ? EM_WAIT : pauses ? EM_PAUSE : EM_NEXT;
}

bool em_warp_begin(em_warp *w, uint32_t lanes) {
  const em_function *entry = w->block->grid->launch.function;
  w->stack_bytes = (entry->stack_bytes + 63) & ~(size_t)63;
  w->flow = calloc(1, sizeof *w->flow);
  w->stack = w->stack_bytes ? aligned_alloc(64, w->stack_bytes * EM_LANES) : NULL;
  if (!w->flow || (w->stack_bytes && !w->stack)) return false;
  if (w->stack) memset(w->stack, 0xff, w->stack_bytes * EM_LANES);
  em_frame *frame = frame_of(w, entry, 0, 0);
  if (!frame) return false;
  w->alive = lanes;
  w->flow->group[0] = (em_group){lanes, 0, false, frame};
  w->flow->groups = 1;
  w->function = entry, w->file = frame->file;
  return true;
}

void em_warp_end(em_warp *w) {
  for (em_frame *f = w->flow ? w->flow->frames : NULL, *next; f; f = next) {
    em_function *own = (em_function *)f->function;
    next = f->next, f->next = own->spare, own->spare = f;
  }
  free(w->flow), free(w->stack);
  w->flow = NULL, w->stack = NULL, w->file = NULL;
}

int em_warp_say(const em_warp *w, char *to, size_t room) {
  int n = 0;
  for (int i = 0; w->flow && i < w->flow->groups && n < (int)room; i++) {
    const em_group *g = &w->flow->group[i];
    const char *text = g->frame->function->code[g->at].text;
    n += snprintf(to + n, room - (size_t)n, " block (%u, %u, %u) warp %d lanes %#x: %.*s;", w->block->id[0],
                  w->block->id[1], w->block->id[2], w->index, g->lanes, (int)strcspn(text, ";\n"), text);
  }
  return n < (int)room ? n : (int)room - 1;
}
