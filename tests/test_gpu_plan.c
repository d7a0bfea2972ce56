/* Plans of a GPU, by a track that makes times up: who is measured how often, what is kept and goes on, what may be
 * chosen, what the document says and which pictures it gives. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/context.h"
#include "core/memory.h"
#include "gpu_report.h"
#include "plan/cache.h"
#include "report/figures.h"
#include "util_folder.h"

/* ---- a track ---- */

typedef struct made {
  rdt_rival rival;
  double share; /* of a usual time that it takes */
  bool refuses, complains;
} made;
static const made rivals[] = {
    {{RDT_RIVAL_LIBRARY, "cublas_gemm_ex", "none", false}, 1.07, false, false},
    {{RDT_RIVAL_LIBRARY, "cublaslt_t", "none", false}, 1.05, false, false},
    {{RDT_RIVAL_OWN, "gemm_f16_mma_64x64_none", "none", false}, 1.00, false, false},
    {{RDT_RIVAL_OWN, "gemm_f16_mma_128x128_none", "none", false}, 1.20, false, false},
    {{RDT_RIVAL_OWN, "gemm_f16_mma_64x64_row", "row", true}, 1.30, false, false},
    {{RDT_RIVAL_OWN, "gemm_f16_mma_64x64_thread1", "thread1", true}, 1.10, false, false},
    {{RDT_RIVAL_OWN, "gemm_f16_mma_128x128_thread1", "thread1", true}, 3.00, false, false},
    {{RDT_RIVAL_OWN, "gemm_f16_mma_64x64_global", "global", true}, 1.02, false, false},
    {{RDT_RIVAL_OWN, "gemm_f16_mma_64x64_replicate", "replicate", true}, 1.04, false, true},
    {{RDT_RIVAL_OWN, "gemm_f16_wgmma_64x256pp_tile", "tile", true}, 1.01, true, false},
    {{RDT_RIVAL_BOX, "gemm_f16_cublaslt", "row", false}, 2.50, false, false},
    {{RDT_RIVAL_CHAINED, "gemm_f16_mma_64x64_global-classic_chained", "global-classic", true}, 1.60, false, false},
    {{RDT_RIVAL_UNCOMPARED, "gemm_f16_mma_64x64_global-classic_uncompared", "global-classic", true},
     1.005,
     false,
     false},
    {{RDT_RIVAL_OWN, "gemm_f16_wgmma_tall64_row", "row", true}, 40.0, false, true},
};
enum { RIVALS = sizeof rivals / sizeof *rivals };

typedef struct played { /* what was asked of the track */
  int opened, closed, runs[RIVALS];
  int64_t of_1000;
  double usual;
  bool row_is_best; /* of products of many rows */
  bool quiet;       /* nobody complains */
  int ready;        /* times that somebody was to get ready; the device is lost at number `lost` */
  int lost;
} played;

static rdt_status track_open(void *user, const rdt_problem *p, void **race, rdt_reason *why) {
  played *x = user;
  (void)why;
  x->opened++;
  x->usual = 1e-6 * (2.0 + 1e-3 * (double)p->out.shape[0]);
  x->row_is_best = p->out.shape[0] > 1000;
  *race = x;
  return RDT_OK;
}

static int track_count(const void *race) {
  (void)race;
  return RIVALS;
}

static const rdt_rival *track_at(const void *race, int i) {
  (void)race;
  return &rivals[i].rival;
}

static rdt_status track_ready(void *race, int i, rdt_reason *why) {
  played *x = race;
  if (++x->ready == x->lost) return rdt_fail(why, RDT_ERR_DEVICE, "the device is lost");
  return rivals[i].refuses ? rdt_fail(why, RDT_ERR_UNSUPPORTED, "not this product") : RDT_OK;
}

static rdt_status track_run(void *race, int i, int runs, double *seconds, rdt_reason *why) {
  played *x = race;
  (void)why;
  const bool row = x->row_is_best && strcmp(rivals[i].rival.kernel, "gemm_f16_mma_64x64_row") == 0;
  x->runs[i]++;
  x->of_1000 += runs == 1000;
  *seconds = (row ? 1.03 : rivals[i].share) * x->usual * (1.0 + 1e-4 * (x->runs[i] % 3));
  return RDT_OK;
}

