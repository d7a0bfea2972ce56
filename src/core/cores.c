#include "core/cores.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cpu_info.h"
#include "core/memory.h"

/* ---- who executed what ---- */

void rdt_shares_expect(rdt_shares *s, int n) {
  if (s) s->n = n <= s->room ? n : 0;
}

void rdt_share_begin(rdt_shares *s, int i, const int64_t from[2], const int64_t to[2]) {
  if (s && i < s->n)
    s->list[i] = (rdt_share){.from = {from[0], from[1]}, .to = {to[0], to[1]}, .core = rdt_cpu_current()};
}

void rdt_share_end(rdt_shares *s, int i, bool differ) {
  if (!s || i >= s->n) return;
  s->list[i].moved = s->list[i].core != rdt_cpu_current();
  s->list[i].differ = differ;
}

static bool meets(const rdt_share *s, int axis, int64_t at) {
  return at < 0 || (at >= s->from[axis] && at < s->to[axis]);
}

int rdt_shares_core(const rdt_shares *s, int64_t row, int64_t column, bool *sure) {
  int core = -1;
  *sure = true;
  for (int i = 0; i < s->n; i++) {
    const rdt_share *one = &s->list[i];
    if (!meets(one, 0, row) || !meets(one, 1, column)) continue;
    if (core >= 0 && one->core != core) return -1;
    core = one->core;
    *sure = *sure && !one->moved;
  }
  return core;
}

/* ---- counters ---- */

void rdt_cores_clear(rdt_cores *c) {
  rdt_free(c->list);
  rdt_free(c->seen);
  *c = (rdt_cores){.n = 0};
}

rdt_core_info *rdt_cores_at(rdt_cores *c, int core) {
  if (core < 0) return NULL;
  if (core >= c->n) {
    const long configured = sysconf(_SC_NPROCESSORS_CONF);
    const int wanted = configured > core ? (int)configured : core + 1;
    rdt_core_info *grown = rdt_grow(c->list, (size_t)c->n, (size_t)wanted, sizeof *grown);
    if (!grown) return NULL;
    c->list = grown;
    for (; c->n < wanted; c->n++) c->list[c->n] = (rdt_core_info){.core = c->n};
  }
  return &c->list[core];
}

void rdt_cores_book(rdt_cores *c, const rdt_event *e) {
  rdt_core_info *info = rdt_cores_at(c, e->core);
  if (!info || e->kind == RDT_EVENT_UNCHECKED) return;
  info->suspects++;
  if (e->kind == RDT_EVENT_FAULT && (unsigned)e->diagnosis < RDT_DIAG_COUNT) info->faults[e->diagnosis]++;
}

void rdt_cores_count_complaints(rdt_cores *c, const uint32_t *complaints, int n) {
  for (int i = 0; i < n; i++) {
    rdt_core_info *info = complaints[i] ? rdt_cores_at(c, i) : NULL;
    if (info) info->suspects += complaints[i];
  }
}

void rdt_cores_book_complaint(rdt_cores *c, const rdt_event *e) {
  rdt_core_info *info = e->device ? rdt_cores_at(c, e->multiprocessor) : NULL;
  if (info && e->kind == RDT_EVENT_FAULT && (unsigned)e->diagnosis < RDT_DIAG_COUNT) info->faults[e->diagnosis]++;
}

/* ---- which may be used ---- */

static bool number(const char **text, long *out) {
  char *end;
  if (!isdigit((unsigned char)**text)) return false;
  *out = strtol(*text, &end, 10);
  *text = end;
  return true;
}

rdt_status rdt_cores_parse(const char *text, cpu_set_t *set, rdt_reason *why) {
  const long configured = sysconf(_SC_NPROCESSORS_CONF), most = configured < CPU_SETSIZE ? configured : CPU_SETSIZE;
  CPU_ZERO(set);
  for (const char *at = text; at && *at;) {
    long first, last;
    bool whole = number(&at, &first);
    last = first;
    if (whole && *at == '-') at++, whole = number(&at, &last);
    if (!whole || last < first || (*at != ',' && *at != '\0') || (*at == ',' && at[1] == '\0'))
      return rdt_fail(why, RDT_ERR_ARG, "'%.100s' is no list of cores: numbers and ranges, as in 3 or 0,8-11", text);
    if (last >= most)
      return rdt_fail(why, RDT_ERR_ARG, "there is no core %ld to avoid: this machine has 0 to %ld", last, most - 1);
    for (; first <= last; first++) CPU_SET((int)first, set);
    if (*at == ',') at++;
  }
  return RDT_OK;
}

int rdt_cores_allowed(int *list, int room) {
  cpu_set_t set;
  int n = 0;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  for (int i = 0; i < CPU_SETSIZE && n < room; i++)
    if (CPU_ISSET(i, &set)) list[n++] = i;
  return n;
}
