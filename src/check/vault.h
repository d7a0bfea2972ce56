/* What never changes once a plan is made, sealed by a sum and kept a second time: pointers, shapes, strides,
 * tolerances, signs. Where a sum is off, the parts come back from the copy. */
#ifndef RDT_CHECK_VAULT_H
#define RDT_CHECK_VAULT_H

#include <redoubt/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rdt_part {
  void *data;
  size_t bytes;
} rdt_part;

typedef struct rdt_lid { /* where things lie; twice, each with a sum of its own */
  rdt_part *parts;
  int64_t n;
  unsigned char *copy; /* of the list, then of the parts one after the other */
  uint64_t list_sum, sum;
  uint64_t self;
} rdt_lid;

typedef struct rdt_vault { /* zeroed: empty and in order */
  rdt_lid lid, spare;
} rdt_vault;

/* Nothing is sealed before rdt_vault_close. NULL or 0 bytes: nothing to add. Errors: RDT_ERR_NOMEM. */
rdt_status rdt_vault_add(rdt_vault *v, void *data, size_t bytes);
rdt_status rdt_vault_close(rdt_vault *v);
void rdt_vault_clear(rdt_vault *v);
size_t rdt_vault_bytes(const rdt_vault *v);
void *rdt_vault_word(const rdt_vault *v, size_t i); /* 4 bytes of a part, counted over all; NULL beyond */

typedef enum rdt_vault_state { RDT_VAULT_INTACT, RDT_VAULT_RESTORED, RDT_VAULT_LOST } rdt_vault_state;
rdt_vault_state rdt_vault_secure(rdt_vault *v);

#endif
