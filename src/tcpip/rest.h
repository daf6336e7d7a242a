/* SPDX-License-Identifier: MIT */
/* Whether to look at a link less often. Who sends a packet for each segment has us woken for each, and gets
 * an acknowledgement for each; both cost the sender as well, when it is on the same host. So while such
 * segments come in numbers, whoever finds none leaves the link alone for a moment, and gathers some. Long ones that
 * were put together already come less often: for those the moment is short, so that it saves looks in vain and the
 * sender does not wait. Not when we send something as well: then somebody may wait for our answer. */
#ifndef UIW_TCPIP_REST_H
#define UIW_TCPIP_REST_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REST_US = 50,
    REST_LONG_US = 15,       /* from segments that were put together */
    REST_RUN = 64,           /* segments, before it is worth a rest */
    REST_SEGMENT_MAX = 9216, /* longer ones were put together */
    REST_POOR = 16,          /* rests in a row that bring one at most: they are too far between */
    REST_MEMORY_US = 10000,  /* a run ends when none came for so long */
};

struct rest {
    uint32_t run;     /* full segments that came since we last sent */
    uint32_t seen;    /* of these, at the last look */
    uint32_t poor;    /* looks in a row that saw one */
    uint64_t came_us; /* the last look that saw some */
    bool is_long;     /* what came last */
};

/* Of a segment that brings n octets on a connection with that EMSS. Short ones end a message, and somebody
 * waits for that. */
static inline void rest_came(struct rest *r, uint32_t n, uint32_t emss)
{
    r->is_long = n > REST_SEGMENT_MAX;
    r->run += r->is_long || (n <= emss && n > emss / 2);
}

/* We sent something, or a segment is missing: who has lost one is to be told of each that arrives. */
static inline void rest_over(struct rest *r)
{
    r->run = r->seen = 0;
}

/* The link is empty: for how long (us) to leave it alone. 0: wait for it. */
uint32_t rest_time(struct rest *r, uint64_t now_us);

#endif
