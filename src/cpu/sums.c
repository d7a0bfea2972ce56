#include "cpu/sums.h"

#include <omp.h>
#include <string.h>

#include "core/cpu_info.h"
#include "core/memory.h"

/* One part is PART_ROWS x PART_COLS: 32 KB of f32, read by both sides and by the visitor before it leaves the cache. */
enum {
  PART_ROWS = RDT_SUMS_ROWS,
  PART_COLS = RDT_SUMS_COLS,
  PART_MIN = 65536 /* elements that are worth a thread: about 10 us */
};

typedef struct pass {
  const rdt_sums *s;
  const rdt_sums_table *table;
  bool swapped; /* x is read as its transpose, because its memory runs along the columns */
  int64_t rows, cols, ld, inner;
  rdt_side right, left;
  int64_t right_block, left_block; /* parts end where blocks end */
  int64_t blocks;                  /* of the left side */
  int64_t unit;                    /* threads share the rows (by_columns: the columns) in multiples of this */
  bool by_columns;
  double *partials; /* of the left side, one set a thread; NULL: straight to left.sum */
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

/* The same of integers, as they are or as s32. */
static const void *integers(const pass *p, int64_t row, int64_t rows, int64_t col, int64_t cols, int32_t *buf,
                            int64_t *ld, rdt_dtype *dtype) {
  const rdt_tensor *x = &p->s->x;
  const char *data = x->data;
  const int64_t origin = row * p->ld + col * p->inner;
  *dtype = x->dtype;
  *ld = p->ld;
  if (p->inner == 1) return data + origin * (int64_t)rdt_dtype_size(x->dtype);
  *dtype = RDT_S32;
  *ld = cols;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      buf[r * cols + c] = (int32_t)rdt_load_int(data, x->dtype, origin + r * p->ld + c * p->inner);
  return buf;
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
  int64_t ld;
  const rdt_line r = line(&p->right, &p->right.sum, col, col / p->right_block * p->rows + row);
  const rdt_line l = line(&p->left, left, row, row / p->left_block * p->cols + col);
  if (p->s->modulo) {
    rdt_dtype dtype;
    const void *x = integers(p, row, rows, col, cols, (int32_t *)(void *)buf, &ld, &dtype);
    p->table->words(x, dtype, ld, (int)rows, cols, &r, &l);
  } else {
    bool wide;
    const void *x = part(p, row, rows, col, cols, buf, &ld, &wide);
    if (wide)
      p->table->f64(x, ld, (int)rows, cols, &r, &l);
    else
      p->table->f32(x, ld, (int)rows, cols, &r, &l);
  }
  if (!p->s->visit) return;
  if (p->swapped)
    p->s->visit(p->s->user, col, cols, row, rows);
  else
    p->s->visit(p->s->user, row, rows, col, cols);
}

static void sum_region(const pass *p, int64_t row, int64_t row_end, int64_t col, int64_t col_end,
                       const rdt_pair *left) {
  double buf[PART_ROWS * PART_COLS];
  for (int64_t r = row, rows; r < row_end; r += rows) {
    rows = least(least(PART_ROWS, row_end - r), (r / p->left_block + 1) * p->left_block - r);
    for (int64_t c = col, cols; c < col_end; c += cols) {
      cols = least(least(PART_COLS, col_end - c), (c / p->right_block + 1) * p->right_block - c);
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

static void run_columns(const pass *p, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < p->blocks && end > begin; ++i) {
    const rdt_pair mine = at(&p->left.sum, i * p->cols + begin);
    clear(&mine, end - begin);
  }
  sum_region(p, 0, p->rows, begin, end, &p->left.sum);
}

static void run_rows(const pass *p, int64_t thread, int64_t begin, int64_t end) {
  rdt_pair left = p->left.sum;
  if (p->right.weight.dot)
    for (int64_t j = 0; j < block_count(p->cols, p->right.block); ++j) {
      const rdt_pair mine = at(&p->right.sum, j * p->rows + begin);
      clear(&mine, end - begin);
    }
  if (p->partials) {
    left = partial(p, thread);
    clear(&left, p->blocks * p->cols);
  } else if (p->left.weight.dot && end > begin) {
    const int64_t first = begin / p->left.block, last = block_count(end, p->left.block);
    const rdt_pair mine = at(&left, first * p->cols);
    clear(&mine, (last - first) * p->cols);
  }
  sum_region(p, begin, end, 0, p->cols, &left);
}

static void run_thread(const pass *p, int64_t thread, int64_t threads) {
  const int64_t length = p->by_columns ? p->cols : p->rows, units = block_count(length, p->unit);
  const int64_t begin = least(units * thread / threads * p->unit, length);
  const int64_t end = least(units * (thread + 1) / threads * p->unit, length);
  if (p->by_columns)
    run_columns(p, begin, end);
  else
    run_rows(p, thread, begin, end);
}

/* Empty sums are one block of zeros. */
static void set_empty(const rdt_side *side, int64_t length, int64_t count) {
  if (side->weight.dot) clear(&side->sum, (length ? block_count(length, side->block) : 1) * count);
}

static pass orient(const rdt_sums *s) {
  pass p = {.s = s, .table = table(), .right = s->right, .left = s->left, .unit = PART_ROWS};
  p.swapped = s->x.stride[1] != 1 && s->x.stride[0] == 1;
  p.rows = s->x.shape[p.swapped];
  p.cols = s->x.shape[!p.swapped];
  p.ld = s->x.stride[p.swapped];
  p.inner = s->x.stride[!p.swapped];
  if (p.swapped) {
    p.right = s->left;
    p.left = s->right;
  }
  p.right_block = p.right.weight.dot ? p.right.block : p.cols;
  p.left_block = p.left.weight.dot ? p.left.block : p.rows;
  return p;
}

/* How the threads share a pass: whole blocks of rows where there are enough; else columns, if no sums along the rows
 * are wanted; else rows, with sums of each thread to be added up in the end. */
static rdt_status share(pass *p, int threads) {
  const int64_t line = 16; /* columns: sums of two threads do not share a cache line */
  if (!p->left.weight.dot) return RDT_OK;
  p->blocks = block_count(p->rows, p->left.block);
  if (threads == 1 || p->blocks >= 2 * threads) {
    p->unit = p->left.block;
  } else if (!p->right.weight.dot && p->cols >= 8 * line * threads) {
    p->by_columns = true;
    p->unit = line;
  } else {
    p->partials = rdt_alloc((size_t)(2 * p->blocks * threads), (size_t)p->cols * sizeof(double));
    if (!p->partials) return RDT_ERR_NOMEM;
  }
  return RDT_OK;
}

static void run_together(const pass *p, int count, int threads) {
  if (threads == 1) { /* a team of one costs as much as a small pass */
    for (int i = 0; i < count; ++i) run_thread(&p[i], 0, 1);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t parts = omp_get_num_threads(), thread = omp_get_thread_num();
    bool partials = false;
    for (int i = 0; i < count; ++i) {
      run_thread(&p[i], thread, parts);
      partials = partials || p[i].partials;
    }
    if (partials) {
#pragma omp barrier
      for (int i = 0; i < count; ++i) {
        const int64_t n = p[i].partials ? p[i].blocks * p[i].cols : 0;
        if (n) combine(&p[i], parts, n * thread / parts, n * (thread + 1) / parts);
      }
    }
  }
}

rdt_status rdt_sums_run(const rdt_sums *s, int count, int threads) {
  pass p[RDT_SUMS_TOGETHER];
  rdt_status status = RDT_OK;
  int n = 0;
  int64_t elements = 0;
  for (int i = 0; i < count; ++i) {
    p[n] = orient(&s[i]);
    if (p[n].rows > 0 && p[n].cols > 0) {
      elements += p[n].rows * p[n].cols;
      ++n;
      continue;
    }
    set_empty(&p[n].right, p[n].cols, p[n].rows);
    set_empty(&p[n].left, p[n].rows, p[n].cols);
  }
  threads = (int)least(threads < 1 ? 1 : threads, 1 + elements / PART_MIN);
  for (int i = 0; i < n && status == RDT_OK; ++i) status = share(&p[i], threads);
  if (status == RDT_OK) run_together(p, n, threads);
  for (int i = 0; i < n; ++i) rdt_free(p[i].partials);
  return status;
}
