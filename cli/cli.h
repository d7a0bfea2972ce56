/* What the commands share: exit codes, the commands themselves, signals, a loaded model with its inputs and events. */
#ifndef RDT_CLI_CLI_H
#define RDT_CLI_CLI_H

#include <cjson/cJSON.h>

#include "options.h"
#include "report/journal.h"
#include "report/json.h"
#include "report/prom.h"
#include "report/report.h"
#include "report/words.h"

typedef enum rdt_exit {
  RDT_EXIT_OK = 0,
  RDT_EXIT_FAULT = 1,
  RDT_EXIT_USAGE = 2,
  RDT_EXIT_DEVICE = 3,
  RDT_EXIT_NOTHING = 4 /* a campaign hit nothing, or is a part: no verdict */
} rdt_exit;

extern const rdt_command rdt_cmd_redoubt, rdt_cmd_run, rdt_cmd_report, rdt_cmd_plan, rdt_cmd_inject,
    rdt_cmd_conformance, rdt_cmd_bench, rdt_cmd_bench_gemm, rdt_cmd_bench_conv, rdt_cmd_bench_workloads,
    rdt_cmd_bench_tolerance, rdt_cmd_bench_published, rdt_cmd_bench_model, rdt_cmd_bench_outofcore, rdt_cmd_bench_tmr,
    rdt_cmd_bench_checkpoints, rdt_cmd_matmul, rdt_cmd_screen, rdt_cmd_verify, rdt_cmd_info, rdt_cmd_list,
    rdt_cmd_figures;

/* Before any thread is made: a thread takes the signals. */
void rdt_signals_begin(void);
/* SIGINT, SIGTERM, SIGHUP: the first asks the context to stop, the second ends the program. NULL: there is none now,
 * who works asks whether one was caught. */
void rdt_signals_watch(rdt_context *ctx);
void rdt_signals_default(void); /* from here on a signal ends the program */
int rdt_signals_caught(void);   /* the signal, 0: none */

/* "redoubt run: text" on stderr; the exit code that belongs to the status (128 + N after a signal). */
int rdt_cli_fail(const rdt_command *c, rdt_status status, const char *text);

typedef struct rdt_session {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor *inputs; /* in the model's order; data owned */
  size_t n_inputs;
  char **named; /* inputs that the command line names; one of them may be an initializer, which it replaces */
  size_t n_named;
  rdt_report *report; /* that events are kept in; NULL: nobody writes one */
  char last_event[512];
  int64_t faults;      /* events of that kind */
  int64_t run;         /* number of the run that events are booked to; 0: it only warms up */
  rdt_journal journal; /* where events go while it runs */
  rdt_prom prom;
  rdt_verdict worst; /* of all runs */
  int64_t runs;      /* that had a verdict */
  bool aloud;        /* events are printed as they come */
  bool told;         /* rdt_session_tell was here, or has nothing to say */
  int size;          /* which of several input sizes (--input-shape A;B) */
  rdt_reason cache;  /* why the cache was not read; "" */
  rdt_reason why;
} rdt_session;

typedef enum rdt_inputs_kind {
  RDT_INPUTS_FILES, /* every input from its file */
  RDT_INPUTS_SHAPES /* a file where there is one; otherwise data = NULL and the shape of --input-shape, or the model's
                     * with open dimensions taken as 1 */
} rdt_inputs_kind;
/* Makes the context by the settings, loads the model, reads the inputs. On failure the reason is in s->why; close in
 * any case. */
rdt_status rdt_session_open(rdt_session *s, const rdt_settings *settings, rdt_inputs_kind kind);
/* Parts of it: the context by the settings; what the cache has, unless there is a --plan; how many input sizes
 * --input-shape has; the inputs of one of them (s->size); the model may be loaded again. */
rdt_status rdt_session_begin(rdt_session *s, const rdt_settings *settings);
/* Who is told of events, and the plan file. */
rdt_status rdt_session_watch(rdt_session *s, const rdt_settings *settings);
void rdt_session_cache(rdt_session *s, const rdt_settings *settings);
rdt_status rdt_session_sizes(rdt_session *s, const rdt_settings *settings, int *sizes);
void rdt_session_forget(rdt_session *s); /* inputs */
/* "99%", "0.99" */
rdt_status rdt_share_of(const char *option, const char *text, double most, double *share, rdt_reason *why);
/* each-run, every:N or off as a number of runs; 0: off. */
rdt_status rdt_scrub_of(const char *text, int *every, rdt_reason *why);
rdt_status rdt_session_load(rdt_session *s, const rdt_settings *settings);
rdt_status rdt_session_inputs(rdt_session *s, const rdt_settings *settings, rdt_inputs_kind kind);
/* One run, with the session's inputs or some of their shapes, booked. RDT_OK or RDT_ERR_FAULT: it has results. */
rdt_status rdt_session_run(rdt_session *s, const rdt_tensor *inputs, rdt_run_result *result);
/* The last words of --prom and --syslog; what could not be written on the way is an error now. Closing does it where
 * nobody has. */
rdt_status rdt_session_tell(rdt_session *s);
/* Is --plan one of this model at these inputs? Refused where it knows no layer; told on stderr where it lacks some. */
rdt_status rdt_session_fits(rdt_session *s, const rdt_settings *settings);
/* On stderr, which products do not vote on the way although votes were asked for. */
void rdt_session_divided(const rdt_session *s, const rdt_settings *settings);
/* RDT_ERR_ARG where path (NULL: nothing) is a file that the command reads or another one that it writes to. */
rdt_status rdt_session_spare(rdt_session *s, const rdt_settings *settings, const char *path);
void rdt_session_close(rdt_session *s);
/* Do both paths (NULL: none) name one file? */
bool rdt_same_file(const char *a, const char *b);
/* Keeps the context's last error as the reason. */
rdt_status rdt_session_fail(rdt_session *s, rdt_status status);

/* The progress of a benchmark, for rdt_progress. false: a signal was caught. */
bool rdt_bench_show(double part, const char *what);

/* argv[0] is the command's name: parses the arguments behind it, then helps or runs. The exit code. */
int rdt_command_call(const rdt_command *c, int argc, char **argv);

/* "8x1x8x8" */
const char *rdt_shape_text(int rank, const int64_t *shape, char *buf, size_t size);
rdt_status rdt_json_print(const cJSON *doc, rdt_reason *why); /* on stdout */
/* Prints the document as the settings ask (stdout) and frees it. */
int rdt_document_print(const rdt_command *c, cJSON *doc);

#endif
