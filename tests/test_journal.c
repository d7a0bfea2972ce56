/* Where events go: lines of JSON, priorities of syslog, counters. The system's syslog is replaced here. */
#undef _FORTIFY_SOURCE /* its header would define syslog itself */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/context.h"
#include "report/journal.h"
#include "report/prom.h"
#include "util_cli.h"

static struct said {
  int priority, count;
  char text[1200];
} said;

void syslog(int priority, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(said.text, sizeof said.text, format, args);
  va_end(args);
  said.priority = priority;
  said.count++;
}

static const rdt_event fault = {.kind = RDT_EVENT_FAULT,
                                .node = "conv\033[2J1",
                                .op = "Conv",
                                .scheme = "fc",
                                .kernel = "k",
                                .what = "result",
                                .place = {3, 7},
                                .residual = INFINITY,
                                .bound = 1.0,
                                .bound_rigorous = 2.0,
                                .verdict = RDT_RECOMPUTED,
                                .diagnosis = RDT_DIAG_TRANSIENT,
                                .changed = 1,
                                .text = "conv\0331: %s a transient fault",
                                .dtype = "f32",
                                .rank = 2,
                                .shape = {4, 8},
                                .floor = 2.0,
                                .element = 31,
                                .valued = 1,
                                .expected = 0.5,
                                .actual = NAN,
                                .core = 5,
                                .n_rungs = 1,
                                .rungs = {{"recompute", "passed", 0.25}}};

static rdt_event but(rdt_event_kind kind, rdt_verdict v, rdt_diagnosis d, int64_t changed) {
  rdt_event e = fault;
  e.kind = kind;
  e.verdict = v;
  e.diagnosis = d;
  e.changed = changed;
  return e;
}

static void actions_and_priorities(void **state) {
  (void)state;
  static const struct {
    rdt_event_kind kind;
    rdt_verdict verdict;
    rdt_diagnosis diagnosis;
    int changed, priority;
    const char *action;
  } rows[] = {
      {RDT_EVENT_SUSPECT, RDT_CLEAN, RDT_DIAG_NONE, 0, LOG_WARNING, "none"},
      {RDT_EVENT_UNCHECKED, RDT_UNCHECKED, RDT_DIAG_NONE, 0, LOG_WARNING, "none"},
      {RDT_EVENT_FALLBACK, RDT_CLEAN, RDT_DIAG_NONE, 0, LOG_WARNING, "none"},
      {RDT_EVENT_FAULT, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, 1, LOG_ERR, "recomputed"},
      {RDT_EVENT_FAULT, RDT_RECOMPUTED, RDT_DIAG_PERSISTENT, 2, LOG_ERR, "recomputed"},
      {RDT_EVENT_FAULT, RDT_RECOMPUTED, RDT_DIAG_CHECKER, 0, LOG_ERR, "renewed"},
      {RDT_EVENT_FAULT, RDT_RECOMPUTED, RDT_DIAG_MEMORY, 5, LOG_ERR, "restored"},
      {RDT_EVENT_FAULT, RDT_CORRECTED, RDT_DIAG_TRANSIENT, 1, LOG_ERR, "corrected"},
      {RDT_EVENT_FAULT, RDT_DETECTED, RDT_DIAG_MEMORY, 0, LOG_CRIT, "reported"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const rdt_event e = but(rows[i].kind, rows[i].verdict, rows[i].diagnosis, rows[i].changed);
    assert_string_equal(rdt_event_action(&e), rows[i].action);
    assert_int_equal(rdt_event_priority(&e), rows[i].priority);
  }
}

static void syslog_is_told(void **state) {
  rdt_journal j;
  (void)state;
  assert_int_equal(rdt_journal_open(&j, NULL, true, "m.onnx", NULL), RDT_OK);
  said = (struct said){.count = 0};
  rdt_journal_add(&j, &fault);
  assert_int_equal(said.count, 1);
  assert_int_equal(said.priority, LOG_ERR);
  assert_string_equal(said.text, "m.onnx: conv?1: %s a transient fault (RECOMPUTED, transient, core 5)");
  rdt_journal_plant(&j, "bit:3@accum,seed=9");
  rdt_journal_add(&j, &fault);
  assert_non_null(strstr(said.text, "planted: bit:3@accum,seed=9"));
  rdt_journal_sum(&j, 7, 0, RDT_CLEAN);
  assert_int_equal(said.count, 2); /* nothing to say */
  rdt_journal_sum(&j, 7, 2, RDT_RECOMPUTED);
  assert_string_equal(said.text, "m.onnx: 2 faults in 7 runs; the worst verdict is RECOMPUTED");
  assert_int_equal(said.priority, LOG_ERR);
  rdt_journal_sum(&j, 1, 1, RDT_DETECTED);
  assert_int_equal(said.priority, LOG_CRIT);
  rdt_journal_close(&j);
  assert_int_equal(rdt_journal_open(&j, NULL, false, "m.onnx", NULL), RDT_OK);
  said.count = 0;
  rdt_journal_add(&j, &fault);
  rdt_journal_sum(&j, 1, 1, RDT_DETECTED);
  assert_int_equal(said.count, 0); /* not asked for */
  rdt_journal_close(&j);
}

static void lines_are_whole_and_tame(void **state) {
  rdt_journal j;
  rdt_reason why = {""};
  (void)state;
  assert_int_equal(rdt_journal_open(&j, "e.jsonl", false, "m\n.onnx", &why), RDT_OK);
  rdt_journal_plant(&j, "bit:3@accum,seed=18446744073709551615");
  rdt_journal_add(&j, &fault);
  rdt_journal_plant(&j, NULL);
  rdt_journal_add(&j, &fault);
  rdt_journal_close(&j);
  assert_int_equal(j.status, RDT_OK);
  util_cli_slurp("e.jsonl");
  char *second = strchr(util_cli_text, '\n') + 1;
  assert_int_equal(strchr(second, '\n')[1], '\0');
  assert_non_null(strstr(util_cli_text, "\"seed\":18446744073709551615"));
  assert_null(strstr(second, "\"seed\""));
  cJSON *o = cJSON_Parse(second);
  assert_non_null(o);
  assert_string_equal(cJSON_GetObjectItem(o, "layer")->valuestring, "conv?[2J1");
  assert_string_equal(cJSON_GetObjectItem(o, "model")->valuestring, "m?.onnx");
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(o, "residual")));
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(o, "actual")));
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(o, "rungs")), 1);
  cJSON_Delete(o);
}

