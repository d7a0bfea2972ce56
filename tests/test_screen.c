/* Products whose results are known, and the burn-in that is made of them: silent on cores that compute rightly, and a
 * core that does not is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "cuda/device.h"
#include "net/tensor_file.h"
#include "screen/screen.h"
#include "util_cli.h"
#include "util_sample.h"

static const rdt_dtype dtypes[] = {RDT_F64, RDT_F32, RDT_BF16, RDT_F16, RDT_S8, RDT_U8};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

typedef void (*known_fn)(const rdt_known *k);

static void for_each(int sizes, known_fn fn) {
  rdt_reason why = {""};
  for (int d = 0; d < DTYPES; d++)
    for (int p = 0; p < RDT_KNOWN_PATTERN_COUNT; p++)
      for (int size = 0; size < sizes; size++) {
        rdt_known k;
        if (size > 0 && !util_takes(d + p, util_one_in(1, 2))) continue;
        if (rdt_known_create(dtypes[d], (rdt_known_pattern)p, (rdt_known_size)size, &k, &why) != RDT_OK)
          fail_msg("%s", why.text);
        fn(&k);
        rdt_known_clear(&k);
      }
}

/* From the last term to the first, in more precision: what is known is no artefact of an order. */
static void sum_backwards(const rdt_known *k) {
  const int64_t depth = k->a.shape[1], n = k->b.shape[1];
  for (int64_t i = 0; i < k->a.shape[0]; i += 7)
    for (int64_t j = 0; j < n; j += 5) {
      long double sum = 0.0L;
      for (int64_t t = depth - 1; t >= 0; t--)
        sum += (long double)rdt_load(k->a.data, k->a.dtype, i * depth + t) *
               (long double)rdt_load(k->b.data, k->b.dtype, t * n + j);
      double stored = 0.0;
      rdt_store(&stored, k->c.dtype, 0, (double)sum);
      assert_true(rdt_load(&stored, k->c.dtype, 0) == rdt_load(k->c.data, k->c.dtype, i * n + j));
    }
}

static void test_known(void **state) {
  (void)state;
  for_each(RDT_KNOWN_SIZE_COUNT, sum_backwards);
}

/* Every kernel at every ISA gives the bits, and a single bit of the result or of an operand is seen. */
static int64_t tried;
static void by_all_kernels(const rdt_known *k) {
  int n;
  rdt_reason why;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  const rdt_isa best = rdt_isa_detect();
  for (int i = 0; i < n; i++)
    for (int isa = RDT_ISA_GENERIC; isa <= (int)best; isa++) {
      int64_t first;
      rdt_trial_product t;
      if (rows[i]->op != RDT_KOP_GEMM || (int)rows[i]->isa > isa || (rows[i]->black_box && isa < (int)best)) continue;
      const rdt_isa before = rdt_isa_confine((rdt_isa)isa);
      if (rdt_trial_product_create(rows[i], k, &t, &why) == RDT_OK) {
        assert_int_equal(rdt_trial_product_run(&t, &why), RDT_OK);
        if (rdt_trial_product_wrong(&t, &first) != 0)
          fail_msg("%s %s: %s %s differs at %lld", rows[i]->name, rdt_isa_name((rdt_isa)isa), rdt_dtype_name(k->dtype),
                   rdt_known_pattern_name(k->pattern), (long long)first);
        ((unsigned char *)t.out.data)[101] ^= 4;
        assert_int_equal(rdt_trial_product_wrong(&t, &first), 1);
        assert_int_equal(first, 101 / (int64_t)rdt_dtype_size(t.out.dtype));
        tried++;
      }
      rdt_trial_product_clear(&t);
      assert_int_equal(rdt_isa_confine(before), isa);
    }
}

static void test_kernels(void **state) {
  (void)state;
  tried = 0;
  for_each(1, by_all_kernels);
  assert_true(tried >= 2 * 4 * DTYPES);
}

