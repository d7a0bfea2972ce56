#include "cpu/threads.h"

#include <omp.h>

#include "core/cpu_info.h"
#include "core/memory.h"

int rdt_threads_enter(int threads) {
  const int previous = omp_get_max_threads();
  omp_set_num_threads(threads < 1 ? 1 : threads);
  return previous;
}

void rdt_threads_leave(int previous) {
  omp_set_num_threads(previous);
}

int rdt_threads_nested(void) {
  return omp_in_parallel();
}

void rdt_threads_share(int team, int64_t n, void (*fn)(const void *job, int64_t from, int64_t to, int thread),
                       const void *job) {
  if (team <= 1) {
    fn(job, 0, n, 0);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
    fn(job, n * me / all, n * (me + 1) / all, (int)me);
  }
}

void rdt_threads_look(int threads, int *core) {
  for (int i = 0; i < threads; i++) core[i] = -1;
#pragma omp parallel num_threads(threads) if (threads > 1)
  core[omp_get_thread_num()] = rdt_cpu_current();
}

/* The master first: a worker that the pool makes anew inherits from it. */
void rdt_threads_restore(rdt_places *p) {
  cpu_set_t *const was = p->was;
  if (p->n == 0) return;
  sched_setaffinity(0, sizeof *was, &was[0]);
#pragma omp parallel num_threads(p->n) if (p->n > 1)
  sched_setaffinity(0, sizeof *was, &was[omp_get_thread_num()]);
  rdt_free(p->was);
  *p = (rdt_places){.n = 0};
}

static bool place(int threads, const int *cores, int n, const cpu_set_t *set, rdt_places *p) {
  int refused = 0;
  *p = (rdt_places){.was = rdt_alloc((size_t)threads, sizeof *p->was)};
  if (!p->was || sched_getaffinity(0, sizeof *p->was, &p->was[0]) != 0) {
    rdt_free(p->was);
    p->was = NULL;
    return false;
  }
  p->n = threads;
  cpu_set_t *const was = p->was;
  for (int i = 1; i < threads; i++) was[i] = was[0];
#pragma omp parallel num_threads(threads) if (threads > 1) reduction(+ : refused)
  {
    const int i = omp_get_thread_num();
    cpu_set_t one;
    if (cores) {
      CPU_ZERO(&one);
      CPU_SET(cores[i % n], &one);
    } else {
      one = *set;
    }
    sched_getaffinity(0, sizeof was[i], &was[i]);
    refused += sched_setaffinity(0, sizeof one, &one) != 0;
  }
  if (refused) rdt_threads_restore(p);
  return refused == 0;
}

bool rdt_threads_pin(int threads, const int *cores, int n, rdt_places *p) {
  return place(threads, cores, n, NULL, p);
}

bool rdt_threads_confine(int threads, const cpu_set_t *set, rdt_places *p) {
  return place(threads, NULL, 0, set, p);
}
