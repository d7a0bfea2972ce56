/* The number of OpenMP threads that a vendor library sees, for the calling thread only. */
#ifndef RDT_CPU_THREADS_H
#define RDT_CPU_THREADS_H

int rdt_threads_enter(int threads); /* returns what rdt_threads_leave wants back */
void rdt_threads_leave(int previous);
int rdt_threads_nested(void); /* called from inside a parallel region: only one thread is to be had */

#endif