static void test_seal(void **state) {
  (void)state;
  rdt_known k;
  rdt_reason why = {""};
  assert_int_equal(rdt_known_form(RDT_F32, RDT_KNOWN_PRODUCTS, RDT_KNOWN_SMALL, &k, &why), RDT_OK);
  const rdt_tensor all[] = {k.a, k.b, k.c};
  const uint64_t seal = rdt_known_seal(&k);
  for (int i = 0; i < 3; i++) {
    ((unsigned char *)all[i].data)[40] ^= 1;
    assert_true(rdt_known_seal(&k) != seal);
    ((unsigned char *)all[i].data)[40] ^= 1;
  }
  assert_true(rdt_known_seal(&k) == seal);
  rdt_known_clear(&k);
  assert_int_equal(rdt_known_create(RDT_S32, RDT_KNOWN_CHECKER, RDT_KNOWN_SMALL, &k, &why), RDT_ERR_DTYPE);
}

static rdt_status screen(const char *fault, rdt_screen *s, rdt_reason *why) {
  rdt_fault f;
  if (fault) assert_int_equal(rdt_fault_parse(fault, &f, why), RDT_OK);
  return rdt_screen_run(&(rdt_screen_job){.level = 1, .seconds = 0.1, .retests = 8, .fault = fault ? &f : NULL}, s,
                        why);
}

static void test_good_cores(void **state) {
  (void)state;
  rdt_screen s;
  rdt_reason why = {""};
  assert_int_equal(screen(NULL, &s, &why), RDT_OK);
  assert_int_equal(s.bad, 0);
  assert_true(s.n_units >= 1 && s.n_paths >= 2 * DTYPES && s.cases == 4 * s.n_paths);
  for (int i = 0; i < s.n_units; i++) {
    assert_true(s.units[i].products >= s.cases);
    assert_int_equal(s.units[i].failures, 0);
    assert_int_equal(s.units[i].diagnosis, RDT_DIAG_NONE);
  }
  rdt_screen_clear(&s);
}

/* The one core that is bad is named, and no other. */
static void expect_named(const char *kind, const char *more, int at, rdt_diagnosis diagnosis) {
  rdt_screen s;
  rdt_reason why = {""};
  char fault[128];
  int cores[CPU_SETSIZE];
  const int n = rdt_cores_allowed(cores, CPU_SETSIZE), core = cores[at % n];
  snprintf(fault, sizeof fault, "%s@accum,core=%d%s", kind, core, more);
  assert_int_equal(screen(fault, &s, &why), RDT_OK);
  assert_int_equal(s.bad, 1);
  for (int i = 0; i < s.n_units; i++) {
    const rdt_screen_unit *u = &s.units[i];
    assert_int_equal(u->failures > 0, u->core == core);
    if (u->core != core) continue;
    assert_int_equal(u->diagnosis, diagnosis);
    assert_true(u->n_failed > 0 && u->failed[0].wrong > 0 && u->failed[0].bits != 0);
    const rdt_screen_failed *f = &u->failed[0];
    const rdt_tensor *c = &s.known[f->known].c;
    assert_true(f->expected == rdt_load(c->data, c->dtype, f->row * c->shape[1] + f->column));
    assert_true(f->expected != f->actual);
  }
  rdt_screen_clear(&s);
}

static void test_bad_core(void **state) {
  (void)state;
  expect_named("stuck1:22", "", 1, RDT_DIAG_PERSISTENT);
  expect_named("stuck0:20", "", 0, RDT_DIAG_PERSISTENT);
  expect_named("bit", ",seed=3", 1, RDT_DIAG_PERSISTENT);
  expect_named("bit:13", ",rate=0.01", 0, RDT_DIAG_TRANSIENT);
  if (rdt_isa_detect() > RDT_ISA_GENERIC) expect_named("stuck1:12", ",lane=3", 1, RDT_DIAG_PERSISTENT);
}

static void test_no_such_core(void **state) {
  (void)state;
  rdt_screen s;
  rdt_reason why = {""};
  assert_int_equal(screen("bit@accum,core=1000000", &s, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "core that it may use"));
  rdt_screen_clear(&s);
  assert_int_equal(screen("bit@accum", &s, &why), RDT_ERR_ARG);
  rdt_screen_clear(&s);
}

static int calls;
static bool stop_at_once(void *user, double part, const char *what) {
  (void)user;
  assert_true(part >= 0.0 && *what);
  return ++calls < 3;
}

