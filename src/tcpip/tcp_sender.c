/* SPDX-License-Identifier: MIT */
#include "tcpip/tcp_sender.h"

enum {
    DUP_THRESH = 3,
    BACKOFF_MAX = 10,
    GRANULARITY = 1000,
    GRAIN_MAX = 1000,
    MIN_RTT_AGE = 30 * 1000 * 1000,
    REO_STEPS_MAX = 16,
};

static uint32_t clamp_rto(uint64_t us)
{
    return (uint32_t)min_u64(us > SENDER_RTO_MIN ? us : SENDER_RTO_MIN, SENDER_RTO_MAX);
}

void sender_init(struct tcp_sender *s, struct sack_pool *pool, uint32_t at, uint32_t mss,
                 uint32_t rto)
{
    *s = (struct tcp_sender){.mss = mss, .recover = at, .rtt_seq = at, .rto = clamp_rto(rto)};
    s->reo_steps = 1;
    s->reo_seq = s->usage_seq = at;
    sack_init(&s->board, pool, at);
    cubic_init(&s->cc, mss);
}

void sender_set_mss(struct tcp_sender *s, uint32_t mss)
{
    s->mss = s->cc.mss = mss;
    s->cc.cwnd = max_u32(s->cc.cwnd, mss);
}

/* --- sending --- */

static void went_out(struct tcp_sender *s, uint32_t n, uint64_t now)
{
    s->prr_out += n;
    s->sent_at = now;
    if (s->probe) {
        s->probe = false;
        s->probe_end = s->board.nxt;
    }
}

void sender_sent(struct tcp_sender *s, uint32_t to, uint64_t now)
{
    uint32_t n = to - s->board.nxt;
    if (sender_out(s) == 0) {
        uint64_t idle = now - s->sent_at;
        if (s->sent_at != 0 && idle > s->rto) {
            cubic_idle(&s->cc, idle, s->rto);
        }
        s->rto_from = now;
    }
    uint32_t rtt = s->board.min_rtt;
    sack_sent(&s->board, to, now, rtt != 0 ? min_u32(rtt / 8, GRAIN_MAX) : 0);
    s->probe_from = now;
    went_out(s, n, now);
}

bool sender_next(const struct tcp_sender *s, uint32_t most, struct sack_block *out)
{
    return sack_next_lost(&s->board, most, out);
}

struct sack_block sender_tail(const struct tcp_sender *s)
{
    uint32_t n = min_u32(sender_out(s), s->mss);
    return (struct sack_block){s->board.nxt - n, s->board.nxt};
}

void sender_resent(struct tcp_sender *s, const struct sack_block *range, uint64_t now)
{
    uint32_t n = range->to - range->from;
    if (s->probe) {
        s->probe_again = true;
    }
    if (s->undo != UINT32_MAX) {
        s->undo += n;
    }
    if (range->from == s->board.una) {
        s->rto_from = now;
    }
    sack_resent(&s->board, range->from, range->to, now);
    went_out(s, n, now);
}

void sender_pushed(struct tcp_sender *s, bool limited)
{
    uint32_t out = sender_out(s);
    if (!seq_lt(s->board.una, s->usage_seq) || limited || (!s->limited && out > s->most_out)) {
        s->limited = limited;
        s->most_out = out;
        s->usage_seq = s->board.nxt;
    }
}

uint32_t sender_room(const struct tcp_sender *s)
{
    uint32_t window = s->state == SENDER_RECOVERY ? s->prr_cwnd : s->cc.cwnd;
    uint32_t pipe = sack_pipe(&s->board);
    return window > pipe ? window - pipe : 0;
}

/* --- round trips --- */

/* RFC 6298 sec 2. */
static void take_rtt(struct tcp_sender *s, uint32_t rtt)
{
    if (s->srtt == 0) {
        s->srtt = rtt;
        s->rttvar = rtt / 2;
    } else {
        uint32_t off = rtt > s->srtt ? rtt - s->srtt : s->srtt - rtt;
        s->rttvar = (uint32_t)(((uint64_t)s->rttvar * 3 + off) / 4);
        s->srtt = max_u32((uint32_t)(((uint64_t)s->srtt * 7 + rtt) / 8), 1);
    }
    s->rto = clamp_rto(s->srtt + (uint64_t)max_u32(GRANULARITY, 4 * min_u32(s->rttvar, 1 << 29)));
}

