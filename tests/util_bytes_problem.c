/* Products and convolutions of 8-bit integers, as quantised networks have them, and what makes and unmakes these. */
#include <math.h>
#include <string.h>

#include "util_problem.h"

static void requantise(util_case *c, util_random *r, int64_t channels) {
  rdt_epilogue *e = &c->p.epilogue;
  const int64_t factors = util_next(r) % 2 ? channels : 1;
  e->factor = util_view(c, r, RDT_F32, 1, &factors, UTIL_DENSE);
  for (int64_t i = 0; i < factors; i++) rdt_store(e->factor.data, RDT_F32, i, 1e-3 * (1.5 + util_uniform(r)));
  if (factors == 1) e->factor.shape[0] = channels, e->factor.stride[0] = 0;
  e->zero = (int32_t)(util_next(r) % 40) - (c->p.out.dtype == RDT_S8 ? 20 : 0);
  if (util_next(r) % 2) return;
  e->bias = util_view(c, r, RDT_S32, 1, &channels, UTIL_DENSE);
  for (int64_t i = 0; i < channels; i++) rdt_store_int(e->bias.data, RDT_S32, i, (int64_t)(util_next(r) % 9000) - 4500);
}

void util_case_make_bytes(util_case *c, util_random *r) {
  static const int64_t sums[] = {1, 3, 16, 20, 48, 64, 80, 144}, filters[] = {4, 8, 12, 64, 68, 100};
  static const int64_t sides[] = {3, 5, 9, 14}, kernels[] = {1, 1, 2, 3}, few[] = {1, 1, 2};
  static const rdt_dtype pairs[][2] = {{RDT_U8, RDT_S8}, {RDT_S8, RDT_S8}, {RDT_S8, RDT_U8}};
  const rdt_dtype *const in = pairs[util_next(r) % 3];
  const bool conv = util_next(r) % 3, ends = util_next(r) % 4;
  const int64_t k = util_pick(r, sums, 8), n = util_pick(r, filters, 6), images = util_pick(r, few, 3);
  const rdt_dtype out = !ends ? RDT_S32 : util_next(r) % 2 ? RDT_U8 : RDT_S8;
  memset(c, 0, sizeof *c);
  c->p = (rdt_problem){.op = conv ? RDT_KOP_CONV : RDT_KOP_GEMM,
                       .n_in = 2,
                       .in = c->in,
                       .acc = RDT_S32,
                       .zero = {(int32_t)(util_next(r) % 9) - (in[0] == RDT_S8 ? 4 : 0), 0},
                       .epilogue = RDT_EPILOGUE_NONE};
  if (util_next(r) % 3 == 0) c->p.zero[1] = (int32_t)(util_next(r) % 9) - (in[1] == RDT_S8 ? 4 : 0);
  if (conv) {
    int64_t x[4] = {images, k, util_pick(r, sides, 4), util_pick(r, sides, 4)}, y[4] = {images, n, 0, 0};
    int64_t w[4] = {n, k, util_pick(r, kernels, 4), util_pick(r, kernels, 4)};
    rdt_window *win = &c->p.window;
    win->groups = 1;
    for (int s = 0; s < 2; s++) {
      win->kernel[s] = w[2 + s], win->stride[s] = util_pick(r, few, 3), win->dilation[s] = util_pick(r, few, 3);
      win->before[s] = win->after[s] = (int64_t)(util_next(r) % 2);
      const int64_t reach = (w[2 + s] - 1) * win->dilation[s] + 1;
      if (x[2 + s] + 2 * win->before[s] < reach) x[2 + s] = reach;
      y[2 + s] = (x[2 + s] + 2 * win->before[s] - reach) / win->stride[s] + 1;
    }
    c->in[0] = util_view(c, r, in[0], 4, x, UTIL_CHANNELS_LAST);
    c->in[1] = util_view(c, r, in[1], 4, w, util_next(r) % 2 ? UTIL_DENSE : UTIL_CHANNELS_LAST);
    c->p.out = util_view(c, r, out, 4, y, UTIL_CHANNELS_LAST);
  } else {
    const int64_t x[2] = {util_pick(r, sides, 4) * 17, k}, w[2] = {k, n}, y[2] = {x[0], n};
    c->in[0] = util_view(c, r, in[0], 2, x, UTIL_DENSE);
    c->in[1] = util_view(c, r, in[1], 2, w, util_next(r) % 2 ? UTIL_DENSE : UTIL_TRANSPOSED);
    c->p.out = util_view(c, r, out, 2, y, UTIL_DENSE);
  }
  if (ends) requantise(c, r, n);
}

void util_case_make_quantising(util_case *c, int i, int columns, double step) {
  static const rdt_dtype reals[] = {RDT_F32, RDT_F16, RDT_BF16, RDT_F64}, bytes[] = {RDT_S8, RDT_U8};
  static const rdt_fn fns[] = {RDT_FN_QUANTIZE, RDT_FN_REQUANTIZE, RDT_FN_DEQUANTIZE};
  const rdt_dtype real = reals[i % 4], byte = bytes[i / 4 % 2];
  const rdt_fn fn = fns[i / 8 % 3];
  const bool back = fn == RDT_FN_DEQUANTIZE, zeros = i / 24;
  const int64_t shape[] = {UTIL_QUANTISED_ROWS, columns}, n = shape[0] * shape[1], row[] = {columns};
  util_random r = {0};
  memset(c, 0, sizeof *c);
  c->p = (rdt_problem){
      .op = RDT_KOP_QUANTIZE, .fn = fn, .n_in = zeros ? 3 : 2, .in = c->in, .epilogue = RDT_EPILOGUE_NONE};
  c->in[0] = util_view(c, &r, back ? byte : real, 2, shape, UTIL_DENSE);
  for (int64_t e = 0; e < n; e++)
    if (back)
      rdt_store_int(c->in[0].data, byte, e, (e * 37) % 251 - (byte == RDT_S8 ? 125 : 0));
    else
      rdt_store(c->in[0].data, real, e, e == 5 ? NAN : e == 6 ? INFINITY : (double)(e - n / 2) * step);
  for (int k = 1; k < c->p.n_in; k++) {
    const rdt_tensor one = util_view(c, &r, k == 1 ? real : byte, 1, row, UTIL_DENSE);
    c->in[k] = rdt_tensor_dense(one.data, one.dtype, 2, shape);
    c->in[k].stride[0] = 0;
    for (int64_t j = 0; j < columns; j++)
      if (k == 1)
        rdt_store(one.data, real, j, 0.25 + 0.125 * (double)(j % 9));
      else
        rdt_store_int(one.data, byte, j, byte == RDT_S8 ? j % 9 - 4 : 100 + j % 9);
  }
  c->p.out = util_view(c, &r, back ? real : byte, 2, shape, UTIL_DENSE);
}
