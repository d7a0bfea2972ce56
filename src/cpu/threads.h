/* OpenMP's threads: how many a vendor library sees, and where they are. */
#ifndef RDT_CPU_THREADS_H
#define RDT_CPU_THREADS_H

#include "core/cores.h"

/* For the calling thread only. */
int rdt_threads_enter(int threads); /* returns what rdt_threads_leave wants back */
void rdt_threads_leave(int previous);
int rdt_threads_nested(void); /* called from inside a parallel region: only one thread is to be had */

/* fn(job, from, to, thread) for shares of 0 .. n - 1; a team of one is a call and nothing else. */
void rdt_threads_share(int team, int64_t n, void (*fn)(const void *job, int64_t from, int64_t to, int thread),
                       const void *job);

/* Where the threads of a team of that size are, by their numbers; -1 for those that there are not. */
void rdt_threads_look(int threads, int *core);

/* Allows thread i of the team to run on core i mod n alone (cores not NULL), or all of them where `set` says. false:
 * the system refused, or memory was short; everything is as before. */
bool rdt_threads_pin(int threads, const int *cores, int n, rdt_places *p);
bool rdt_threads_confine(int threads, const cpu_set_t *set, rdt_places *p);
void rdt_threads_restore(rdt_places *p);

#endif
