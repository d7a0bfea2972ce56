/* Pooling of one output pixel over a run of channels; included by pool.c with T, LOWEST, IS_NAN and NAME(x). */
static void NAME(pixel)(const rdt_problem *p, const rdt_operands *o, int64_t image, int64_t oy, int64_t ox, int64_t c0,
                        int64_t n) {
  const rdt_tensor *x = &o->in[0], *y = &o->out;
  const bool max = p->op == RDT_KOP_MAXPOOL;
  const taps v = taps_of(&p->window, 0, x->shape[2], oy), h = taps_of(&p->window, 1, x->shape[3], ox);
  const double cells =
      p->window.count_pad ? (double)v.padded * (double)h.padded : (double)(v.end - v.first) * (double)(h.end - h.first);
  rdt_load_fn *const load = rdt_loader(x->dtype);
  T acc[CHANNELS], in[CHANNELS];
  for (int64_t i = 0; i < n; i++) acc[i] = max ? LOWEST(x->dtype) : 0;
  for (int64_t ky = v.first; ky < v.end; ky++) {
    for (int64_t kx = h.first; kx < h.end; kx++) {
      const int64_t iy = v.start + ky * p->window.dilation[0], ix = h.start + kx * p->window.dilation[1];
      load(in, rdt_at(x, image * x->stride[0] + c0 * x->stride[1] + iy * x->stride[2] + ix * x->stride[3]),
           x->stride[1], n);
      if (max) {
        for (int64_t i = 0; i < n; i++) acc[i] = in[i] > acc[i] || IS_NAN(in[i]) ? in[i] : acc[i];
      } else {
        for (int64_t i = 0; i < n; i++) acc[i] += in[i];
      }
    }
  }
  if (!max) {
    for (int64_t i = 0; i < n; i++) acc[i] = cells > 0 ? acc[i] / (T)cells : 0;
  }
  rdt_storer(y->dtype)(rdt_at(y, image * y->stride[0] + c0 * y->stride[1] + oy * y->stride[2] + ox * y->stride[3]),
                       y->stride[1], acc, n);
}

static void NAME(run)(const rdt_problem *p, const rdt_operands *o, int threads) {
  const int64_t h = o->out.shape[2], w = o->out.shape[3], parts = (o->out.shape[1] + CHANNELS - 1) / CHANNELS;
  const int64_t total = o->out.shape[0] * h * w * parts;
#pragma omp parallel for num_threads(total < 16 ? 1 : threads) schedule(static)
  for (int64_t t = 0; t < total; t++) {
    const int64_t pixel = t / parts, c = t % parts * CHANNELS;
    NAME(pixel)
    (p, o, pixel / (h * w), pixel / w % h, pixel % w, c,
     o->out.shape[1] - c < CHANNELS ? o->out.shape[1] - c : CHANNELS);
  }
}

#undef T
#undef LOWEST
#undef IS_NAN
#undef NAME
