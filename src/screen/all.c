/* Several devices in one screen: all of them at the same time, a thread each. */
#include <pthread.h>

#include "core/memory.h"
#include "screen/screen.h"

typedef struct together {
  const rdt_screen_job *jobs;
  pthread_mutex_t lock; /* of what follows */
  double *parts;        /* of each, how far it is */
  int n;
  bool stopped;
  rdt_status status;
  rdt_reason *why;
} together;

typedef struct one {
  together *all;
  int at;
  rdt_screen *into;
} one;

const char *rdt_screen_device(const rdt_screen_job *job) {
  return job->sms ? job->sms->name : "cpu";
}

static double least(const together *t) {
  double part = 1.0;
  for (int i = 0; i < t->n; i++)
    if (t->parts[i] < part) part = t->parts[i];
  return part;
}

static bool goes_on(void *user, double part, const char *what) {
  const one *o = user;
  together *t = o->all;
  const rdt_screen_job *job = &t->jobs[o->at];
  pthread_mutex_lock(&t->lock);
  t->parts[o->at] = part;
  if (!t->stopped && job->progress && !job->progress(job->user, least(t), what)) t->stopped = true;
  const bool on = !t->stopped;
  pthread_mutex_unlock(&t->lock);
  return on;
}

static void *screen(void *user) {
  const one *o = user;
  together *t = o->all;
  rdt_reason why = {""};
  rdt_screen_job job = t->jobs[o->at];
  job.progress = goes_on;
  job.user = user;
  if (job.fault && !rdt_fault_matches(job.fault, rdt_screen_device(&job))) job.fault = NULL;
  const rdt_status status = rdt_screen_run(&job, o->into, &why);
  pthread_mutex_lock(&t->lock);
  t->parts[o->at] = 1.0;
  if (status != RDT_OK && (t->status == RDT_OK || t->status == RDT_ERR_CANCELLED)) {
    t->stopped = true;
    t->status = status;
    if (t->why) *t->why = why;
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

static rdt_status check(const rdt_screen_job *jobs, int n, rdt_reason *why) {
  bool matched = n == 0 || !jobs[0].fault;
  for (int i = 0; i < n && !matched; i++) matched = rdt_fault_matches(jobs[i].fault, rdt_screen_device(&jobs[i]));
  return matched ? RDT_OK
                 : rdt_fail(why, RDT_ERR_ARG, "the fault is of the device '%s', which is not screened",
                            jobs[0].fault->layer);
}

rdt_status rdt_screen_run_all(const rdt_screen_job *jobs, int n, rdt_screen *s, rdt_reason *why) {
  together all = {.jobs = jobs, .lock = PTHREAD_MUTEX_INITIALIZER, .n = n, .status = RDT_OK, .why = why};
  for (int i = 0; i < n; i++) s[i] = (rdt_screen){.n_units = 0};
  RDT_TRY(check(jobs, n, why));
  one *list = rdt_calloc((size_t)n, sizeof *list);
  pthread_t *threads = rdt_calloc((size_t)n, sizeof *threads);
  all.parts = rdt_calloc((size_t)n, sizeof *all.parts);
  int begun = 0;
  if (!list || !threads || !all.parts) all.status = rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int i = 0; i < n && all.status != RDT_ERR_NOMEM; i++) {
    list[i] = (one){.all = &all, .at = i, .into = &s[i]};
    if (i == n - 1) { /* the last one here */
      screen(&list[i]);
    } else if (pthread_create(&threads[i], NULL, screen, &list[i]) == 0) {
      begun++;
    } else {
      pthread_mutex_lock(&all.lock);
      all.stopped = true;
      all.status = rdt_fail(why, RDT_ERR_NOMEM, "the system gives no thread for each device");
      pthread_mutex_unlock(&all.lock);
    }
  }
  for (int i = 0; i < begun; i++) pthread_join(threads[i], NULL);
  rdt_free(list);
  rdt_free(threads);
  rdt_free(all.parts);
  return all.status;
}
