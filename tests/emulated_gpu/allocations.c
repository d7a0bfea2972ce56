// Memory of the emulated device, and of the host where the device reaches it: two ranges of addresses, of which each
// allocation has whole granules and one more that belongs to nobody. What lies in an allocation is known by a table of
// the granules. New memory is full of ones: NaN, and addresses that are nowhere.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

// cudaMalloc promises multiples of 256, and no kernel may rely on more.
#define GRANULE UINT64_C(256)
#define RANGE (UINT64_C(8) << 30)  // of each kind of memory: all that there is
#define HINT UINT64_C(0x200000000000)

typedef struct allocation {
  uint64_t begin, end;  // what was asked for
  uint64_t granules;    // that it has, from begin on
  int previous, next;   // in the order of addresses; 0: the first, the last one
} allocation;

typedef struct room {  // of one kind
  uint64_t begin, used;
  int first, rover;  // the next one is looked for behind it
} room;

static uint64_t base;    // of the device's memory, and behind it the host's
static uint32_t *owner;  // of each granule; 0: nobody
static allocation *list;
static int n_list, room_list, unused;  // unused: list of what was given back, by next
static room rooms[EM_HOST];
uint64_t em_allocations, em_device_memory = RANGE;

typedef struct registered {
  uint64_t begin, end;
} registered;
static registered *hosts;  // cudaHostRegister
static int n_hosts;

