#include "bench_published.h"

#include <math.h>

#include "core/stats.h"
#include "output.h"
#include "published.h"

bool rdt_published_go_on(rdt_published *p, int lines, double part) {
  const double done = (p->table + (p->done + part) / lines) / p->of;
  p->stopped = p->stopped || (p->asked->progress && !p->asked->progress(done, p->name));
  return !p->stopped;
}

void rdt_published_share(rdt_published *p, int64_t hits, int64_t n) {
  const rdt_interval in = rdt_stats_wilson(hits, n, 0.95);
  rdt_bench_number(&p->out, n > 0 ? 100.0 * (double)hits / (double)n : NAN, 4);
  rdt_bench_number(&p->out, n > 0 ? 100.0 * in.low : NAN, 4);
  rdt_bench_number(&p->out, n > 0 ? 100.0 * in.high : NAN, 4);
}

static const struct {
  const char *name; /* as in RDT_BENCH_PUBLISHED_TABLES */
  bool (*make)(rdt_published *p);
} tables[] = {{"strided", rdt_published_strided},
              {"convolution", rdt_published_convolution},
              {"constants", rdt_published_constants}};
enum { TABLES = sizeof tables / sizeof *tables };

static bool make(rdt_published *p) {
  const int64_t wanted = p->asked->tables ? p->asked->tables : (1 << TABLES) - 1;
  for (int i = 0; i < TABLES; i++) p->of += wanted >> i & 1;
  for (int i = 0; i < TABLES; i++) {
    if (!(wanted >> i & 1)) continue;
    p->name = tables[i].name;
    p->done = 0;
    if (!tables[i].make(p)) return false;
    p->table++;
  }
  return true;
}

rdt_status rdt_bench_published(const rdt_bench_published_job *asked, int64_t *missed, rdt_reason *why) {
  rdt_published p = {.asked = asked};
  rdt_bench_file file;
  RDT_TRY(rdt_bench_file_open(&file, asked->output, why));
  rdt_bench_begin(&p.out, file.f, asked->format, "published", 1, asked->head);
  const bool good = make(&p), whole = rdt_bench_end(&p.out);
  if (asked->progress && !asked->progress(1.0, "")) p.stopped = true; /* what follows is finished */
  const int code = rdt_bench_file_close(&file, "bench published",
                                        p.stopped       ? RDT_TIMING_STOPPED
                                        : good && whole ? 0
                                                        : 2);
  if (code == RDT_TIMING_STOPPED) return RDT_ERR_CANCELLED;
  if (code != 0) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory, or the tables could not be written");
  *missed = p.missed;
  return RDT_OK;
}
