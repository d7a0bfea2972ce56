// Races for shared memory, found by what happens before what: whoever touches a word has to come behind all who have
// touched it otherwise, by barriers, mbarriers and waits alone, however the warps happened to run. It costs time and is
// off unless asked for.
//
// The actors of a cluster are its warps; what they have asked for, which is done by itself until they wait for it
// (cp.async, bulk stores, wgmma); and the mbarriers, for what arrives at them (bulk loads, st.async). Each has a clock.
// A warp knows of each actor up to when it has seen it done, and up to when what was written has been fenced for the
// async proxy (fence.proxy.async) on its way here. The lanes of a warp are one actor: what a missing bar.warp.sync does
// is not seen.
#ifndef RDT_EMULATED_RACE_H
#define RDT_EMULATED_RACE_H

#include "emulated.h"

extern bool em_race_on;  // set before a launch; all of this is called only where it is

void em_race_begin(em_block *block);  // as blocks of a cluster begin and end
void em_race_end(em_block *block);

// What touches bytes of a block's shared memory. False: a race, em_fault() has said it.
typedef enum em_touch { EM_READS, EM_WRITES, EM_ATOMIC } em_touch;
bool em_race_touch(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t at, size_t bytes,
                   em_touch how);
// The lanes of an access at their places, of which only those in shared memory count.
bool em_race_lanes(em_warp *warp, const em_instruction *in, uint32_t lanes, uint8_t *const place[EM_LANES],
                   size_t bytes, em_touch how);

// What a warp asks for and waits for by groups: called as it is asked for.
typedef enum em_agent { EM_COPIES, EM_STORES, EM_WGMMA, EM_AGENTS } em_agent;
bool em_race_copy(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t at, size_t bytes);
bool em_race_store(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t at, size_t bytes);
bool em_race_wgmma(em_warp *warp, const em_instruction *in, em_block *block, uint32_t at, size_t bytes);
void em_race_commit(em_warp *warp, em_agent agent, uint32_t lanes);
void em_race_wait(em_warp *warp, em_agent agent, uint32_t lanes, uint32_t left);  // all groups but that many

// mbarriers, in a block's shared memory. Before they change: init, arrivals; what arrives by itself is told as it is
// asked for (async: by the async proxy, else as st.async does it), and once a wait has found its phase over.
bool em_race_init(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t barrier);
bool em_race_arrive(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t barrier);
void em_race_arrive_copies(em_warp *warp, em_block *block, uint32_t barrier);  // cp.async.mbarrier.arrive
bool em_race_load(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t at, size_t bytes,
                  uint32_t barrier, bool async);
bool em_race_waited(em_warp *warp, const em_instruction *in, int lane, em_block *block, uint32_t barrier);

// Barriers of a block: a warp arrives; it has completed, for each warp that waits, and then for the barrier.
void em_race_bar_arrive(em_warp *warp, int id);
void em_race_bar_pass(em_block *block, int id, int warp);
void em_race_bar_done(em_block *block, int id);
// Of the cluster.
void em_race_cluster_arrive(em_warp *warp, bool relaxed);
void em_race_cluster_done(em_cluster *cluster);
void em_race_cluster_pass(em_warp *warp);
// fence.proxy.async; any other fence that the next relaxed arrival at the cluster's barrier is behind.
void em_race_proxy_fence(em_warp *warp);
void em_race_fence(em_warp *warp);

#endif