static void *reserve(uint64_t hint, size_t bytes) {
  void *p =
      mmap((void *)(uintptr_t)hint, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static bool begin_once(void) {
  if (owner) return true;
  void *memory = reserve(HINT, 2 * RANGE);
  uint32_t *table = reserve(0, 2 * RANGE / GRANULE * sizeof *table);
  list = calloc(room_list = 1024, sizeof *list);
  if (!memory || !table || !list) return false;
  n_list = 1;
  base = (uint64_t)(uintptr_t)memory, owner = table;
  rooms[EM_DEVICE].begin = base, rooms[EM_PINNED].begin = base + RANGE;
  return true;
}

static int new_entry(void) {
  if (unused) {
    const int i = unused;
    unused = list[i].next;
    return i;
  }
  if (n_list == room_list) {
    allocation *grown = realloc(list, 2 * (size_t)room_list * sizeof *list);
    if (!grown) return 0;
    list = grown, room_list *= 2;
  }
  return n_list++;
}

// The first gap behind the rover, and from the beginning where there is none; after: who lies before it (0: nobody).
static uint64_t find_gap(const room *r, uint64_t bytes, int *after) {
  for (int turn = 0; turn < 2; turn++) {
    int at = turn ? 0 : r->rover;
    for (;;) {
      const uint64_t begin = at ? list[at].begin + list[at].granules * GRANULE : r->begin;
      const int next = at ? list[at].next : r->first;
      const uint64_t end = next ? list[next].begin : r->begin + RANGE;
      if (end - begin >= bytes) return *after = at, begin;
      if (!next) break;
      at = next;
    }
  }
  return 0;
}

cudaError_t em_take(void **p, size_t bytes, em_where where) {
  room *r = &rooms[where];
  int after = 0;
  *p = NULL;
  if (!begin_once()) return cudaErrorMemoryAllocation;
  if (bytes == 0) return cudaSuccess;
  const uint64_t limit = where == EM_DEVICE ? em_device_memory : RANGE;
  if (r->used > limit || bytes > limit - r->used) return cudaErrorMemoryAllocation;
  const uint64_t granules = (bytes + GRANULE - 1) / GRANULE + 1, begin = find_gap(r, granules * GRANULE, &after);
  const int i = begin ? new_entry() : 0;
  if (!i) return cudaErrorMemoryAllocation;
  list[i] = (allocation){begin, begin + bytes, granules, after, after ? list[after].next : r->first};
  *(after ? &list[after].next : &r->first) = i;
  if (list[i].next) list[list[i].next].previous = i;
  r->rover = i, r->used += bytes, em_allocations++;
  for (uint64_t g = 0; g + 1 < granules; g++) owner[(begin - base) / GRANULE + g] = (uint32_t)i;
  *p = (void *)(uintptr_t)begin;
  memset(*p, 0xff, bytes);
  return cudaSuccess;
}

static int find(uint64_t address) {
  return owner && address - base < 2 * RANGE ? (int)owner[(address - base) / GRANULE] : 0;
}

static em_where kind_of(const allocation *a) {
  return a->begin - base < RANGE ? EM_DEVICE : EM_PINNED;
}

// Whole pages go back to the system.
static void give_pages(uint64_t begin, uint64_t end) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = (begin + page - 1) / page * page,
                 to = end / page * page;
  if (to > from) (void)madvise((void *)(uintptr_t)from, to - from, MADV_DONTNEED);
}

cudaError_t em_give(void *p, em_where where) {
  const uint64_t address = (uint64_t)(uintptr_t)p;
  if (!p) return cudaSuccess;
  const int i = find(address);
  if (!i || list[i].begin != address || kind_of(&list[i]) != where) return cudaErrorInvalidValue;
  room *r = &rooms[where];
  const int before = list[i].previous, next = list[i].next;
  *(before ? &list[before].next : &r->first) = next;
  if (next) list[next].previous = before;
  if (r->rover == i) r->rover = before;
  for (uint64_t g = 0; g + 1 < list[i].granules; g++) owner[(address - base) / GRANULE + g] = 0;
  r->used -= list[i].end - list[i].begin, em_allocations++;
  give_pages(list[i].begin, list[i].end);
  list[i] = (allocation){.next = unused};
  unused = i;
  return cudaSuccess;
}

bool em_allocation(uint64_t address, uint64_t *begin, uint64_t *end) {
  const int i = find(address);
  if (i && address < list[i].end) return *begin = list[i].begin, *end = list[i].end, true;
  for (int k = 0; k < n_hosts; k++)
    if (address >= hosts[k].begin && address < hosts[k].end) return *begin = hosts[k].begin, *end = hosts[k].end, true;
  return false;
}

bool em_allocated(uint64_t address, size_t bytes) {
  uint64_t begin, end;
  return em_allocation(address, &begin, &end) && bytes <= end - address;
}

em_where em_where_of(const void *p, size_t bytes) {
  const uint64_t address = (uint64_t)(uintptr_t)p;
  const bool ours = owner && address - base < 2 * RANGE;
  if (!em_allocated(address, bytes)) return ours ? EM_NOWHERE : EM_HOST;
  return ours ? kind_of(&list[find(address)]) : EM_PINNED;
}

// ---- The runtime's functions ----

cudaError_t cudaMalloc(void **p, size_t bytes) {
  em_enter();
  cudaError_t e = p ? em_capture_forbids() : cudaErrorInvalidValue;
  if (e == cudaSuccess) e = em_take(p, bytes, EM_DEVICE);
  return em_leave(e);
}

// Whoever still uses it is waited for.
static cudaError_t give_back(void *p, em_where where) {
  cudaError_t e = em_capture_forbids();
  if (e == cudaSuccess) e = em_settle_all();
  return e == cudaSuccess ? em_give(p, where) : e;
}

cudaError_t cudaFree(void *p) {
  em_enter();
  return em_leave(give_back(p, EM_DEVICE));
}

cudaError_t cudaMallocHost(void **p, size_t bytes) {
  em_enter();
  cudaError_t e = p ? em_capture_forbids() : cudaErrorInvalidValue;
  if (e == cudaSuccess) e = em_take(p, bytes, EM_PINNED);
  return em_leave(e);
}

cudaError_t cudaFreeHost(void *p) {
  em_enter();
  return em_leave(give_back(p, EM_PINNED));
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
  em_enter();
  if (!left || !total || !begin_once()) return em_leave(cudaErrorInvalidValue);
  *total = em_device_memory, *left = *total - rooms[EM_DEVICE].used;
  return em_leave(cudaSuccess);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags) {
  const uint64_t begin = (uint64_t)(uintptr_t)p, end = begin + bytes;
  (void)flags;
  em_enter();
  if (!p || !bytes) return em_leave(cudaErrorInvalidValue);
  for (int i = 0; i < n_hosts; i++)
    if (begin < hosts[i].end && hosts[i].begin < end) return em_leave(cudaErrorHostMemoryAlreadyRegistered);
  registered *grown = realloc(hosts, (size_t)(n_hosts + 1) * sizeof *grown);
  if (!grown) return em_leave(cudaErrorMemoryAllocation);
  hosts = grown, hosts[n_hosts++] = (registered){begin, end}, em_allocations++;
  return em_leave(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *p) {
  em_enter();
  for (int i = 0; i < n_hosts; i++)
    if (hosts[i].begin == (uint64_t)(uintptr_t)p) {
      const cudaError_t e = em_settle_all();
      hosts[i] = hosts[--n_hosts], em_allocations++;
      return em_leave(e);
    }
  return em_leave(cudaErrorHostMemoryNotRegistered);
}
