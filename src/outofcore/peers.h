/* Blocks of A and B that several devices of one host need: each piece of such a block is read from the file by one of
 * them, and the others copy it from its memory. Nobody waits for one that is behind: a piece is read by whoever comes
 * first, and who comes when its place was filled anew reads it himself. */
#ifndef RDT_OUTOFCORE_PEERS_H
#define RDT_OUTOFCORE_PEERS_H

#include <pthread.h>

#include "outofcore/devices.h"
#include "outofcore/splits.h"

enum { RDT_MOST_PIECES = 64 };

/* What others may copy of what lies in a place of a device's. */
typedef struct rdt_peer_block {
  const void *data;               /* NULL: nothing */
  int64_t row, col;               /* which block it is */
  uint64_t there, begun;          /* pieces, a bit each: that it has; that it reads from the file */
  uint64_t seal[RDT_MOST_PIECES]; /* bit-sums, as who read the file has them */
  int readers;                    /* who copy from it now */
} rdt_peer_block;

typedef struct rdt_peers {
  const rdt_backend *on;
  pthread_mutex_t lock; /* of all blocks */
  pthread_cond_t moved;
  int n;
  struct {
    void *dev;
    const unsigned char *done; /* blocks of C that are not its own, a bit each */
    bool near[RDT_MOST_DEVICES];
    rdt_peer_block block[2][RDT_MOST_SLOTS];
  } device[RDT_MOST_DEVICES];
} rdt_peers;

void rdt_peers_open(rdt_peers *e, const rdt_backend *on);
void rdt_peers_add(rdt_peers *e, void *dev, const unsigned char *done); /* in the order of their numbers */
void rdt_peers_close(rdt_peers *e);

/* Does another device that a copy can come from need a step's block of A (x: 0) or B (1)? */
bool rdt_peers_need(const rdt_peers *e, int number, const rdt_task *t, const rdt_splits *s, const rdt_step *step,
                    int x);
/* The place is about to be filled: nobody copies from it any more. */
void rdt_peers_leave(rdt_peers *e, int number, int x, int slot);

typedef struct rdt_peers_got {
  int64_t there;       /* lines of the block, until now */
  uint64_t seal;       /* their bit-sum */
  int64_t read, taken; /* lines of this call: from the file, from other devices */
} rdt_peers_got;
/* One step towards the block: copies what others have of it, and reads one piece that nobody has or reads. Where there
 * is nothing to do, wait: until there is. */
rdt_status rdt_peers_load(rdt_peers *e, int number, const rdt_step *step, rdt_loading *l, bool wait, rdt_peers_got *got,
                          rdt_reason *why);

#endif
