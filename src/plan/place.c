/* Where something was found: as checks name it, and in words. */
#include <stdio.h>

#include "plan/plan.h"

void rdt_place_of(const rdt_problem *prob, const rdt_tensor *t, const int64_t *index, int64_t place[2]) {
  const int channel = rdt_problem_channel(prob);
  place[0] = 0;
  place[1] = channel >= 0 ? index[channel] : -1;
  for (int d = 0; d < t->rank; d++)
    if (d != channel) place[0] = place[0] * t->shape[d] + index[d];
}

void rdt_place_at(const rdt_problem *prob, int64_t logical, int64_t place[2]) {
  const rdt_tensor *t = &prob->out;
  int64_t index[RDT_MAX_RANK];
  for (int d = t->rank - 1; d >= 0; d--) {
    index[d] = logical % t->shape[d];
    logical /= t->shape[d];
  }
  rdt_place_of(prob, t, index, place);
}

static void pixel_text(const rdt_tensor *out, long long pixel, long long channel, char *text, size_t size) {
  const int spatial = out->rank - 2;
  const char *names = &"zyx"[RDT_MAX_SPATIAL - spatial];
  long long at[RDT_MAX_SPATIAL];
  for (int d = spatial - 1; d >= 0; d--) {
    at[d] = pixel % (long long)out->shape[2 + d];
    pixel /= (long long)out->shape[2 + d];
  }
  size_t n = (size_t)snprintf(text, size, " at image %lld", pixel);
  for (int d = 0; d < spatial && n < size; d++) n += (size_t)snprintf(text + n, size - n, ", %c %lld", names[d], at[d]);
  if (channel >= 0 && n < size) snprintf(text + n, size - n, ", channel %lld", channel);
}

void rdt_place_text(const rdt_problem *p, const int64_t place[2], char *text, size_t size) {
  const long long row = (long long)place[0], col = (long long)place[1];
  text[0] = '\0';
  if (row < 0 && col < 0) return;
  if (p->op == RDT_KOP_CONV && row >= 0)
    pixel_text(&p->out, row, col, text, size);
  else if (p->op == RDT_KOP_CONV)
    snprintf(text, size, " at channel %lld", col);
  else if (row >= 0 && col >= 0)
    snprintf(text, size, " at row %lld, column %lld", row, col);
  else if (p->op == RDT_KOP_GEMM)
    snprintf(text, size, row >= 0 ? " at row %lld" : " at column %lld", row >= 0 ? row : col);
  else
    snprintf(text, size, " at element %lld", row);
}
