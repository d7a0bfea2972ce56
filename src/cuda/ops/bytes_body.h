/* Products and convolutions of 8-bit integers, exact modulo 2^32, requantised or not; included by body.h. The walk is
 * image, line, column, channel of the result, which has no gaps; of a product one image of one column and many lines.
 * Views: x along image, channel, line, column; w along filter, channel, line, column of the window; bias, s32; factor,
 * f32; both along the channel, and perhaps none. bound: channels of the sum; zero: what counts as none in x, in w, and
 * in the result. */
#ifndef RDT_CUDA_OPS_BYTES_BODY_H
#define RDT_CUDA_OPS_BYTES_BODY_H

/* As the CPU's requantising: NaN becomes the lowest. */
BODY uint32_t rdt_op_bytes_end(const rdt_gpu_op *a, int32_t raw, uint32_t channel) {
  if (!a->view[4].data) return (uint32_t)raw;
  const int s8 = a->view[0].dtype == RDT_S8;
  const float zero = (float)a->zero[2], low = (s8 ? -128.0f : 0.0f) - zero, high = (s8 ? 127.0f : 255.0f) - zero;
  float x = (float)raw;
  if (a->view[3].data) x = x + (float)((const int32_t *)a->view[3].data)[channel * a->view[3].stride[0]];
  const float v = x * ((const float *)a->view[4].data)[channel * a->view[4].stride[0]];
  const float above = v > low ? v : low, within = above < high ? above : high;
  return (uint32_t)((int32_t)((within + 0x1.8p23f) - 0x1.8p23f) + a->zero[2]) & 0xffu;
}

BODY uint64_t rdt_op_bytes(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  const rdt_op_view *x = &a->view[1], *w = &a->view[2];
  const uint32_t channel = e % a->length[3], pixel = e / a->length[3];
  const int32_t column = (int32_t)(pixel % a->length[2]), rest = (int32_t)(pixel / a->length[2]);
  const int32_t line = rest % (int32_t)a->length[1], image = rest / (int32_t)a->length[1];
  uint32_t sum = 0;
  (void)f;
  *to = e;
  for (int32_t i = 0; i < a->window[0].kernel; i++)
    for (int32_t k = 0; k < a->window[1].kernel; k++) {
      const int32_t y = line * a->window[0].stride - a->window[0].before + i * a->window[0].dilation;
      const int32_t z = column * a->window[1].stride - a->window[1].before + k * a->window[1].dilation;
      if (y < 0 || y >= a->window[0].length || z < 0 || z >= a->window[1].length) continue;
      const int64_t from = image * x->stride[0] + y * x->stride[2] + z * x->stride[3];
      const int64_t by = channel * w->stride[0] + i * w->stride[2] + k * w->stride[3];
      for (int64_t c = 0; c < a->bound[0]; c++)
        sum += (uint32_t)(rdt_op_integer(x, from + c * x->stride[1]) - a->zero[0]) *
               (uint32_t)(rdt_op_integer(w, by + c * w->stride[1]) - a->zero[1]);
    }
  return rdt_op_bytes_end(a, (int32_t)sum, channel);
}

#endif
