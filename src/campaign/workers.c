/* Child processes that run trials. What they share with their parent is a page of counters; what they find out comes
 * through a pipe each, a line at a time. One that ends in the middle of a trial, or hangs, is that trial's outcome, and
 * another one takes its place. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "campaign/campaign.h"
#include "core/memory.h"

enum { TICK = 100, AHEAD = 1 << 16, ASK = 10, GRACE = 500 }; /* ms; trials; tenths of ticks until SIGTERM, SIGKILL */
static const double PATIENCE = 30.0, TIMES = 100.0;          /* seconds that a trial may take, and clean runs */
static const double STILL = 4.0; /* times that, without computing anything, is what a child may be outside of trials */

typedef struct slot {    /* of one worker, written by it */
  _Atomic int64_t index; /* of its trial; -1 between two */
  char spec[256];
} slot;

typedef struct board {
  _Atomic int64_t next, written;
  _Atomic int stop;
  slot slots[RDT_MOST_JOBS];
} board;

typedef struct worker {
  pid_t process; /* 0: none */
  int pipe;      /* -1: ended */
  char *text;    /* what came and is no line yet */
  size_t used, room;
  int64_t index; /* the trial that it was last seen in, and for how many ticks */
  int ticks;
  double computed; /* seconds of its processors, and for how many ticks that did not change outside of a trial */
  int still;
  int64_t told; /* trials, since it was started */
  bool described, finished;
} worker;

typedef struct workers {
  const rdt_campaign *c;
  board *board;
  worker list[RDT_MOST_JOBS];
  int n;
  int64_t first, end, written; /* trials whose lines were handed on */
  char **waiting;              /* lines that came before their turn, by index mod AHEAD */
  size_t *lengths;
  double patience;
  const rdt_workers_calls *calls;
  void *self;
  rdt_reason *why;
  bool stopping;
} workers;

/* ---- in a child ---- */

static bool put(int fd, const char *text, size_t n) {
  while (n > 0) {
    const ssize_t w = write(fd, text, n);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return false;
    text += w;
    n -= (size_t)w;
  }
  return true;
}

static bool put_line(int fd, char kind, int64_t number, const char *text) {
  char head[32];
  const int n = snprintf(head, sizeof head, "%c%lld ", kind, (long long)number);
  char *line = malloc((size_t)n + strlen(text) + 2);
  if (!line) return false;
  sprintf(line, "%s%s\n", head, text);
  const bool good = put(fd, line, strlen(line));
  free(line);
  return good;
}

static rdt_status shoot_all(const rdt_campaign *c, board *b, slot *own, int64_t end, rdt_target *t, int fd,
                            rdt_reason *why) {
  for (;;) {
    const int64_t index = atomic_fetch_add(&b->next, 1);
    if (index >= end || atomic_load(&b->stop)) return RDT_OK;
    while (index - atomic_load(&b->written) >= AHEAD && !atomic_load(&b->stop)) usleep(1000);
    rdt_trial trial;
    own->spec[0] = '\0';
    atomic_store(&own->index, index);
    RDT_TRY(rdt_campaign_shoot(c, t, rdt_campaign_id(c, index), own->spec, &trial, why));
    char *line = rdt_trial_print(&trial);
    const bool good = line && put_line(fd, 'T', index, line);
    cJSON_free(line);
    atomic_store(&own->index, -1);
    if (!good) return rdt_fail(why, RDT_ERR_IO, "a trial could not be handed on");
  }
}

static rdt_status work(const rdt_campaign *c, board *b, slot *own, int64_t end, bool timed, int fd, rdt_reason *why) {
  rdt_target *t = NULL;
  rdt_status status = c->open(c->user, &t, why);
  cJSON *about = status == RDT_OK ? rdt_campaign_describe(c, t, timed, why) : NULL;
  char *text = about ? cJSON_PrintUnformatted(about) : NULL;
  if (status == RDT_OK && !(text && put_line(fd, 'H', 0, text)))
    status = rdt_fail(why, RDT_ERR_NOMEM, "%s", *why->text ? why->text : "out of memory");
  cJSON_free(text);
  cJSON_Delete(about);
  if (status == RDT_OK) status = shoot_all(c, b, own, end, t, fd, why);
  rdt_target_destroy(t);
  rdt_reason last = {""};
  cJSON *cores = NULL;
  const rdt_status closed = c->close(c->user, &cores, &last);
  char *told = cores ? cJSON_PrintUnformatted(cores) : NULL;
  if (told) put_line(fd, 'C', 0, told);
  cJSON_free(told);
  cJSON_Delete(cores);
  if (status == RDT_OK && closed != RDT_OK) {
    *why = last;
    status = closed;
  }
  return status;
}

