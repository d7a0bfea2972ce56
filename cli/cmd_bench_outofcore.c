/* redoubt bench outofcore: the strategies of products larger than memory, on operands of its own. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_common.h"
#include "core/file.h"
#include "core/memory.h"
#include "outofcore_figures.h"
#include "product.h"
#include "report/table.h"

enum { SIDES = 2 }; /* protected, not protected */

typedef struct bench {
  const rdt_settings *settings;
  rdt_product_run run;
  char folder[1024], path[3][1100];
  int64_t m, n, k;
  cJSON *doc, *runs;
  rdt_table *table;
  rdt_outofcore_figures figures;
  bool fault;
} bench;

enum { NUMBERS = 1 << 20 };

/* Rows are pieces of one long sequence of random numbers, wherever they begin in it: large operands are made as fast as
 * a file is written. */
static rdt_status make_rows(const rdt_matrix *m, char *numbers, uint64_t seed, rdt_reason *why) {
  const size_t size = rdt_dtype_size(m->dtype);
  for (int64_t j = 0; j < NUMBERS; j++) rdt_store(numbers, m->dtype, j, rdt_bench_draw(&seed));
  for (int64_t at = NUMBERS; at < NUMBERS + m->cols; at += NUMBERS) {
    const int64_t left = NUMBERS + m->cols - at;
    memcpy(numbers + (size_t)at * size, numbers, (size_t)(left < NUMBERS ? left : NUMBERS) * size);
  }
  for (int64_t i = 0; i < m->rows; i++) {
    const rdt_part_of part = {i, 1, 0, m->cols};
    const double from = (rdt_bench_draw(&seed) + 1.0) * 0.5 * NUMBERS;
    RDT_TRY(rdt_matrix_write(m, &part, numbers + (size_t)from * size, why));
    if (rdt_signals_caught()) return RDT_ERR_CANCELLED;
  }
  return RDT_OK;
}

static rdt_status make_operand(const char *path, rdt_dtype dtype, int64_t rows, int64_t cols, uint64_t seed,
                               rdt_reason *why) {
  rdt_matrix m;
  RDT_TRY(rdt_matrix_create(path, dtype, rows, cols, &m, why));
  char *numbers = rdt_alloc((size_t)(NUMBERS + cols), rdt_dtype_size(dtype));
  const rdt_status status = numbers ? make_rows(&m, numbers, seed, why)
                                    : rdt_fail(why, RDT_ERR_NOMEM, "no memory for a row of %" PRId64, cols);
  rdt_free(numbers);
  rdt_matrix_close(&m);
  return status;
}

static rdt_status make_operands(bench *b) {
  const rdt_settings *s = b->settings;
  const rdt_dtype dtype = rdt_options_dtype(s);
  const char *parent = s->out ? s->out : getenv("TMPDIR");
  rdt_reason *why = &b->run.why;
  snprintf(b->folder, sizeof b->folder, "%.900s/redoubt-outofcore-XXXXXX", parent && *parent ? parent : "/tmp");
  if (!mkdtemp(b->folder)) {
    const int code = errno;
    b->folder[0] = '\0';
    return rdt_file_fail(why, parent ? parent : "/tmp", "written", code, "");
  }
  static const char *const names[] = {"A.npy", "B.npy", "C.npy"};
  for (int i = 0; i < 3; i++) snprintf(b->path[i], sizeof b->path[i], "%s/%s", b->folder, names[i]);
  RDT_TRY(make_operand(b->path[0], dtype, b->m, b->k, 1, why));
  return make_operand(b->path[1], dtype, b->k, b->n, 2, why);
}

static void clean(const bench *b) {
  static const char *const ends[] = {"", ".sums", ".part", ".part.sums"};
  char path[1200];
  if (!*b->folder) return;
  for (int i = 0; i < 3; i++)
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
      snprintf(path, sizeof path, "%s%s", b->path[i], ends[e]);
      unlink(path);
    }
  rmdir(b->folder);
}

static void put_row(bench *b, const rdt_matmul_result *x, double unprotected) {
  rdt_table *t = b->table;
  rdt_table_cell(t, "%s", rdt_strategy_info(x->splits.strategy)->name);
  rdt_table_cell(t, "%" PRId64 " x %" PRId64 ", %" PRId64, x->splits.m, x->splits.n, x->splits.k);
  rdt_table_cell(t, "%.3f", x->forecast.seconds);
  rdt_table_cell(t, "%.3f", x->seconds);
  rdt_table_cell(t, "%.1f", 1e-9 * x->flops / x->seconds);
  rdt_table_cell(t, "%.1f", x->flops / (x->load_bytes + x->store_bytes));
  rdt_table_cell(t, "%.3f", x->load_seconds);
  rdt_table_cell(t, "%.3f", x->store_seconds);
  rdt_table_cell(t, "%.3f", x->busy_seconds);
  rdt_table_cell(t, "%.3f", unprotected);
  rdt_table_cell(t, "%.3f", x->seconds / unprotected);
  rdt_table_cell(t, "%" PRId64, x->faults);
  rdt_table_cell(t, "%s", rdt_verdict_name(x->verdict));
}

