/* What is chosen from what was measured; where measurements are kept. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/file.h"
#include "core/memory.h"
#include "net/model.h"
#include "plan/cache.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "plan/sealed_json.h"
#include "plan/survey.h"
#include "util_folder.h"

#define DIGITS TEST_DATA "/examples/digits/digits.onnx"

static const char *in_folder(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", util_folder, name);
  return path;
}

/* ---- decisions ---- */

enum { TRIALS = 11 };
typedef struct made_up {
  const char *scheme;
  bool fused;
  double seconds, spread; /* samples: seconds, and up to spread more */
} made_up;

static rdt_problem product(int64_t m, int64_t n, int64_t k) {
  rdt_problem p;
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  p.in[0] = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){m, k});
  p.in[1] = rdt_tensor_dense(rdt_weights_to_come, RDT_F32, 2, (int64_t[]){k, n});
  p.out = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){m, n});
  p.acc = RDT_F32;
  return p;
}

/* Kernels that may have other bits each time; all of them, or all but the references. */
static enum { AS_THEY_ARE, BUT_REFERENCES, ALL } unsteady;
const rdt_kernel *const *__real_rdt_cpu_kernels(int *n);
const rdt_kernel *const *__wrap_rdt_cpu_kernels(int *n);
const rdt_kernel *__real_rdt_cpu_reference(const rdt_problem *p);
const rdt_kernel *__wrap_rdt_cpu_reference(const rdt_problem *p);
enum { MOST_KERNELS = 128 };
static rdt_kernel copies[MOST_KERNELS];

const rdt_kernel *const *__wrap_rdt_cpu_kernels(int *n) {
  static const rdt_kernel *rows[MOST_KERNELS];
  const rdt_kernel *const *real = __real_rdt_cpu_kernels(n);
  if (unsteady == AS_THEY_ARE) return real;
  assert_in_range(*n, 1, MOST_KERNELS);
  for (int i = 0; i < *n; i++) {
    copies[i] = *real[i];
    copies[i].deterministic = unsteady != ALL && strstr(real[i]->name, "_generic") != NULL;
    rows[i] = &copies[i];
  }
  return rows;
}

const rdt_kernel *__wrap_rdt_cpu_reference(const rdt_problem *p) {
  int n;
  const rdt_kernel *real = __real_rdt_cpu_reference(p), *const *rows = __wrap_rdt_cpu_kernels(&n);
  for (int i = 0; i < n && unsteady != AS_THEY_ARE; i++)
    if (real && strcmp(rows[i]->name, real->name) == 0) return rows[i];
  return real;
}

/* How many kernels are offered with a scheme, and how many of those have other bits each time. */
static void count_offers(const rdt_problem *p, const char *scheme, int *offered, int *uneven, const char **refused) {
  static rdt_offers o;
  const rdt_demand d = {.wanted = rdt_scheme_find(scheme), .sets = 1};
  o.words = true;
  rdt_offers_list(p, RDT_ISA_AVX512, &d, &o);
  *offered = *uneven = 0;
  *refused = "";
  for (int i = 0; i < o.n; i++) {
    if (!o.list[i].way.scheme || strcmp(o.list[i].way.scheme->name, scheme) != 0) continue;
    if (o.list[i].refused) *refused = o.list[i].text;
    if (o.list[i].refused) continue;
    *offered += 1;
    *uneven += !o.list[i].way.kernel->deterministic;
  }
}

/* Copies that are compared bit by bit are never of a kernel with other bits each time; checks may be. */
static void unsteady_kernels(void **state) {
  static const char *const copied[] = {"dup", "tmr-sm"};
  int offered, uneven, all;
  const char *refused;
  rdt_problem p = product(64, 64, 64);
  (void)state;
  for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
    unsteady = AS_THEY_ARE;
    count_offers(&p, copied[i], &all, &uneven, &refused);
    assert_true(all > 1 && uneven == 0);
    unsteady = BUT_REFERENCES;
    count_offers(&p, copied[i], &offered, &uneven, &refused);
    assert_true(offered == 1 && uneven == 0);
    unsteady = ALL;
    count_offers(&p, copied[i], &offered, &uneven, &refused);
    assert_int_equal(offered, 0);
    assert_non_null(strstr(refused, "the same bits every time"));
  }
  count_offers(&p, "none", &offered, &uneven, &refused);
  assert_true(offered > 1 && uneven == offered);
  count_offers(&p, "row", &offered, &uneven, &refused);
  assert_true(offered > 1 && uneven == offered);
  unsteady = AS_THEY_ARE;
  rdt_problem_clear(&p);
}