static _Noreturn void child(workers *w, int i, int fd, bool timed) {
  rdt_reason why = {""};
  static const int ends[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (size_t s = 0; s < sizeof ends / sizeof *ends; s++) signal(ends[s], SIG_DFL); /* a crash is a crash */
  const rdt_status status = work(w->c, w->board, &w->board->slots[i], w->end, timed, fd, &why);
  for (char *p = why.text; *p; p++)
    if (*p == '\n') *p = ' ';
  put_line(fd, status == RDT_OK ? 'D' : 'E', (int64_t)status, why.text);
  fflush(stdout);
  _exit(0);
}

/* ---- in the parent ---- */

static rdt_status start(workers *w, int i) {
  worker *k = &w->list[i];
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return rdt_fail(w->why, RDT_ERR_IO, "no pipe: %s", strerror(errno));
  atomic_store(&w->board->slots[i].index, -1);
  fflush(stdout);
  fflush(stderr);
  k->process = fork();
  if (k->process < 0) {
    k->process = 0;
    close(ends[0]);
    close(ends[1]);
    return rdt_fail(w->why, RDT_ERR_IO, "no child process: %s", strerror(errno));
  }
  if (k->process == 0) {
    for (int j = 0; j < w->n; j++)
      if (w->list[j].pipe >= 0) close(w->list[j].pipe);
    close(ends[0]);
    child(w, i, ends[1], i == 0 && !k->described && w->c->timed);
  }
  close(ends[1]);
  k->pipe = ends[0];
  k->used = 0;
  k->index = -1;
  k->ticks = k->still = 0;
  k->told = 0;
  return RDT_OK;
}

/* Lines in the order of their trials: what comes early waits. */
static rdt_status hand_on(workers *w, int64_t index, const char *line, size_t n) {
  const int64_t at = index % AHEAD;
  if (index < w->written || index >= w->end || index - w->written >= AHEAD || w->waiting[at])
    return rdt_fail(w->why, RDT_ERR_IO, "a child process told of trial %lld, which is not its", (long long)index);
  w->waiting[at] = malloc(n + 1);
  if (!w->waiting[at]) return rdt_fail(w->why, RDT_ERR_NOMEM, "out of memory");
  memcpy(w->waiting[at], line, n);
  w->waiting[at][n] = '\0';
  w->lengths[at] = n;
  for (int64_t next = w->written; next < w->end && w->waiting[next % AHEAD] && !w->stopping; next++) {
    char *turn = w->waiting[next % AHEAD];
    w->waiting[next % AHEAD] = NULL;
    const rdt_status status = w->calls->done(w->self, next, turn, w->lengths[next % AHEAD], &w->stopping, w->why);
    free(turn);
    RDT_TRY(status);
    w->written = next + 1;
    atomic_store(&w->board->written, w->written);
    if (w->stopping) atomic_store(&w->board->stop, 1);
  }
  return RDT_OK;
}

static rdt_status take_line(workers *w, worker *k, char *line, size_t n) {
  char *rest;
  const char kind = *line;
  const int64_t number = strtoll(line + 1, &rest, 10);
  const size_t left = n - (size_t)(rest + 1 - line);
  double seconds = 0.0;
  switch (kind) {
    case 'H':
      k->described = true;
      RDT_TRY(w->calls->described(w->self, rest + 1, left, &seconds, w->why));
      if (TIMES * seconds > w->patience) w->patience = TIMES * seconds;
      return RDT_OK;
    case 'T':
      k->told++;
      return w->stopping ? RDT_OK : hand_on(w, number, rest + 1, left);
    case 'C':
      w->calls->ended(w->self, rest + 1, left);
      return RDT_OK;
    case 'D':
      k->finished = true;
      return RDT_OK;
    default:
      if (w->stopping) {
        k->finished = true;
        return RDT_OK;
      }
      return rdt_fail(w->why, (rdt_status)number, "%s", rest + 1);
  }
}

static rdt_status take_text(workers *w, worker *k) {
  enum { MORE = 1 << 16 };
  if (k->room - k->used < MORE) {
    char *grown = rdt_grow(k->text, k->used, k->used + 2 * MORE, 1);
    if (!grown) return rdt_fail(w->why, RDT_ERR_NOMEM, "out of memory");
    k->text = grown;
    k->room = k->used + 2 * MORE;
  }
  const ssize_t n = read(k->pipe, k->text + k->used, MORE);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return RDT_OK;
  if (n <= 0) {
    close(k->pipe);
    k->pipe = -1;
    return RDT_OK;
  }
  k->used += (size_t)n;
  char *from = k->text, *end = k->text + k->used;
  for (char *at; (at = memchr(from, '\n', (size_t)(end - from))); from = at + 1) {
    *at = '\0';
    RDT_TRY(take_line(w, k, from, (size_t)(at - from)));
  }
  k->used = (size_t)(end - from);
  memmove(k->text, from, k->used);
  return RDT_OK;
}

/* Its line has come, in its turn or before. */
static bool is_told(const workers *w, int64_t index) {
  return index < w->written || w->waiting[index % AHEAD];
}

/* A child whose pipe has ended: all of its lines have been read. One that ends between two trials, or with its trial
 * told and not forgotten yet, takes no result along: another one goes on, unless it would do the same at once. */
static rdt_status bury(workers *w, int i) {
  worker *k = &w->list[i];
  slot *s = &w->board->slots[i];
  int status = 0;
  char how[96];
  if (!k->process) return RDT_OK;
  while (waitpid(k->process, &status, 0) < 0 && errno == EINTR) {
  }
  k->process = 0;
  const int64_t index = atomic_load(&s->index);
  if (k->finished || w->stopping) return RDT_OK;
  const bool between = index < 0 || is_told(w, index);
  if (between && k->described && k->told > 0) {
    w->calls->replaced(w->self);
    return start(w, i);
  }
  const bool hung = k->ticks < 0, outside = !k->described || between;
  if (outside && hung)
    return rdt_fail(w->why, RDT_ERR_IO, "a child process hung outside of any trial: it computed nothing for %.4g s",
                    STILL * w->patience);
  if (outside)
    return rdt_fail(w->why, RDT_ERR_IO, "a child process ended outside of any trial (%s %d)",
                    WIFSIGNALED(status) ? "signal" : "exit code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  if (hung)
    snprintf(how, sizeof how, "hung: ended after %.0f seconds", w->patience);
  else if (WIFSIGNALED(status))
    snprintf(how, sizeof how, "crashed: signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(status));
  s->spec[sizeof s->spec - 1] = '\0';
  char *line = w->calls->died(w->self, index, s->spec, how);
  if (!line) return rdt_fail(w->why, RDT_ERR_NOMEM, "out of memory");
  const rdt_status handed = hand_on(w, index, line, strlen(line));
  cJSON_free(line);
  return handed == RDT_OK ? start(w, i) : handed;
}

/* NaN, which is no value twice, where the system does not say: then nobody stands still. */
static double processor_seconds(pid_t process) {
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0) return NAN;
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ticks are counted while this process runs: where both stand still nobody hangs. Outside of a trial a child may take
 * its time (it loads a model, say), but has to compute. */
static void watch(workers *w) {
  for (int i = 0; i < w->n; i++) {
    worker *k = &w->list[i];
    const int64_t index = atomic_load(&w->board->slots[i].index);
    if (!k->process || k->ticks < 0) continue;
    k->ticks = index >= 0 && index == k->index ? k->ticks + 1 : 0;
    k->index = index;
    const double computed = processor_seconds(k->process);
    k->still = index < 0 && computed == k->computed ? k->still + 1 : 0;
    k->computed = computed;
    if (k->ticks * (TICK / 1000.0) < w->patience && k->still * (TICK / 1000.0) < STILL * w->patience) continue;
    k->ticks = -1;
    kill(k->process, SIGKILL);
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for lines, up to a tick. false: nobody is left. */
static rdt_status listen(workers *w, bool *any) {
  struct pollfd fds[RDT_MOST_JOBS];
  *any = false;
  for (int i = 0; i < w->n; i++) {
    fds[i] = (struct pollfd){.fd = w->list[i].pipe, .events = POLLIN};
    *any = *any || w->list[i].pipe >= 0;
  }
  if (!*any || poll(fds, (nfds_t)w->n, TICK) <= 0) return RDT_OK;
  for (int i = 0; i < w->n; i++)
    if (fds[i].revents) {
      RDT_TRY(take_text(w, &w->list[i]));
      if (w->list[i].pipe < 0) RDT_TRY(bury(w, i));
    }
  return RDT_OK;
}

static rdt_status loop(workers *w) {
  double last = now();
  for (bool any = true; any;) {
    RDT_TRY(listen(w, &any));
    if (now() - last < TICK / 1000.0) continue;
    last = now();
    watch(w);
    if (!w->c->progress(w->c->user, w->written, w->end)) return rdt_fail(w->why, RDT_ERR_CANCELLED, "stopped");
  }
  return RDT_OK;
}

/* Whatever happened, no child stays: asked first, then ended. */
static void end_all(workers *w) {
  bool any = true;
  rdt_reason ignored;
  w->stopping = true;
  w->why = &ignored;
  atomic_store(&w->board->stop, 1);
  for (int ticks = 0; any; ticks++) {
    any = false;
    for (int i = 0; i < w->n; i++) {
      worker *k = &w->list[i];
      if (!k->process) continue;
      if (ticks == ASK) kill(k->process, SIGTERM);
      if (ticks == GRACE) kill(k->process, SIGKILL);
      if (waitpid(k->process, NULL, WNOHANG) != 0) k->process = 0;
      any = any || k->process;
    }
    bool open;
    if (any && listen(w, &open) == RDT_OK) usleep(1000 * TICK / 10); /* full pipes must not keep them */
  }
}

static void destroy(workers *w) {
  for (int i = 0; i < w->n; i++) {
    if (w->list[i].pipe >= 0) close(w->list[i].pipe);
    rdt_free(w->list[i].text);
  }
  for (int i = 0; w->waiting && i < AHEAD; i++) free(w->waiting[i]);
  rdt_free(w->waiting);
  rdt_free(w->lengths);
  if (w->board) munmap(w->board, sizeof *w->board);
  rdt_free(w);
}

rdt_status rdt_workers_run(const rdt_campaign *c, int64_t first, int64_t end, const rdt_workers_calls *calls,
                           void *self, rdt_reason *why) {
  workers *w = rdt_calloc(1, sizeof *w);
  if (!w) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  *w = (workers){.c = c, .first = first, .end = end, .written = first, .calls = calls, .self = self, .why = why};
  w->n = c->jobs < end - first ? c->jobs : end > first ? (int)(end - first) : 1; /* which says what it is of */
  w->patience = c->patience > 0.0 ? c->patience : PATIENCE;
  for (int i = 0; i < w->n; i++) w->list[i].pipe = -1;
  w->waiting = rdt_calloc(AHEAD, sizeof *w->waiting);
  w->lengths = rdt_calloc(AHEAD, sizeof *w->lengths);
  void *shared = mmap(NULL, sizeof *w->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  w->board = shared == MAP_FAILED ? NULL : shared;
  rdt_status status = RDT_OK;
  if (!w->waiting || !w->lengths || !w->board) status = rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) {
    atomic_store(&w->board->next, first);
    atomic_store(&w->board->written, first);
    for (int i = 0; i < w->n && status == RDT_OK; i++) status = start(w, i);
    if (status == RDT_OK) status = loop(w);
    end_all(w);
  }
  destroy(w);
  return status;
}