static rdt_status track_complaints(void *race, int i, unsigned *complaints, rdt_reason *why) {
  (void)why;
  *complaints = rivals[i].complains && !((const played *)race)->quiet;
  return RDT_OK;
}

static void track_drop(void *race, int i) {
  (void)race, (void)i;
}

static void track_close(void *race) {
  ((played *)race)->closed++;
}

static rdt_track track_of(played *x) {
  *x = (played){0};
  return (rdt_track){.name = "a made-up GPU",
                     .major = 9,
                     .sms = 132,
                     .driver = 13000,
                     .bandwidth = 4e12,
                     .flops = 800e12,
                     .user = x,
                     .open = track_open,
                     .count = track_count,
                     .at = track_at,
                     .ready = track_ready,
                     .run = track_run,
                     .complaints = track_complaints,
                     .drop = track_drop,
                     .close = track_close};
}

static const rdt_timed *find(const rdt_entry *e, const char *kernel) {
  for (int i = 0; i < e->n; i++)
    if (strcmp(e->list[i].kernel, kernel) == 0) return &e->list[i];
  return NULL;
}

static rdt_entry race_of(rdt_protocol protocol, played *x, unsigned *complaints) {
  rdt_products p;
  rdt_entry e;
  rdt_reason why;
  const rdt_track t = track_of(x);
  const rdt_race_how how = {.protocol = protocol};
  *complaints = 0;
  assert_int_equal(rdt_products_of("square-32", RDT_F16, &p, &why), RDT_OK);
  assert_int_equal(rdt_race_run(&t, &p.list[0].prob, &how, &e, complaints, &why), RDT_OK);
  assert_int_equal(x->opened, x->closed);
  rdt_products_free(&p);
  return e;
}

static void leaders_have_turns(void **state) {
  played x;
  unsigned complaints;
  (void)state;
  rdt_entry e = race_of(RDT_PROTOCOL_QUICK, &x, &complaints);
  assert_int_equal(find(&e, "gemm_f16_mma_64x64_none")->n, 11);
  assert_int_equal(find(&e, "gemm_f16_mma_128x128_none")->n, 1); /* behind another that does the same */
  assert_int_equal(find(&e, "gemm_f16_mma_128x128_thread1")->n, 1);
  assert_int_equal(x.runs[6], 2); /* to warm up, and once: three times as long */
  assert_int_equal(find(&e, "cublaslt_t")->n, 11);
  assert_int_equal(find(&e, "gemm_f16_cublaslt")->n, 5); /* the best that checks so, and far behind all others */
  assert_int_equal(find(&e, "cublas_gemm_ex")->n, 11);   /* near the best */
  assert_null(find(&e, "gemm_f16_wgmma_64x256pp_tile")); /* it refuses */
  assert_null(find(&e, "gemm_f16_mma_64x64_replicate")); /* it complains of clean data */
  assert_null(find(&e, "gemm_f16_wgmma_tall64_row"));    /* so does this one, whose complaints make it slow */
  assert_int_equal(complaints, 2);
  assert_string_equal(rdt_race_best(&e, RDT_RIVAL_LIBRARY, NULL)->kernel, "cublaslt_t");
  assert_null(rdt_race_best(&e, RDT_RIVAL_OWN, "replicate"));
  rdt_entry_clear(&e);
}

/* While all are tried, or when those that lead get ready for their turns: nobody is left out for it. */
static void a_lost_device_ends_the_race(void **state) {
  (void)state;
  for (int lost = RIVALS; lost <= RIVALS + 1; lost++) {
    played x;
    rdt_products p;
    rdt_entry e;
    rdt_reason why;
    unsigned complaints = 0;
    const rdt_track t = track_of(&x);
    const rdt_race_how how = {.protocol = RDT_PROTOCOL_QUICK};
    x.lost = lost;
    assert_int_equal(rdt_products_of("square-32", RDT_F16, &p, &why), RDT_OK);
    assert_int_equal(rdt_race_run(&t, &p.list[0].prob, &how, &e, &complaints, &why), RDT_ERR_DEVICE);
    assert_int_equal(x.opened, x.closed);
    rdt_entry_clear(&e);
    rdt_products_free(&p);
  }
}

