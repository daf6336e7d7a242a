/* SPDX-License-Identifier: MIT */
/* A world for the player: a responder on one end of a wire in memory, the player on the other. */
#ifndef UIW_TESTS_PLAY_WORLD_H
#define UIW_TESTS_PLAY_WORLD_H

#include "play.h"
#include "resp.h"
#include "tcpip/net_test.h"

struct world {
    struct resp *resp;
    struct net *net; /* the player's */
    struct transport *tr;
    struct play_cfg cfg;
    struct net_wire wire;
    uint64_t octets; /* of the last run */
};

/* Ends the program when it cannot. */
void world_open(struct world *w, struct script **all, unsigned all_cnt, bool verbose);
unsigned world_close(struct world *w); /* faults found in passing */

/* A world like it, in its place. */
void world_reopen(struct world *w);
/* The player's stream is cut at every multiple of that; 0: not. */
void world_cut(struct world *w, uint32_t cut);
void world_play(struct world *w, const struct script *s, struct play_out *out);

#endif
