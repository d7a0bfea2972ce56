// Loads, stores, atomics and matrices of shared memory: where a kernel's address lies, whether it may, and what moves.
#include <string.h>

#include "emulated.h"
#include "race.h"

enum { RANGES = 4, SHARED_WINDOW = 1 << 24 };

// ---- Where addresses lie ----

// The last allocations that were found: nearly every access of a warp lies in one of them.
static struct { uint64_t begin, end; } range[RANGES];
static uint64_t ranges_of;  // em_allocations when they were looked up
static unsigned next_range;

static inline bool in_range(uint64_t first, uint64_t end) {
  for (int i = 0; i < RANGES; i++) {
    if (first >= range[i].begin && end <= range[i].end) return true;
  }
  return false;
}

static bool remember(uint64_t begin, uint64_t end) {
  next_range = (next_range + 1) % RANGES;
  range[next_range].begin = begin;
  range[next_range].end = end;
  return true;
}

static inline void forget_stale_ranges(void) {
  if (ranges_of != em_allocations) {
    memset(range, 0, sizeof(range));
    ranges_of = em_allocations;
  }
}

static inline uint64_t number_of(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static inline bool within(uint64_t address, size_t bytes, const void *base, size_t length) {
  const uint64_t begin = number_of(base);
  return base && bytes <= length && address >= begin && address - begin <= length - bytes;
}

// Allocated on the device, or a variable of the kernel's module.
static bool in_global(const em_warp *warp, uint64_t address, size_t bytes) {
  forget_stale_ranges();
  if (in_range(address, address + bytes)) return true;
  uint64_t begin, end;
  if (em_allocation(address, &begin, &end) && bytes <= end - address) return remember(begin, end);
  const em_module *module = warp->function->module;
  for (int i = 0; module && i < module->variables; i++) {
    const struct em_variable *v = &module->variable[i];
    if (within(address, bytes, v->data, v->bytes)) return remember(number_of(v->data), number_of(v->data) + v->bytes);
  }
  return false;
}

static inline bool in_local(const em_warp *warp, int lane, uint64_t address, size_t bytes) {
  return within(address, bytes, warp->stack + (size_t)lane * warp->stack_bytes, warp->stack_bytes);
}

// The kernel's, or those of a call, which are handed over in the lane's stack.
static bool in_params(const em_warp *warp, int lane, uint64_t address, size_t bytes) {
  const em_grid *grid = warp->block->grid;
  return within(address, bytes, grid->params, grid->params_bytes) || in_local(warp, lane, address, bytes);
}

static inline bool is_shared(uint64_t address) {
  return address - EM_SHARED_BASE <= UINT32_MAX;
}

static bool plain_allowed(const em_warp *warp, int lane, em_space space, uint64_t address, size_t bytes) {
  switch (space) {
    case EM_GLOBAL:
    case EM_CONST:
      return in_global(warp, address, bytes);
    case EM_LOCAL:
      return in_local(warp, lane, address, bytes);
    case EM_PARAM:
      return in_params(warp, lane, address, bytes);
    default:
      return in_global(warp, address, bytes) || in_params(warp, lane, address, bytes);
  }
}

static const char *const space_name[] = {
    [EM_GENERIC] = "generic",        [EM_GLOBAL] = "global", [EM_SHARED] = "shared", [EM_CLUSTER] = "shared::cluster",
    [EM_LOCAL] = "the lane's local", [EM_PARAM] = "param",   [EM_CONST] = "const"};

void *em_shared(em_warp *warp, const em_instruction *in, int lane, uint32_t address, size_t bytes, size_t align,
                em_block **block_out) {
  em_block *block = warp->block;
  uint32_t offset = address;
  if (address >= SHARED_WINDOW) {
    const uint32_t rank = (address >> 24) - 1;
    offset = address & (SHARED_WINDOW - 1);
    if (rank >= (uint32_t)block->cluster->blocks) {
      em_fault(warp, in, lane, "shared address %#x is of block %u of a cluster of %d", address, rank,
               block->cluster->blocks);
      return NULL;
    }
    block = &block->cluster->block[rank];
    if (!block->alive) {
      em_fault(warp, in, lane, "shared address %#x is of block %u of the cluster, which has ended", address, rank);
      return NULL;
    }
  }
  if (offset < EM_SHARED_FIRST || bytes > block->shared_bytes || offset > block->shared_bytes - bytes) {
    em_fault(warp, in, lane, "shared address %#x, %zu bytes: outside of the block's %#x .. %#zx", address, bytes,
             EM_SHARED_FIRST, block->shared_bytes);
    return NULL;
  }
  if (offset % align) {
    em_fault(warp, in, lane, "shared address %#x is not aligned to %zu", address, align);
    return NULL;
  }
  if (block_out) *block_out = block;
  return block->shared + offset;
}

void *em_memory(em_warp *warp, const em_instruction *in, int lane, em_space space, uint64_t address, size_t bytes,
                size_t align) {
  if (space == EM_SHARED || space == EM_CLUSTER) {
    const uint32_t rank = (uint32_t)address >> 24;
    if (space == EM_SHARED && rank && rank - 1 != warp->block->rank) {
      em_fault(warp, in, lane, "shared address %#x is another block's, which takes .shared::cluster",
               (uint32_t)address);
      return NULL;
    }
    return em_shared(warp, in, lane, (uint32_t)address, bytes, align, NULL);
  }
  if (space == EM_GENERIC && is_shared(address)) {
    return em_shared(warp, in, lane, (uint32_t)address, bytes, align, NULL);
  }
  if (!plain_allowed(warp, lane, space, address, bytes)) {
    em_fault(warp, in, lane, "address %#llx, %zu bytes: outside of what was allocated as %s memory",
             (unsigned long long)address, bytes, space_name[space]);
    return NULL;
  }
  if (address % align) {
    em_fault(warp, in, lane, "address %#llx is not aligned to %zu", (unsigned long long)address, align);
    return NULL;
  }
  return (void *)(uintptr_t)address;
}

// ---- The addresses of a warp ----

#define EACH_LANE(lane, lanes) \
  for (uint32_t rest_ = (lanes), lane = 0; rest_ && (lane = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)

// What [register + offset] is, for every lane.
static void addresses(const em_warp *warp, const em_instruction *in, const em_operand *o, uint64_t address[EM_LANES]) {
  const uint64_t offset = (uint64_t)o->offset;
  if (o->bytes == 8) {
    const uint64_t *base = EM_ROW(const uint64_t, warp, o);
    for (int i = 0; i < EM_LANES; i++) address[i] = base[i] + offset;
  } else {
    const uint32_t *base = EM_ROW(const uint32_t, warp, o);
    for (int i = 0; i < EM_LANES; i++) address[i] = (uint32_t)(base[i] + offset);
  }
  if (in->space == EM_SHARED || in->space == EM_CLUSTER) {
    for (int i = 0; i < EM_LANES; i++) address[i] = (uint32_t)address[i];
  }
}

typedef struct extent {
  uint64_t first, last, bits;  // smallest and largest address, and all of their bits or'ed
} extent;

static inline extent extent_of(const uint64_t address[EM_LANES], uint32_t lanes) {
  extent e = {UINT64_MAX, 0, 0};
  if (lanes == UINT32_MAX) {
    for (int i = 0; i < EM_LANES; i++) {
      e.first = address[i] < e.first ? address[i] : e.first;
      e.last = address[i] > e.last ? address[i] : e.last;
      e.bits |= address[i];
    }
    return e;
  }
  EACH_LANE(i, lanes) {
    e.first = address[i] < e.first ? address[i] : e.first;
    e.last = address[i] > e.last ? address[i] : e.last;
    e.bits |= address[i];
  }
  return e;
}

// Whether all lanes lie in the block's own shared memory, in one allocation, or each in its stack; base: what leads
// from their addresses to the processor's.
static inline bool all_at_once(const em_warp *warp, em_space space, const uint64_t address[EM_LANES], uint32_t lanes,
                               extent e, size_t bytes, uint64_t *base) {
  const em_block *block = warp->block;
  const bool generic = space == EM_GENERIC;
  *base = 0;
  if (space == EM_SHARED || space == EM_CLUSTER || (generic && is_shared(e.first) && is_shared(e.last))) {
    const uint64_t window = generic ? EM_SHARED_BASE : 0;
    *base = number_of(block->shared) - window;
    return e.first - window >= EM_SHARED_FIRST && e.last - window + bytes <= block->shared_bytes;
  }
  if (space == EM_GLOBAL || space == EM_CONST || generic) {
    forget_stale_ranges();
    if (in_range(e.first, e.last + bytes)) return true;
  }
  if (space == EM_PARAM || generic) {
    const em_grid *grid = block->grid;
    if (within(e.first, e.last - e.first + bytes, grid->params, grid->params_bytes)) return true;
  }
  if (space == EM_GLOBAL || space == EM_CONST || bytes > warp->stack_bytes) return false;
  const uint64_t stack = number_of(warp->stack), room = warp->stack_bytes - bytes;
  uint32_t outside = 0;
  for (uint32_t i = 0; i < EM_LANES; i++) {
    outside |= (uint32_t)(address[i] - stack - i * warp->stack_bytes > room) << i;
  }
  return !(outside & lanes);
}

// Where each lane of an access of so many bytes finds its data. What is not in one place goes lane by lane, where a
// fault is said.
static bool places(em_warp *warp, const em_instruction *in, uint32_t lanes, const em_operand *o, size_t bytes,
                   uint8_t *place[EM_LANES]) {
  uint64_t address[EM_LANES], base;
  addresses(warp, in, o, address);
  const extent e = extent_of(address, lanes);
  if (!(e.bits & (bytes - 1)) && all_at_once(warp, in->space, address, lanes, e, bytes, &base)) {
    for (int i = 0; i < EM_LANES; i++) place[i] = (uint8_t *)(uintptr_t)(address[i] + base);
    return true;
  }
  EACH_LANE(i, lanes) {
    place[i] = em_memory(warp, in, (int)i, in->space, address[i], bytes, bytes);
    if (!place[i]) return false;
  }
  return true;
}

static inline bool race_free(em_warp *warp, const em_instruction *in, uint32_t lanes, uint8_t *const place[EM_LANES],
                             size_t bytes, em_touch how) {
  if (!em_race_on || in->space == EM_GLOBAL || in->space == EM_LOCAL || in->space == EM_PARAM) return true;
  return em_race_lanes(warp, in, lanes, place, bytes, how);
}

// ---- Loads and stores ----

static const char *const access_words[] =
    {  // that change nothing here, where every access is done at once and in order
        "weak",
        "volatile",
        "relaxed",
        "acquire",
        "release",
        "acq_rel",
        "cta",
        "cluster",
        "gpu",
        "sys",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "nc",
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L1::evict_first",
        "L1::evict_last",
        "L1::no_allocate",
        "L2::64B",
        "L2::128B",
        "L2::256B",
        "global",
        "shared",
        "shared::cta",
        "shared::cluster",
        "local",
        "param",
        "param::entry",
        "param::func",
        "const",
        "v2",
        "v4",
        NULL};

static bool is_word(const char *const *words, const char *word) {
  for (; *words; words++) {
    if (!strcmp(*words, word)) return true;
  }
  return false;
}

// The type is the last modifier; all before it are of the list, or of the other one.
static const char *check_words(const em_instruction *in, const char *const *others) {
  for (int i = 0; i + 1 < EM_MODIFIERS && in->modifier[i] && in->modifier[i + 1]; i++) {
    if (!is_word(access_words, in->modifier[i]) && !(others && is_word(others, in->modifier[i]))) {
      return "a modifier that is not known";
    }
  }
  return NULL;
}

static int vector_length(const em_instruction *in) {
  return em_has(in, "v2") ? 2 : em_has(in, "v4") ? 4 : 1;
}

// Registers of an operand that is one or a vector of them: as many as the instruction says, and wide enough.
static const char *check_registers(const em_operand *o, int count, size_t bytes) {
  if ((count > 1) != (o->kind == EM_VECTOR)) return "a vector where there should be none, or none";
  if (count > 1 && o->count != (uint32_t)count) return "a vector of another length";
  const em_operand *item = count > 1 ? o->items : o;
  for (int i = 0; i < count; i++) {
    if (item[i].kind == EM_SINK) continue;
    if (item[i].kind != EM_REGISTER) return "an operand that is no register";
    if (item[i].bytes < bytes && bytes > 1) return "a register that is narrower than the type";
  }
  return NULL;
}

static bool is_signed(em_type type) {
  return type == EM_S8 || type == EM_S16 || type == EM_S32 || type == EM_S64;
}

#define LOAD_ROW(type)                                                                 \
  do {                                                                                 \
    type *row = EM_ROW(type, warp, o);                                                 \
    if (lanes == UINT32_MAX) {                                                         \
      for (int i = 0; i < EM_LANES; i++) memcpy(row + i, place[i] + at, sizeof(type)); \
    } else {                                                                           \
      EACH_LANE(i, lanes) memcpy(row + i, place[i] + at, sizeof(type));                \
    }                                                                                  \
  } while (0)

// One register's row from what is `at` bytes behind each lane's place.
static void load_row(em_warp *warp, const em_instruction *in, const em_operand *o, uint32_t lanes,
                     uint8_t *const place[EM_LANES], size_t at) {
  const size_t size = (size_t)in->more;
  if (o->kind == EM_SINK) return;
  if (size == o->bytes) {
    if (size == 4) {
      LOAD_ROW(uint32_t);
    } else if (size == 8) {
      LOAD_ROW(uint64_t);
    } else {
      LOAD_ROW(uint16_t);
    }
    return;
  }
  const int shift = 64 - 8 * (int)size;
  const bool extend = is_signed(in->type);
  EACH_LANE(i, lanes) {
    uint64_t v = 0;
    memcpy(&v, place[i] + at, size);
    if (extend) v = (uint64_t)((int64_t)(v << shift) >> shift);
    em_set(warp, o, (int)i, v);
  }
}

#define STORE_ROW(type)                                                                \
  do {                                                                                 \
    const type *row = EM_ROW(const type, warp, o);                                     \
    if (lanes == UINT32_MAX) {                                                         \
      for (int i = 0; i < EM_LANES; i++) memcpy(place[i] + at, row + i, sizeof(type)); \
    } else {                                                                           \
      EACH_LANE(i, lanes) memcpy(place[i] + at, row + i, sizeof(type));                \
    }                                                                                  \
  } while (0)

static void store_row(em_warp *warp, const em_instruction *in, const em_operand *o, uint32_t lanes,
                      uint8_t *const place[EM_LANES], size_t at) {
  const size_t size = (size_t)in->more;
  if (size == o->bytes && size == 4) {
    STORE_ROW(uint32_t);
  } else if (size == o->bytes && size == 8) {
    STORE_ROW(uint64_t);
  } else if (size == o->bytes) {
    STORE_ROW(uint16_t);
  } else {
    EACH_LANE(i, lanes) {
      const uint64_t v = em_get(warp, o, (int)i);
      memcpy(place[i] + at, &v, size);
    }
  }
}

static em_turn run_ld(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  uint8_t *place[EM_LANES];
  const em_operand *d = in->operand;
  const size_t size = (size_t)in->more;
  if (!places(warp, in, lanes, in->operand + 1, size * (size_t)in->form, place)) return EM_FAULT;
  if (!race_free(warp, in, lanes, place, size * (size_t)in->form, in->wide ? EM_ATOMIC : EM_READS)) return EM_FAULT;
  if (d->kind != EM_VECTOR) {
    load_row(warp, in, d, lanes, place, 0);
  } else {
    for (int i = 0; i < in->form; i++) load_row(warp, in, d->items + i, lanes, place, size * (size_t)i);
  }
  return in->wide ? EM_PAUSE : EM_NEXT;  // a loop may wait for it
}

static em_turn run_st(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  uint8_t *place[EM_LANES];
  const em_operand *s = in->operand + 1;
  const size_t size = (size_t)in->more;
  if (!places(warp, in, lanes, in->operand, size * (size_t)in->form, place)) return EM_FAULT;
  if (!race_free(warp, in, lanes, place, size * (size_t)in->form, in->wide ? EM_ATOMIC : EM_WRITES)) return EM_FAULT;
  if (s->kind != EM_VECTOR) {
    store_row(warp, in, s, lanes, place, 0);
  } else {
    for (int i = 0; i < in->form; i++) store_row(warp, in, s->items + i, lanes, place, size * (size_t)i);
  }
  return EM_NEXT;
}

static const char *bind_moves(em_instruction *in, int address) {
  in->wide = em_has(in, "volatile") || em_has(in, "relaxed") || em_has(in, "acquire") || em_has(in, "release");
  in->form = (int16_t)vector_length(in);
  in->more = (int16_t)em_type_bytes(in->type);
  if (in->operands != 2 || in->operand[address].kind != EM_ADDRESS) return "operands that are not known";
  if (!in->more) return "a type that is not known";
  if (in->space == EM_CONST && !address) return "a store to constant memory";
  const char *why = check_words(in, NULL);
  return why ? why : check_registers(in->operand + !address, in->form, (size_t)in->more);
}

static const char *bind_ld(em_instruction *in) {
  return bind_moves(in, 1);
}

static const char *bind_st(em_instruction *in) {
  const char *why = bind_moves(in, 0);
  const em_operand *s = in->operand + 1;
  for (int i = 0; !why && i < in->form; i++) {
    if ((in->form > 1 ? s->items + i : s)->kind != EM_REGISTER) why = "nothing to store";
  }
  return why;
}

// ---- Atomics ----

enum { ADD, MIN, MAX, AND, OR, XOR, EXCH, CAS, INC, DEC };
static const char *const atomic_name[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", NULL};

static float flushed(float x) {  // float atomics of global memory know no subnormals
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x;
}

static uint64_t add_float(uint64_t a, uint64_t b, bool flush) {
  float x, y;
  memcpy(&x, &a, sizeof(x));
  memcpy(&y, &b, sizeof(y));
  x = flush ? flushed(flushed(x) + flushed(y)) : x + y;
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

static uint64_t add_double(uint64_t a, uint64_t b) {
  double x, y;
  memcpy(&x, &a, sizeof(x));
  memcpy(&y, &b, sizeof(y));
  x += y;
  memcpy(&a, &x, sizeof(a));
  return a;
}

static bool less(em_type type, uint64_t a, uint64_t b) {
  if (type == EM_S32) return (int32_t)a < (int32_t)b;
  return type == EM_S64 ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t combine(const em_instruction *in, uint64_t old, uint64_t b, uint64_t c, bool shared) {
  switch (in->form) {
    case ADD:
      if (in->type == EM_F32) return add_float(old, b, !shared);
      return in->type == EM_F64 ? add_double(old, b) : old + b;
    case MIN:
      return less(in->type, b, old) ? b : old;
    case MAX:
      return less(in->type, old, b) ? b : old;
    case AND:
      return old & b;
    case OR:
      return old | b;
    case XOR:
      return old ^ b;
    case EXCH:
      return b;
    case CAS:
      return old == b ? c : old;
    case INC:
      return old >= b ? 0 : old + 1;
    default:
      return old == 0 || old > b ? b : old - 1;
  }
}

static uint64_t register_value(const em_warp *warp, const em_operand *o, int lane, size_t size) {
  const uint64_t v = em_get(warp, o, lane);
  return size == 4 ? (uint32_t)v : v;
}

// d, [a], b{, c} of atom, [a], b of red; more: the first operand behind d. Lanes follow each other.
static em_turn run_atom(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  uint8_t *place[EM_LANES];
  const em_operand *a = in->operand + in->more, *b = a + 1, *c = a + 2, *d = in->more ? in->operand : NULL;
  const size_t size = em_type_bytes(in->type), count = (size_t)in->wide;
  if (!places(warp, in, lanes, a, size * count, place)) return EM_FAULT;
  if (!race_free(warp, in, lanes, place, size * count, EM_ATOMIC)) return EM_FAULT;
  EACH_LANE(lane, lanes) {
    const bool shared =
        within(number_of(place[lane]), 1, warp->block->shared, warp->block->shared_bytes) || in->space == EM_CLUSTER;
    for (size_t i = 0; i < count; i++) {
      const uint64_t with = register_value(warp, count > 1 ? b->items + i : b, (int)lane, size);
      const uint64_t third = in->form == CAS ? register_value(warp, c, (int)lane, size) : 0;
      const em_operand *to = d && count > 1 ? d->items + i : d;
      uint64_t old = 0;
      memcpy(&old, place[lane] + i * size, size);
      const uint64_t now = combine(in, old, with, third, shared);
      memcpy(place[lane] + i * size, &now, size);
      if (to && to->kind != EM_SINK) em_set(warp, to, (int)lane, old);
    }
  }
  return EM_NEXT;
}

static bool combines(int form, em_type type) {
  switch (type) {
    case EM_U32:
    case EM_U64:
      return true;
    case EM_S32:
    case EM_S64:
      return form == ADD || form == MIN || form == MAX;
    case EM_F32:
    case EM_F64:
      return form == ADD;
    default:
      return false;
  }
}

static const char *bind_atomic(em_instruction *in, int16_t first) {
  in->form = -1;
  for (int i = 0; atomic_name[i]; i++) {
    if (em_has(in, atomic_name[i])) in->form = (int16_t)i;
  }
  in->more = (int16_t)first;
  in->wide = vector_length(in);
  if (in->form < 0) return "an operation that is not known";
  if (!combines(in->form, in->type)) return "an operation on a type that it is not for";
  if (in->wide > 1 && (in->type != EM_F32 || in->space != EM_GLOBAL)) return "a vector that is not of .global.f32";
  if (in->operands != first + 2 + (in->form == CAS) || in->operand[first].kind != EM_ADDRESS) {
    return "operands that are not known";
  }
  if (in->space != EM_GLOBAL && in->space != EM_SHARED && in->space != EM_CLUSTER && in->space != EM_GENERIC) {
    return "a space that has no atomics";
  }
  const size_t bytes = em_type_bytes(in->type);
  const char *why = check_words(in, atomic_name);
  if (!why && first) why = check_registers(in->operand, (int)in->wide, bytes);
  if (!why) why = check_registers(in->operand + first + 1, (int)in->wide, bytes);
  if (!why && in->form == CAS) why = check_registers(in->operand + first + 2, 1, bytes);
  return why;
}

static const char *bind_atom(em_instruction *in) {
  return bind_atomic(in, 1);
}

static const char *bind_red(em_instruction *in) {
  return bind_atomic(in, 0);
}

// ---- Matrices of 8 x 8 halves in shared memory ----

// All lanes of the warp, at once: an instruction that says .aligned. EM_NEXT: they are here.
static em_turn whole_warp(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  if (warp->standing != warp->alive) return EM_WAIT;
  if (lanes != UINT32_MAX) return em_fault(warp, in, -1, "takes all lanes of a warp, only %#x are here", lanes);
  return EM_NEXT;
}

// Where the rows of the matrices begin: lane 8 m + r says it for row r of matrix m.
static bool rows_of(em_warp *warp, const em_instruction *in, const em_operand *o, uint8_t *row[EM_LANES],
                    em_touch how) {
  const uint32_t lanes = in->form == 4 ? UINT32_MAX : (UINT32_C(1) << 8 * in->form) - 1;
  return places(warp, in, lanes, o, 16, row) && race_free(warp, in, lanes, row, 16, how);
}

// The two halves of lane t in a matrix are columns c, c + 1 of row r, or, of .trans, rows c, c + 1 of column r.
static void halves_at(uint8_t *const row[EM_LANES], int matrix, int t, bool trans, uint8_t *half[2]) {
  const int r = t / 4, c = 2 * (t % 4);
  for (int i = 0; i < 2; i++) half[i] = trans ? row[8 * matrix + c + i] + 2 * r : row[8 * matrix + r] + 2 * (c + i);
}

static em_turn run_ldmatrix(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  uint8_t *row[EM_LANES], *half[2];
  const em_turn turn = whole_warp(warp, in, lanes);
  if (turn != EM_NEXT) return turn;
  if (!rows_of(warp, in, in->operand + 1, row, EM_READS)) return EM_FAULT;
  const em_operand *d = in->operand;
  for (int m = 0; m < in->form; m++) {
    uint32_t *to = EM_ROW(uint32_t, warp, d->kind == EM_VECTOR ? d->items + m : d);
    for (int t = 0; t < EM_LANES; t++) {
      halves_at(row, m, t, in->more, half);
      to[t] = 0;
      memcpy(&to[t], half[0], 2);
      memcpy((uint8_t *)&to[t] + 2, half[1], 2);
    }
  }
  return EM_NEXT;
}

static em_turn run_stmatrix(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  uint8_t *row[EM_LANES], *half[2];
  const em_turn turn = whole_warp(warp, in, lanes);
  if (turn != EM_NEXT) return turn;
  if (!rows_of(warp, in, in->operand, row, EM_WRITES)) return EM_FAULT;
  const em_operand *s = in->operand + 1;
  for (int m = 0; m < in->form; m++) {
    const uint32_t *from = EM_ROW(const uint32_t, warp, s->kind == EM_VECTOR ? s->items + m : s);
    for (int t = 0; t < EM_LANES; t++) {
      halves_at(row, m, t, in->more, half);
      memcpy(half[0], &from[t], 2);
      memcpy(half[1], (const uint8_t *)&from[t] + 2, 2);
    }
  }
  return EM_NEXT;
}

static const char *bind_matrices(em_instruction *in, int address) {
  static const char *const words[] = {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", NULL};
  in->form = em_has(in, "x4") ? 4 : em_has(in, "x2") ? 2 : 1;
  in->more = em_has(in, "trans");
  if (!em_has(in, "m8n8") || !em_has(in, "b16")) return "matrices that are not m8n8 of b16";
  if (in->space != EM_SHARED && in->space != EM_GENERIC) return "a space that is not shared";
  if (in->operands != 2 || in->operand[address].kind != EM_ADDRESS) return "operands that are not known";
  const em_operand *o = in->operand + !address;
  const bool single = in->form == 1 && o->kind == EM_VECTOR && o->count == 1;
  const char *why = check_words(in, words);
  if (!why) why = check_registers(single ? o->items : o, in->form, 4);
  for (int i = 0; !why && i < in->form; i++) {
    const em_operand *item = o->kind == EM_VECTOR ? o->items + i : o;
    if (item->kind != EM_REGISTER || item->bytes != 4) why = "registers that are not of 32 bits";
  }
  return why;
}

static const char *bind_ldmatrix(em_instruction *in) {
  return bind_matrices(in, 1);
}

static const char *bind_stmatrix(em_instruction *in) {
  return bind_matrices(in, 0);
}

// ---- The rest ----

static em_turn run_prefetch(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  if (!in->form) return EM_NEXT;
  uint64_t address[EM_LANES];
  addresses(warp, in, in->operand, address);
  EACH_LANE(i, lanes) {
    if (!em_memory(warp, in, (int)i, in->space, address[i], 128, 64)) return EM_FAULT;
  }
  return EM_NEXT;
}

static const char *bind_prefetch(em_instruction *in) {
  in->form = em_has(in, "tensormap");
  return in->operands == 1 && in->operand[0].kind == EM_ADDRESS ? NULL : "operands that are not known";
}

static const struct {
  const char *word;
  em_space space;
} space_word[] = {{"global", EM_GLOBAL},           {"shared", EM_SHARED}, {"shared::cta", EM_SHARED},
                  {"shared::cluster", EM_CLUSTER}, {"local", EM_LOCAL},   {"param", EM_PARAM},
                  {"param::entry", EM_PARAM},      {"const", EM_CONST}};

static int space_of(const char *word) {
  for (size_t i = 0; word && i < sizeof(space_word) / sizeof(*space_word); i++) {
    if (!strcmp(word, space_word[i].word)) return (int)space_word[i].space;
  }
  return -1;
}

static bool lies_in(const em_warp *warp, int lane, em_space space, uint64_t address) {
  const uint32_t rank = (uint32_t)address >> 24;
  switch (space) {
    case EM_CLUSTER:
      return is_shared(address);
    case EM_SHARED:
      return is_shared(address) && (!rank || rank - 1 == warp->block->rank);
    case EM_LOCAL:
      return in_local(warp, lane, address, 1);
    case EM_PARAM:
      return within(address, 1, warp->block->grid->params, warp->block->grid->params_bytes);
    default:
      return !is_shared(address) && !in_local(warp, lane, address, 1);
  }
}

static em_turn run_isspacep(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  uint32_t is = 0;
  EACH_LANE(i, lanes) {
    const uint64_t address = em_get(warp, in->operand + 1, (int)i);
    if (lies_in(warp, (int)i, (em_space)in->form, address)) is |= UINT32_C(1) << i;
  }
  uint32_t *bits = em_bits(warp, in->operand);
  *bits = (*bits & ~lanes) | is;
  return EM_NEXT;
}

static const char *bind_isspacep(em_instruction *in) {
  in->form = (int16_t)space_of(in->modifier[0]);
  if (in->form < 0 || in->modifier[1] || in->form == EM_CONST) return "a space that is not known";
  if (in->operands != 2 || in->operand[0].kind != EM_PREDICATE || in->operand[1].kind != EM_REGISTER) {
    return "operands that are not known";
  }
  return NULL;
}

// To and from generic addresses: only those of shared memory differ.
static em_turn run_cvta(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const uint64_t base = in->form == EM_SHARED || in->form == EM_CLUSTER ? EM_SHARED_BASE : 0;
  const uint64_t *from = EM_ROW(const uint64_t, warp, in->operand + 1);
  uint64_t *to = EM_ROW(uint64_t, warp, in->operand);
  if (!base && lanes == UINT32_MAX) {
    memmove(to, from, EM_LANES * sizeof(*to));
    return EM_NEXT;
  }
  EACH_LANE(i, lanes) {
    if (in->more && base && !is_shared(from[i])) {
      return em_fault(warp, in, (int)i, "address %#llx is none of shared memory", (unsigned long long)from[i]);
    }
    to[i] = in->more ? from[i] - base : from[i] + base;
  }
  return EM_NEXT;
}

static const char *bind_cvta(em_instruction *in) {
  in->more = in->modifier[0] && !strcmp(in->modifier[0], "to");
  in->form = (int16_t)space_of(in->modifier[in->more]);
  if (in->form < 0) return "a space that is not known";
  if (in->type != EM_U64) return "a type that is not u64";
  if (in->operands != 2 || in->operand[0].kind != EM_REGISTER || in->operand[1].kind != EM_REGISTER) {
    return "operands that are not known";
  }
  return in->operand[0].bytes == 8 && in->operand[1].bytes == 8 ? NULL : "registers that are not of 64 bits";
}

const em_op em_ops_memory[] = {{"ld", run_ld, bind_ld},
                               {"st", run_st, bind_st},
                               {"atom", run_atom, bind_atom},
                               {"red", run_atom, bind_red},
                               {"ldmatrix", run_ldmatrix, bind_ldmatrix},
                               {"stmatrix", run_stmatrix, bind_stmatrix},
                               {"prefetch", run_prefetch, bind_prefetch},
                               {"isspacep", run_isspacep, bind_isspacep},
                               {"cvta", run_cvta, bind_cvta},
                               {0}};