static void take_sample(struct tcp_sender *s, uint32_t rtt, uint64_t now)
{
    uint32_t *least = &s->board.min_rtt;
    if (*least == 0 || rtt <= *least || now - s->min_rtt_at > MIN_RTT_AGE) {
        *least = rtt;
        s->min_rtt_at = now;
    }
    if (s->srtt == 0 || !seq_lt(s->board.una, s->rtt_seq)) {
        take_rtt(s, rtt);
        s->rtt_seq = s->board.nxt;
    }
}

/* --- losses --- */

/* RFC 8985 sec 6.2 step 4: without reordering three segments that arrived are proof enough. */
static uint32_t reo_window(const struct tcp_sender *s)
{
    if (!s->board.reordered &&
        (s->state != SENDER_OPEN || s->board.sacked >= DUP_THRESH * s->mss)) {
        return 0;
    }
    uint64_t window = (uint64_t)s->board.min_rtt / 4 * s->reo_steps;
    return (uint32_t)min_u64(window, s->srtt);
}

static uint32_t find_lost(struct tcp_sender *s, uint64_t now)
{
    uint32_t wait;
    uint32_t found = sack_find_lost(&s->board, now, reo_window(s), &wait);
    s->look_at = wait != 0 ? now + wait : 0;
    return found;
}

static void enter(struct tcp_sender *s, enum tcp_sender_state state)
{
    s->recover = s->board.nxt;
    s->state = state;
    s->prr_delivered = s->prr_out = 0;
    s->prr_flight = max_u32(sender_out(s), 1);
    s->undo = 0;
    s->probe = false;
}

static void reopen(struct tcp_sender *s)
{
    if (s->state == SENDER_RECOVERY) {
        s->cc.cwnd = s->cc.ssthresh; /* RFC 6937; a timeout's slow start just goes on */
    }
    s->state = SENDER_OPEN;
}

static void undo(struct tcp_sender *s)
{
    cubic_undo(&s->cc);
    sack_unlose(&s->board);
    s->state = SENDER_OPEN;
    s->undo = UINT32_MAX;
}

/* RFC 6937, with the bound that holds while losses are still being found (RFC 9937 sec 6.2). */
static void prr(struct tcp_sender *s, bool more_lost)
{
    uint32_t pipe = sack_pipe(&s->board), ssthresh = s->cc.ssthresh, n;
    s->prr_delivered += s->news.delivered;
    if (pipe > ssthresh) {
        uint64_t share = (uint64_t)s->prr_delivered * ssthresh + s->prr_flight - 1;
        share = min_u64(share / s->prr_flight, UINT32_MAX);
        n = share > s->prr_out ? (uint32_t)share - s->prr_out : 0;
    } else {
        uint32_t owed = s->prr_delivered > s->prr_out ? s->prr_delivered - s->prr_out : 0;
        n = max_u32(owed, s->news.delivered);
        n += s->news.acked > 0 && !more_lost ? s->mss : 0;
        n = min_u32(ssthresh - pipe, n);
    }
    if (s->prr_out == 0) {
        n = max_u32(n, s->mss); /* the first retransmission never waits */
    }
    s->prr_cwnd = pipe + n;
}

/* RFC 8985 sec 6.2 step 4: what the peer got twice shows that we were too fast. */
static void take_twice(struct tcp_sender *s)
{
    if (!seq_lt(s->board.una, s->reo_seq)) {
        s->reo_seq = s->board.nxt;
        s->board.reordered = true;
        s->reo_steps = min_u32(s->reo_steps + 1, REO_STEPS_MAX);
    }
    if (s->undo != UINT32_MAX && s->undo > 0) {
        s->undo -= min_u32(s->undo, s->news.twice);
        if (s->undo == 0 && s->state != SENDER_OPEN) {
            undo(s);
        }
    }
}

/* --- acknowledgements --- */

/* RFC 8985 sec 7.4: whether the probe mended a loss, which then was a sign of congestion. */
static void judge_probe(struct tcp_sender *s, uint32_t ack, bool idle_ack, uint32_t twice)
{
    if (!s->probed || s->probe || seq_lt(ack, s->probe_end)) {
        return;
    }
    if (!s->probe_again || twice > 0 || idle_ack) {
        s->probed = s->probe_again = false;
    } else if (seq_lt(s->probe_end, ack)) {
        s->probed = s->probe_again = false;
        if (s->state == SENDER_OPEN) {
            cubic_lost(&s->cc);
            s->cc.cwnd = s->cc.ssthresh;
        }
    }
}

