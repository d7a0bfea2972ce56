#include "cpu/threads.h"

#include <omp.h>

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