static void paper_takes_1000_runs(void **state) {
  played x;
  unsigned complaints;
  (void)state;
  rdt_entry e = race_of(RDT_PROTOCOL_PAPER, &x, &complaints);
  assert_int_equal(find(&e, "gemm_f16_mma_64x64_row")->n, 10);
  assert_int_equal(find(&e, "cublas_gemm_ex")->n, 1); /* the best of each alone */
  int groups = 0;
  for (int i = 0; i < e.n; i++) groups += e.list[i].n == 10;
  assert_int_equal(groups, 8);
  assert_int_equal(x.of_1000, 10 * groups); /* who complains is left out before */
  rdt_entry_clear(&e);
}

/* ---- choosing ---- */

static char because[RDT_OFFER_TEXT]; /* it was chosen */

static const char *chosen(const rdt_entry *e, const rdt_problem *p, const char *scheme, double coverage) {
  static rdt_raced x;
  static char text[128];
  rdt_demand d = {.sets = 1, .min_coverage = coverage};
  played unused;
  const rdt_track t = track_of(&unused);
  if (scheme) d.wanted = rdt_scheme_find(scheme);
  x.o.words = true;
  rdt_race_choose(e, p, &d, &t, false, &x);
  if (x.o.taken < 0) return "";
  snprintf(text, sizeof text, "%s", x.timed[x.o.taken]->kernel);
  snprintf(because, sizeof because, "%s", x.o.list[x.o.taken].text);
  return text;
}

/* Neither the library nor what has no verdict, nor what does not say where: however fast these are. */
static void the_fastest_that_may(void **state) {
  played x;
  unsigned complaints;
  rdt_products p;
  (void)state;
  rdt_entry e = race_of(RDT_PROTOCOL_QUICK, &x, &complaints);
  assert_int_equal(rdt_products_of("square-32", RDT_F16, &p, NULL), RDT_OK);
  const rdt_problem *prob = &p.list[0].prob;
  assert_string_equal(chosen(&e, prob, NULL, 0.99), "gemm_f16_mma_64x64_thread1");
  assert_string_equal(chosen(&e, prob, "row", 0.99), "gemm_f16_mma_64x64_row");
  assert_string_equal(chosen(&e, prob, "global", 0.99), "gemm_f16_mma_64x64_global");
  assert_non_null(strstr(because, "asked for"));
  assert_string_equal(chosen(&e, prob, NULL, 0.9999), "");
  assert_string_equal(chosen(&e, prob, "tile", 0.99),
                      "gemm_f16_mma_64x64_thread1"); /* which refuses it: not in silence */
  assert_non_null(strstr(because, "not tile, which was asked for"));
  rdt_entry_clear(&e);
  rdt_products_free(&p);
}

static void names_say_what_kernels_are(void **state) {
  (void)state;
  for (int i = 0; i < RIVALS; i++)
    assert_int_equal(rdt_rival_kind_of(rivals[i].rival.kernel, rivals[i].rival.scheme), rivals[i].rival.kind);
}

/* ---- workloads ---- */

static void workloads_are_padded_products(void **state) {
  rdt_products p;
  rdt_reason why;
  (void)state;
  assert_int_equal(rdt_products_of("all", RDT_F16, &p, &why), RDT_OK);
  int squares = 0;
  for (int i = 0; i < p.n_networks; i++) squares += strcmp(p.networks[i].workload->group, "square") == 0;
  assert_int_equal(p.n_networks - squares, 24); /* of the literature; squares are the 25th workload */
  assert_int_equal(squares, 7);
  assert_true(p.n < p.n_layers);
  for (int i = 0; i < p.n; i++) {
    assert_int_equal(p.list[i].m % 8 + p.list[i].n % 8 + p.list[i].k % 8, 0);
    for (int k = 0; k < i; k++)
      assert_false(p.list[i].m == p.list[k].m && p.list[i].n == p.list[k].n && p.list[i].k == p.list[k].k);
  }
  rdt_products_free(&p);
  assert_int_equal(rdt_products_of("dlrm", RDT_F16, &p, &why), RDT_OK); /* a group: all of its batches */
  assert_int_equal(p.n_networks, 6);
  rdt_products_free(&p);
  assert_int_equal(rdt_products_of("resnext50-grouped", RDT_F16, &p, &why), RDT_ERR_UNSUPPORTED);
  rdt_products_free(&p);
  assert_int_equal(rdt_products_of("square-32", RDT_F32, &p, &why), RDT_ERR_UNSUPPORTED);
  rdt_products_free(&p);
  assert_int_equal(rdt_products_of("nothing", RDT_F16, &p, &why), RDT_ERR_NAME);
  rdt_products_free(&p);
}

