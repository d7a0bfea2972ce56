/* The blocked product over one compute type; included by product.c with
 *   T  the type, ACC its short name, DTYPE its rdt_dtype, NAME(x) the name of this instantiation, and RDT_INJECT in the
 * injecting one. */

/* acc[i][:] += sum over k in [from, to) of a[i][k] b[k][:]; four products an access to acc, in the order of k. */
static void NAME(accumulate)(T *acc, const T *a, const T *b, int64_t rows, int64_t cols, int64_t from, int64_t to) {
  for (int64_t i = 0; i < rows; i++) {
    T *restrict c = acc + i * NB;
    const T *restrict x = a + i * KB;
    int64_t k = from;
    for (; k + 4 <= to; k += 4) {
      const T x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
      const T *restrict y = b + k * NB;
#pragma omp simd
      for (int64_t j = 0; j < cols; j++) {
        c[j] = (((c[j] + x0 * y[j]) + x1 * y[NB + j]) + x2 * y[2 * NB + j]) + x3 * y[3 * NB + j];
      }
    }
    for (; k < to; k++) {
      const T x0 = x[k];
      const T *restrict y = b + k * NB;
#pragma omp simd
      for (int64_t j = 0; j < cols; j++) c[j] += x0 * y[j];
    }
  }
}

static void NAME(finish)(const rdt_product *q, int64_t batch, int64_t i, int64_t j0, int64_t cols, T *c, T *spare) {
  const rdt_epilogue *e = q->o->epilogue;
  const rdt_tensor *out = &q->o->out;
  const int d = q->column_dim;
  if (e && e->factor.rank >= 0) {
    rdt_product_requantize(q, (batch % q->channel_groups) * q->n + j0, q->row(q, out, batch, i) + j0 * out->stride[d],
                           out->stride[d], c, cols);
    return;
  }
  if (e) {
    rdt_epilogue_line line = {.n = cols, .raw = c, .dst = c, .act = &e->act, .alpha = e->alpha, .beta = e->beta};
    if (e->bias.rank >= 0) {
      const int64_t channel = (batch % q->channel_groups) * q->n + j0;
      rdt_loader(e->bias.dtype)(spare, rdt_at(&e->bias, channel * e->bias.stride[0]), e->bias.stride[0], cols);
      line.bias = spare;
    }
    if (e->residual.rank >= 0) {
      const rdt_tensor *r = &e->residual;
      rdt_loader(r->dtype)(spare + NB, rdt_at(r, q->row(q, r, batch, i) + j0 * r->stride[d]), r->stride[d], cols);
      line.residual = spare + NB;
    }
    rdt_epilogue_generic.ACC(&line);
  }
  rdt_storer(out->dtype)(rdt_at(out, q->row(q, out, batch, i) + j0 * out->stride[d]), out->stride[d], c, cols);
}

#ifdef RDT_INJECT
#define HIT_PARAMETER , const rdt_product_hit *h
#define HIT_ARGUMENT , h
#else
#define HIT_PARAMETER
#define HIT_ARGUMENT
#endif

static void NAME(tile)(const rdt_product *q, int64_t tile, T *work HIT_PARAMETER) {
  const int64_t row_tiles = (q->m + MB - 1) / MB, col_tiles = (q->n + NB - 1) / NB;
  const int64_t batch = tile / (row_tiles * col_tiles);
  const int64_t i0 = tile / col_tiles % row_tiles * MB, j0 = tile % col_tiles * NB;
  const int64_t rows = q->m - i0 < MB ? q->m - i0 : MB, cols = q->n - j0 < NB ? q->n - j0 : NB;
  T *const acc = work, *const a = acc + MB * NB, *const b = a + MB * KB, *const spare = b + KB * NB;
#ifdef RDT_INJECT
  const bool mine = h->batch == batch && h->i >= i0 && h->i < i0 + rows && h->j >= j0 && h->j < j0 + cols;
  const double share = h->hit->position * (double)q->k;
  const int64_t when = !(share > 0) ? 0 : share < (double)q->k ? (int64_t)share : q->k;
#endif
  memset(acc, 0, MB * NB * sizeof *acc);
  for (int64_t k0 = 0; k0 < q->k; k0 += KB) {
    const int64_t depth = q->k - k0 < KB ? q->k - k0 : KB;
    int64_t from = 0;
    q->load_a(q, batch, i0, rows, k0, depth, a, KB);
    q->load_b(q, batch, k0, depth, j0, cols, b, NB);
#ifdef RDT_INJECT
    if (mine && when >= k0 && when < k0 + depth) {
      NAME(accumulate)(acc, a, b, rows, cols, 0, when - k0);
      rdt_kernel_hit_apply(h->hit, acc + (h->i - i0) * NB + h->j - j0, DTYPE);
      from = when - k0;
    }
#endif
    NAME(accumulate)(acc, a, b, rows, cols, from, depth);
  }
#ifdef RDT_INJECT
  if (mine && when == q->k) rdt_kernel_hit_apply(h->hit, acc + (h->i - i0) * NB + h->j - j0, DTYPE);
#endif
  for (int64_t i = 0; i < rows; i++) NAME(finish)(q, batch, i0 + i, j0, cols, acc + i * NB, spare);
}

static rdt_status NAME(run)(const rdt_product *q, int threads HIT_PARAMETER, rdt_reason *why) {
  const int64_t tiles = q->batches * ((q->m + MB - 1) / MB) * ((q->n + NB - 1) / NB);
  const double work_of_all = (double)q->batches * (double)q->m * (double)q->n * (double)q->k;
  const int most = work_of_all < small ? 1 : threads, team = tiles < most ? (tiles > 0 ? (int)tiles : 1) : most;
  T *const work = rdt_alloc((size_t)team, WORK * sizeof *work);
  if (!work) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for the blocks of %d threads", team);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t t = 0; t < tiles; t++) NAME(tile)(q, t, work + (size_t)omp_get_thread_num() * WORK HIT_ARGUMENT);
  rdt_free(work);
  return RDT_OK;
}

#undef HIT_PARAMETER
#undef HIT_ARGUMENT
#undef T
#undef ACC
#undef DTYPE
#undef NAME
