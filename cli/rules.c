#include "rules.h"

#include <stdio.h>
#include <string.h>

typedef enum relation { NEEDS, NOT_WITH } relation;

typedef struct rule {
  const char *commands, *options;
  relation relation;
  const char *others, *text;
} rule;

static const rule rules[] = {
#define X(commands, options, relation, others, text) {commands, options, relation, others, text},
#include "rules.def"
#undef X
};
enum { RULES = sizeof rules / sizeof *rules };

/* The next of "a|b|c"; false after the last. */
static bool next(const char **list, char *word, size_t size) {
  const size_t n = strcspn(*list, "|");
  if (!n) return false;
  snprintf(word, size, "%.*s", (int)n, *list);
  *list += n + ((*list)[n] == '|');
  return true;
}

static bool has(const char *list, const char *wanted) {
  char word[64];
  while (next(&list, word, sizeof word))
    if (strcmp(word, wanted) == 0) return true;
  return false;
}

/* "policy model": the option's name, and what its value must be; "" any. Cuts the word. */
static const char *value_of(char *word) {
  char *space = strchr(word, ' ');
  if (!space) return "";
  *space = '\0';
  return space + 1;
}

static bool is_given(const char *which, const rdt_given *given, int n) {
  char name[64];
  snprintf(name, sizeof name, "%s", which);
  const char *value = value_of(name);
  const bool other = *value == '!';
  for (int i = 0; i < n; i++) {
    if (strcmp(given[i].name, name) != 0) continue;
    return !*value || (strcmp(given[i].value ? given[i].value : "", value + other) == 0) != other;
  }
  return false;
}

static bool any_given(const char *list, const rdt_given *given, int n) {
  char word[64];
  while (next(&list, word, sizeof word))
    if (is_given(word, given, n)) return true;
  return false;
}

rdt_status rdt_rules_check(const rdt_command *c, const rdt_given *given, int n, rdt_reason *why) {
  for (int i = 0; i < RULES; i++) {
    const rule *r = &rules[i];
    if (!has(r->commands, c->name) || !any_given(r->options, given, n)) continue;
    if (any_given(r->others, given, n) != (r->relation == NEEDS)) return rdt_fail(why, RDT_ERR_ARG, "%s", r->text);
  }
  return RDT_OK;
}

/* "--policy model", "--device other than cpu" */
static void put_word(char *word, char *text, size_t size) {
  const size_t used = strlen(text);
  const char *value = value_of(word);
  snprintf(text + used, size - used, "--%s%s%s", word,
           *value == '!' ? " other than "
           : *value      ? " "
                         : "",
           value + (*value == '!'));
}

static void put(char *text, size_t size, const char *more) {
  const size_t used = strlen(text);
  snprintf(text + used, size - used, "%s", more);
}

void rdt_rules_tell(const rdt_command *c, const char *option, char *text, size_t size) {
  char word[64];
  int said = 0;
  *text = '\0';
  for (int i = 0; i < RULES; i++) {
    const rule *r = &rules[i];
    if (!has(r->commands, c->name) || !has(r->options, option)) continue;
    put(text, size, said++ ? "; " : " (");
    put(text, size, r->relation == NEEDS ? "only with " : "not with ");
    const char *list = r->others;
    for (int k = 0; next(&list, word, sizeof word); k++) {
      if (k) put(text, size, ", ");
      put_word(word, text, size);
    }
  }
  if (said) put(text, size, ")");
}

typedef struct search {
  const char *name;
  bool there;
} search;

static void look(void *user, const rdt_option_words *o) {
  search *s = user;
  s->there = s->there || strcmp(s->name, o->name) == 0;
}

const char *rdt_rules_unknown(const rdt_command *c, char *word, size_t size) {
  for (int i = 0; i < RULES; i++) {
    const char *const lists[] = {rules[i].options, rules[i].others};
    for (int k = 0; has(rules[i].commands, c->name) && k < 2; k++)
      for (const char *list = lists[k]; next(&list, word, size);) {
        (void)value_of(word);
        search s = {word, false};
        if (c->options) rdt_options_each(c, look, &s);
        if (!s.there) return word;
      }
  }
  return NULL;
}
