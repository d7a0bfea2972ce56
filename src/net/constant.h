/* Constants: made when somebody needs them, verified against the sum from loading, restored when they have changed. */
#ifndef RDT_NET_CONSTANT_H
#define RDT_NET_CONSTANT_H

#include "check/recover.h"
#include "net/graph.h"

/* Makes v the elements of from, a constant, times a factor for each channel: in double, rounded once. *finite is false,
 * and v no constant, where a result is not finite. Takes factor. Where from lies in a file, v is lazy. */
rdt_status rdt_constant_scale(rdt_graph *g, int v, int from, double *factor, int64_t channels, bool by_row,
                              bool *finite, rdt_reason *why);
/* Makes v the rows of n constants of one shape and datatype, at least of rank 1, side by side. Where they all lie in
 * files, v is lazy. */
rdt_status rdt_constant_join(rdt_graph *g, int v, const int *from, int n, rdt_reason *why);
/* Makes v so many columns of a matrix that lies in a file, from one on. Of 64 KiB and more, v is lazy. */
rdt_status rdt_constant_columns(rdt_graph *g, int v, int from, int64_t first, int64_t columns, rdt_reason *why);
/* The last step of loading: sums all constants; copies that only products and convolutions read, as weights, get lazy.
 */
rdt_status rdt_constants_seal(rdt_graph *g, rdt_reason *why);

/* From hold to release the data of v is there. Holds nest; constants that are always there count them only.
 * RDT_ERR_FAULT: it cannot be made as it was. */
rdt_status rdt_constant_hold(rdt_graph *g, int v, rdt_reason *why);
void rdt_constant_release(rdt_graph *g, int v);
bool rdt_constant_is_there(const rdt_value *c);

/* Is it as it was loaded? It must be there. */
bool rdt_constant_is_good(const rdt_graph *g, int v);
/* Makes it as it was: from its place in the file, from the page cache first, then from the device; by loading the whole
 * model again where it has none; only the tiles that have changed, where it can. rot: what had changed; no
 * tile where it was the sum. RDT_ERR_FAULT where that gives other bits. */
rdt_status rdt_constant_restore(rdt_graph *g, int v, rdt_rot *rot, rdt_reason *why);

#endif
