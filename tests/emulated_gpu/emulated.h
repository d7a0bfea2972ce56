// A GPU of sm_90a made of a processor, for tests where there is none: it reads the PTX of the kernels that ship out of
// the objects they ship in and runs it, warp by warp, with every block of a launch (or as many as fit) in flight at
// once.
//
//   runtime.h       the CUDA runtime that src/cuda calls: memory, streams, graphs, launches, tensor maps
//   ptx.h           PTX text -> em_module: functions of em_instruction, registers laid out in a warp's file
//   run.h           launches, clusters, blocks, warps: whose turn it is; which lanes go on
//   lanes.h, ops_*  what an instruction does: a table of em_op each, one row an opcode
//   later.h         what happens in the background (tma.c: boxes of tensor maps); race.h: who does not wait for whom
//
// It is as strict as the machine, and stricter: an access outside of what was allocated, one that is not aligned, a
// wait that never ends, an instruction that is not known or lanes of a warp that do not meet end the launch with a
// message. What is asynchronous (TMA, cp.async, wgmma) happens late: as late as the waits and barriers of the kernel
// allow.
#ifndef RDT_EMULATED_H
#define RDT_EMULATED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  EM_LANES = 32,
  EM_MODIFIERS = 11,
  EM_OPERANDS = 8,
  // The machine: EM_BLOCK_SHARED is the most that a block may ask for; a block occupies 1 KiB more.
  EM_SMS = 16,
  EM_SM_THREADS = 2048,
  EM_SM_BLOCKS = 32,
  EM_SM_SHARED = 233472,
  EM_BLOCK_SHARED = 232448,
  EM_SHARED_FIRST = 1024,  // the first address of shared memory; what is below is no kernel's
};

// ---- Programs (ptx*.c) ----

typedef enum em_type {  // of an instruction's data; .b8 .. .b128 are unsigned here
  EM_NONE,
  EM_U8,
  EM_U16,
  EM_U32,
  EM_U64,
  EM_S8,
  EM_S16,
  EM_S32,
  EM_S64,
  EM_F16,
  EM_F16X2,
  EM_BF16,
  EM_BF16X2,
  EM_F32,
  EM_F64,
  EM_PRED,
  EM_E4M3X2,
  EM_E5M2X2,
  EM_TF32
} em_type;
size_t em_type_bytes(em_type type);  // 0 for EM_NONE and EM_PRED

// Spaces of addresses. A generic address of shared memory is EM_SHARED_BASE + the 32-bit address; of global, local,
// param and const memory it is the processor's own pointer. A 32-bit shared address is its offset from block->shared
// (EM_SHARED_FIRST and more), or, of the cluster's window (mapa), (rank + 1) << 24 | offset.
typedef enum em_space { EM_GENERIC, EM_GLOBAL, EM_SHARED, EM_CLUSTER, EM_LOCAL, EM_PARAM, EM_CONST } em_space;
#define EM_SHARED_BASE UINT64_C(0x7f00000000000000)

typedef enum em_kind {
  EM_SINK,       // _, and no operand at all
  EM_REGISTER,   // also an immediate, a special register, the address of a symbol: rows that are set as a warp starts
  EM_PREDICATE,  // one bit a lane; also an immediate of .pred
  EM_ADDRESS,    // [register + offset]: always with a row (symbols are rows of addresses, those of parameters, too)
  EM_VECTOR,     // { a, b, .. }; of TMA [map, {c0, c1}] two operands in a row: an address and a vector
} em_kind;

// "d|p" (shfl, setp) are two operands in a row, d and p.
typedef struct em_operand {
  uint8_t kind;   // em_kind
  bool negated;   // !%p
  uint8_t bytes;  // of a register, an address's base: 2, 4 or 8 (.b8 has 2); lane's value: file + at + lane * bytes
  uint8_t count;  // of a vector
  uint32_t at;    // register, address's base: byte offset in the warp's file (a multiple of 64). Predicate: of its 32
                  // bits there
  union {
    int64_t offset;            // of an address
    struct em_operand *items;  // of a vector
  };
} em_operand;

