#include "check/vault.h"

#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"

static uint64_t lid_sum(const rdt_lid *l) {
  return ~rdt_bitsum(l, offsetof(rdt_lid, self));
}

static bool lid_is_good(const rdt_lid *l) {
  static const rdt_lid empty;
  return l->self == lid_sum(l) || memcmp(l, &empty, sizeof empty) == 0;
}

static void shut(rdt_vault *v) {
  v->lid.self = lid_sum(&v->lid);
  v->spare = v->lid;
}

static size_t list_bytes(const rdt_lid *l) {
  return (size_t)l->n * sizeof *l->parts;
}

/* Every part counts by its place too. */
static uint64_t add_part(uint64_t sum, uint64_t part) {
  return (sum << 1 | sum >> 63) + part;
}

static uint64_t sum_parts(const rdt_lid *l) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < l->n; i++) sum = add_part(sum, rdt_bitsum(l->parts[i].data, l->parts[i].bytes));
  return sum;
}

static uint64_t sum_copies(const rdt_lid *l) {
  uint64_t sum = 0;
  const unsigned char *at = l->copy + list_bytes(l);
  for (int64_t i = 0; i < l->n; at += l->parts[i++].bytes) sum = add_part(sum, rdt_bitsum(at, l->parts[i].bytes));
  return sum;
}

rdt_status rdt_vault_add(rdt_vault *v, void *data, size_t bytes) {
  rdt_lid *l = &v->lid;
  if (!data || bytes == 0) return RDT_OK;
  rdt_part *parts = rdt_grow(l->parts, (size_t)l->n, (size_t)l->n + 1, sizeof *parts);
  if (!parts) return RDT_ERR_NOMEM;
  l->parts = parts;
  l->parts[l->n++] = (rdt_part){data, bytes};
  return RDT_OK;
}

rdt_status rdt_vault_close(rdt_vault *v) {
  rdt_lid *l = &v->lid;
  rdt_free(l->copy);
  l->copy = rdt_alloc(list_bytes(l) + rdt_vault_bytes(v), 1);
  if (!l->copy) return RDT_ERR_NOMEM;
  unsigned char *at = l->copy;
  if (l->n > 0) memcpy(at, l->parts, list_bytes(l));
  at += list_bytes(l);
  for (int64_t i = 0; i < l->n; at += l->parts[i++].bytes) memcpy(at, l->parts[i].data, l->parts[i].bytes);
  l->list_sum = rdt_bitsum(l->parts, list_bytes(l));
  l->sum = sum_parts(l);
  shut(v);
  return RDT_OK;
}

void rdt_vault_clear(rdt_vault *v) {
  rdt_free(v->lid.parts);
  rdt_free(v->lid.copy);
  *v = (rdt_vault){0};
}

size_t rdt_vault_bytes(const rdt_vault *v) {
  size_t bytes = 0;
  for (int64_t i = 0; i < v->lid.n; i++) bytes += v->lid.parts[i].bytes;
  return bytes;
}

void *rdt_vault_word(const rdt_vault *v, size_t i) {
  for (int64_t p = 0; p < v->lid.n; p++) {
    const size_t words = v->lid.parts[p].bytes / 4;
    if (i < words) return (unsigned char *)v->lid.parts[p].data + 4 * i;
    i -= words;
  }
  return NULL;
}

static bool restore(rdt_lid *l) {
  if (sum_copies(l) != l->sum) return false;
  const unsigned char *at = l->copy + list_bytes(l);
  for (int64_t i = 0; i < l->n; at += l->parts[i++].bytes) memcpy(l->parts[i].data, at, l->parts[i].bytes);
  return sum_parts(l) == l->sum;
}

rdt_vault_state rdt_vault_secure(rdt_vault *v) {
  rdt_lid *l = &v->lid;
  rdt_vault_state state = RDT_VAULT_INTACT;
  if (!lid_is_good(l)) {
    if (!lid_is_good(&v->spare)) return RDT_VAULT_LOST;
    *l = v->spare;
    state = RDT_VAULT_RESTORED;
  }
  if (l->n == 0) return state;
  if (rdt_bitsum(l->parts, list_bytes(l)) != l->list_sum) {
    memcpy(l->parts, l->copy, list_bytes(l));
    if (rdt_bitsum(l->parts, list_bytes(l)) != l->list_sum) return RDT_VAULT_LOST;
    state = RDT_VAULT_RESTORED;
  }
  if (sum_parts(l) == l->sum) return state;
  return restore(l) ? RDT_VAULT_RESTORED : RDT_VAULT_LOST;
}
