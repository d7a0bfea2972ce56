#include "plan/products.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"

static int64_t up(int64_t x) {
  return (x + RDT_INTENSITY_PAD - 1) / RDT_INTENSITY_PAD * RDT_INTENSITY_PAD;
}

static rdt_status no_memory(rdt_reason *why) {
  return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

static rdt_status add_product(rdt_products *x, int64_t m, int64_t n, int64_t k, int *number, rdt_reason *why) {
  for (*number = 0; *number < x->n; ++*number) {
    const rdt_product *p = &x->list[*number];
    if (p->m == m && p->n == n && p->k == k) return RDT_OK;
  }
  rdt_product *grown = rdt_grow(x->list, (size_t)x->n, (size_t)x->n + 1, sizeof *grown);
  if (!grown) return no_memory(why);
  x->list = grown;
  rdt_product *p = &grown[x->n];
  *p = (rdt_product){.m = m, .n = n, .k = k};
  if (rdt_problem_init(&p->prob, RDT_KOP_GEMM, 2) != RDT_OK) return no_memory(why);
  x->n++;
  p->prob.acc = RDT_F32;
  p->prob.in[0] = rdt_tensor_matrix(NULL, x->dtype, m, k, k, 0);
  p->prob.in[1] = rdt_tensor_matrix(NULL, x->dtype, k, n, n, 0);
  p->prob.out = rdt_tensor_matrix(NULL, x->dtype, m, n, n, 0);
  return RDT_OK;
}

static rdt_status add_layer(rdt_products *x, const rdt_layer *l, int64_t batch, rdt_reason *why) {
  int64_t m, n, k;
  int product;
  rdt_layer_mnk(l, batch, &m, &n, &k);
  RDT_TRY(add_product(x, up(m), up(n), up(k), &product, why));
  rdt_product_layer *grown = rdt_grow(x->layers, (size_t)x->n_layers, (size_t)x->n_layers + 1, sizeof *grown);
  if (!grown) return no_memory(why);
  x->layers = grown;
  grown[x->n_layers++] = (rdt_product_layer){l, x->n_networks - 1, product};
  return RDT_OK;
}

static bool has_groups(const rdt_workload *w) {
  for (int i = 0; i < w->count; i++)
    if (w->layers[i].groups > 1) return true;
  return false;
}

static rdt_status add_network(rdt_products *x, const rdt_workload *w, int64_t batch, rdt_reason *why) {
  char name[80];
  rdt_workload_name(w, batch, name, sizeof name);
  if (has_groups(w))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "workload %s: a GPU is planned for products, and it has convolutions in groups; the same without "
                    "groups is there under another name (`redoubt list workloads`)",
                    name);
  for (int i = 0; i < x->n_networks; i++)
    if (strcmp(x->networks[i].name, name) == 0) return RDT_OK;
  rdt_product_network *grown = rdt_grow(x->networks, (size_t)x->n_networks, (size_t)x->n_networks + 1, sizeof *grown);
  if (!grown) return no_memory(why);
  x->networks = grown;
  rdt_product_network *n = &grown[x->n_networks++];
  *n = (rdt_product_network){.workload = w, .batch = batch, .first = x->n_layers, .count = w->count};
  snprintf(n->name, sizeof n->name, "%s", name);
  for (int i = 0; i < w->count; i++) RDT_TRY(add_layer(x, &w->layers[i], batch, why));
  return RDT_OK;
}

static rdt_status add_all(rdt_products *x, rdt_reason *why) {
  int count;
  const rdt_workload *w = rdt_workload_table(&count);
  for (int i = 0; i < count; i++) {
    if (has_groups(&w[i]) || strncmp(w[i].group, "conv", 4) == 0) continue; /* layers of networks that are there */
    RDT_TRY(add_network(x, &w[i], w[i].batch[0], why));
    RDT_TRY(add_network(x, &w[i], w[i].batch[w[i].batches - 1], why));
  }
  return RDT_OK;
}

