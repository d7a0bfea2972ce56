/* A device that is none: memory of the host, ops by the GPU's bodies in plain C, products by plans. What it is told to
 * do wrong it does wrong. */
#ifndef TEST_UTIL_MACHINE_H
#define TEST_UTIL_MACHINE_H

#include "cuda/machine.h"

typedef struct util_machine_faults { /* counted down; 0: never */
  int linear;                        /* launches until a product is wrong, and complains */
  int linear_again;                  /* so many launches from then on */
  int products;                      /* so many launches of products complain, each, of what is right */
  bool silent;                       /* it complains, and nothing is wrong */
  int bad_sm;                        /* number + 1 of a multiprocessor that fails known products; 0: none does */
  bool outvoted;                     /* with silent: what it complains of is the third copy, which has lost */
  bool on_the_way;                   /* where all three copies differ, launches that vote compute it again */
  double bound;                      /* > 0: checks apart let go what is no further off */
  bool hopeless;                     /* no repair helps a product of a campaign */
  bool deaf;                         /* no check of a product ever complains */
  int op;                            /* launches of ops until what one has stored is wrong */
  int sum;                           /* the same, until the sum that one has formed is */
  int mute;                          /* ends of runs until one gives no answer */
  int attention;                     /* so many launches of attention store what is wrong */
  int attended;                      /* counted up: those that store */
  int chain;                         /* so many launches of a chain of layers store what is wrong */
  bool chain_complains;              /* and its second layer complains */
  int chained;                       /* counted up: launches of chains */
  int replays;                       /* counted up: how many tapes were played */
  int launches;                      /* counted up */
  int lose;                          /* launches until the device is lost */
} util_machine_faults;

/* Before a model is loaded: are its chains of layers one launch? Does a weight of the last layer change right before it
 * is copied? */
extern bool util_machine_chains, util_machine_chain_rots;
/* For rdt_context_take_machine. Its faults stay as long as it does. linear: does it have products? */
rdt_machine *util_machine_open(bool linear, util_machine_faults **faults);

#endif