void sender_acked(struct tcp_sender *s, const struct sack_ack *ack, uint64_t now)
{
    uint32_t una = s->board.una;
    struct sack_news news = {0};
    sack_acked(&s->board, ack, now, &news);
    bool advanced = s->board.una != una;
    if (advanced) {
        s->backoff = 0;
        s->rto_from = s->probe_from = now;
    }
    if (news.rtt != 0) {
        take_sample(s, news.rtt, now);
    }
    judge_probe(s, ack->ack, !advanced && ack->n == 0, news.twice);
    s->news.acked += news.acked;
    s->news.delivered += news.delivered;
    s->news.twice += news.twice;
    s->news.unlost |= news.unlost;
    s->pending |= news.delivered > 0 || news.twice > 0 || news.reneged || s->board.sacked > 0;
}

static void grow(struct tcp_sender *s, uint64_t now)
{
    bool limited = s->limited;
    if (s->cc.cwnd < s->cc.ssthresh) {
        limited |= s->cc.cwnd < 2 * s->most_out;
    }
    if (s->news.acked > 0) {
        cubic_acked(&s->cc, s->news.acked, now, s->srtt, limited);
    }
}

void sender_decide(struct tcp_sender *s, uint64_t now)
{
    if (!s->pending) {
        return;
    }
    s->pending = false;
    /* Not after a timeout: what arrives then meets an empty path, and its answer may come sooner than any
     * before without being that of the first transmission. To take that for an undue timeout would mean one
     * segment for each of them. */
    if (s->news.twice > 0 && s->state != SENDER_TIMEOUT) {
        take_twice(s);
    }
    /* Octets that only the timer took for lost did arrive: it was too fast (RFC 5682 sec 3). */
    if (s->state == SENDER_TIMEOUT && s->news.unlost) {
        undo(s);
    }
    bool over = s->state != SENDER_OPEN && seq_leq(s->recover, s->board.una);
    if (over) {
        reopen(s);
    }
    uint32_t found = find_lost(s, now);
    if (s->state == SENDER_OPEN && s->board.lost > 0) {
        cubic_lost(&s->cc);
        enter(s, SENDER_RECOVERY);
    }
    if (s->state == SENDER_RECOVERY) {
        prr(s, found > 0);
    } else if (!over) {
        grow(s, now);
    }
    s->news = (struct sack_news){0};
}

/* --- timers --- */

static uint64_t rto_due(const struct tcp_sender *s)
{
    if (s->rto_from == 0) {
        return 0; /* sender_expire() */
    }
    uint64_t wait = (uint64_t)s->rto << min_u32(s->backoff, BACKOFF_MAX);
    return s->rto_from + min_u64(wait, SENDER_RTO_MAX);
}

/* RFC 8985 sec 7.2. */
static uint64_t probe_due(const struct tcp_sender *s)
{
    if (s->state != SENDER_OPEN || s->probed || s->srtt == 0 ||
        s->board.sacked + s->board.lost > 0) {
        return UINT64_MAX;
    }
    uint64_t wait = 2 * (uint64_t)s->srtt;
    wait += sender_out(s) <= s->mss ? SENDER_ACK_DELAY : 0;
    return s->probe_from + (wait > SENDER_PROBE_MIN ? wait : SENDER_PROBE_MIN);
}

uint64_t sender_due(const struct tcp_sender *s)
{
    if (sender_out(s) == 0) {
        return UINT64_MAX;
    }
    uint64_t due = min_u64(rto_due(s), probe_due(s));
    return s->look_at != 0 ? min_u64(due, s->look_at) : due;
}

void sender_expire(struct tcp_sender *s)
{
    s->backoff = 0;
    s->rto_from = 0;
}

static void timed_out(struct tcp_sender *s, uint64_t now)
{
    if (s->state == SENDER_OPEN || (s->state == SENDER_TIMEOUT && s->backoff == 0)) {
        cubic_lost(&s->cc);
    }
    uint32_t age = s->board.rack_valid ? s->board.rack_rtt : s->srtt;
    sack_lose(&s->board, now - min_u64(now, age));
    /* Room for one segment, beside what may still be on its way. */
    s->cc.cwnd = sack_pipe(&s->board) + s->mss;
    enter(s, SENDER_TIMEOUT);
    s->backoff++;
    s->rto_from = now;
    s->look_at = 0;
    s->probed = s->probe_again = false;
}

bool sender_timer(struct tcp_sender *s, uint64_t now)
{
    if (sender_out(s) == 0) {
        return false;
    }
    if (s->look_at != 0 && now >= s->look_at) {
        s->look_at = 0;
        s->pending = true;
    }
    if (now >= rto_due(s)) {
        timed_out(s, now);
        return true;
    }
    if (now >= probe_due(s)) {
        s->probed = s->probe = true;
        s->probe_again = false;
        s->rto_from = now;
    }
    return false;
}