/* Candidates that are not there, with times that were never taken; which is chosen. */
static const char *choose(const made_up *list, int n, const rdt_demand *d, rdt_offers *o) {
  static double samples[16][TRIALS];
  static const rdt_kernel kernel = {.name = "kernel"};
  rdt_problem p = product(8, 8, 8);
  o->words = true;
  o->n = n;
  for (int i = 0; i < n; i++) {
    o->list[i] = (rdt_offer){.way = {&kernel, rdt_scheme_find(list[i].scheme), 1, list[i].fused, false}};
    o->list[i].times = (rdt_timing_samples){samples[i], list[i].seconds > 0.0 ? TRIALS : 0};
    o->list[i].estimate = fabs(list[i].seconds);
    for (int k = 0; k < TRIALS; k++) samples[i][k] = list[i].seconds + list[i].spread * ((7 * k + 3 * i) % TRIALS) / 10;
  }
  rdt_offers_decide(&p, d, o);
  rdt_problem_clear(&p);
  return o->taken < 0 ? NULL : o->list[o->taken].way.scheme->name;
}

static void decisions(void **state) {
  const rdt_demand plain = {.sets = 1, .min_coverage = 0.99};
  static rdt_offers o;
  (void)state;
  /* the least time; neither what does not protect nor what does not locate */
  const made_up clear[] = {{"none", 0, 1, .01}, {"row", 1, 2, .01}, {"col", 1, 1.5, .01}, {"global", 1, 1.2, .01}};
  assert_string_equal(choose(clear, 4, &plain, &o), "col");
  assert_true(o.measured);
  assert_string_equal(o.list[o.taken].text, "fastest");
  assert_non_null(strstr(o.list[0].text, "no protection"));
  assert_non_null(strstr(o.list[1].text, "1.33"));
  assert_non_null(strstr(o.list[3].text, "locate"));
  /* within noise: what covers more, whatever its place */
  const made_up close[] = {{"row", 1, 1.0, .2}, {"col", 1, 1.001, .2}, {"thread1", 1, 1.002, .2}};
  assert_string_equal(choose(close, 3, &plain, &o), "thread1");
  assert_non_null(strstr(o.list[o.taken].text, "within noise of the fastest"));
  assert_non_null(strstr(o.list[o.taken].text, "covers more"));
  /* of equal cover what comes first; here the fastest is the second */
  const made_up order[] = {{"row", 1, 1.002, .2}, {"col", 1, 1.0, .2}};
  assert_string_equal(choose(order, 2, &plain, &o), "row");
  assert_non_null(strstr(o.list[o.taken].text, "first in the tables"));
  assert_non_null(strstr(o.list[1].text, "fastest, but within noise"));
  /* noise does not excuse more than a hundredth: it would add up over layers */
  const made_up wide[] = {{"row", 1, 1.05, .6}, {"col", 1, 1.0, .6}};
  assert_string_equal(choose(wide, 2, &plain, &o), "col");
  /* a difference that is small but certain counts */
  const made_up certain[] = {{"row", 1, 1.005, 0}, {"col", 1, 1.0, 0}};
  assert_string_equal(choose(certain, 2, &plain, &o), "col");
}

/* What campaigns have measured counts in place of what is declared; where their intervals meet, nothing is known. */
static void ties(void **state) {
  rdt_coverage c = {0};
  const rdt_demand d = {.sets = 1, .coverage = &c};
  static rdt_offers o;
  (void)state;
  const made_up close[] = {{"row", 1, 1.001, .2}, {"col", 1, 1.0, .2}, {"thread1", 1, 1.002, .2}};
  assert_string_equal(choose(close, 3, &d, &o), "thread1"); /* declared .9995 against .999 */
  assert_non_null(strstr(o.list[2].text, "99.95 % declared against 99.9 % declared"));
  assert_non_null(strstr(o.list[0].text, "covers less: 99.9 % declared, what was taken 99.95 % declared"));
  c.range[RDT_SCHEME_ROW][RDT_F32] = (rdt_coverage_range){.9998, 1.0, true};
  c.range[RDT_SCHEME_THREAD1][RDT_F32] = (rdt_coverage_range){.9999, 1.0, true}; /* a longer campaign, no more */
  assert_string_equal(choose(close, 3, &d, &o), "row");
  assert_non_null(strstr(o.list[0].text, "99.98 to 100 % measured against 99.9 % declared"));
  assert_non_null(strstr(o.list[2].text, "comes later in the tables"));
  c.range[RDT_SCHEME_ROW][RDT_F32] = (rdt_coverage_range){.97, .98, true};
  assert_string_equal(choose(close, 3, &d, &o), "thread1");
  assert_non_null(strstr(o.list[2].text, "99.99 to 100 % measured"));
  assert_non_null(strstr(o.list[0].text, "covers less: 97 to 98 % measured"));
  c.range[RDT_SCHEME_THREAD1][RDT_F32] = (rdt_coverage_range){.96, .97, true};
  c.range[RDT_SCHEME_COL][RDT_F32] = (rdt_coverage_range){.96, .97, true};
  assert_string_equal(choose(close, 3, &d, &o), "row"); /* .97 is in both: the first in the tables */
  assert_non_null(strstr(o.list[0].text, "first in the tables"));
  /* estimates: the same, and without more cover the least one */
  const made_up guesses[] = {{"row", 1, -.2001, 0}, {"col", 1, -.2, 0}, {"thread1", 1, -.2002, 0}};
  assert_string_equal(choose(guesses, 3, &d, &o), "col");
  c.range[RDT_SCHEME_THREAD1][RDT_F32] = (rdt_coverage_range){.9999, 1.0, true};
  assert_string_equal(choose(guesses, 3, &d, &o), "thread1");
}