/* Unprotected first: whoever comes second finds the operands where the first has left them in memory. */
static rdt_status run_strategy(bench *b, rdt_strategy strategy) {
  const rdt_matmul_plant plant = b->run.job.plant;
  double unprotected = NAN;
  b->run.job.strategy = strategy;
  for (int side = SIDES - 1; side >= 0; side--) {
    b->run.job.protected = side == 0;
    b->run.job.plant = side == 0 ? plant : (rdt_matmul_plant){0};
    RDT_TRY(rdt_product_go(&b->run));
    cJSON *o = cJSON_CreateObject();
    rdt_product_json(&b->run, o);
    cJSON_AddItemToArray(b->runs, o);
    b->fault = b->fault || b->run.status == RDT_ERR_FAULT;
    if (side > 0) unprotected = b->run.result.seconds;
    unlink(b->path[2]);
  }
  b->run.job.plant = plant;
  put_row(b, &b->run.result, unprotected);
  rdt_product_tell_lost(&b->run);
  rdt_outofcore_figures_add(&b->figures, &b->run);
  return RDT_OK;
}

static rdt_status measure(bench *b) {
  const rdt_strategy asked = b->run.job.strategy;
  b->run.job.a = b->path[0];
  b->run.job.b = b->path[1];
  b->run.job.c = b->path[2];
  if (b->run.job.mem_limit == 0) b->run.job.mem_limit = 10000000;
  if (b->settings->strategy) return run_strategy(b, asked);
  for (int i = 0; i < RDT_STRATEGY_COUNT; i++) RDT_TRY(run_strategy(b, (rdt_strategy)i));
  return RDT_OK;
}

static rdt_status say(bench *b) {
  char limit[32];
  rdt_reason *why = &b->run.why;
  if (b->settings->format == RDT_FORMAT_JSON) return rdt_json_print(b->doc, why);
  const rdt_matmul_result *x = &b->run.result;
  printf("%" PRId64 " x %" PRId64 " times %" PRId64 " x %" PRId64 " %s within %s, %d thread%s%s\n\n", b->m, b->k, b->k,
         b->n, rdt_dtype_name(x->task.in), rdt_bytes_text((double)x->limit, limit, sizeof limit), x->task.threads,
         x->task.threads == 1 ? "" : "s", b->settings->errors ? "; faults planted" : "");
  if (!rdt_table_print(b->table, stdout, b->settings->format == RDT_FORMAT_MD))
    return rdt_fail(why, RDT_ERR_NOMEM, "out of memory while writing the table");
  rdt_outofcore_figures_rank(&b->figures, stdout);
  return RDT_OK;
}

static rdt_status go(bench *b) {
  const rdt_settings *s = b->settings;
  RDT_TRY(rdt_product_open(&b->run, s));
  b->doc = rdt_document("bench-outofcore");
  b->runs = cJSON_AddArrayToObject(b->doc, "runs");
  b->table = rdt_table_create(
      "strategy|blocks|>predicted s|>s|>GFLOP/s|>FLOP/B|>loading s|>storing s|>computing s|>unprotected "
      "s|>ratio|>faults|"
      "verdict");
  b->m = s->bench_m ? s->bench_m : 20000;
  b->n = s->bench_n ? s->bench_n : 2000;
  b->k = s->bench_k ? s->bench_k : 2000;
  if (s->figures) RDT_TRY(rdt_outofcore_figures_try(s->figures, &b->run.why));
  RDT_TRY(make_operands(b));
  RDT_TRY(measure(b));
  RDT_TRY(say(b));
  return s->figures ? rdt_outofcore_figures_write(&b->figures, s->figures, &b->run.why) : RDT_OK;
}

static int run(const rdt_command *c, const rdt_settings *s) {
  bench b = {.settings = s};
  const rdt_status status = go(&b);
  const int code = status != RDT_OK ? rdt_cli_fail(c, status, b.run.why.text) : b.fault ? RDT_EXIT_FAULT : RDT_EXIT_OK;
  clean(&b);
  cJSON_Delete(b.doc);
  rdt_table_destroy(b.table);
  rdt_outofcore_figures_clear(&b.figures);
  rdt_product_close(&b.run);
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_BENCH_M,
                                        RDT_OPT_BENCH_N,
                                        RDT_OPT_BENCH_K,
                                        RDT_OPT_FILE_DTYPE,
                                        RDT_OPT_BENCH_MEM_LIMIT,
                                        RDT_OPT_BENCH_STRATEGY,
                                        RDT_OPT_ALGO,
                                        RDT_OPT_BENCH_ERRORS,
                                        RDT_OPT_COLLINEAR,
                                        RDT_OPT_SCATTERED,
                                        RDT_OPT_SEED,
                                        RDT_OPT_BENCH_FOLDER,
                                        RDT_OPT_BENCH_FIGURES,
                                        RDT_OPT_PRODUCT_DEVICE,
                                        RDT_OPT_THREADS,
                                        RDT_OPT_FORMAT,
                                        RDT_OPT_JSON,
                                        RDT_OPT_NO_PROGRESS,
                                        RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt bench outofcore --m 20000 --n 2000 --k 2000 --mem-limit 10M --errors 1", "the experiment of the source"},
    {"redoubt bench outofcore --m 16384 --n 16384 --k 16384 --mem-limit 512M --strategy auto -o /data", "a large one"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_outofcore = {
    .name = "bench outofcore",
    .run = run,
    .options = options,
    .summary = "products larger than memory: each strategy, predicted and measured, protected and not",
    .text =
        "Makes two matrices of random numbers, multiplies them within --mem-limit by each strategy, unprotected and "
        "protected, and removes them. \"computing\" is products, checks and repair; what of loading and storing does "
        "not overlap with it comes on top.",
    .bad = "a fault was found and not repaired",
    .stopped = "stopped by signal N: what was measured until then is lost, the operands are removed",
    .examples = examples};
