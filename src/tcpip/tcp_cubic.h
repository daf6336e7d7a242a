/* SPDX-License-Identifier: MIT */
/* CUBIC congestion control (RFC 9438) in octets. Pure: octets and microseconds go in, the congestion
 * window comes out. */
#ifndef UIW_TCPIP_TCP_CUBIC_H
#define UIW_TCPIP_TCP_CUBIC_H

#include "base/base.h"

struct tcp_cubic {
    uint32_t mss;
    uint32_t cwnd, ssthresh;
    uint32_t floor; /* octets of growth that do not make an octet of cwnd yet, times 2^16 */
    double w_max;   /* where the last loss was, octets */
    double w_est;   /* what Reno would have */
    double k;       /* s from the epoch's beginning to w_max */
    double prior;   /* cwnd before the last reduction */
    uint64_t epoch; /* us; 0: begins with the next acknowledgement */
    uint64_t last;  /* when the last acknowledgement came */
    struct tcp_cubic_before {
        uint32_t cwnd, ssthresh;
        double w_max, prior;
    } before; /* the last reduction, should that prove wrong */
};

void cubic_init(struct tcp_cubic *c, uint32_t mss);

/* That many octets were acknowledged outside of recovery. 'rtt' is the smoothed one, us. 'limited':
 * cwnd was what held the sender back; else it does not grow (RFC 9438 sec 5.8). */
void cubic_acked(struct tcp_cubic *c, uint32_t octets, uint64_t now, uint32_t rtt, bool limited);

/* A loss: lowers ssthresh (and what CUBIC remembers), while cwnd is left to the owner. */
void cubic_lost(struct tcp_cubic *c);

/* The last reduction was a mistake (RFC 9438 sec 4.9). */
void cubic_undo(struct tcp_cubic *c);

/* Nothing was sent for that long: cwnd says nothing of the path any more (RFC 5681 sec 4.1). */
void cubic_idle(struct tcp_cubic *c, uint64_t us, uint32_t rto);

/* Ten segments (RFC 6928), of jumbo frames as well, as Linux has it: two would have to wait for an
 * acknowledgement that the peer may delay. */
uint32_t cubic_initial_window(uint32_t mss);

#endif