struct em_warp;
struct em_instruction;
typedef enum em_turn {
  EM_NEXT,    // done: the lanes go on behind it
  EM_PAUSE,   // the same, but others shall run first: what a loop that waits for memory contains (ld.volatile,
              // ld.relaxed and ld.acquire of global memory, nanosleep)
  EM_JUMPED,  // done, and the lanes' place has been set (ops_control.c)
  EM_WAIT,   // could not run now (a barrier, lanes that have not come yet): the same again later; must not have changed
             // anything
  EM_FAULT,  // ends the launch; em_fault() has said why
} em_turn;
// Does one instruction for the lanes of the mask (never 0, guard counted in).
typedef em_turn em_run(struct em_warp *warp, const struct em_instruction *in, uint32_t lanes);

typedef struct em_op {  // one row an opcode, chosen by its first word ("add", "mma", "cp"; "cp.async.bulk" before "cp":
                        // longest first)
  const char *name;
  em_run *run;
  // Looks at the instruction once, as it is loaded: may set run, form and more, and refuse it (message; NULL: fine).
  // May be NULL.
  const char *(*bind)(struct em_instruction *in);
} em_op;
extern const em_op em_ops_arithmetic[], em_ops_memory[], em_ops_sync[], em_ops_matrix[], em_ops_bulk[],
    em_ops_control[];  // end: name NULL

typedef struct em_instruction {
  em_run *run;
  em_operand guard;  // @p, @!p: kind EM_PREDICATE, else EM_SINK
  int32_t target;    // of bra: index of an instruction; of call: of a function in the module, -1 - n of what it imports
  int16_t form, more;  // bind's, as it likes
  int64_t wide;        // bind's
  em_type type : 8,    // the last of the modifiers that is a type
      from : 8;        // the type before it, else EM_NONE; of cvt type is the destination's, from the source's
  em_space space : 8;  // the first of the modifiers that is one, else EM_GENERIC
  uint8_t operands;
  em_operand operand[EM_OPERANDS];
  const char *modifier[EM_MODIFIERS + 1];  // behind the row's name, in their order, types too: {"rn", "f32"}; NULL ends
                                           // them, and all behind it are NULL
  const char *text;                        // as it stands in the PTX, up to its ';', for messages
} em_instruction;
bool em_has(const em_instruction *in, const char *modifier);

typedef struct em_function {
  const char *name;
  bool entry;
  struct em_module *module;
  em_instruction *code;
  int32_t length;
  uint32_t file_bytes;       // of a warp's registers
  uint32_t constants_bytes;  // its first: what it starts with, and what nobody writes
  uint8_t *constants;        // immediates for every lane, addresses of global and shared symbols
  int params;
  uint32_t *param_at, *param_size;  // as PTX lays them out
  size_t param_bytes;
  size_t return_bytes;  // behind them, of a .func
  size_t shared_bytes;  // offset of the end of static shared memory, EM_SHARED_FIRST with it; dynamic begins
                        // behind it, aligned as it is declared
  size_t dynamic_align;
  size_t local_bytes;          // a lane's
  size_t stack_bytes;          // a lane's, what it calls counted in
  struct em_special *special;  // rows that run.c sets as a warp, a call starts: tid, ctaid, where parameters are ..
  int specials;
  int max_threads, cluster[3];  // .maxntid, .reqnctapercluster (0: none asked)
  int min_blocks;               // .minnctapersm
  struct em_text *source;       // ptx.c's
  struct em_frame *spare;       // run.c's: files of warps that have ended
} em_function;

typedef struct em_module {
  em_function *function;
  int functions;
  struct em_ptx *ptx;  // ptx.c's
  // global and constant variables: name, address, bytes
  struct em_variable {
    const char *name;
    void *data;
    size_t bytes;
  } * variable;
  int variables;
} em_module;
// Reads PTX, which must live as long as the module; NULL and em_message() on what it does not know. A function is
// decoded when it is found for the first time (an instruction that is not known shows then: NULL and em_message()).
em_module *em_module_read(const char *text, const char *name);
const em_function *em_module_find(em_module *module, const char *name);
void em_module_free(em_module *module);

