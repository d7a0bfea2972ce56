/* redoubt matmul: products of matrices in files, larger than memory. */
#include <inttypes.h>
#include <string.h>

#include "product.h"

static cJSON *document(const rdt_product_run *r, int code) {
  cJSON *doc = rdt_document("matmul");
  rdt_json_text(doc, "a", r->job.a);
  rdt_json_text(doc, "b", r->job.b);
  rdt_json_text(doc, "out", r->job.c);
  rdt_product_json(r, doc);
  cJSON_AddItemReferenceToObject(doc, "events", r->events);
  cJSON_AddNumberToObject(doc, "exit", code);
  return doc;
}

static double rate(double bytes, double seconds) { /* GB/s */
  return seconds > 0.0 ? 1e-9 * bytes / seconds : 0.0;
}

static void put_text(const rdt_product_run *r) {
  const rdt_matmul_result *x = &r->result;
  const double bytes = x->load_bytes + x->store_bytes;
  char text[3][32];
  printf("%" PRId64 " x %" PRId64 " times %" PRId64 " x %" PRId64 ", %s to %s, on %s with %d thread%s\n", x->task.m,
         x->task.k, x->task.k, x->task.n, rdt_dtype_name(x->task.in), rdt_dtype_name(x->task.out), x->device,
         x->task.threads, x->task.threads == 1 ? "" : "s");
  printf("strategy %s: blocks of %" PRId64 " x %" PRId64 ", %" PRId64 " of the reduction at a time; %s of %s\n",
         rdt_strategy_info(x->splits.strategy)->name, x->splits.m, x->splits.n, x->splits.k,
         rdt_bytes_text((double)(x->buffers + x->beside), text[0], sizeof text[0]),
         rdt_bytes_text((double)x->limit, text[1], sizeof text[1]));
  if (x->resumed > 0) printf("resumed: %" PRId64 " blocks were finished before\n", x->resumed);
  printf("predicted %.3f s", x->forecast.seconds);
  if (x->forecast.best < x->forecast.seconds) printf(" (%.3f where both products go at full speed)", x->forecast.best);
  printf(", took %.3f s: %.1f GFLOP/s, %.1f FLOP/B\n", x->seconds, 1e-9 * x->flops / x->seconds,
         bytes > 0.0 ? x->flops / bytes : 0.0);
  printf("loaded %s in %.3f s (%.1f GB/s), stored %s in %.3f s (%.1f GB/s), computed for %.3f s\n",
         rdt_bytes_text(x->load_bytes, text[0], sizeof text[0]), x->load_seconds, rate(x->load_bytes, x->load_seconds),
         rdt_bytes_text(x->store_bytes, text[1], sizeof text[1]), x->store_seconds,
         rate(x->store_bytes, x->store_seconds), x->busy_seconds);
  if (x->peer_bytes > 0.0)
    printf("copied %s of operands from one device to another\n",
           rdt_bytes_text(x->peer_bytes, text[0], sizeof text[0]));
  printf("of that: fill %.3f s, products %.3f, waits for loads %.3f, for places of C %.3f, %s %.3f, drain %.3f\n",
         x->phases.fill, x->phases.products, x->phases.loads, x->phases.places,
         x->task.on->far ? "checks and turns" : "turns", x->phases.checks, x->phases.drain);
  /* The process has buffers of all devices that are the host. */
  const double limit = (double)x->limit * (x->task.on->far ? 1.0 : (double)x->task.devices);
  printf("memory: %s taken at most, beside what there was before%s\n", rdt_bytes_text(x->peak, text[0], sizeof text[0]),
         x->peak > limit ? ": MORE THAN THE LIMIT" : "");
  if (x->planted > 0) printf("planted: %" PRId64 " fault%s\n", x->planted, x->planted == 1 ? "" : "s");
  if (x->task.protected)
    printf("%" PRId64 " checks, %" PRId64 " fault%s; residual / bound at most %.3g, floor %.3g\n", x->checks, x->faults,
           x->faults == 1 ? "" : "s", x->ratio, x->floor);
  if (x->rebuilt > 0)
    printf("%" PRId64 " element%s rebuilt, each within %.3g\n", x->rebuilt, x->rebuilt == 1 ? "" : "s", x->bound);
  if (x->recomputed > 0) printf("blocks computed again: %" PRId64 "\n", x->recomputed);
  printf("verdict: %s\n", rdt_verdict_name(x->verdict));
}

static int exit_code(const rdt_product_run *r) {
  const rdt_settings *s = r->settings;
  const bool bad = r->status == RDT_ERR_FAULT || r->result.verdict == RDT_DETECTED;
  const bool detected = (s->fail_on & RDT_FAIL_ON_DETECTED) && r->result.faults > 0;
  const bool unchecked = (s->fail_on & RDT_FAIL_ON_UNCHECKED) && r->result.verdict == RDT_UNCHECKED;
  return bad || detected || unchecked ? RDT_EXIT_FAULT : RDT_EXIT_OK;
}