static void demands(void **state) {
  rdt_demand d = {.sets = 1, .min_coverage = 0.9992};
  static rdt_offers o;
  (void)state;
  const made_up list[] = {{"none", 0, 1, 0}, {"row", 1, 1.5, 0}, {"tile", 1, 1.2, 0}, {"thread2", 1, 2, 0}};
  assert_string_equal(choose(list, 4, &d, &o), "thread2");
  assert_non_null(strstr(o.list[1].text, "finds 99.9 % of single faults"));
  d.min_coverage = 1.0;
  assert_null(choose(list, 4, &d, &o));
  d.wanted = rdt_scheme_find("none"); /* who asks for one by name gets it */
  assert_string_equal(choose(list, 4, &d, &o), "none");
  d.wanted = rdt_scheme_find("fc"); /* not for this op: as by auto */
  d.min_coverage = 0.99;
  assert_string_equal(choose(list, 4, &d, &o), "tile");
  /* nothing was measured: by estimates, and what covers more where that is nearly free */
  made_up estimates[] = {{"row", 1, -.3, 0}, {"rowcol", 1, -.2, 0}, {"col", 1, -.1999, 0}};
  assert_string_equal(choose(estimates, 3, &(rdt_demand){.sets = 1}, &o), "rowcol");
  assert_false(o.measured);
  estimates[1].seconds = -.21;
  assert_string_equal(choose(estimates, 3, &(rdt_demand){.sets = 1}, &o), "col");
}

/* Of every op and datatype: nobody is lost for want of room. */
static void room(void **state) {
  int kernels, schemes;
  (void)state;
  rdt_cpu_kernels(&kernels);
  rdt_scheme_table(&schemes);
  static rdt_offers o;
  rdt_problem p = product(64, 64, 64);
  const rdt_demand d = {.sets = 1};
  rdt_offers_list(&p, rdt_isa_detect(), &d, &o);
  assert_true(o.n < RDT_MOST_OFFERS - 2 * schemes && kernels < RDT_MOST_OFFERS);
  assert_true(o.n < RDT_TIMING_CASES + kernels);
  rdt_problem_clear(&p);
}

/* ---- books ---- */

static rdt_book *a_book(const char *const *keys, int n) {
  rdt_book *b = rdt_calloc(1, sizeof *b);
  const rdt_way row = {.scheme = rdt_scheme_find("row"), .sets = 2, .fused = true};
  for (int i = 0; i < n; i++) {
    rdt_entry e = {.key = rdt_strdup(keys[i]), .choice = -1};
    for (int c = 0; c < 2; c++) {
      rdt_timed *t = rdt_entry_add(&e, &row, 3 + c);
      snprintf(t->kernel, sizeof t->kernel, "kernel_%d", c);
      for (int k = 0; k < t->n; k++) t->seconds[k] = 1e-9 * (100 * i + 10 * c + k + 1);
    }
    e.choice = i % 2 ? 1 : -1;
    assert_int_equal(rdt_book_put(b, &e), RDT_OK);
  }
  return b;
}

static void write_book(const rdt_book *b, int threads, const char *path, bool choices) {
  rdt_reason why;
  cJSON *doc = rdt_book_document(b, threads, choices);
  assert_int_equal(rdt_sealed_write(doc, path, &why), RDT_OK);
  cJSON_Delete(doc);
}