/* ---- going on ---- */

static int left; /* samples until somebody says stop */
static bool stop_then(double part, const char *what) {
  (void)part, (void)what;
  return --left > 0;
}

static rdt_status write_down(const rdt_book *b, void *user, rdt_reason *why) {
  return rdt_cache_merge(user, 1, b, why);
}

static void a_stopped_run_goes_on(void **state) {
  char path[256];
  played x;
  rdt_products p;
  rdt_reason why;
  rdt_book *b;
  int measured;
  unsigned complaints;
  (void)state;
  const rdt_track t = track_of(&x);
  snprintf(path, sizeof path, "%s/progress.json", util_folder);
  rdt_products_watch w = {.how = {.progress = stop_then}, .save = write_down, .user = path};
  assert_int_equal(rdt_products_of("dlrm-top", RDT_F16, &p, &why), RDT_OK);
  assert_int_equal(p.n, 3);
  x.quiet = true;
  b = rdt_calloc(1, sizeof *b);
  left = 250; /* one product asks some 120 times */
  assert_int_equal(rdt_products_measure(&p, &t, &w, b, &measured, &complaints, &why), RDT_ERR_CANCELLED);
  assert_in_range(measured, 1, 2);
  rdt_book_free(b);
  assert_int_equal(rdt_book_read(path, 1, &b, &why), RDT_OK); /* what was done when it was stopped */
  assert_int_equal(b->n, measured);
  const int before = measured;
  left = 1 << 20;
  assert_int_equal(rdt_products_measure(&p, &t, &w, b, &measured, &complaints, &why), RDT_OK);
  assert_int_equal(measured, 3 - before);
  for (int i = 0; i < p.n; i++) assert_non_null(p.list[i].entry);
  assert_int_equal(rdt_products_measure(&p, &t, &w, b, &measured, &complaints, &why), RDT_OK);
  assert_int_equal(measured, 0); /* nothing is left */
  w.anew = true;
  assert_int_equal(rdt_products_measure(&p, &t, &w, b, &measured, &complaints, &why), RDT_OK);
  assert_int_equal(measured, 3);
  x.quiet = false; /* what complained is measured again, and told again */
  assert_int_equal(rdt_products_measure(&p, &t, &w, b, &measured, &complaints, &why), RDT_OK);
  assert_int_equal(complaints, 6);
  rdt_book_free(b);
  assert_int_equal(rdt_book_read(path, 1, &b, &why), RDT_OK);
  assert_int_equal(b->n, 0);
  w.anew = false;
  assert_int_equal(rdt_products_measure(&p, &t, &w, b, &measured, &complaints, &why), RDT_OK);
  assert_int_equal(measured, 3);
  assert_int_equal(complaints, 6);
  rdt_book_free(b);
  rdt_products_free(&p);
}

/* ---- what is told ---- */

static cJSON *document_of(const char *words, bool model) {
  static played x;
  static rdt_track t;
  rdt_products p;
  rdt_reason why = {""};
  int measured;
  cJSON *doc;
  rdt_book *b = rdt_calloc(1, sizeof *b);
  t = track_of(&x);
  const rdt_products_watch w = {.how = {.protocol = RDT_PROTOCOL_QUICK}, .list = model};
  rdt_gpu_report r = {.products = &p,
                      .track = &t,
                      .demand = {.sets = 1, .min_coverage = 0.99},
                      .model = model,
                      .mhz = {NAN, NAN},
                      .celsius = {NAN, NAN}};
  assert_int_equal(rdt_products_of(words, RDT_F16, &p, &why), RDT_OK);
  assert_int_equal(rdt_products_measure(&p, &t, &w, b, &measured, &r.complaints, &why), RDT_OK);
  const rdt_status s = rdt_gpu_report_make(&r, &doc, &why);
  if (s != RDT_OK) fail_msg("%s", why.text);
  rdt_book_free(b);
  rdt_products_free(&p);
  return doc;
}

