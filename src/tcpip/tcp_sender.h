/* SPDX-License-Identifier: MIT */
/* What a TCP sender decides: how much may be on its way (CUBIC, and PRR during recovery, RFC 6937),
 * what is lost and goes again (RACK, RFC 8985), and when to stop waiting (RFC 6298; the tail loss
 * probe of RFC 8985 sec 7). Pure: acknowledgements and microseconds go in, octets, ranges and points
 * in time come out. */
#ifndef UIW_TCPIP_TCP_SENDER_H
#define UIW_TCPIP_TCP_SENDER_H

#include "tcpip/tcp_cubic.h"
#include "tcpip/tcp_sack.h"

enum {
    SENDER_RTO_MIN = 200 * 1000, /* us. RFC 6298 sec 2.4 wants a second; Linux has this */
    SENDER_RTO_MAX = 60 * 1000 * 1000,
    SENDER_PROBE_MIN = 10 * 1000,
    SENDER_ACK_DELAY = 50 * 1000, /* of a peer that has got a single segment */
};

enum tcp_sender_state {
    SENDER_OPEN,
    SENDER_RECOVERY, /* losses were found by what arrived */
    SENDER_TIMEOUT,  /* the retransmission timer ran out */
};

struct tcp_sender {
    struct sack_board board;
    struct tcp_cubic cc;
    uint32_t mss;
    enum tcp_sender_state state;
    uint32_t recover;      /* recovery ends when that is acknowledged */
    struct sack_news news; /* since the last decision */
    bool pending;          /* something to decide upon */

    /* Round trips, us */
    uint32_t srtt, rttvar, rto;
    uint32_t rtt_seq; /* the next sample is of what is sent behind it: one for each round trip */
    uint64_t min_rtt_at;
    uint32_t backoff; /* timeouts since the last acknowledgement of something new */

    /* Proportional rate reduction */
    uint32_t prr_delivered, prr_out, prr_flight;
    uint32_t prr_cwnd; /* the window while recovering */

    /* Reordering (RFC 8985 sec 6.2 step 4) */
    uint32_t reo_steps; /* quarters of min_rtt */
    uint32_t reo_seq;   /* one step more for each round trip */

    /* Timers: the points in time that they count from, us */
    uint64_t rto_from, probe_from;
    uint64_t look_at; /* 0: never; losses may be found then */
    bool probed;      /* since then only the retransmission timer runs */
    bool probe;       /* a segment may go for that, whatever the window */
    bool probe_again; /* that was one sent before */
    uint32_t probe_end;

    /* Whether the window is what limits (as RFC 7661 asks) */
    uint32_t most_out, usage_seq;
    bool limited;

    /* Retransmissions not yet shown to be unnecessary (RFC 3708); UINT32_MAX: some were needed */
    uint32_t undo;
    uint64_t sent_at; /* when something was sent last */
};

/* 'at': the next sequence number; rto: what the handshake showed, us. */
void sender_init(struct tcp_sender *s, struct sack_pool *pool, uint32_t at, uint32_t mss,
                 uint32_t rto);

/* The path takes longer segments from now on, or only shorter ones. */
void sender_set_mss(struct tcp_sender *s, uint32_t mss);

/* Makes the retransmission timer due, if there is something to send again. */
void sender_expire(struct tcp_sender *s);

/* Octets up to 'to' have been sent, for the first time. */
void sender_sent(struct tcp_sender *s, uint32_t to, uint64_t now);

/* An acknowledgement, see sack_acked(). Decisions wait for sender_decide(). */
void sender_acked(struct tcp_sender *s, const struct sack_ack *ack, uint64_t now);

/* Draws the conclusions of what came since the last call: once per batch. */
void sender_decide(struct tcp_sender *s, uint64_t now);

/* Octets that may be sent now, new ones or lost ones; the lost ones come first. */
uint32_t sender_room(const struct tcp_sender *s);

/* The next range to be sent again within sender_room(), at most 'most' octets. */
bool sender_next(const struct tcp_sender *s, uint32_t most, struct sack_block *out);
void sender_resent(struct tcp_sender *s, const struct sack_block *range, uint64_t now);

/* The last segment's worth, for a probe when there is nothing new to send. */
struct sack_block sender_tail(const struct tcp_sender *s);

/* All was sent that may be; 'limited': by sender_room(), not by a lack of data or the peer. */
void sender_pushed(struct tcp_sender *s, bool limited);

/* To be called when sender_due() is reached. True: the retransmission timer ran out. */
bool sender_timer(struct tcp_sender *s, uint64_t now);

/* When a timer is due, us; UINT64_MAX: none runs. */
uint64_t sender_due(const struct tcp_sender *s);

static inline uint32_t sender_out(const struct tcp_sender *s)
{
    return s->board.nxt - s->board.una;
}

#endif