static void round_trip(void **state) {
  static const char *const keys[] = {"b", "a", "d", "c", "b"};
  rdt_book *b = a_book(keys, 5), *read;
  rdt_reason why;
  (void)state;
  assert_int_equal(b->n, 4); /* the second b replaced the first, and keys are in order */
  assert_string_equal(b->list[1].key, "b");
  assert_null(rdt_book_find(b, "e"));
  write_book(b, 2, in_folder("plan.json"), true);
  assert_int_equal(rdt_book_read(in_folder("plan.json"), 2, &read, &why), RDT_OK);
  assert_int_equal(read->n, 2); /* of plan files only what was chosen */
  const rdt_entry *mine = rdt_book_find(b, "a"), *its = rdt_book_find(read, "a");
  assert_int_equal(its->choice, 1);
  assert_int_equal(its->n, mine->n);
  for (int c = 0; c < mine->n; c++) {
    assert_string_equal(its->list[c].kernel, mine->list[c].kernel);
    assert_string_equal(its->list[c].scheme, "row:2");
    assert_true(its->list[c].fused && its->list[c].n == mine->list[c].n);
    assert_memory_equal(its->list[c].seconds, mine->list[c].seconds, (size_t)its->list[c].n * sizeof(double));
  }
  rdt_book_free(read);
  rdt_book_free(b);
}

static void refuse(const char *path, rdt_status status, const char *text) {
  rdt_context *ctx;
  assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_read_plans(ctx, path), status);
  if (!strstr(rdt_context_error(ctx), text)) fail_msg("'%s' in: %s", text, rdt_context_error(ctx));
  assert_null(ctx->book ? ctx->book->list : NULL);
  rdt_context_destroy(ctx);
}

/* With one member of its machine, or of itself, replaced, under a new seal. */
static void write_other(const rdt_book *b, const char *object, const char *member, const char *value) {
  rdt_reason why;
  cJSON *doc = rdt_book_document(b, 2, true), *in = object ? cJSON_GetObjectItem(doc, object) : doc;
  assert_true(cJSON_ReplaceItemInObject(in, member, cJSON_CreateString(value)));
  assert_int_equal(rdt_sealed_write(doc, in_folder("other.json"), &why), RDT_OK);
  cJSON_Delete(doc);
}

static void refusals(void **state) {
  static const char *const keys[] = {"x", "y"};
  rdt_book *b = a_book(keys, 2);
  rdt_reason why;
  void *data;
  size_t bytes;
  char path[128];
  (void)state;
  write_other(b, "machine", "cpu", "Abacus 3000");
  refuse(in_folder("other.json"), RDT_ERR_UNSUPPORTED, "another machine: cpu \"Abacus 3000\"");
  write_other(b, "machine", "isa", "avx1024");
  refuse(in_folder("other.json"), RDT_ERR_UNSUPPORTED, "isa \"avx1024\"");
  write_other(b, NULL, "redoubt", "0.0.1");
  refuse(in_folder("other.json"), RDT_ERR_UNSUPPORTED, "version 0.0.1");
  write_other(b, NULL, "build", "0123456789abcdef"); /* the same version, other kernels */
  refuse(in_folder("other.json"), RDT_ERR_UNSUPPORTED, "another build (0123456789abcdef");
  write_other(b, NULL, "onednn", "0.9"); /* its kernels are among the candidates */
  refuse(in_folder("other.json"), RDT_ERR_UNSUPPORTED, "made with oneDNN 0.9");
  write_other(b, NULL, "schema", "redoubt.plan/1");
  refuse(in_folder("other.json"), RDT_ERR_FORMAT, "redoubt.plan/1");
  write_book(b, 7, in_folder("other.json"), true);
  refuse(in_folder("other.json"), RDT_ERR_UNSUPPORTED, "threads 7");
  refuse(in_folder("nowhere.json"), RDT_ERR_IO, "nowhere.json");
  write_book(b, 2, in_folder("whole.json"), true);
  assert_int_equal(rdt_file_read(in_folder("whole.json"), &data, &bytes, &why), RDT_OK);
  strcpy(path, in_folder("damaged.json"));
  for (size_t i = 0; i < bytes; i += 7) { /* what still parses has another sum; white space does not count */
    char *text = data;
    if (strchr(" \n\t", text[i])) continue;
    text[i] ^= 1;
    assert_int_equal(rdt_file_write(path, text, bytes, NULL, 0, &why), RDT_OK);
    rdt_context *ctx;
    assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
    const rdt_status status = rdt_context_read_plans(ctx, path);
    assert_true(status == RDT_ERR_FORMAT);
    rdt_context_destroy(ctx);
    text[i] ^= 1;
  }
  rdt_free(data);
  rdt_book_free(b);
}

