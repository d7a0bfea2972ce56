/* Files mapped into memory. */
#ifndef RDT_NET_FILE_H
#define RDT_NET_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/file.h"

/* A regular file mapped into memory. The pages are private: what is written there, by a fault too, never reaches the
 * file. The file must not be cut while it is mapped. */
typedef struct rdt_map {
  char *path;          /* without symbolic links */
  unsigned char *data; /* never NULL */
  size_t bytes;
  dev_t device;
  ino_t inode;
} rdt_map;

/* RDT_ERR_IO with path and remedy where it is no regular file that can be read. */
rdt_status rdt_map_open(const char *path, rdt_map *map, rdt_reason *why);
void rdt_map_close(rdt_map *map);
/* Drops what was written to the pages of a range: they are those of the file again. From the device and not from the
 * page cache, which is memory too, where device. */
void rdt_map_refresh(const rdt_map *map, size_t offset, size_t bytes, bool device);

#endif
