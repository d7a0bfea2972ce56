#include "head.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rdt_head_add(rdt_head *h, const char *format, ...) {
  const size_t used = strlen(h->text), room = sizeof h->text - used;
  const bool space = used > 0 && room > 1;
  va_list args;
  va_start(args, format);
  if (space) h->text[used] = ' ';
  vsnprintf(h->text + used + space, room - space, format, args);
  va_end(args);
}

void rdt_head_tables(rdt_head *h, int64_t chosen, const char *words) {
  for (int i = 0; *words; i++) {
    const size_t n = strcspn(words, "|");
    if (chosen >> i & 1) rdt_head_add(h, "--table %.*s", (int)n, words);
    words += n + (words[n] == '|');
  }
}

void rdt_head_numbers(rdt_head *h, const rdt_settings *s) {
  if (s->lambda > 0.0) rdt_head_add(h, "--lambda %g", s->lambda);
  if (s->trials) rdt_head_add(h, "--trials %" PRId64, s->trials);
  if (s->seed >= 0) rdt_head_add(h, "--seed %" PRId64, s->seed);
}

rdt_status rdt_head_product(rdt_head *h, const rdt_settings *s, rdt_bench_shapes *shape, rdt_reason *why) {
  *shape = (rdt_bench_shapes){.count = 0};
  for (int i = 0; i < s->mnk.count; i++) RDT_TRY(rdt_bench_take_mnk(s->mnk.at[i], shape, why));
  if (shape->count > 1) return rdt_fail(why, RDT_ERR_ARG, "--mnk: one product at a time");
  if (s->mnk.count) rdt_head_add(h, "--mnk %s", s->mnk.at[0]);
  rdt_head_numbers(h, s);
  if (s->threads) rdt_head_add(h, "--threads %d", (int)s->threads);
  return RDT_OK;
}
