/* Names of functions and modes: what the GPU's kernels, which are C++, share with the rest. */
#ifndef RDT_CORE_FN_H
#define RDT_CORE_FN_H

/* Functions of elementwise ops, reductions and epilogues (functions.def). */
typedef enum rdt_fn {
#define X(id, name, operands, kind) RDT_FN_##id,
#include "core/functions.def"
#undef X
  RDT_FN_COUNT
} rdt_fn;

typedef enum rdt_pad_mode { RDT_PAD_CONSTANT, RDT_PAD_REFLECT, RDT_PAD_EDGE, RDT_PAD_WRAP } rdt_pad_mode;

#endif
