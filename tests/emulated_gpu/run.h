// What run.c (launches, blocks, whose turn it is) and warp.c (the lanes of one warp) tell each other.
#ifndef RDT_EMULATED_RUN_H
#define RDT_EMULATED_RUN_H

#include "emulated.h"

// Sets a warp up at the first instruction of its launch's function; false: no memory.
bool em_warp_begin(em_warp *warp, uint32_t lanes);
// Lets it run until its groups wait or pause, it ends (alive is 0) or, at a jump backwards, so many instructions have
// been done. EM_WAIT: nothing could be done. EM_PAUSE: a group has paused. EM_NEXT: neither. EM_FAULT.
em_turn em_warp_turn(em_warp *warp, uint64_t most);
void em_warp_end(em_warp *warp);
// Where it stands, as text.
int em_warp_say(const em_warp *warp, char *to, size_t room);
void em_frames_free(em_function *function);

// For the instructions of ops_control.c.
void em_jump(em_warp *warp, const em_instruction *in, uint32_t lanes);  // the rest goes on behind it
em_turn em_call(em_warp *warp, const em_instruction *in, uint32_t lanes);
void em_return(em_warp *warp, const em_instruction *in, uint32_t lanes);  // of an entry: they end
void em_exit(em_warp *warp, const em_instruction *in, uint32_t lanes);

static inline uint32_t em_dynamic_at(const em_function *entry) {  // where a block's dynamic shared memory begins
  size_t align = entry->dynamic_align > 16 ? entry->dynamic_align : 16;
  return (uint32_t)((entry->shared_bytes + align - 1) & ~(align - 1));
}

#endif