static void nonsense(void **state) {
  static const char *const list[] = {
      "{}",
      "{\"problems\": 1}",
      "{\"problems\": [1]}",
      "{\"problems\": [{\"problem\": \"x\"}]}",
      "{\"problems\": [{\"problem\": 1, \"candidates\": []}]}",
      "{\"problems\": [{\"problem\": \"x\", \"choice\": 0, \"candidates\": []}]}",
      "{\"problems\": [{\"problem\": \"x\", \"choice\": 0.5, \"candidates\": [{\"kernel\": \"k\", \"scheme\": \"s\", "
      "\"fused\": true, \"ns\": [1]}, {\"kernel\": \"k\", \"scheme\": \"s\", \"fused\": true, \"ns\": [1]}]}]}",
      "{\"problems\": [{\"problem\": \"x\", \"candidates\": [{\"kernel\": \"k\", \"scheme\": \"s\", \"fused\": 1, "
      "\"ns\": [1]}]}]}",
      "{\"problems\": [{\"problem\": \"x\", \"candidates\": [{\"kernel\": \"k\", \"scheme\": \"s\", \"fused\": true, "
      "\"ns\": [-1]}]}]}",
      "{\"problems\": [{\"problem\": \"x\", \"candidates\": [{\"kernel\": \"k\", \"scheme\": \"s\", \"fused\": true, "
      "\"ns\": [1e99]}]}]}",
      "{\"problems\": [{\"problem\": \"x\", \"candidates\": [{\"kernel\": "
      "\"a name that is longer than any kernel's could ever be, whatever it computes and on what\", \"scheme\": \"s\", "
      "\"fused\": true, \"ns\": []}]}]}",
  };
  (void)state;
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    rdt_book *b;
    rdt_reason why = {""};
    cJSON *doc = cJSON_Parse(list[i]);
    assert_non_null(doc);
    if (rdt_book_parse(doc, "f.json", &b, &why) != RDT_ERR_FORMAT) fail_msg("taken: %s", list[i]);
    assert_non_null(strstr(why.text, "f.json"));
    assert_null(b);
    cJSON_Delete(doc);
  }
}

/* ---- the cache ---- */

static void many_writers(void **state) {
  enum { WRITERS = 4, EACH = 8 };
  char path[128];
  rdt_book *all;
  rdt_reason why;
  (void)state;
  strcpy(path, in_folder("cache.json"));
  for (int w = 0; w < WRITERS; w++)
    if (fork() == 0) {
      int code = 0;
      for (int i = 0; i < EACH; i++) {
        char key[32];
        const char *const keys[] = {key};
        snprintf(key, sizeof key, "%d of %d", i, w);
        rdt_book *b = a_book(keys, 1);
        code |= rdt_cache_merge(path, 2, b, &why) != RDT_OK;
        rdt_book_free(b);
      }
      _exit(code);
    }
  for (int w = 0; w < WRITERS; w++) {
    int code;
    assert_true(wait(&code) > 0);
    assert_int_equal(code, 0);
  }
  assert_int_equal(rdt_book_read(path, 2, &all, &why), RDT_OK);
  assert_int_equal(all->n, WRITERS * EACH);
  for (int i = 0; i < all->n; i++) assert_int_equal(all->list[i].choice, -1); /* the cache has no opinion */
  rdt_book_free(all);
}

/* Who dies with the lock in his hands, or in the middle of a file, leaves a cache that others go on with; who holds on
 * to it is not waited for. */
