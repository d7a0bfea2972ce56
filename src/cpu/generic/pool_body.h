/* Pooling of one output pixel over a run of channels; included by pool.c with T, LOWEST, IS_NAN and NAME(x). */
static void NAME(pool)(const rdt_problem *p, const rdt_tensor *x, const rdt_tensor *y, int64_t image, int64_t pixel,
                       int64_t c0, int64_t n) {
  const bool max = p->op == RDT_KOP_MAXPOOL;
  const field f = field_of(p, x, y, pixel);
  const T cells = (T)(p->window.count_pad ? f.padded : (double)f.inside);
  rdt_load_fn *const load = rdt_loader(x->dtype);
  const int64_t base = image * x->stride[0] + c0 * x->stride[1];
  T acc[CHANNELS], in[CHANNELS];
  for (int64_t i = 0; i < n; i++) acc[i] = max ? LOWEST(x->dtype) : 0;
  walk t = walk_begin(&f, x, x->rank - 2);
  for (int64_t k = 0; k < f.inside; k++, walk_next(&t)) {
    load(in, rdt_at(x, base + t.offset), x->stride[1], n);
    if (max) {
      for (int64_t i = 0; i < n; i++) acc[i] = in[i] > acc[i] || IS_NAN(in[i]) ? in[i] : acc[i];
    } else {
      for (int64_t i = 0; i < n; i++) acc[i] += in[i];
    }
  }
  if (!max) {
    for (int64_t i = 0; i < n; i++) acc[i] = cells > 0 ? acc[i] / cells : 0;
  }
  rdt_storer(y->dtype)(rdt_at(y, image * y->stride[0] + c0 * y->stride[1] + rdt_pixel_offset(y, pixel)), y->stride[1],
                       acc, n);
}

/* Where the first highest lies, the first NaN above all. */
static void NAME(position)(const rdt_problem *p, const rdt_tensor *x, const rdt_tensor *y, int64_t image, int64_t pixel,
                           int64_t c0, int64_t n) {
  const field f = field_of(p, x, y, pixel);
  const int64_t base = image * x->stride[0] + c0 * x->stride[1], pixels = rdt_tensor_pixels(x);
  int64_t *const to = rdt_at(y, image * y->stride[0] + c0 * y->stride[1] + rdt_pixel_offset(y, pixel));
  T acc[CHANNELS], in[CHANNELS];
  for (int64_t i = 0; i < n; i++) to[i * y->stride[1]] = -1;
  walk t = walk_begin(&f, x, x->rank - 2);
  for (int64_t k = 0; k < f.inside; k++, walk_next(&t)) {
    const int64_t number = walk_number(&t, p->ints[0] != 0);
    rdt_loader(x->dtype)(in, rdt_at(x, base + t.offset), x->stride[1], n);
    for (int64_t i = 0; i < n; i++) {
      if (k > 0 && !(in[i] > acc[i]) && (!IS_NAN(in[i]) || IS_NAN(acc[i]))) continue;
      acc[i] = in[i];
      to[i * y->stride[1]] = (image * x->shape[1] + c0 + i) * pixels + number;
    }
  }
}

static void NAME(run)(const rdt_problem *p, const rdt_operands *o, int threads) {
  const rdt_tensor *x = &o->in[0], *y = &o->out;
  const int64_t channels = y->shape[1], parts = (channels + CHANNELS - 1) / CHANNELS, pixels = rdt_tensor_pixels(y);
  const int64_t total = y->shape[0] * pixels * parts;
#pragma omp parallel for num_threads(total < 16 ? 1 : threads) schedule(static)
  for (int64_t t = 0; t < total; t++) {
    const int64_t pixel = t / parts, c = t % parts * CHANNELS, n = channels - c < CHANNELS ? channels - c : CHANNELS;
    (p->fn == RDT_FN_ARGMAX ? NAME(position) : NAME(pool))(p, x, y, pixel / pixels, pixel % pixels, c, n);
  }
}

#undef T
#undef LOWEST
#undef IS_NAN
#undef NAME
