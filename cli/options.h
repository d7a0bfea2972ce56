/* Command lines: one table of options (options.def), one parser, help from the same table. */
#ifndef RDT_CLI_OPTIONS_H
#define RDT_CLI_OPTIONS_H

#include <redoubt/redoubt.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"

enum { RDT_FAIL_ON_DETECTED = 1 << 1, RDT_FAIL_ON_UNCHECKED = 1 << 2 };
typedef enum rdt_format { RDT_FORMAT_TEXT, RDT_FORMAT_MD, RDT_FORMAT_JSON, RDT_FORMAT_CSV } rdt_format;

enum { RDT_MAX_TEXTS = 64 };
typedef struct rdt_texts {
  const char *at[RDT_MAX_TEXTS];
  int count;
} rdt_texts;

/* What a command line says; strings point into argv. */
typedef struct rdt_settings {
  rdt_texts inputs, input_shapes, avoid_cores, mnk;
  const char *out, *scheme, *scrub, *fault, *report, *html, *labels, *filter, *junit, *profile, *thread_list, *events,
      *prom, *suspect_rate, *batches, *cases, *dtypes, *family, *lengths, *m, *lengths_n, *k, *set, *baseline, *figures;
  const char *device, *workload, *plan, *min_coverage, *coverage, *max_overhead;
  const char *svg;
  int64_t on_fault, fail_on, format;
  int64_t threads, repeat, warmup, top, n, seed, batch, trials;                   /* 0: not given (seed: -1) */
  int64_t ic, oc, ih, iw, kh, kw, stride, pad, dilation, groups, dtype, epilogue; /* pad, dtype: -1 */
  int64_t tables, outputs, policy, require, protocol;                             /* protocol: -1 */
  double lambda, prom_every, max_seconds;                                         /* 0: not given */
  bool explain, quiet, no_progress, cold, syslog, measure, no_cache, convolutions, layer_times, help;
  /* of campaigns and their reports */
  const char *mix, *until_ci, *shard, *csv, *md;
  int64_t jobs, replay; /* 0, -1: not given */
  double fit;           /* 0: not given */
  bool resume;
  int64_t level, retest; /* of a screen; 0, -1: not given */
  int64_t avoid_sm;      /* -1: none */
  int64_t checkpoints;   /* 0: not given */
  /* of products of files */
  const char *mem_limit, *strategy, *trace, *timeline;
  int64_t errors, unprotected, strassen, bench_m, bench_n, bench_k;
  bool collinear, scattered, verify;
  rdt_texts more;      /* operands after the first */
  const char *operand; /* MODEL.onnx or what the command takes; NULL: not given */
} rdt_settings;

typedef enum rdt_option_id {
#define X(id, ...) RDT_OPT_##id,
#include "options.def"
#undef X
  RDT_OPT_COUNT
} rdt_option_id;

/* A list of them ends with a NULL name. */
typedef struct rdt_words {
  const char *name, *text;
} rdt_words;

/* All that there is to know about a command; its help and its manual page are made of it (manual/manual.h). In texts,
 * `what is typed` stands between backticks. */
typedef struct rdt_command {
  const char *name; /* what is typed after redoubt: "bench model"; "": the program itself */
  int (*run)(const struct rdt_command *c, const rdt_settings *s);
  const struct rdt_command *const *commands; /* in place of run: one of these, NULL after the last */
  const char *operand;                       /* "MODEL.onnx"; NULL: takes none */
  bool operand_needed, operands;             /* operands: more of them may follow */
  const rdt_option_id *options;              /* ends with RDT_OPT_COUNT; --help is taken everywhere */
  const char *summary;                       /* one line */
  const char *text; /* paragraphs, with an empty line between; lines that begin with a space stay as they are */
  bool verdicts;    /* are the words for verdicts explained? */
  /* what exit codes 0, 1, 4 and 128+N mean; bad, nothing NULL: there is no such code */
  const char *good, *bad, *nothing, *stopped;
  const rdt_words *files;
  const rdt_words *examples; /* whole lines, and what they are for (or NULL) */
} rdt_command;

/* An option as help shows it. */
typedef struct rdt_option_words {
  const char *name;
  char letter;
  const char *placeholder, *help;
} rdt_option_words;
void rdt_options_each(const rdt_command *c, void (*fn)(void *user, const rdt_option_words *o), void *user);

/* argv after the command's name. RDT_ERR_ARG with a hint in why. */
rdt_status rdt_options_parse(const rdt_command *c, int argc, char **argv, rdt_settings *s, rdt_reason *why);
/* What --dtype says; f32 where it was not given. */
rdt_dtype rdt_options_dtype(const rdt_settings *s);
/* The word of words[0..n) that looks most like text, NULL where none comes near. */
const char *rdt_options_nearest(const char *text, const char *const *words, int n);

#endif