static void dead_writers(void **state) {
  static const char *const first[] = {"first"}, *const second[] = {"second"};
  rdt_book *a = a_book(first, 1), *b = a_book(second, 1), *all;
  rdt_reason why;
  char path[128], lock[140];
  int ready[2], code;
  (void)state;
  strcpy(path, in_folder("killed.json"));
  snprintf(lock, sizeof lock, "%s.lock", path);
  assert_int_equal(rdt_cache_merge(path, 2, a, &why), RDT_OK);
  assert_int_equal(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    FILE *f = fopen(lock, "r+");
    const int held = f && flock(fileno(f), LOCK_EX) == 0;
    if (write(ready[1], held ? "1" : "0", 1) != 1) _exit(1);
    pause();
    _exit(1);
  }
  char held = 0;
  assert_int_equal(read(ready[0], &held, 1), 1);
  assert_int_equal(held, '1');
  assert_int_equal(rdt_cache_merge(path, 2, b, &why), RDT_ERR_IO);
  assert_non_null(strstr(why.text, "another process"));
  kill(child, SIGKILL);
  waitpid(child, &code, 0);
  assert_int_equal(rdt_cache_merge(path, 2, b, &why), RDT_OK);
  assert_int_equal(rdt_book_read(path, 2, &all, &why), RDT_OK);
  assert_int_equal(all->n, 2);
  rdt_book_free(all);
  assert_int_equal(truncate(path, 100), 0); /* by a machine that went down */
  assert_int_equal(rdt_book_read(path, 2, &all, &why), RDT_ERR_FORMAT);
  assert_int_equal(rdt_cache_merge(path, 2, b, &why), RDT_OK);
  assert_int_equal(rdt_book_read(path, 2, &all, &why), RDT_OK);
  assert_int_equal(all->n, 1);
  rdt_book_free(all);
  rdt_book_free(a);
  rdt_book_free(b);
  close(ready[0]);
  close(ready[1]);
}

/* ---- measured ---- */

static void keys_tell_apart(void **state) {
  rdt_problem p = product(8, 16, 32), q = product(8, 16, 32);
  const rdt_demand d = {.sets = 1}, kept = {.sets = 1, .keep = true};
  char a[RDT_KEY_TEXT], b[RDT_KEY_TEXT];
  (void)state;
#define SAME(same, cold, demand)                      \
  assert_true(rdt_problem_key(&q, cold, &demand, b)); \
  assert_int_equal(strcmp(a, b) == 0, same)
  assert_true(rdt_problem_key(&p, false, &d, a));
  SAME(1, false, d);
  SAME(0, true, d);
  SAME(0, false, kept);
  q.epilogue.act.fn = RDT_FN_RELU;
  SAME(0, false, d);
  q.epilogue.act.fn = RDT_FN_NONE;
  q.in[0].stride[0] = 64;
  SAME(0, false, d);
  q.in[0].stride[0] = 32;
  q.in[1].data = NULL;
  SAME(0, false, d);
  q.in[1].data = util_folder; /* where weights lie does not matter */
  SAME(1, false, d);
  q.out.dtype = RDT_F64;
  SAME(0, false, d);
#undef SAME
  rdt_problem_clear(&p);
  rdt_problem_clear(&q);
}

static float *numbers(int64_t n) {
  float *f = rdt_alloc((size_t)n, sizeof *f);
  for (int64_t i = 0; i < n; i++) f[i] = (float)((i * 37) % 101) / 50.0f - 1.0f;
  return f;
}

/* A plan file that chooses what nobody else would: that is what runs, with the bits of that way. */
static void plan_decides(void **state) {
  enum { M = 24, N = 40, K = 64 };
  rdt_context *ctx;
  rdt_reason why;
  static rdt_offers o;
  float *x = numbers(M * K), *w = numbers(K * N), *y = numbers(M * N), *z = numbers(M * N);
  const rdt_tensor a = rdt_tensor_dense(x, RDT_F32, 2, (int64_t[]){M, K}),
                   b = rdt_tensor_dense(w, RDT_F32, 2, (int64_t[]){K, N});
  rdt_tensor c = rdt_tensor_dense(y, RDT_F32, 2, (int64_t[]){M, N});
  (void)state;
  rdt_problem p = product(M, N, K);
  p.in[1].data = w;
  int tried = 0;
  assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
  const rdt_demand d = rdt_demand_of(ctx, "auto");
  rdt_offers_list(&p, ctx->isa, &d, &o);
  rdt_offers_decide(&p, &d, &o);
  for (int i = 0; i < o.n; i++) {
    rdt_plan *plan, *direct;
    rdt_result r;
    char key[RDT_KEY_TEXT];
    const rdt_way *way = &o.list[i].way;
    if (!o.list[i].eligible) continue;
    rdt_book *book = rdt_calloc(1, sizeof *book);
    assert_true(rdt_problem_key(&p, false, &d, key));
    rdt_entry e = {.key = rdt_strdup(key), .choice = -1};
    assert_int_equal(rdt_entry_choose(&e, way), RDT_OK);
    assert_int_equal(rdt_book_put(book, &e), RDT_OK);
    write_book(book, 2, in_folder("way.json"), true);
    rdt_book_free(book);
    assert_int_equal(rdt_context_read_plans(ctx, in_folder("way.json")), RDT_OK);
    assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
    assert_string_equal(rdt_plan_kernel(plan), way->kernel->name);
    assert_string_equal(rdt_plan_scheme(plan), way->scheme->name);
    assert_int_equal(plan->kernel_fuses, way->fused);
    assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_int_equal(rdt_plan_create_way(ctx, way, &p, "direct", NULL, &direct), RDT_OK);
    const rdt_tensor ins[2] = {a, b};
    rdt_operands ops = {.in = ins, .n_in = 2, .out = c, .epilogue = &p.epilogue};
    ops.out.data = z;
    assert_int_equal(rdt_plan_run(direct, &ops, &r), RDT_OK);
    assert_memory_equal(y, z, M * N * sizeof *y);
    rdt_plan_destroy(plan);
    rdt_plan_destroy(direct);
    tried++;
  }
  assert_true(tried >= 3);
  (void)why;
  rdt_context_destroy(ctx);
  rdt_problem_clear(&p);
  rdt_free(x);
  rdt_free(w);
  rdt_free(y);
  rdt_free(z);
}