/* Where a line could not be written whole, the next one stands apart, and it is said at the end. */
static void torn_lines_stand_apart(void **state) {
  rdt_journal j;
  rdt_reason why = {""};
  (void)state;
  assert_int_equal(rdt_journal_open(&j, "t.jsonl", false, "m.onnx", &why), RDT_OK);
  const int fd = j.fd;
  j.fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* no write works */
  rdt_journal_add(&j, &fault);
  close(j.fd);
  assert_int_equal(j.status, RDT_ERR_IO);
  assert_non_null(strstr(j.why.text, "t.jsonl: an event could not be written"));
  j.fd = fd;
  assert_int_equal(write(fd, "{\"sch", 5), 5);
  j.torn = true;
  rdt_journal_add(&j, &fault);
  rdt_journal_add(&j, &fault);
  rdt_journal_close(&j);
  util_cli_slurp("t.jsonl");
  assert_memory_equal(util_cli_text, "{\"sch\n{\"schema\"", 14);
  assert_null(strstr(util_cli_text, "\n\n"));
  assert_int_equal(rdt_journal_open(&j, "no/where.jsonl", false, "m.onnx", &why), RDT_ERR_IO);
  assert_non_null(strstr(why.text, "No such file"));
  rdt_journal_close(&j);
}

/* A socket keeps writes apart: a process can be killed between two, and not within one. */
static void a_line_is_one_write(void **state) {
  rdt_journal j;
  int ends[2];
  char packet[4096];
  (void)state;
  assert_int_equal(rdt_journal_open(&j, "one.jsonl", false, "m.onnx", NULL), RDT_OK);
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const int fd = j.fd;
  j.fd = ends[0];
  j.torn = true;
  for (int line = 0; line < 2; line++) {
    rdt_journal_add(&j, &fault);
    const ssize_t n = recv(ends[1], packet, sizeof packet, MSG_DONTWAIT);
    assert_true(n > 100);
    assert_int_equal(packet[0], line == 0 ? '\n' : '{');
    assert_memory_equal(packet + n - 2, "}\n", 2);
    assert_int_equal(recv(ends[1], packet, sizeof packet, MSG_DONTWAIT), -1);
  }
  close(ends[0]);
  close(ends[1]);
  j.fd = fd;
  rdt_journal_close(&j);
}

