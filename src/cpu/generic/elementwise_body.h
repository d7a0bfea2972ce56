/* Elementwise ops over dense runs of one compute type; included by elementwise.c with T and NAME(x). x[0..] are the
 * operands' runs; y may be x[0]. */
static void NAME(relu)(T *y, const T *const *x, int64_t n, double epsilon) {
  (void)epsilon;
  for (int64_t i = 0; i < n; i++) y[i] = x[0][i] < 0 ? 0 : x[0][i]; /* NaN stays */
}

#ifdef SQRT
static void NAME(add)(T *y, const T *const *x, int64_t n, double epsilon) {
  (void)epsilon;
  for (int64_t i = 0; i < n; i++) y[i] = x[0][i] + x[1][i];
}

static void NAME(mul)(T *y, const T *const *x, int64_t n, double epsilon) {
  (void)epsilon;
  for (int64_t i = 0; i < n; i++) y[i] = x[0][i] * x[1][i];
}

/* x, scale, bias, mean, var */
static void NAME(batchnorm)(T *y, const T *const *x, int64_t n, double epsilon) {
  for (int64_t i = 0; i < n; i++) {
    y[i] = (x[0][i] - x[3][i]) * (x[1][i] / SQRT(x[4][i] + (T)epsilon)) + x[2][i];
  }
}
#endif

static void NAME(run)(const rdt_walk *w, const rdt_problem *p, const rdt_tensor *const *views, int threads) {
  const int team = w->pieces < 16 ? 1 : threads;
  rdt_load_fn *const load = rdt_loader(views[0]->dtype);
  rdt_store_fn *const store = rdt_storer(views[0]->dtype);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t piece = 0; piece < w->pieces; piece++) {
    T x[RDT_WALK_VIEWS - 1][RDT_WALK_PIECE];
    const T *const run[] = {x[0], x[1], x[2], x[3], x[4]};
    int64_t offset[RDT_WALK_VIEWS];
    const int64_t n = rdt_walk_piece(w, piece, offset);
    for (int v = 1; v < w->views; v++) load(x[v - 1], rdt_at(views[v], offset[v]), w->step[v], n);
    switch (p->op == RDT_KOP_BATCHNORM ? RDT_FN_COUNT : p->fn) {
#ifdef SQRT
      case RDT_FN_ADD:
        NAME(add)(x[0], run, n, p->epsilon);
        break;
      case RDT_FN_MUL:
        NAME(mul)(x[0], run, n, p->epsilon);
        break;
      case RDT_FN_COUNT:
        NAME(batchnorm)(x[0], run, n, p->epsilon);
        break;
#endif
      default:
        NAME(relu)(x[0], run, n, p->epsilon);
    }
    store(rdt_at(views[0], offset[0]), w->step[0], x[0], n);
  }
}

#undef T
#undef NAME
#undef SQRT
