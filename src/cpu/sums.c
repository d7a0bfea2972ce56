#include "cpu/sums.h"

#include <omp.h>
#include <string.h>

#include "core/cpu_info.h"
#include "core/memory.h"

/* One part is PART_ROWS x PART_COLS: 32 KB of f32, read by both sides and by the visitor before it leaves the cache. */
enum { PART_ROWS = 8, PART_COLS = 1024, PART_MIN = 16384 /* elements that are worth a thread */ };

typedef struct pass {
  const rdt_sums *s;
  const rdt_sums_table *table;
  bool swapped; /* x is read as its transpose, because its memory runs along the columns */
  int64_t rows, cols, ld, inner;
  rdt_side right, left;
  int64_t right_block, left_block; /* parts end where blocks end */
  int64_t blocks;                  /* of the left side */
  int64_t unit;                    /* threads share the rows in multiples of this */
  double *partials;                /* of the left side, one set a thread; NULL: straight to left.sum */
} pass;

static const rdt_sums_table *table(void) {
#if defined(__x86_64__)
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      return &rdt_sums_avx512;
    case RDT_ISA_AVX2:
      return &rdt_sums_avx2;
    default:
      break;
  }
#endif
  return &rdt_sums_generic;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static rdt_pair at(const rdt_pair *t, int64_t offset) {
  return (rdt_pair){t->dot + offset, t->sq ? t->sq + offset : NULL};
}

static rdt_line line(const rdt_side *side, const rdt_pair *sums, int64_t weight, int64_t sum) {
  if (!side->weight.dot) return (rdt_line){NULL, NULL, NULL, NULL};
  const rdt_pair w = at(&side->weight, weight), s = at(sums, sum);
  return (rdt_line){w.dot, w.sq, s.dot, s.sq};
}

static void clear(const rdt_pair *t, int64_t n) {
  memset(t->dot, 0, (size_t)n * sizeof(double));
  memset(t->sq, 0, (size_t)n * sizeof(double));
}

static int64_t block_count(int64_t n, int64_t block) {
  return (n + block - 1) / block;
}

/* One part of x as dense-enough rows of f32 (or f64): in place where it lies so, else converted into buf. */
static const void *part(const pass *p, int64_t row, int64_t rows, int64_t col, int64_t cols, double *buf, int64_t *ld,
                        bool *wide) {
  const rdt_tensor *x = &p->s->x;
  const char *data = x->data;
  const int64_t size = (int64_t)rdt_dtype_size(x->dtype), origin = row * p->ld + col * p->inner;
  *wide = x->dtype == RDT_F64;
  *ld = p->ld;
  if (p->inner == 1 && (x->dtype == RDT_F32 || x->dtype == RDT_F64)) return data + origin * size;
  *ld = cols;
  if (p->inner == 1 && (x->dtype == RDT_BF16 || x->dtype == RDT_F16 || x->dtype == RDT_S8 || x->dtype == RDT_U8)) {
    for (int64_t r = 0; r < rows; ++r)
      p->table->to_f32(data + (origin + r * p->ld) * size, x->dtype, cols, (float *)buf + r * cols);
    return buf;
  }
  *wide = true;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) buf[r * cols + c] = rdt_load(data, x->dtype, origin + r * p->ld + c * p->inner);
  return buf;
}

static void sum_part(const pass *p, int64_t row, int64_t rows, int64_t col, int64_t cols, const rdt_pair *left,
                     double *buf) {
  bool wide;
  int64_t ld;
  const void *x = part(p, row, rows, col, cols, buf, &ld, &wide);
  const rdt_line r = line(&p->right, &p->right.sum, col, col / p->right_block * p->rows + row);
  const rdt_line l = line(&p->left, left, row, row / p->left_block * p->cols + col);
  if (wide)
    p->table->f64(x, ld, (int)rows, cols, &r, &l);
  else
    p->table->f32(x, ld, (int)rows, cols, &r, &l);
  if (!p->s->visit) return;
  if (p->swapped)
    p->s->visit(p->s->user, col, cols, row, rows);
  else
    p->s->visit(p->s->user, row, rows, col, cols);
}