static bool stop(double part, const char *what) {
  (void)part, (void)what;
  return false;
}

static void profile(void **state) {
  rdt_context *ctx;
  rdt_reason why = {""};
  rdt_entry e;
  static rdt_offers o;
  bool complete;
  (void)state;
  rdt_problem p = product(48, 64, 64);
  rdt_tensor bias = rdt_tensor_dense(NULL, RDT_F32, 1, (int64_t[]){64});
  p.epilogue.bias = bias;
  assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
  const rdt_demand d = rdt_demand_of(ctx, "auto");
  for (int cold = 0; cold < 2; cold++) {
    const rdt_profile how = {.cold = cold, .seconds = 0.05};
    assert_int_equal(rdt_problem_profile(ctx, &p, &d, &how, &e, &why), RDT_OK);
    rdt_offers_list(&p, ctx->isa, &d, &o);
    assert_int_equal(rdt_entry_consult(&e, &o, &complete), -1);
    assert_true(complete);
    for (int i = 0; i < o.n; i++) /* each has times, unless it fails */
      for (int k = 0; k < o.list[i].times.n; k++) assert_true(o.list[i].times.seconds[k] > 0.0);
    rdt_offers_decide(&p, &d, &o);
    assert_true(o.measured && o.taken >= 0 && o.list[o.taken].times.n >= 3);
    assert_true(rdt_offers_baseline(&o) >= 0);
    rdt_entry_clear(&e);
  }
  /* no time: the best guess of what may be chosen, once; the others are known not to be measured */
  const rdt_profile hurried = {.seconds = 1e-9, .choice = true};
  assert_int_equal(rdt_problem_profile(ctx, &p, &d, &hurried, &e, &why), RDT_OK);
  rdt_offers_list(&p, ctx->isa, &d, &o);
  assert_int_equal(rdt_entry_consult(&e, &o, &complete), -1);
  assert_true(complete);
  rdt_offers_decide(&p, &d, &o);
  int timed = 0;
  for (int i = 0; i < o.n; i++) timed += o.list[i].times.n > 0;
  assert_true(timed == 1 && o.measured && o.list[o.taken].times.n > 0);
  rdt_entry_clear(&e);
  const rdt_profile stopped = {.progress = stop};
  assert_int_equal(rdt_problem_profile(ctx, &p, &d, &stopped, &e, &why), RDT_ERR_CANCELLED);
  rdt_entry_clear(&e);
  rdt_context_destroy(ctx);
  rdt_problem_clear(&p);
}

static void count(size_t done, size_t all, const char *node, void *user) {
  (void)done, (void)all, (void)node;
  ++*(int *)user;
}