static void test_stopped(void **state) {
  (void)state;
  rdt_screen s;
  rdt_reason why = {""};
  calls = 0;
  assert_int_equal(rdt_screen_run(&(rdt_screen_job){.level = 1, .seconds = 100.0, .progress = stop_at_once}, &s, &why),
                   RDT_ERR_CANCELLED);
  assert_int_equal(calls, 3);
  rdt_screen_clear(&s);
}

/* ---- a GPU that is none: each multiprocessor says what the known result is, one of them wrongly ---- */

enum { SMS = 5 };
static const int numbers[SMS] = {0, 1, 3, 4, 7};
static const rdt_sms_path sms_paths[] = {{"mma f16", RDT_F16}, {"fma f32", RDT_F32}, {"mma s8", RDT_S8}};

typedef struct fake_sms {
  rdt_sms sms;
  int path, loads, every; /* every: so many products until the fault of the strike comes about; 0: never */
  int busy;               /* this one computes nothing; -1: none */
  int64_t made;
  const rdt_tensor *c;
} fake_sms;

static rdt_status fake_load(rdt_sms *s, int path, const rdt_tensor *a, const rdt_tensor *b, const rdt_tensor *c,
                            rdt_reason *why) {
  fake_sms *f = (fake_sms *)s;
  (void)why;
  assert_int_equal(a->dtype, sms_paths[path].dtype);
  assert_true(a->shape[1] == b->shape[0] && c->shape[0] == a->shape[0] && c->shape[1] == b->shape[1]);
  f->path = path, f->c = c, f->loads++;
  return RDT_OK;
}

static rdt_status fake_run(rdt_sms *s, int rounds, const rdt_sms_strike *strike, rdt_sms_found *found,
                           rdt_reason *why) {
  fake_sms *f = (fake_sms *)s;
  (void)why;
  for (int u = 0; u < SMS; u++) {
    found[u] = (rdt_sms_found){.products = u == f->busy ? 0 : rounds};
    if (!strike || numbers[u] != strike->sm) continue;
    const int64_t e = (f->c->shape[1] + 2);
    uint64_t bits = 0;
    memcpy(&bits, (char *)f->c->data + (size_t)e * rdt_dtype_size(f->c->dtype), rdt_dtype_size(f->c->dtype));
    const uint64_t now = (~bits & strike->to[0]) | (bits & strike->to[1]);
    for (int r = 0; r < rounds && now != bits; r++)
      if (f->every && f->made++ % f->every == 0) found[u].failures++;
    if (found[u].failures) found[u].wrong = 1, found[u].row = 1, found[u].column = 2, found[u].actual = now;
  }
  return RDT_OK;
}

static void fake_sense(rdt_sms *s, double *mhz, double *celsius) {
  (void)s;
  *mhz = 1980.0, *celsius = 41.0;
}

static void make_fake(fake_sms *f, const char *name) {
  f->sms = (rdt_sms){.units = numbers,
                     .n_units = SMS,
                     .paths = sms_paths,
                     .n_paths = 3,
                     .load = fake_load,
                     .run = fake_run,
                     .sense = fake_sense};
  snprintf(f->sms.name, sizeof f->sms.name, "%s", name);
}

static rdt_status screen_sms(fake_sms *f, int level, const char *fault, rdt_screen *s, rdt_reason *why) {
  rdt_fault parsed;
  make_fake(f, "cuda:0");
  if (fault) assert_int_equal(rdt_fault_parse(fault, &parsed, why), RDT_OK);
  return rdt_screen_run(
      &(rdt_screen_job){.level = level, .seconds = 0.05, .retests = 8, .fault = fault ? &parsed : NULL, .sms = &f->sms},
      s, why);
}

