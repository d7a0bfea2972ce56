#include "core/team.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"

/* They are there at once where all of them wait. */
static void *wait_at(void *gate) {
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

rdt_status rdt_team_try(int threads, rdt_reason *why) {
  static _Thread_local int tried;     /* the largest team that was made */
  static _Thread_local pid_t process; /* by; a child has another share of the limits */
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  const int wanted = threads - 1;
  int made = 0, code = 0;
  if (threads <= 1 || (process == getpid() && threads <= tried)) return RDT_OK;
  pthread_t *list = rdt_alloc((size_t)wanted, sizeof *list);
  if (!list) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for %d threads", threads);
  pthread_mutex_lock(&gate);
  while (made < wanted && (code = pthread_create(&list[made], NULL, wait_at, &gate)) == 0) made++;
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < made; i++) pthread_join(list[i], NULL);
  rdt_free(list);
  if (code) {
    char text[128];
    return rdt_fail(
        why, RDT_ERR_NOMEM,
        "%d threads cannot be made, the system gives %d (%s): compute with fewer (--threads), or raise what "
        "limits them (ulimit -v, ulimit -u, pids.max)",
        threads, made + 1, strerror_r(code, text, sizeof text));
  }
  tried = threads;
  process = getpid();
  return RDT_OK;
}
