// Where lanes go: jumps, calls, ends.
#include <string.h>

#include "ptx.h"
#include "run.h"

em_turn em_run_bra(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  em_jump(warp, in, lanes);
  return EM_JUMPED;
}

em_turn em_run_call(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  return em_call(warp, in, lanes);
}

em_turn em_run_ret(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  em_return(warp, in, lanes);
  return EM_JUMPED;
}

static em_turn run_exit(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  em_exit(warp, in, lanes);
  return EM_JUMPED;
}

static em_turn run_trap(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  return em_fault(warp, in, __builtin_ctz(lanes), "the kernel gives up");
}

// In front of what reads %clock, %clock64 or %globaltimer.
em_turn em_read_clock(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  (void)lanes;
  for (int lane = 0; lane < EM_LANES; lane++) em_set(warp, &in->operand[0], lane, em_clock);
  return EM_NEXT;
}

static const char *no_modifiers(em_instruction *in) {
  return in->modifier[0] && strcmp(in->modifier[0], "uni") != 0 ? "modifiers that are not known" : NULL;
}

const em_op em_ops_control[] = {
    {"bra", em_run_bra, no_modifiers},
    {"call", em_run_call, no_modifiers},
    {"ret", em_run_ret, no_modifiers},
    {"exit", run_exit, no_modifiers},
    {"trap", run_trap, no_modifiers},
    {"brkpt", run_trap, no_modifiers},
    {NULL, NULL, NULL},
};