/* The number of votes along k goes with plans and networks, and nowhere in silence. */
static void votes(void **state) {
  static const char *const keys[] = {"x"};
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_context *ctx;
  rdt_model *m;
  rdt_book *b = a_book(keys, 1), *damaged;
  rdt_reason why;
  (void)state;
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0 && CPU_COUNT(&usable) < 2) skip(); /* copies take two cores */
  write_book(b, 2, in_folder("one.json"), true);
  b->checkpoints = 4;
  write_book(b, 2, in_folder("four.json"), true);
  cJSON *doc = rdt_book_document(b, 2, true);
  cJSON_SetNumberValue(cJSON_GetObjectItem(doc, "checkpoints"), 65);
  assert_int_equal(rdt_book_parse(doc, "x", &damaged, &why), RDT_ERR_FORMAT);
  cJSON_Delete(doc);
  rdt_book_free(b);
  assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
  policy.checkpoints = 4;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_ARG); /* nobody votes */
  policy.scheme = "tmr-sm", policy.checkpoints = 65;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_ARG);
  policy.checkpoints = 0;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  assert_int_equal(rdt_model_load(ctx, DIGITS, &m), RDT_OK);
  const size_t whole = rdt_model_node_count(m);
  assert_int_equal(rdt_context_read_plans(ctx, in_folder("four.json")), RDT_OK);
  assert_int_equal(rdt_model_plan(m, NULL, 0), RDT_ERR_UNSUPPORTED); /* it was loaded before */
  assert_non_null(strstr(rdt_context_error(ctx), "loaded with checkpoints 1, and it would be 4 now"));
  rdt_model_free(m);
  assert_int_equal(rdt_model_load(ctx, DIGITS, &m), RDT_OK);
  assert_true(rdt_model_node_count(m) > whole);
  assert_int_equal(rdt_model_plan(m, NULL, 0), RDT_OK);
  assert_int_equal(rdt_context_read_plans(ctx, in_folder("one.json")), RDT_ERR_UNSUPPORTED);
  assert_int_equal(rdt_context_read_plans(ctx, NULL), RDT_OK); /* a cache is of any number */
  assert_int_equal(rdt_context_write_plans(ctx, in_folder("again.json")), RDT_OK);
  policy.checkpoints = 2;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  assert_int_equal(rdt_model_plan(m, NULL, 0), RDT_ERR_UNSUPPORTED);
  rdt_model_free(m);
  rdt_context_destroy(ctx);
  assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  assert_int_equal(rdt_context_read_plans(ctx, in_folder("again.json")), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(rdt_context_error(ctx), "checkpoints 4, and checkpoints 2 are asked for"));
  rdt_context_destroy(ctx);
}

static void network(void **state) {
  rdt_context *ctx, *other;
  rdt_model *m;
  rdt_node_info info;
  int problems = 0;
  (void)state;
  assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
  assert_int_equal(rdt_model_load(ctx, DIGITS, &m), RDT_OK);
  rdt_model_on_progress(m, count, &problems);
  assert_int_equal(rdt_model_measure(m, NULL, 0), RDT_OK);
  assert_true(problems >= 6);
  const int first = problems;
  assert_int_equal(rdt_model_measure(m, NULL, 0), RDT_OK);
  assert_int_equal(problems, first); /* all of it is known */
  rdt_model_on_progress(m, NULL, NULL);
  assert_int_equal(rdt_model_plan(m, NULL, 0), RDT_OK);
  assert_int_equal(rdt_context_write_plans(ctx, in_folder("network.json")), RDT_OK);
  assert_int_equal(rdt_context_write_plans(ctx, NULL), RDT_OK);
  for (int cached = 0; cached < 2; cached++) { /* a plan file and the cache lead to the same plan */
    rdt_model *again;
    assert_int_equal(rdt_context_create(&other, 1), RDT_OK);
    assert_int_equal(rdt_context_read_plans(other, cached ? NULL : in_folder("network.json")), RDT_OK);
    assert_int_equal(rdt_model_load(other, DIGITS, &again), RDT_OK);
    assert_int_equal(rdt_model_plan(again, NULL, 0), RDT_OK);
    for (size_t i = 0; i < rdt_model_node_count(m); i++) {
      rdt_node_info its;
      assert_int_equal(rdt_model_node_info(m, i, &info), RDT_OK);
      assert_int_equal(rdt_model_node_info(again, i, &its), RDT_OK);
      assert_string_equal(info.kernel, its.kernel);
      assert_string_equal(info.scheme, its.scheme);
    }
    rdt_model_free(again);
    rdt_context_destroy(other);
  }
  rdt_model_free(m);
  rdt_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unsteady_kernels),
      cmocka_unit_test(decisions),
      cmocka_unit_test(ties),
      cmocka_unit_test(demands),
      cmocka_unit_test(room),
      cmocka_unit_test(round_trip),
      cmocka_unit_test(refusals),
      cmocka_unit_test(nonsense),
      cmocka_unit_test(many_writers),
      cmocka_unit_test(dead_writers),
      cmocka_unit_test(keys_tell_apart),
      cmocka_unit_test(plan_decides),
      cmocka_unit_test(profile),
      cmocka_unit_test(votes),
      cmocka_unit_test(network),
  };
  return cmocka_run_group_tests(tests, util_folder_make_cache, util_folder_remove);
}
