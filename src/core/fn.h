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
typedef enum rdt_resize_mode { RDT_RESIZE_NEAREST, RDT_RESIZE_LINEAR, RDT_RESIZE_CUBIC } rdt_resize_mode;
typedef enum rdt_resize_coordinates {
  RDT_HALF_PIXEL,
  RDT_HALF_PIXEL_SYMMETRIC,
  RDT_PYTORCH_HALF_PIXEL,
  RDT_ALIGN_CORNERS,
  RDT_ASYMMETRIC,
  RDT_TF_HALF_PIXEL_FOR_NN
} rdt_resize_coordinates;
typedef enum rdt_resize_rounding {
  RDT_PREFER_FLOOR,
  RDT_PREFER_CEIL,
  RDT_ROUND_FLOOR,
  RDT_ROUND_CEIL
} rdt_resize_rounding;

#endif