static void test_multiprocessors(void **state) {
  (void)state;
  rdt_reason why = {""};
  for (int every = 0; every <= 1000; every = every ? every * 1000 : 1) {
    rdt_screen s;
    fake_sms f = {.every = every, .busy = -1};
    const int level = every == 1 ? 2 : 1; /* small products, or those of all sizes */
    assert_int_equal(screen_sms(&f, level, every ? "bit:20@accum,core=4" : NULL, &s, &why), RDT_OK);
    assert_true(f.loads >= s.cases && s.cases == 3 * 4 * level && s.n_units == SMS && s.temperature[1] == 41.0);
    assert_int_equal(s.bad, every > 0);
    for (int u = 0; u < SMS; u++) {
      const rdt_screen_unit *x = &s.units[u];
      assert_int_equal(x->core, numbers[u]);
      assert_int_equal(x->failures > 0, every && numbers[u] == 4);
      assert_int_equal(x->diagnosis, !x->failures ? RDT_DIAG_NONE
                                     : every == 1 ? RDT_DIAG_PERSISTENT
                                                  : RDT_DIAG_TRANSIENT);
      assert_true(x->clock == 1980.0 && x->products >= s.cases);
      if (!x->failures) continue;
      const rdt_screen_failed *first = &x->failed[0];
      const rdt_known *k = &s.known[first->known];
      assert_int_equal(first->bits, 1 << 20);
      assert_true(x->n_failed <= s.cases && x->retested <= 8 * s.cases); /* each product once, however often it fails */
      if (every == 1) assert_int_equal(x->n_failed, s.cases);
      assert_true(first->row == 1 && first->column == 2 && first->expected != first->actual);
      assert_true(first->expected == rdt_load(k->c.data, k->c.dtype, k->c.shape[1] + 2));
      assert_true(k->dtype == s.paths[first->path].dtype && first->retested == 8);
    }
    rdt_screen_clear(&s);
  }
}

static void test_multiprocessors_that_are_not_there(void **state) {
  (void)state;
  rdt_screen s;
  rdt_reason why = {""};
  fake_sms f = {.every = 1, .busy = -1};
  assert_int_equal(screen_sms(&f, 1, "bit:20@accum,core=2", &s, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "multiprocessor that there is"));
  rdt_screen_clear(&s);
  f.busy = 2; /* what computes nothing is not good */
  assert_int_equal(screen_sms(&f, 1, NULL, &s, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "multiprocessor 3"));
  rdt_screen_clear(&s);
}

/* ---- the cores and two such GPUs in one screen ---- */

enum { DEVICES = 3 };
static double far; /* what progress was told last */

static bool note(void *user, double part, const char *what) {
  assert_true(*what && part >= 0.0 && user == &far);
  far = part;
  return true;
}

static rdt_status screen_all(const char *fault, int busy, bool (*progress)(void *, double, const char *), rdt_screen *s,
                             rdt_reason *why) {
  static fake_sms gpus[2];
  rdt_fault f;
  rdt_screen_job jobs[DEVICES];
  if (fault) assert_int_equal(rdt_fault_parse(fault, &f, why), RDT_OK);
  for (int i = 0; i < DEVICES; i++) {
    char name[16];
    snprintf(name, sizeof name, "cuda:%d", i - 1);
    if (i > 0) gpus[i - 1] = (fake_sms){.every = 1, .busy = i == 2 ? busy : -1};
    if (i > 0) make_fake(&gpus[i - 1], name);
    jobs[i] = (rdt_screen_job){.level = 1,
                               .seconds = 0.2,
                               .retests = 2,
                               .fault = fault ? &f : NULL,
                               .sms = i > 0 ? &gpus[i - 1].sms : NULL,
                               .progress = progress,
                               .user = &far};
  }
  return rdt_screen_run_all(jobs, DEVICES, s, why);
}

static void test_all_devices(void **state) {
  (void)state;
  static const char *const faults[] = {NULL, "bit:9@accum,core=%d,layer=cpu", "bit:20@accum,core=4,layer=cuda:0",
                                       "bit:20@accum,core=7,layer=cuda:1"};
  int core;
  rdt_reason why = {""};
  assert_int_equal(rdt_cores_allowed(&core, 1), 1);
  for (int bad = -1; bad < DEVICES; bad++) {
    rdt_screen s[DEVICES];
    char fault[64] = "";
    if (bad >= 0) snprintf(fault, sizeof fault, faults[bad + 1], core);
    far = 0.0;
    assert_int_equal(screen_all(bad >= 0 ? fault : NULL, -1, note, s, &why), RDT_OK);
    assert_true(far > 0.5);
    for (int i = 0; i < DEVICES; i++) {
      assert_int_equal(s[i].bad, i == bad);
      assert_true(s[i].products >= s[i].cases && s[i].n_units >= 1 && s[i].seconds >= 0.2);
      for (int u = 0; u < s[i].n_units; u++)
        assert_int_equal(s[i].units[u].failures > 0, i == bad && s[i].units[u].core == (bad == 0 ? core : 3 * bad + 1));
      rdt_screen_clear(&s[i]);
    }
  }
}

