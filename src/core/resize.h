/* Where elements of a Resize come from, for the CPU and for GPUs alike: included with RESIZE_CODE (what such functions
 * are), RESIZE_FLOOR, RESIZE_CEIL and RESIZE_ABS (of doubles), which end with it. */
#ifndef RDT_CORE_RESIZE_H
#define RDT_CORE_RESIZE_H

/* The place in the input of position `at` of a dimension: its lengths, the scale, rdt_resize_coordinates. */
RESIZE_CODE double rdt_resize_place(double in, double out, double scale, double at, int coordinates) {
  switch (coordinates) {
    case RDT_ALIGN_CORNERS: /* the length before it was rounded down, as ONNX's definition computes it */
      return in * scale > 1 && out > 1 ? at * (in - 1) / (in * scale - 1) : 0;
    case RDT_ASYMMETRIC:
      return at / scale;
    case RDT_TF_HALF_PIXEL_FOR_NN:
      return (at + 0.5) / scale;
    case RDT_PYTORCH_HALF_PIXEL:
      return out > 1 ? (at + 0.5) / scale - 0.5 : 0;
    case RDT_HALF_PIXEL_SYMMETRIC:
      return in / 2 * (1 - out / (in * scale)) + (at + 0.5) / scale - 0.5;
    default:
      return (at + 0.5) / scale - 0.5;
  }
}

/* how: rdt_resize_rounding */
RESIZE_CODE double rdt_resize_nearest(double x, int how) {
  return how == RDT_PREFER_FLOOR  ? RESIZE_CEIL(x - 0.5)
         : how == RDT_PREFER_CEIL ? RESIZE_FLOOR(x + 0.5)
         : how == RDT_ROUND_FLOOR ? RESIZE_FLOOR(x)
                                  : RESIZE_CEIL(x);
}

/* The weight of the k-th of four elements around a place, t behind the second. */
RESIZE_CODE double rdt_resize_cubic(double t, double a, int k) {
  const double d = RESIZE_ABS(t + 1 - k);
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

#undef RESIZE_CODE
#undef RESIZE_FLOOR
#undef RESIZE_CEIL
#undef RESIZE_ABS

#endif