// ---- Running (run.c, warp.c) ----

typedef struct em_warp {
  const em_function *function;  // whose code the lanes that run now are in (a .func while it is called)
  struct em_block *block;
  uint8_t *file;       // the registers there (what is done later keeps the file it was asked in)
  uint8_t *stack;      // lanes' local memory, the frames of all calls and what is handed to them in it: a lane's at
                       // stack + lane * stack_bytes
  size_t stack_bytes;  // of one lane
  uint32_t alive;      // lanes that have not ended
  uint32_t carry;      // CC.CF, a bit a lane (add.cc, addc, ..)
  uint32_t standing;   // lanes of the group that runs now, guard not counted: what .sync instructions compare with
  int index;           // in its block
  void *sync, *matrix, *bulk;  // what ops_sync.c, ops_matrix.c, ops_bulk.c keep a warp; NULL at first, freed by free()
                               // as the block ends
  struct em_flow *flow;        // run.c's
} em_warp;

typedef struct em_block {
  struct em_cluster *cluster;
  struct em_grid *grid;
  uint8_t *shared;
  size_t shared_bytes;   // with EM_SHARED_FIRST
  uint32_t id[3], rank;  // rank: in its cluster
  int sm;                // %smid
  em_warp *warp;
  int warps, alive;  // alive: warps that have not ended
  bool released;     // griddepcontrol.launch_dependents (ops_sync.c sets it)
  void *sync, *bulk;
} em_block;

// Its blocks' shared memory is there until all of them have ended.
typedef struct em_cluster {
  em_block *block;
  int blocks;
  void *sync;  // race.c's
} em_cluster;

typedef struct em_launch {
  const em_function *function;
  uint32_t grid[3], block[3], cluster[3];  // cluster: 1 1 1 where there is none (a function's own is taken then)
  size_t dynamic_bytes;
  void **params;           // as of cudaLaunchKernel
  bool cooperative;        // all blocks at once, or refused
  uint64_t seed;           // of the order in which warps run and late things happen
  struct em_grid *before;  // what griddepcontrol.wait waits for, until it has ended; NULL: nothing
} em_launch;
typedef struct em_grid {
  em_launch launch;  // params: not ours any more
  uint64_t steps;    // instructions of warps so far
  uint64_t random;   // em_random()'s
  uint8_t *params;   // the kernel's parameters
  size_t params_bytes;
  bool released, ended;      // all blocks have ended or asked for griddepcontrol.launch_dependents; all have ended
  void *bulk;                // ops_bulk.c's; NULL at first, freed by free() as the grid ends
  struct em_flight *flight;  // run.c's
} em_grid;
static inline uint32_t em_random(em_grid *grid) {
  uint64_t x = grid->random += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)((x ^ x >> 27) * UINT64_C(0x94d049bb133111eb) >> 32);
}
// Launches side by side: one goes in flight (NULL: refused, em_message()); all in flight run until one of them has
// ended (to be freed) or become released, that one is returned (NULL: a fault, which ends all of them, or nothing was
// in flight).
em_grid *em_launch_begin(const em_launch *launch);
em_grid *em_run_one(void);
void em_grid_free(em_grid *grid);
// Runs a launch to its end. False: it faulted, em_message() says where (kernel, block, warp, lane, instruction).
bool em_launch_run(const em_launch *launch);
int em_clusters_at_once(const em_launch *launch);  // clusters (blocks, where there are none) that the machine holds
extern uint64_t em_clock;                          // %clock64, %globaltimer: moves on with the steps of all warps