/* What ends one of them ends all, and its reason is told. */
static void test_all_devices_end_together(void **state) {
  (void)state;
  rdt_screen s[DEVICES];
  rdt_reason why = {""};
  assert_int_equal(screen_all(NULL, 1, note, s, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "multiprocessor 1 of cuda:1"));
  for (int i = 0; i < DEVICES; i++) rdt_screen_clear(&s[i]);
  calls = 0;
  assert_int_equal(screen_all(NULL, -1, stop_at_once, s, &why), RDT_ERR_CANCELLED);
  assert_int_equal(calls, 3); /* nobody is asked again */
  for (int i = 0; i < DEVICES; i++) rdt_screen_clear(&s[i]);
  assert_int_equal(screen_all("bit@accum,core=0,layer=cuda:7", -1, note, s, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "'cuda:7', which is not screened"));
  for (int i = 0; i < DEVICES; i++) rdt_screen_clear(&s[i]);
}

static void put(const char *path, const char *text) {
  char folder[256];
  snprintf(folder, sizeof folder, "%s", path);
  for (char *c = strchr(folder, '/'); c; c = strchr(c + 1, '/')) {
    *c = '\0';
    mkdir(folder, 0777);
    *c = '/';
  }
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void test_sensors(void **state) {
  (void)state;
  assert_true(isnan(rdt_sensor_clock("nowhere", 0)) && isnan(rdt_sensor_temperature("nowhere")));
  put("m/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2596.120\n\nprocessor\t: 1\ncpu MHz\t\t: 3100.5\n");
  assert_true(rdt_sensor_clock("m", 0) == 2596.120 && rdt_sensor_clock("m", 1) == 3100.5);
  assert_true(isnan(rdt_sensor_clock("m", 2)));
  put("m/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2400000\n");
  assert_true(fabs(rdt_sensor_clock("m", 1) - 2400.0) < 1e-9);
  put("m/sys/class/thermal/thermal_zone0/type", "acpitz\n");
  put("m/sys/class/thermal/thermal_zone0/temp", "99000\n");
  assert_true(isnan(rdt_sensor_temperature("m")));
  put("m/sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
  put("m/sys/class/thermal/thermal_zone1/temp", "51000\n");
  assert_true(fabs(rdt_sensor_temperature("m") - 51.0) < 1e-9);
  put("m/sys/class/hwmon/hwmon2/name", "k10temp\n");
  put("m/sys/class/hwmon/hwmon2/temp1_input", "48000\n");
  put("m/sys/class/hwmon/hwmon2/temp2_input", "63500\n");
  assert_true(fabs(rdt_sensor_temperature("m") - 63.5) < 1e-9);
}

static void test_command(void **state) {
  (void)state;
  int core;
  char fault[64], path[128];
  rdt_tensor t;
  rdt_reason why;
  assert_int_equal(rdt_cores_allowed(&core, 1), 1);
  snprintf(fault, sizeof fault, "--fault bit:9@accum,core=%d", core);
  util_cli_expect(util_cli("screen --time 0.1"), 0, "every core computes rightly");
  util_cli_expect(util_cli("screen --time 0.1 --format md"), 0, "| state |");
  util_cli_expect(util_cli("screen --time 0.1 %s --prom s.prom --save found", fault), 1, "compute");
  snprintf(path, sizeof path, "core %d   gemm_", core);
  util_cli_expect(0, 0, path);
  util_cli_expect(util_cli("screen --time 0.1 --retest 0 --json %s", fault), 1, "\"state\":\t\"unknown\"");
  util_cli_slurp("s.prom");
  snprintf(path, sizeof path, "core=\"%d\"} 1\n", core);
  assert_non_null(strstr(util_cli_text, path));
  util_cli_expect(util_cli("screen --time 0.1 -q --prom s.prom"), 0, NULL);
  util_cli_slurp("s.prom");
  assert_non_null(strstr(util_cli_text, "redoubt_screen_bad{host=\""));
  assert_null(strstr(util_cli_text, path));
  util_cli_slurp("found/screen.json");
  assert_non_null(strstr(util_cli_text, "redoubt.screen/2"));
  glob_t files;
  assert_int_equal(glob("found/*-expected.npy", 0, NULL, &files), 0);
  assert_int_equal(rdt_tensor_file_read(files.gl_pathv[0], &t, &why), RDT_OK);
  globfree(&files);
  assert_int_equal(t.rank, 2);
  rdt_free(t.data);
}

/* Whatever there is: a machine without a GPU says so, and is good. */
static void test_command_all(void **state) {
  (void)state;
  int core;
  char fault[64];
  assert_int_equal(rdt_cores_allowed(&core, 1), 1);
  snprintf(fault, sizeof fault, "--fault bit:9@accum,core=%d,layer=cpu", core);
  const bool none = rdt_cuda_count(NULL) == 0;
  util_cli_expect(util_cli("screen --device all --time 0.1"), 0, none ? "no GPU: " : "every multiprocessor");
  util_cli_expect(0, 0, "every core computes rightly");
  assert_null(strstr(util_cli_text, "no GPU: no GPU"));
  util_cli_expect(util_cli("screen --device all --time 0.1 --json --prom all.prom %s", fault), 1, "\"no_gpu\":");
  util_cli_expect(0, 0, none ? "\"devices\":\t[{" : "\"cuda:0\"");
  util_cli_slurp("all.prom");
  assert_non_null(strstr(util_cli_text, "redoubt_screen_bad{host=\""));
  util_cli_expect(util_cli("screen --device cpu,cpu --time 0.1"), 2, "cpu is there twice");
  util_cli_expect(util_cli("screen --device cpu --time 0.1 --fault bit@accum,core=0,layer=cuda:0"), 2, "not screened");
}

static void test_bad_words(void **state) {
  (void)state;
  util_cli_expect(util_cli("screen -r 5"), 2, "1 to 4");
  util_cli_expect(util_cli("screen --device gpu"), 2, "cuda:N");
  if (rdt_cuda_count(NULL) == 0) util_cli_expect(util_cli("screen --device cuda:0"), 3, "`redoubt info` says");
  util_cli_expect(util_cli("screen --device cuda:0 --fault bit@nowhere,core=0"), 2, "nowhere"); /* with a GPU or not */
  util_cli_expect(util_cli("screen --fault bit@accum"), 2, "core that it may use");
  util_cli_expect(util_cli("screen --fault bit@weight,core=0"), 2, "site accum");
  util_cli_expect(util_cli("screen --fault bit@accum,core=0,cores=7"), 2, "without cores=");
  util_cli_expect(util_cli("screen --time 0"), 2, "above 0");
  util_cli_expect(util_cli("screen --prom no/such.prom"), 2, "no/such.prom");
  put("other/x.prom", "redoubt_runs_total 1\n");
  util_cli_expect(util_cli("screen --prom other/x.prom"), 2, "a file of its own");
  util_cli_expect(util_cli("screen --save other/x.prom"), 2, "x.prom");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known),
                                     cmocka_unit_test(test_kernels),
                                     cmocka_unit_test(test_seal),
                                     cmocka_unit_test(test_good_cores),
                                     cmocka_unit_test(test_bad_core),
                                     cmocka_unit_test(test_no_such_core),
                                     cmocka_unit_test(test_multiprocessors),
                                     cmocka_unit_test(test_multiprocessors_that_are_not_there),
                                     cmocka_unit_test(test_stopped),
                                     cmocka_unit_test(test_sensors),
                                     cmocka_unit_test(test_all_devices),
                                     cmocka_unit_test(test_all_devices_end_together),
                                     cmocka_unit_test(test_command),
                                     cmocka_unit_test(test_command_all),
                                     cmocka_unit_test(test_bad_words)};
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
