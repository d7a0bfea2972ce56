/* The files that a model's constants lie in: the model itself and what it names as external data, one map each. */
#ifndef RDT_NET_MAPS_H
#define RDT_NET_MAPS_H

#include "net/file.h"

typedef struct rdt_maps {
  char *folder; /* of the model, without symbolic links; nothing outside of it is opened */
  rdt_map *list;
  int n;
} rdt_maps;

/* Maps the model file as list[0]. */
rdt_status rdt_maps_init(rdt_maps *m, const char *path, rdt_reason *why);
void rdt_maps_clear(rdt_maps *m);
/* The number of the map of the file that a tensor names, relative to the model's folder. RDT_ERR_FORMAT where it leads
 * out of the folder, RDT_ERR_IO where it cannot be read. what names the tensor. */
rdt_status rdt_maps_find(rdt_maps *m, const char *location, const char *what, int *number, rdt_reason *why);

#endif