// A register's lanes, as numbers of the operand's width.
static inline uint64_t em_get(const em_warp *w, const em_operand *o, int lane) {
  const uint8_t *p = w->file + o->at + (size_t)lane * o->bytes;
  return o->bytes == 4 ? *(const uint32_t *)p : o->bytes == 8 ? *(const uint64_t *)p : *(const uint16_t *)p;
}
static inline void em_set(em_warp *w, const em_operand *o, int lane, uint64_t value) {
  uint8_t *p = w->file + o->at + (size_t)lane * o->bytes;
  if (o->bytes == 4) {
    *(uint32_t *)p = (uint32_t)value;
  } else if (o->bytes == 8) {
    *(uint64_t *)p = value;
  } else {
    *(uint16_t *)p = (uint16_t)value;
  }
}
static inline uint32_t *em_bits(em_warp *w, const em_operand *o) {
  return (uint32_t *)(void *)(w->file + o->at);
}  // a predicate's
// For loops over lanes: EM_ROW(uint32_t, w, o)[lane]. Only where o->bytes is the type's width (bind checks).
#define EM_ROW(type, w, o) ((type *)(void *)((w)->file + (o)->at))

// Memory of an address that the kernel made: bytes long, aligned to bytes (or to align). NULL: outside, not aligned;
// em_fault() has been called.
void *em_memory(em_warp *warp, const em_instruction *in, int lane, em_space space, uint64_t address, size_t bytes,
                size_t align);
// The block's own or, of a cluster's address, another block's shared memory; block_out may be NULL.
void *em_shared(em_warp *warp, const em_instruction *in, int lane, uint32_t address, size_t bytes, size_t align,
                em_block **block_out);

// Says what is wrong, with kernel, block, warp, lane (-1: none) and the instruction's text; returns EM_FAULT.
em_turn em_fault(const em_warp *warp, const em_instruction *in, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const char *em_message(void);  // of the last fault or refusal

// ---- Between the rooms ----

// Things that are under way (bulk copies, wgmma, cp.async), done late: ops_bulk.c keeps them. run.c calls this whenever
// all warps of all blocks in flight wait, and now and then by chance (seed), to let one of them happen; false: there is
// none.
bool em_later_one(em_grid *grid);
void em_later_warp(em_warp *warp);  // as a warp ends: what it has under way itself (wgmma) is done or dropped
// As the last block of a cluster ends, for each of its blocks, before their memory goes: what touches it is done.
// False: a fault (what had to be waited for).
bool em_later_block(em_block *block);
bool em_later_end(em_grid *grid);   // all that is left, as the launch ends
void em_later_drop(em_grid *grid);  // none of it happens: behind a fault, before blocks are freed
// ops_sync.c: what it keeps a block and a cluster.
void em_block_begin(em_block *block);
void em_block_end(em_block *block);
// graph.c: what cudaGraphSetConditional of a kernel calls, once a lane.
void em_set_conditional(uint64_t handle, uint32_t value);

// A tensor map as cuTensorMapEncodeTiled and Im2col of driver.c write it into the 128 bytes of a CUtensorMap, and as
// ops_bulk.c reads it.
typedef struct em_map {
  uint32_t magic;
  uint8_t type, rank, swizzle, interleave, l2, fill, im2col;  // CU_TENSOR_MAP_...
  uint8_t element_bytes;
  uint64_t base;
  uint64_t size[5];         // elements
  uint64_t pitch[4];        // bytes, of dimensions 1..
  uint16_t box[5];          // elements (im2col: box[0] channels, box[1] pixels)
  uint8_t step[5];          // elementStrides
  int16_t low[3], high[3];  // im2col's corners: of the width, the height, the depth
} em_map;
_Static_assert(sizeof(em_map) <= 128, "a CUtensorMap has 128 bytes");
#define EM_MAP_MAGIC UINT32_C(0x70616d45)

// What was allocated on the device, or on the host where the device reaches it (runtime.c): true where all bytes are
// inside one.
bool em_allocated(uint64_t address, size_t bytes);
bool em_allocation(uint64_t address, uint64_t *begin, uint64_t *end);  // the one that holds the address
extern uint64_t em_allocations;                                        // changes with every allocation and release

#endif