static rdt_status add_word(rdt_products *x, const char *word, rdt_reason *why) {
  int count;
  bool group = false;
  const rdt_workload *w = rdt_workload_table(&count);
  int64_t batch;
  if (strcmp(word, "all") == 0) return add_all(x, why);
  for (int i = 0; i < count; i++) {
    if (strcmp(w[i].group, word) != 0) continue;
    group = true;
    for (int j = 0; j < w[i].batches; j++) RDT_TRY(add_network(x, &w[i], w[i].batch[j], why));
  }
  if (group) return RDT_OK;
  RDT_TRY(rdt_workload_find(word, &w, &batch, why));
  return add_network(x, w, batch, why);
}

rdt_status rdt_products_of(const char *words, rdt_dtype dtype, rdt_products *x, rdt_reason *why) {
  *x = (rdt_products){.dtype = dtype};
  if (!rdt_dtype_is_half(dtype))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "on a GPU plans are of products of f16 or bf16, not of %s: --dtype f16",
                    rdt_dtype_name(dtype));
  while (*words) {
    char word[80];
    const size_t length = strcspn(words, ",");
    snprintf(word, sizeof word, "%.*s", (int)length, words);
    RDT_TRY(add_word(x, word, why));
    words += length + (words[length] == ',');
  }
  return x->n > 0 ? RDT_OK : rdt_fail(why, RDT_ERR_ARG, "no workload is named: `redoubt list workloads`");
}

void rdt_products_free(rdt_products *x) {
  for (int i = 0; i < x->n; i++) rdt_problem_clear(&x->list[i].prob);
  rdt_free(x->list);
  rdt_free(x->layers);
  rdt_free(x->networks);
  *x = (rdt_products){0};
}

/* ---- measuring ---- */

/* Of an entry that was cut short nothing is there: it is put into the book when it is complete. */
static bool is_known(const rdt_book *b, const rdt_product *p, rdt_reason *why) {
  char key[RDT_KEY_TEXT];
  return rdt_race_key(&p->prob, key, why) == RDT_OK && rdt_book_find(b, key);
}

static rdt_status measure(const rdt_product *p, const rdt_track *t, const rdt_race_how *how, rdt_book *b, bool list,
                          unsigned *complaints, rdt_reason *why) {
  rdt_entry e;
  const unsigned before = *complaints;
  rdt_status s = list ? rdt_race_list(t, &p->prob, &e, why) : rdt_race_run(t, &p->prob, how, &e, complaints, why);
  if (s == RDT_OK && *complaints != before) /* no cache keeps them: the next run is to tell it again */
    for (int i = 0; i < e.n; i++) e.list[i].late = true;
  if (s == RDT_OK && rdt_book_put(b, &e) != RDT_OK) s = no_memory(why);
  rdt_entry_clear(&e);
  return s;
}

rdt_status rdt_products_measure(rdt_products *x, const rdt_track *t, const rdt_products_watch *w, rdt_book *b,
                                int *measured, unsigned *complaints, rdt_reason *why) {
  int unknown = 0;
  rdt_status s = RDT_OK;
  *measured = 0, *complaints = 0;
  for (int i = 0; i < x->n; i++) unknown += w->anew || !is_known(b, &x->list[i], why);
  for (int i = 0; i < x->n && s == RDT_OK; i++) {
    const rdt_product *p = &x->list[i];
    char what[80];
    rdt_race_how how = w->how;
    if (!w->anew && is_known(b, p, why)) continue;
    snprintf(what, sizeof what, "%lld x %lld x %lld", (long long)p->m, (long long)p->n, (long long)p->k);
    how.what = what, how.turn = *measured, how.turns = unknown;
    s = measure(p, t, &how, b, w->list, complaints, why);
    if (s == RDT_OK) ++*measured;
    if (s == RDT_OK && w->save) s = w->save(b, w->user, why);
  }
  for (int i = 0; i < x->n; i++) { /* the book does not move any more */
    char key[RDT_KEY_TEXT];
    if (rdt_race_key(&x->list[i].prob, key, why) == RDT_OK) x->list[i].entry = rdt_book_find(b, key);
  }
  return s;
}
