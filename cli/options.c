#include "options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_published.h"
#include "bench_tolerance.h"
#include "rules.h"

typedef enum option_kind { FLAG, TEXT, TEXTS, COUNT, REAL, CHOICE, CHOICES, SET } option_kind;

typedef struct option_row {
  const char *name;
  char letter;
  const char *placeholder;
  option_kind kind;
  size_t field;
  const char *argument, *help;
} option_row;

static const option_row rows[RDT_OPT_COUNT] = {
#define X(id, name, letter, placeholder, kind, field, argument, help) \
  [RDT_OPT_##id] = {name, letter, placeholder, kind, offsetof(rdt_settings, field), argument, help},
#include "options.def"
#undef X
};

/* The i-th option of a command, NULL after the last; --help comes with every one. */
static const option_row *option_of(const rdt_command *c, int i) {
  for (int j = 0; j <= i; j++)
    if (c->options[j] == RDT_OPT_COUNT) return j == i ? &rows[RDT_OPT_HELP] : NULL;
  return &rows[c->options[i]];
}

static int least(int a, int b) {
  return a < b ? a : b;
}

/* Levenshtein distance, words longer than the row count as far. */
static int distance(const char *a, const char *b) {
  enum { LONG = 48 };
  int row[LONG + 1];
  const int n = (int)strlen(b);
  if (n > LONG || strlen(a) > LONG) return LONG;
  for (int j = 0; j <= n; j++) row[j] = j;
  for (int i = 1; a[i - 1]; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= n; j++) {
      const int up = row[j];
      row[j] = least(diagonal + (a[i - 1] != b[j - 1]), least(up, row[j - 1]) + 1);
      diagonal = up;
    }
  }
  return row[n];
}

const char *rdt_options_nearest(const char *text, const char *const *words, int n) {
  const char *best = NULL;
  int score = 3; /* further away is no typing mistake */
  for (int i = 0; i < n; i++) {
    const int d = distance(text, words[i]);
    const bool begun = strlen(text) >= 3 && strncmp(text, words[i], strlen(text)) == 0;
    if (begun || d < score) {
      best = words[i];
      score = begun ? 0 : d;
    }
  }
  return best;
}

static rdt_status unknown(const rdt_command *c, const char *name, rdt_reason *why) {
  const char *words[RDT_OPT_COUNT + 1];
  int n = 0;
  for (const option_row *o; (o = option_of(c, n)) != NULL; n++) words[n] = o->name;
  const char *near = rdt_options_nearest(name, words, n);
  return near ? rdt_fail(why, RDT_ERR_ARG, "unknown option --%s; did you mean --%s?", name, near)
              : rdt_fail(why, RDT_ERR_ARG, "unknown option --%s; `redoubt help %s` lists what there is", name, c->name);
}

/* Number of word in "a|b|c", -1 where it is none of them. */
static int64_t choice(const char *words, const char *word) {
  const size_t length = strlen(word);
  for (int64_t i = 0;; i++) {
    const size_t n = strcspn(words, "|");
    if (n == length && strncmp(words, word, n) == 0) return i;
    if (!words[n]) return -1;
    words += n + 1;
  }
}

static rdt_status store(const option_row *o, const char *value, rdt_settings *s, rdt_reason *why) {
  void *field = (char *)s + o->field;
  char *end = NULL;
  errno = 0;
  switch (o->kind) {
    case FLAG:
      *(bool *)field = true;
      return RDT_OK;
    case SET:
      *(int64_t *)field = strtoll(o->argument, NULL, 10);
      return RDT_OK;
    case TEXT:
      *(const char **)field = value;
      return RDT_OK;
    case TEXTS: {
      rdt_texts *texts = field;
      if (texts->count == RDT_MAX_TEXTS)
        return rdt_fail(why, RDT_ERR_ARG, "--%s is given more than %d times", o->name, RDT_MAX_TEXTS);
      texts->at[texts->count++] = value;
      return RDT_OK;
    }
    case COUNT: {
      const long long smallest = strtoll(o->argument, &end, 10);
      const long long largest = *end ? strtoll(end + 1, NULL, 10) : INT32_MAX;
      const long long n = strtoll(value, &end, 10);
      if (end == value || *end || errno || n < smallest || n > largest)
        return rdt_fail(why, RDT_ERR_ARG, "--%s takes a whole number from %lld to %lld, not '%s'", o->name, smallest,
                        largest, value);
      *(int64_t *)field = n;
      return RDT_OK;
    }
    case REAL: {
      const double x = strtod(value, &end);
      if (end == value || *end || !(x > 0.0) || !isfinite(x))
        return rdt_fail(why, RDT_ERR_ARG, "--%s takes a number above 0, not '%s'", o->name, value);
      *(double *)field = x;
      return RDT_OK;
    }
    case CHOICE:
    case CHOICES: {
      const int64_t i = choice(o->argument, value);
      if (i < 0) return rdt_fail(why, RDT_ERR_ARG, "--%s takes one of %s, not '%s'", o->name, o->argument, value);
      *(int64_t *)field = o->kind == CHOICE ? i : *(int64_t *)field | (int64_t)1 << i;
      return RDT_OK;
    }
  }
  return RDT_ERR_INTERNAL;
}

/* name: without dashes, may be followed by "=value"; length is that of the name. */
static const option_row *find(const rdt_command *c, const char *name, size_t length, bool letter) {
  const option_row *o;
  for (int i = 0; (o = option_of(c, i)) != NULL; i++)
    if (letter ? o->letter == *name : strlen(o->name) == length && strncmp(o->name, name, length) == 0) return o;
  return NULL;
}