static void sum_rows(const pass *p, int64_t begin, int64_t end, const rdt_pair *left) {
  double buf[PART_ROWS * PART_COLS];
  for (int64_t r = begin, rows; r < end; r += rows) {
    rows = least(least(PART_ROWS, end - r), (r / p->left_block + 1) * p->left_block - r);
    for (int64_t c = 0, cols; c < p->cols; c += cols) {
      cols = least(least(PART_COLS, p->cols - c), (c / p->right_block + 1) * p->right_block - c);
      sum_part(p, r, rows, c, cols, left, buf);
    }
  }
}

static rdt_pair partial(const pass *p, int64_t thread) {
  const int64_t n = p->blocks * p->cols;
  double *base = p->partials + 2 * n * thread;
  return (rdt_pair){base, base + n};
}

/* Adds the threads' partial sums in the order of the threads. */
static void combine(const pass *p, int64_t parts, int64_t begin, int64_t end) {
  for (int64_t t = 0; t < parts; ++t) {
    const rdt_pair from = partial(p, t), to = p->left.sum;
    for (int64_t i = begin; i < end; ++i) {
      to.dot[i] = (t ? to.dot[i] : 0) + from.dot[i];
      to.sq[i] = (t ? to.sq[i] : 0) + from.sq[i];
    }
  }
}

static void run_thread(const pass *p, int64_t thread, int64_t threads) {
  const int64_t units = block_count(p->rows, p->unit);
  const int64_t begin = least(units * thread / threads * p->unit, p->rows);
  const int64_t end = least(units * (thread + 1) / threads * p->unit, p->rows);
  rdt_pair left = p->left.sum;
  if (p->right.weight.dot)
    for (int64_t j = 0; j < block_count(p->cols, p->right.block); ++j) {
      const rdt_pair mine = at(&p->right.sum, j * p->rows + begin);
      clear(&mine, end - begin);
    }
  if (p->partials) {
    left = partial(p, thread);
    clear(&left, p->blocks * p->cols);
  } else if (p->left.weight.dot) {
    const int64_t first = begin / p->left.block, last = block_count(end, p->left.block);
    const rdt_pair mine = at(&left, first * p->cols);
    if (end > begin) clear(&mine, (last - first) * p->cols);
  }
  sum_rows(p, begin, end, &left);
}

/* Empty sums are one block of zeros. */
static void set_empty(const rdt_side *side, int64_t length, int64_t count) {
  if (side->weight.dot) clear(&side->sum, (length ? block_count(length, side->block) : 1) * count);
}

rdt_status rdt_sums_run(const rdt_sums *s, int threads) {
  pass p = {.s = s, .table = table(), .right = s->right, .left = s->left};
  p.swapped = s->x.stride[1] != 1 && s->x.stride[0] == 1;
  p.rows = s->x.shape[p.swapped];
  p.cols = s->x.shape[!p.swapped];
  p.ld = s->x.stride[p.swapped];
  p.inner = s->x.stride[!p.swapped];
  if (p.swapped) {
    p.right = s->left;
    p.left = s->right;
  }
  if (p.rows == 0 || p.cols == 0) {
    set_empty(&p.right, p.cols, p.rows);
    set_empty(&p.left, p.rows, p.cols);
    return RDT_OK;
  }
  p.right_block = p.right.weight.dot ? p.right.block : p.cols;
  p.left_block = p.left.weight.dot ? p.left.block : p.rows;
  threads = (int)least(threads < 1 ? 1 : threads, 1 + p.rows * p.cols / PART_MIN);
  p.unit = PART_ROWS;
  if (p.left.weight.dot) {
    p.blocks = block_count(p.rows, p.left.block);
    if (threads == 1 || p.blocks >= 2 * threads) {
      p.unit = p.left.block;
    } else {
      p.partials = rdt_alloc((size_t)(2 * p.blocks * threads), (size_t)p.cols * sizeof(double));
      if (!p.partials) return RDT_ERR_NOMEM;
    }
  }
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    const int64_t parts = omp_get_num_threads(), thread = omp_get_thread_num();
    run_thread(&p, thread, parts);
    if (p.partials) {
      const int64_t n = p.blocks * p.cols;
#pragma omp barrier
      combine(&p, parts, n * thread / parts, n * (thread + 1) / parts);
    }
  }
  rdt_free(p.partials);
  return RDT_OK;
}
