/* SPDX-License-Identifier: MIT */
#include "tcpip/tcp_cubic.h"

/* RFC 9438 sec 4.6, 5.1, 4.3; beyond CWND_MAX no window of ours reaches. */
#define BETA  0.7
#define C     0.4
#define ALPHA (3 * (1 - BETA) / (1 + BETA))

enum { CWND_MAX = 1 << 28, SEGMENTS_MIN = 2, SEGMENTS_FIRST = 10 };

uint32_t cubic_initial_window(uint32_t mss)
{
    return SEGMENTS_FIRST * mss;
}

void cubic_init(struct tcp_cubic *c, uint32_t mss)
{
    *c = (struct tcp_cubic){.mss = mss, .cwnd = cubic_initial_window(mss), .ssthresh = CWND_MAX};
}

static double cube_root(double x)
{
    if (x <= 0) {
        return 0;
    }
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 100; i++) {
        double next = r - (r - x / (r * r)) / 3;
        if (r - next < 1e-6) {
            break;
        }
        r = next;
    }
    return r;
}

static void begin_epoch(struct tcp_cubic *c, uint64_t now)
{
    c->epoch = now;
    c->w_est = c->cwnd;
    if (c->w_max <= c->cwnd) {
        c->w_max = c->cwnd;
        c->k = 0;
    } else {
        c->k = cube_root((c->w_max - c->cwnd) / c->mss / C);
    }
}

/* The window at t seconds into the epoch (RFC 9438 sec 4.2). */
static double w_cubic(const struct tcp_cubic *c, double t)
{
    double d = t - c->k;
    return C * d * d * d * c->mss + c->w_max;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Sec 4.3 to 4.5: the larger of what CUBIC and Reno would have. */
static void avoid(struct tcp_cubic *c, uint32_t octets, uint64_t now, uint32_t rtt)
{
    if (c->epoch == 0) {
        begin_epoch(c, now);
    }
    double t = (double)(now - c->epoch) * 1e-6, cwnd = c->cwnd;
    c->w_est += (c->w_est >= c->prior ? 1 : ALPHA) * c->mss * octets / cwnd;
    double target = clamp(w_cubic(c, t + rtt * 1e-6), cwnd, cwnd * 1.5);
    double next = cwnd + (target - cwnd) * octets / cwnd;
    if (w_cubic(c, t) < c->w_est && next < c->w_est) {
        next = c->w_est;
    }
    /* What is less than an octet is kept for later. */
    double grown = (next - cwnd) * 65536 + c->floor;
    grown = clamp(grown, 0, (double)octets * 65536);
    uint64_t whole = (uint64_t)grown;
    c->floor = whole & 0xffff;
    c->cwnd = (uint32_t)min_u64(c->cwnd + (whole >> 16), CWND_MAX);
}

void cubic_acked(struct tcp_cubic *c, uint32_t octets, uint64_t now, uint32_t rtt, bool limited)
{
    if (!limited) {
        /* Time in which the window was not used does not count. */
        c->epoch += c->epoch != 0 ? now - c->last : 0;
        c->last = now;
        return;
    }
    c->last = now;
    if (c->cwnd < c->ssthresh) {
        uint32_t n = min_u32(octets, c->ssthresh - c->cwnd);
        c->cwnd += n;
        octets -= n;
    }
    if (octets > 0) {
        avoid(c, octets, now, rtt);
    }
}

void cubic_lost(struct tcp_cubic *c)
{
    c->before = (struct tcp_cubic_before){c->cwnd, c->ssthresh, c->w_max, c->prior};
    c->prior = c->cwnd;
    /* Sec 4.7: a window that shrinks makes room for others faster. */
    c->w_max = c->cwnd < c->w_max ? c->cwnd * (1 + BETA) / 2 : c->cwnd;
    c->ssthresh = max_u32((uint32_t)(c->cwnd * BETA), SEGMENTS_MIN * c->mss);
    c->epoch = 0;
    c->floor = 0;
}

void cubic_undo(struct tcp_cubic *c)
{
    c->cwnd = max_u32(c->cwnd, c->before.cwnd);
    c->ssthresh = max_u32(c->ssthresh, c->before.ssthresh);
    c->w_max = c->before.w_max;
    c->prior = c->before.prior;
    c->epoch = 0;
}

void cubic_idle(struct tcp_cubic *c, uint64_t us, uint32_t rto)
{
    uint32_t restart = min_u32(c->cwnd, cubic_initial_window(c->mss));
    c->ssthresh = max_u32(c->ssthresh, c->cwnd / 4 * 3);
    for (; us > rto && c->cwnd > restart; us -= rto) {
        c->cwnd = max_u32(c->cwnd / 2, restart);
    }
    c->epoch = 0;
}
