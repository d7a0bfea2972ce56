/* Help, manual pages and docs/commands.md are made of one table a command: the examples in it must be command lines
 * that the program takes, the pages well-formed, the committed page of today. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "manual/manual.h"
#include "rules.h"

static void each(const rdt_command *c, void (*fn)(const rdt_command *c)) {
  fn(c);
  for (const rdt_command *const *sub = c->commands; sub && *sub; sub++) each(*sub, fn);
}

static char *page(const rdt_page_style *style, const rdt_command *c) {
  static char text[1 << 16];
  FILE *to = fmemopen(text, sizeof text, "w");
  assert_non_null(to);
  rdt_manual_write(to, style, c);
  assert_int_equal(fclose(to), 0);
  return text;
}

/* The command that a line calls; *words: what is behind it. Quotes are the shell's. */
static const rdt_command *called(char *line, char *words[64], int *n) {
  char *all[64], *save = NULL;
  int count = 0, at = 1;
  const rdt_command *c = &rdt_cmd_redoubt;
  for (char *w = strtok_r(line, " '", &save); w && count < 64; w = strtok_r(NULL, " '", &save))
    if (count > 0 || !strchr(w, '=')) all[count++] = w;
  if (count < 1 || strcmp(all[0], "redoubt") != 0) return NULL;
  for (bool deeper = true; deeper && at < count;) {
    deeper = false;
    for (const rdt_command *const *sub = c->commands; sub && *sub && !deeper; sub++) {
      const char *last = strrchr((*sub)->name, ' ');
      if (strcmp(last ? last + 1 : (*sub)->name, all[at]) != 0) continue;
      c = *sub;
      at++;
      deeper = true;
    }
  }
  for (*n = 0; at < count;) words[(*n)++] = all[at++];
  return c;
}

/* "" or what is wrong with the example */
static const char *judge(const char *line) {
  static rdt_reason why;
  char copy[512], *words[64];
  int n = 0;
  rdt_settings s;
  snprintf(copy, sizeof copy, "%s", line);
  const rdt_command *c = called(copy, words, &n);
  if (!c) return "no call of redoubt";
  if (c == &rdt_cmd_redoubt) return n > 0 && strcmp(words[0], "help") == 0 ? "" : "no such command";
  return rdt_options_parse(c, n, words, &s, &why) == RDT_OK ? "" : why.text;
}

static void look_at_examples(const rdt_command *c) {
  assert_true(c->summary && *c->summary);
  if (!c->examples) fail_msg("redoubt %s has no examples in its table", c->name);
  for (const rdt_words *e = c->examples; e->name; e++)
    if (*judge(e->name)) fail_msg("an example of redoubt %s, '%s': %s", c->name, e->name, judge(e->name));
}

static void test_examples(void **state) {
  (void)state;
  each(&rdt_cmd_redoubt, look_at_examples);
  assert_string_not_equal(judge("redoubt run model.onnx --inptu x.npy"), ""); /* the judge can cry */
  assert_string_not_equal(judge("redoubt rnu model.onnx"), "");
  assert_string_not_equal(judge("redoubt run -i x.npy"), "");
  assert_string_not_equal(judge("redoubt matmul A.npy B.npy -o C.npy --seed 3"), "");
}

static void look_for(void *text, const rdt_option_words *o) {
  char name[64];
  snprintf(name, sizeof name, "--%s", o->name);
  if (!strstr(text, name)) fail_msg("%s is missing in:\n%s", name, (char *)text);
}

static void look_at_rules(const rdt_command *c) {
  char word[64];
  if (rdt_rules_unknown(c, word, sizeof word))
    fail_msg("a rule of redoubt %s names --%s, which it has not", c->name, word);
}

/* The table of rules speaks of options that there are; one that does not is noticed. */
static void test_rules(void **state) {
  static const rdt_option_id few[] = {RDT_OPT_ERRORS, RDT_OPT_COUNT};
  const rdt_command lacks = {.name = "matmul", .options = few};
  char word[64];
  (void)state;
  each(&rdt_cmd_redoubt, look_at_rules);
  assert_string_equal(rdt_rules_unknown(&lacks, word, sizeof word), "collinear");
  rdt_rules_tell(&rdt_cmd_matmul, "seed", word, sizeof word);
  assert_string_equal(word, " (only with --errors)");
  rdt_rules_tell(&rdt_cmd_run, "plan", word, sizeof word);
  assert_string_equal(word, " (not with --device other than cpu)");
}

static void look_at_help(const rdt_command *c) {
  char *text = page(&rdt_style_text, c);
  assert_non_null(strstr(text, c->summary));
  assert_non_null(strstr(text, "Examples:"));
  assert_non_null(strstr(text, "Exit status:"));
  if (c->options) rdt_options_each(c, look_for, text);
}

/* Lines that begin with a dot are macros that we mean. */
static bool is_page(const char *text) {
  static const char *const macros[] = {".TH ",  ".SH ",  ".PP\n",   ".TP\n", ".nf\n",
                                       ".fi\n", ".nh\n", ".ad l\n", ".\\\" "};
  for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
    bool known = *line != '.' && *line != '\'' && *line != '\n';
    for (size_t i = 0; i < sizeof macros / sizeof *macros; i++)
      known = known || strncmp(line, macros[i], strlen(macros[i])) == 0;
    if (!known || !strchr(line, '\n')) return false;
  }
  return true;
}

static void look_at_page(const rdt_command *c) {
  static const char *const sections[] = {"NAME", "\"EXIT STATUS\"", "\"EXAMPLES\"", "\"SEE ALSO\""};
  const char *text = page(&rdt_style_man, c);
  if (!is_page(text)) fail_msg("a line that is no macro begins like one, or is empty:\n%s", text);
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    char heading[64];
    snprintf(heading, sizeof heading, "\n.SH %s\n", sections[i]);
    if (!strstr(text, heading)) fail_msg("no section %s in the page of redoubt %s", sections[i], c->name);
  }
}

static void test_pages(void **state) {
  (void)state;
  each(&rdt_cmd_redoubt, look_at_help);
  each(&rdt_cmd_redoubt, look_at_page);
  const rdt_words sharp[] = {{"redoubt help", ".dot 'quote \\ back-slash --an-option `a - b`"}, {NULL, NULL}};
  const rdt_command c = {.name = "x", .summary = ".dot", .text = ".dot\n\n 'kept\n .kept", .examples = sharp};
  const char *text = page(&rdt_style_man, &c);
  assert_true(is_page(text));
  assert_non_null(strstr(text, "\n\\&.dot 'quote \\e back-slash \\-\\-an\\-option \\fBa \\- b\\fR\n"));
  assert_false(is_page(".TH x\n.dot\n"));
}

static void test_document(void **state) {
  (void)state;
  if (system(TEST_BUILD "/cli/redoubt_manual --markdown | cmp - " TEST_DATA "/docs/commands.md") != 0)
    fail_msg("docs/commands.md is not what the tables say: build/cli/redoubt_manual --markdown >docs/commands.md");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples), cmocka_unit_test(test_pages),
                                     cmocka_unit_test(test_document), cmocka_unit_test(test_rules)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
