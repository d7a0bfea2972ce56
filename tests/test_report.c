/* Tables for people: alignment, Markdown, UTF-8, control characters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/table.h"

static void printed(const rdt_table *t, bool markdown, const char *wanted) {
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  assert_non_null(f);
  assert_true(rdt_table_print(t, f, markdown));
  fclose(f);
  assert_string_equal(text, wanted);
  free(text);
}

static void test_alignment(void **state) {
  (void)state;
  rdt_table *t = rdt_table_create("name|>ms|what");
  rdt_table_cell(t, "conv1");
  rdt_table_cell(t, "%.2f", 1.5);
  rdt_table_cell(t, "first");
  rdt_table_cell(t, "été");
  rdt_table_cell(t, "%d", 10);
  rdt_table_cell(t, "a\nb\x1b");
  printed(t, false, "name     ms  what\n-----  ----  -----\nconv1  1.50  first\nété      10  a?b?\n");
  printed(t, true,
          "| name  |   ms | what  |\n| ----- | ---: | ----- |\n| conv1 | 1.50 | first |\n| été   |   10 | a?b?  |\n");
  rdt_table_destroy(t);
}

static void test_totals(void **state) {
  (void)state;
  rdt_table *t = rdt_table_create("k|>n");
  for (int i = 0; i < 200; i++) { /* grows */
    rdt_table_cell(t, "x");
    rdt_table_cell(t, "%d", i);
  }
  rdt_table_rule(t);
  rdt_table_cell(t, "all");
  rdt_table_cell(t, "200");
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  assert_non_null(f);
  assert_true(rdt_table_print(t, f, false));
  fclose(f);
  assert_non_null(strstr(text, "x    199\n---  ---\nall  200\n"));
  free(text);
  rdt_table_destroy(t);
}

static void test_nothing(void **state) {
  (void)state;
  assert_false(rdt_table_print(NULL, stdout, false));
  rdt_table_cell(NULL, "x");
  rdt_table_rule(NULL);
  rdt_table_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_totals),
      cmocka_unit_test(test_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