static void counters_go_on(void **state) {
  rdt_prom p;
  rdt_reason why = {""};
  const rdt_run_result run = {.checks = 10, .suspects = 2, .unchecked = 1, .seconds = 0.5, .seconds_check = 0.25};
  (void)state;
  for (int process = 1; process <= 2; process++) {
    assert_int_equal(rdt_prom_open(&p, "c.prom", 1e9, "a\"b\\c\nd", "host", &why), RDT_OK);
    rdt_prom_event(&p, &fault);
    rdt_prom_run(&p, &run);
    assert_int_equal(rdt_prom_write(&p, &why), RDT_OK);
    rdt_prom_close(&p);
  }
  util_cli_slurp("c.prom");
  static const char *const lines[] = {
      "\nredoubt_runs_total{model=\"a\\\"b\\\\c?d\",host=\"host\"} 2\n",
      "\nredoubt_checks_total{model=\"a\\\"b\\\\c?d\",host=\"host\"} 20\n",
      "\nredoubt_recovery_seconds_total{model=\"a\\\"b\\\\c?d\",host=\"host\"} 0.5\n",
      ",diagnosis=\"transient\",verdict=\"RECOMPUTED\"} 2\n",
      ",diagnosis=\"unknown\",verdict=\"DETECTED\"} 0\n",
      "\n# TYPE redoubt_faults_total counter\n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!strstr(util_cli_text, lines[i])) fail_msg("%s is missing in:\n%s", lines[i], util_cli_text);
  assert_int_equal(rdt_prom_open(&p, "c.prom", 1e9, "other", "host", &why), RDT_ERR_FORMAT);
  assert_non_null(strstr(why.text, "line 3"));
  rdt_prom_close(&p);
}

/* Those of each core and multiprocessor go on too, whatever other labels look like. */
static void cores_are_counted(void **state) {
  rdt_prom p;
  rdt_reason why = {""};
  rdt_context *ctx;
  (void)state;
  for (int process = 1; process <= 2; process++) {
    assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
    if (rdt_prom_open(&p, "cores.prom", 1e9, "m,core=\"9\"", "h", &why) != RDT_OK) fail_msg("%s", why.text);
    rdt_prom_watch(&p, ctx);
    rdt_cores_at(&ctx->cores, process)->products = 10; /* another core each time */
    rdt_cores_at(&ctx->cores, 7)->products = 5;
    rdt_cores_at(&ctx->cores, 7)->suspects = 3;
    rdt_cores_at(&ctx->cores, 7)->faults[RDT_DIAG_PERSISTENT] = 2;
    const uint32_t complaints[8] = {[4] = 6};
    const rdt_event lost = {
        .kind = RDT_EVENT_FAULT, .diagnosis = RDT_DIAG_PERSISTENT, .device = "cuda:0", .multiprocessor = 4};
    rdt_cores_count_complaints(&ctx->sms, complaints, 8);
    rdt_cores_book_complaint(&ctx->sms, &lost);
    assert_int_equal(rdt_prom_write(&p, &why), RDT_OK);
    assert_int_equal(rdt_prom_write(&p, &why), RDT_OK); /* nothing counts twice */
    rdt_prom_close(&p);
    rdt_context_destroy(ctx);
  }
  util_cli_slurp("cores.prom");
  static const char *const lines[] = {
      "\nredoubt_core_products_total{model=\"m,core=\\\"9\\\"\",host=\"h\",core=\"1\"} 10\n",
      ",core=\"2\"} 10\n",
      "core_products_total{model=\"m,core=\\\"9\\\"\",host=\"h\",core=\"7\"} 10\n",
      "core_suspects_total{model=\"m,core=\\\"9\\\"\",host=\"h\",core=\"7\"} 6\n",
      ",core=\"7\",diagnosis=\"persistent\"} 4\n",
      ",core=\"7\",diagnosis=\"unknown\"} 0\n",
      "\n# TYPE redoubt_core_faults_total counter\n",
      "redoubt_multiprocessor_suspects_total{model=\"m,core=\\\"9\\\"\",host=\"h\",multiprocessor=\"4\"} 12\n",
      ",multiprocessor=\"4\",diagnosis=\"persistent\"} 2\n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!strstr(util_cli_text, lines[i])) fail_msg("%s is missing in:\n%s", lines[i], util_cli_text);
  assert_null(strstr(util_cli_text, ",core=\"3\"")); /* it did nothing */
  assert_null(strstr(util_cli_text, "sor=\"3\""));   /* nor did this one */
}

/* Every so many seconds, and not more often. */
static void counters_are_written_when_due(void **state) {
  rdt_prom p;
  const rdt_run_result run = {.checks = 1};
  (void)state;
  assert_int_equal(rdt_prom_open(&p, "d.prom", 1e9, "m", "h", NULL), RDT_OK);
  assert_int_equal(rdt_prom_write(&p, NULL), RDT_OK);
  rdt_prom_run(&p, &run);
  util_cli_slurp("d.prom");
  assert_non_null(strstr(util_cli_text, "redoubt_runs_total{model=\"m\",host=\"h\"} 0\n"));
  p.every = 0.0;
  rdt_prom_run(&p, &run);
  util_cli_slurp("d.prom");
  assert_non_null(strstr(util_cli_text, "redoubt_runs_total{model=\"m\",host=\"h\"} 2\n"));
  rdt_prom_close(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(actions_and_priorities),        cmocka_unit_test(syslog_is_told),
      cmocka_unit_test(lines_are_whole_and_tame),      cmocka_unit_test(torn_lines_stand_apart),
      cmocka_unit_test(a_line_is_one_write),           cmocka_unit_test(counters_go_on),
      cmocka_unit_test(counters_are_written_when_due), cmocka_unit_test(cores_are_counted),
  };
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
