#include "util_sample.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const bool util_sanitized = true;
#else
const bool util_sanitized = false;
#endif

int util_one_in(int plain, int sanitized) {
  if (getenv("RDT_WALK_ALL")) return 1;
  return util_sanitized ? sanitized : plain;
}

/* The machine's own ISA, those that are asked for */
static int turn(void) {
  const char *isa = getenv("REDOUBT_ISA");
  return !isa ? 0 : strcmp(isa, "generic") == 0 ? 1 : 2;
}

bool util_takes(int64_t step, int one_in) {
  return (step + turn()) % one_in == 0;
}

int64_t util_part(int64_t count, int one_in, int64_t *taken) {
  *taken = (count + one_in - 1) / one_in;
  const int64_t first = turn() % one_in * *taken;
  return first + *taken <= count ? first : count - *taken;
}
