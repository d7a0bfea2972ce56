/* Walks over many combinations: every day a sample of their steps, the same ones each time, with sanitizers a thinner
 * one; `scripts/test --full` takes them all (RDT_WALK_ALL). A program that is run once more for another ISA takes other
 * steps there where there are enough of them: together they take more than each. */
#ifndef TEST_UTIL_SAMPLE_H
#define TEST_UTIL_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

/* Compiled with sanitizers? What is slow is slower still there. */
extern const bool util_sanitized;
/* Of how many steps is one taken, without sanitizers and with them? */
int util_one_in(int plain, int sanitized);
/* Is this step taken? Its number is the sum of its numbers in all directions of the walk, so that every value of each
 * direction is met, with other values of the others. */
bool util_takes(int64_t step, int one_in);
/* Steps that are drawn have nothing in common but their seed: the part of 0 .. count - 1 that is taken lies side by
 * side, with all remainders by which a walk tells its cases apart. Returns the first, and how many in *taken. */
int64_t util_part(int64_t count, int one_in, int64_t *taken);

#endif