/* What a shell makes of "$NAME" where nothing has that name. */
static const char hint[] = "it is empty: a variable of the shell that is not set?";

static rdt_status take_operand(const rdt_command *c, const char *word, rdt_settings *s, rdt_reason *why) {
  if (!c->operand) return rdt_fail(why, RDT_ERR_ARG, "unexpected argument '%s'; `redoubt help %s`", word, c->name);
  if (s->operand && c->operands && *word && s->more.count < RDT_MAX_TEXTS) {
    s->more.at[s->more.count++] = word;
    return RDT_OK;
  }
  if (s->operand)
    return rdt_fail(why, RDT_ERR_ARG, "'%s' is one argument too many: '%s' is taken as %s; `redoubt help %s`", word,
                    s->operand, c->operand, c->name);
  if (!*word) return rdt_fail(why, RDT_ERR_ARG, "%s is no name, %s", c->operand, hint);
  s->operand = word;
  return RDT_OK;
}

/* NULL: its field is no whole number */
static const int64_t *number_of(const option_row *o, const rdt_settings *s) {
  const bool number = o->kind == COUNT || o->kind == CHOICE || o->kind == SET;
  return number ? (const int64_t *)((const char *)s + o->field) : NULL;
}

/* Two options may fill one field (--json, --format): they must not say different things. */
static rdt_status agree(const option_row *o, const rdt_settings *s, const bool *given, int64_t before,
                        rdt_reason *why) {
  if (!number_of(o, s) || *number_of(o, s) == before) return RDT_OK;
  for (int i = 0; i < RDT_OPT_COUNT; i++)
    if (given[i] && &rows[i] != o && rows[i].field == o->field)
      return rdt_fail(why, RDT_ERR_ARG, "--%s and --%s contradict each other: one of them", rows[i].name, o->name);
  return RDT_OK;
}

/* What was given, against the command's rules. */
static rdt_status check_together(const rdt_command *c, const bool *given, const char *const *values, rdt_reason *why) {
  rdt_given list[RDT_OPT_COUNT];
  int n = 0;
  for (int i = 0; i < RDT_OPT_COUNT; i++)
    if (given[i]) list[n++] = (rdt_given){rows[i].name, values[i]};
  return rdt_rules_check(c, list, n, why);
}

rdt_status rdt_options_parse(const rdt_command *c, int argc, char **argv, rdt_settings *s, rdt_reason *why) {
  bool options = true, given[RDT_OPT_COUNT] = {false};
  const char *values[RDT_OPT_COUNT] = {NULL};
  *s = (rdt_settings){.seed = -1, .pad = -1, .dtype = -1, .protocol = -1, .replay = -1, .retest = -1, .avoid_sm = -1};
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    if (!options || word[0] != '-' || !word[1]) {
      RDT_TRY(take_operand(c, word, s, why));
      continue;
    }
    if (strcmp(word, "--") == 0) {
      options = false;
      continue;
    }
    const bool letter = word[1] != '-';
    const char *name = word + (letter ? 1 : 2), *value = NULL;
    const size_t length = letter ? 1 : strcspn(name, "=");
    const option_row *o = find(c, name, length, letter);
    if (!o && letter)
      return rdt_fail(why, RDT_ERR_ARG, "unknown option -%c; `redoubt help %s` lists what there is", *name, c->name);
    if (!o) {
      char plain[64];
      snprintf(plain, sizeof plain, "%.*s", (int)(length < 60 ? length : 60), name);
      return unknown(c, plain, why);
    }
    if (name[length]) value = name + length + (letter ? 0 : 1); /* -oDIR, --out=DIR */
    if (!o->placeholder && value)
      return rdt_fail(why, RDT_ERR_ARG, "--%s takes no value; `redoubt help %s`", o->name, c->name);
    if (o->placeholder && !value) {
      if (++i == argc)
        return rdt_fail(why, RDT_ERR_ARG, "--%s needs a value: --%s %s", o->name, o->name, o->placeholder);
      value = argv[i];
    }
    if (value && !*value) return rdt_fail(why, RDT_ERR_ARG, "--%s takes %s, %s", o->name, o->placeholder, hint);
    const int64_t before = number_of(o, s) ? *number_of(o, s) : 0;
    RDT_TRY(store(o, value, s, why));
    RDT_TRY(agree(o, s, given, before, why));
    given[o - rows] = true;
    values[o - rows] = value;
  }
  if (s->help) return RDT_OK;
  if (c->operand_needed && !s->operand)
    return rdt_fail(why, RDT_ERR_ARG, "%s is missing: redoubt %s %s; `redoubt help %s` has examples", c->operand,
                    c->name, c->operand, c->name);
  return check_together(c, given, values, why);
}

rdt_dtype rdt_options_dtype(const rdt_settings *s) {
  static const rdt_dtype known[] = {RDT_F32, RDT_F64, RDT_F16, RDT_BF16,
                                    RDT_S8,  RDT_U8,  RDT_F16}; /* in the order of options.def, which may end early */
  return known[s->dtype < 0 ? 0 : s->dtype];
}

void rdt_options_each(const rdt_command *c, void (*fn)(void *user, const rdt_option_words *o), void *user) {
  const option_row *o;
  for (int i = 0; (o = option_of(c, i)) != NULL; i++) {
    char together[256], help[1024];
    rdt_rules_tell(c, o->name, together, sizeof together);
    snprintf(help, sizeof help, "%s%s", o->help, together);
    fn(user, &(rdt_option_words){o->name, o->letter, o->placeholder, help});
  }
}
