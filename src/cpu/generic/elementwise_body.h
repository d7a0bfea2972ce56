/* batchnorm over dense runs of one compute type; included by elementwise.c with T, SQRT and NAME(x). */
static void NAME(run)(const rdt_walk *w, const rdt_problem *p, const rdt_tensor *const *views, int threads) {
  const int team = w->pieces < 16 ? 1 : threads;
  rdt_load_fn *const load = rdt_loader(views[0]->dtype);
  rdt_store_fn *const store = rdt_storer(views[0]->dtype);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t piece = 0; piece < w->pieces; piece++) {
    T x[RDT_WALK_VIEWS - 1][RDT_WALK_PIECE]; /* x, scale, bias, mean, var */
    int64_t offset[RDT_WALK_VIEWS];
    const int64_t n = rdt_walk_piece(w, piece, offset);
    for (int v = 1; v < w->views; v++) load(x[v - 1], rdt_at(views[v], offset[v]), w->step[v], n);
    for (int64_t i = 0; i < n; i++) x[0][i] = (x[0][i] - x[3][i]) * (x[1][i] / SQRT(x[4][i] + (T)p->epsilon)) + x[2][i];
    store(rdt_at(views[0], offset[0]), w->step[0], x[0], n);
  }
}

#undef T
#undef NAME
#undef SQRT