static rdt_status go(rdt_product_run *r, const rdt_settings *s, int *code) {
  const bool json = s->format == RDT_FORMAT_JSON;
  if (s->more.count != 1)
    return rdt_fail(&r->why, RDT_ERR_ARG, "two matrices are needed: redoubt matmul A.npy B.npy -o C.npy");
  if (!s->out) return rdt_fail(&r->why, RDT_ERR_ARG, "where does the product go? -o C.npy");
  RDT_TRY(rdt_product_open(r, s));
  r->job.a = s->operand;
  r->job.b = s->more.at[0];
  r->job.c = s->out;
  r->events = cJSON_CreateArray();
  r->aloud = !s->quiet && !json;
  RDT_TRY(rdt_product_go(r));
  *code = exit_code(r);
  if (r->status != RDT_OK) fprintf(stderr, "redoubt matmul: %s\n", r->why.text);
  cJSON *doc = document(r, *code);
  rdt_status status = s->report ? rdt_json_write(doc, s->report, &r->why) : RDT_OK;
  if (status == RDT_OK && json && !s->quiet) status = rdt_json_print(doc, &r->why);
  cJSON_Delete(doc);
  if (r->aloud) put_text(r);
  return status == RDT_OK ? rdt_product_draw(r) : status;
}

static int run(const rdt_command *c, const rdt_settings *s) {
  rdt_product_run r = {.ctx = NULL};
  int code = RDT_EXIT_OK;
  const rdt_status status = go(&r, s, &code);
  if (status != RDT_OK) {
    const int failed = rdt_cli_fail(c, status, r.why.text);
    if (code == RDT_EXIT_OK) code = failed;
  }
  cJSON_Delete(r.events);
  rdt_product_close(&r);
  return code;
}

static const rdt_option_id options[] = {
    RDT_OPT_PRODUCT,        RDT_OPT_MEM_LIMIT,        RDT_OPT_STRATEGY,      RDT_OPT_ALGO,
    RDT_OPT_PRODUCT_SCHEME, RDT_OPT_PRODUCT_ON_FAULT, RDT_OPT_FAIL_ON,       RDT_OPT_PRODUCT_RESUME,
    RDT_OPT_PRODUCT_VERIFY, RDT_OPT_ERRORS,           RDT_OPT_COLLINEAR,     RDT_OPT_SCATTERED,
    RDT_OPT_SEED,           RDT_OPT_REPORT,           RDT_OPT_PRODUCT_TRACE, RDT_OPT_PRODUCT_TIMELINE,
    RDT_OPT_PRODUCT_DEVICE, RDT_OPT_THREADS,          RDT_OPT_LAMBDA,        RDT_OPT_JSON,
    RDT_OPT_QUIET,          RDT_OPT_NO_PROGRESS,      RDT_OPT_COUNT};
static const rdt_words files[] = {
    {"A.npy, B.npy", "matrices of f8, f4, f2 or bf16 (as ml_dtypes saves it), in C or Fortran order, of any size"},
    {"C.npy", "the product, of f8, or of f4 for all others"},
    {"C.npy.sums", "a bit-sum of each block of C.npy, for `redoubt verify`"},
    {"C.npy.part, C.npy.part.sums", "the same while it is not finished, for `--resume`"},
    {"FILE.json", "of `--report` (docs/schema/matmul-1.json); of `--trace` (the Trace Event Format)"},
    {NULL, NULL}};
static const rdt_words examples[] = {
    {"redoubt matmul A.npy B.npy -o C.npy --mem-limit 1G", "a product larger than memory"},
    {"redoubt matmul A.npy B.npy -o C.npy --resume", "go on after a crash"},
    {"redoubt matmul A.npy B.npy -o C.npy --errors 8 --collinear", "break eight elements and watch them being rebuilt"},
    {"redoubt verify C.npy", "is it still what was written?"},
    {NULL, NULL}};
const rdt_command rdt_cmd_matmul = {
    .name = "matmul",
    .run = run,
    .operand = "A.npy B.npy",
    .operand_needed = true,
    .operands = true,
    .options = options,
    .summary = "a product of matrices in files, larger than memory, checked block by block",
    .text =
        "Multiplies by blocks: blocks of A and B are loaded, their products added up in a block of C, which is written "
        "when it is finished. Each block of C has checksums of its rows and columns, which grow with every product and "
        "are compared after each of them. Faults in one row or column are rebuilt from the checksums of the other "
        "direction; where they are scattered, the block is computed again. docs/out-of-core.md explains strategies, "
        "memory and repair.\n"
        "\n"
        "Finished blocks are kept whatever stops the program: `--resume` goes on from there.",
    .verdicts = true,
    .good = "the product was written; no fault is left in it, and what is UNCHECKED is named",
    .bad = "a fault was found and not repaired (no product is written), or what `--fail-on` says",
    .stopped =
        "stopped by signal N: no product is written, `--resume` goes on. A second signal ends the program at once",
    .files = files,
    .examples = examples};