static const cJSON *row_of(const cJSON *doc, const char *table, const char *workload, const char *scheme) {
  const cJSON *row;
  cJSON_ArrayForEach(row, rdt_figure_table(doc, table)) {
    if (strcmp(rdt_json_string(row, "workload"), workload) != 0) continue;
    if (!scheme || strcmp(rdt_json_string(row, "scheme"), scheme) == 0) return row;
  }
  return NULL;
}

static void sums_are_those_of_layers(void **state) {
  (void)state;
  cJSON *doc = document_of("dlrm-top,vgg16,square", false);
  const cJSON *top = row_of(doc, "planned", "dlrm-top", NULL), *mean = row_of(doc, "planned", "geometric mean", NULL);
  assert_true(fabs(rdt_json_real(top, "plan / none") - 1.10) < 1e-3);
  assert_true(fabs(rdt_json_real(top, "plan / best library") - 1.10 / 1.05) < 1e-3);
  assert_true(fabs(rdt_json_real(top, "classic overhead / plan overhead") - 0.6 / 0.1) < 0.05);
  assert_string_equal(rdt_json_string(top, "best single"), "thread1");
  assert_true(rdt_json_real(top, "low single") <= 1.0);
  const cJSON *vgg = row_of(doc, "planned", "vgg16", NULL); /* row here, thread1 there: better than either everywhere */
  assert_true(rdt_json_real(vgg, "plan / single") < 0.999);
  assert_non_null(row_of(doc, "planned", "squares", NULL));
  assert_null(row_of(doc, "planned", "square-32", NULL));
  assert_true(rdt_json_real(mean, "plan / none") > 1.0);
  assert_true(rdt_json_real(row_of(doc, "sums", "dlrm-top", "global-classic"), "/ none") > 1.55);
  assert_true(rdt_json_real(row_of(doc, "planned", "worst", NULL), "plan / none") >=
              rdt_json_real(mean, "plan / none"));
  assert_int_equal((int)rdt_json_real(doc, "complaints"), 2 * cJSON_GetArraySize(rdt_figure_table(doc, "products")));
  char names[64];
  rdt_gpu_report_over(doc, 0.09, names, sizeof names);
  assert_non_null(strstr(names, "dlrm-top"));
  rdt_gpu_report_over(doc, 0.2, names, sizeof names);
  assert_string_equal(names, "");
  cJSON_Delete(doc);
}

static void pictures_are_drawn(void **state) {
  static const char *const names[] = {"overhead-networks", "overhead-dlrm", "overhead-noscope",
                                      "overhead-square",   "roofline",      "crossing"};
  rdt_reason why = {""};
  (void)state;
  cJSON *doc = document_of("dlrm,noscope,square", false);
  const rdt_status s = rdt_figures_record(doc, "made-up", util_folder, &why);
  if (s != RDT_OK) fail_msg("%s", why.text);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s.svg", util_folder, names[i]);
    assert_int_equal(access(path, R_OK), 0);
  }
  cJSON_Delete(doc);
}

static void models_measure_nothing(void **state) {
  (void)state;
  cJSON *doc = document_of("square-32", true);
  const cJSON *p = cJSON_GetArrayItem(rdt_figure_table(doc, "products"), 0);
  assert_true(*rdt_json_string(p, "plan kernel") != '\0');
  assert_true(isnan(rdt_json_real(p, "plan us")));
  assert_string_equal(rdt_json_string(doc, "policy"), "model");
  cJSON_Delete(doc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaders_have_turns),         cmocka_unit_test(a_lost_device_ends_the_race),
      cmocka_unit_test(paper_takes_1000_runs),      cmocka_unit_test(the_fastest_that_may),
      cmocka_unit_test(names_say_what_kernels_are), cmocka_unit_test(workloads_are_padded_products),
      cmocka_unit_test(a_stopped_run_goes_on),      cmocka_unit_test(sums_are_those_of_layers),
      cmocka_unit_test(pictures_are_drawn),         cmocka_unit_test(models_measure_nothing),
  };
  return cmocka_run_group_tests(tests, util_folder_make, util_folder_remove);
}
