/* SPDX-License-Identifier: MIT */
/* A net on a link in shared memory, and another process's end of that which follows the input: any word in
 * the rings, any frame in the slots, TCP segments that belong to a connection and are wrong all the same. No
 * octet reaches a program that is not of a segment of its stream, lwIP's assertions hold, and when the other
 * end has broken the rings' rules a new one can join. */
#include "fuzz.h"
#include "tcpip/net_test.h"
#include "tcpip/shm_join.h"
#include "tcpip/vnet.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PORT = 7174,
    STEPS = 80,
    STREAMS = 4,
    FRAME = 16384,
    PAYLOAD = 12000,
    JOIN_TURNS = 2000,
    WINDOW = 1000,
    FILL = 0x5a, /* all payload that is sent is this */
};

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1}, peer_mac[6] = {2, 0, 0, 0, 0, 2};

static struct {
    struct net *net;
    struct net_listener *listener;
    struct net_stream *stream[STREAMS];
    struct shm_join join;
    struct shm_session s;
    bool joined;
    uint32_t posts, returns, seen; /* words written and read by the peer */
    uint32_t their_seq;            /* behind the net's last segment */
    uint32_t seq;                  /* of ours to come */
    uint16_t port;                 /* the peer's */
} w;

/* --- the program at the net --- */

static void read_stream(struct net_stream *s)
{
    struct span v[256];
    uint32_t cnt = net_rx_peek(s, v, 256), n = 0;
    for (uint32_t i = 0; i < cnt; i++) {
        for (uint32_t k = 0; k < v[i].n; k++) {
            FUZZ_MUST(v[i].p[k] == FILL);
        }
        n += v[i].n;
    }
    FUZZ_MUST(n <= net_rx_queued(s));
    net_rx_consume(s, n);
}

static void forget(struct net_stream *s)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        w.stream[i] = w.stream[i] == s ? NULL : w.stream[i];
    }
}

static void accept_all(void)
{
    struct net_stream *s;
    while ((s = net_accept(w.listener)) != NULL) {
        unsigned i = 0;
        while (i < STREAMS && w.stream[i] != NULL) {
            i++;
        }
        if (i == STREAMS) {
            net_stream_close(s, true);
        } else {
            w.stream[i] = s;
            net_stream_again(s, NET_EV_DATA);
        }
    }
}

static void take_events(void)
{
    struct net_ready r;
    while ((r = net_next(w.net)).events != 0) {
        if (r.listener != NULL) {
            accept_all();
        } else if (r.stream != NULL) {
            read_stream(r.stream);
            if ((r.events & NET_EV_CLOSED) != 0) {
                forget(r.stream);
                net_stream_close(r.stream, false);
            }
        }
    }
}

static void turn(unsigned times, unsigned ms)
{
    while (times-- > 0) {
        net_turn(w.net);
        take_events();
        net_flush(w.net);
        net_clock_advance(ms);
    }
    FUZZ_MUST(net_test_asserts() == 0);
}

/* --- the other end of the link --- */

static void part(void)
{
    if (w.joined) {
        shm_join_part(&w.join, &w.s);
        shm_area_free(w.s.area);
    }
    w.joined = false;
}

static uint32_t eth(uint8_t *frame, uint16_t type, bool broadcast)
{
    memcpy(frame, our_mac, 6);
    if (broadcast) {
        memset(frame, 0xff, 6);
    }
    memcpy(frame + 6, peer_mac, 6);
    put_be16(frame + 12, type);
    return VNET_ETH;
}

static struct shm_way *to_net(void)
{
    return &w.s.area->way[1];
}

static struct shm_way *from_net(void)
{
    return &w.s.area->way[0];
}

static uint64_t word_of(uint32_t count, uint32_t slot, uint32_t len)
{
    return (uint64_t)(uint16_t)(count / SHM_SLOTS + 1) << 48 | (uint64_t)slot << 32 | len;
}

/* As an honest end would. */
static void post(const uint8_t *frame, uint32_t n)
{
    uint32_t slot = w.posts % SHM_SLOTS;
    memcpy(to_net()->data[slot], frame, n);
    atomic_store(&to_net()->posted[w.posts % SHM_SLOTS], word_of(w.posts, slot, n));
    w.posts++;
}

/* Takes what the net has sent, looks at it and gives the slot back. */
static void look(void)
{
    for (;;) {
        uint64_t word = atomic_load(&from_net()->posted[w.seen % SHM_SLOTS]);
        uint32_t slot = (uint32_t)(word >> 32) & 0xffff, len = (uint32_t)word;
        struct vnet_tcp t;
        if ((uint16_t)(word >> 48) != (uint16_t)(w.seen / SHM_SLOTS + 1)) {
            return;
        }
        FUZZ_MUST(slot < SHM_SLOTS && len >= VNET_ETH && len <= SHM_SLOT);
        const uint8_t *f = from_net()->data[slot];
        if (vnet_find_tcp(f, len, len, &t)) {
            bool syn = (f[t.l4 + 13] & VNET_SYN) != 0;
            w.their_seq = get_be32(f + t.l4 + 4) + (t.end - t.pay) + syn;
        }
        w.seen++;
        atomic_store(&from_net()->returned[w.returns % SHM_SLOTS], word_of(w.returns, slot, 0));
        w.returns++;
    }
}

/* Asks for the net's addresses, which so learns ours. */
static void introduce(void)
{
    uint8_t frame[VNET_ETH + VNET_IP6 + 32] = {0};
    uint8_t *p = frame + eth(frame, VNET_TYPE_ARP, true);
    put_be16(p, 1);
    put_be16(p + 2, VNET_TYPE_IP4);
    put_be16(p + 4, 0x0604);
    put_be16(p + 6, 1);
    memcpy(p + 8, peer_mac, 6);
    inet_pton(AF_INET, "198.18.0.1", p + 14);
    inet_pton(AF_INET, "198.18.0.2", p + 24);
    post(frame, VNET_ETH + 28);
    memset(frame, 0, sizeof frame);
    p = frame + eth(frame, VNET_TYPE_IP6, false);
    p[0] = 0x60;
    put_be16(p + 4, 32);
    p[6] = 58;
    p[7] = 255;
    inet_pton(AF_INET6, "fd00::1", p + 8);
    inet_pton(AF_INET6, "fd00::2", p + 24);
    p[40] = 135; /* Neighbour Solicitation with our MAC address (RFC 4861 sec 4.3) */
    inet_pton(AF_INET6, "fd00::2", p + 48);
    p[64] = 1;
    p[65] = 1;
    memcpy(p + 66, peer_mac, 6);
    uint16_t sum = vnet_sum_end(vnet_sum(vnet_sum(0, p + 8, 64), (uint8_t[]){0, 32, 0, 58}, 4));
    memcpy(p + 42, &sum, sizeof sum);
    post(frame, sizeof frame);
}

/* The net lets go of a peer that broke the rules, and takes the next. */
static void join(void)
{
    for (unsigned i = 0; i < JOIN_TURNS && !w.joined; i++) {
        w.joined = shm_join_step(&w.join, &w.s) == 1;
        turn(1, 25);
    }
    FUZZ_MUST(w.joined && !w.s.listened);
    w.posts = w.returns = w.seen = 0;
    w.their_seq = 0;
    introduce();
    turn(2, 1);
    look();
}

static void open_world(void)
{
    struct net_cfg cfg = {.kind = NET_SHM, .prefix = 24, .prefix6 = 64};
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    char err[NET_ERR_TEXT];
    memcpy(cfg.mac, our_mac, sizeof our_mac);
    snprintf(cfg.name, sizeof cfg.name, "fuzz-link-%d", (int)getpid());
    inet_pton(AF_INET, "198.18.0.2", &cfg.ip);
    inet_pton(AF_INET6, "fd00::2", &cfg.ip6);
    net_clock_virtual(1000);
    FUZZ_MUST(net_open(&cfg, &w.net, err) == 0);
    FUZZ_MUST(net_listen(w.net, (struct sockaddr *)&any, 8, NULL, &w.listener) == 0);
    FUZZ_MUST(shm_join_open(&w.join, cfg.name, err) == 0);
    w.port = 20000;
}

static void close_world(void)
{
    part();
    shm_join_close(&w.join);
    net_listener_close(w.listener);
    net_close(w.net);
}

/* --- its steps --- */

static void garbage(struct fuzz *f)
{
    struct shm_way *way = fuzz_u8(f) & 1 ? to_net() : from_net();
    unsigned at = fuzz_u8(f), how = fuzz_u8(f);
    uint64_t v = fuzz_u64(f);
    switch (how % 4) {
    case 0: /* what the net itself posts is read here, in look() */
        atomic_store(&to_net()->posted[at % SHM_SLOTS], v);
        break;
    case 1: atomic_store(&way->returned[at % SHM_SLOTS], v); break;
    case 2: atomic_store(&way->sleeping, (uint32_t)v); break;
    default: atomic_store(&way->blocked, (uint32_t)v); break;
    }
}

static uint32_t ip_header(uint8_t *frame, bool v6, uint32_t tcp_len)
{
    uint32_t n = eth(frame, v6 ? VNET_TYPE_IP6 : VNET_TYPE_IP4, false);
    uint8_t *ip = frame + n;
    if (v6) {
        ip[0] = 0x60;
        put_be16(ip + 4, tcp_len);
        ip[6] = 6;
        ip[7] = 64;
        inet_pton(AF_INET6, "fd00::1", ip + 8);
        inet_pton(AF_INET6, "fd00::2", ip + 24);
        return n + VNET_IP6;
    }
    ip[0] = 0x45;
    put_be16(ip + 2, VNET_IP4 + tcp_len);
    ip[8] = 64;
    ip[9] = 6;
    inet_pton(AF_INET, "198.18.0.1", ip + 12);
    inet_pton(AF_INET, "198.18.0.2", ip + 16);
    return n + VNET_IP4;
}

/* A router's word that a packet was too big: one of the net's, with changes, or any octets. */
static void too_big(struct fuzz *f, unsigned how)
{
    bool v6 = (how & 1) != 0;
    uint8_t frame[VNET_ETH + 2 * VNET_IP6 + 8 + 256] = {0};
    uint32_t quoted = fuzz_u8(f), mtu = fuzz_u16(f) % 2048;
    uint32_t n = ip_header(frame, v6, 8 + quoted), inner = v6 ? VNET_IP6 : VNET_IP4;
    uint8_t *ip = frame + VNET_ETH, *icmp = frame + n, *q = icmp + 8;
    ip[v6 ? 6 : 9] = v6 ? 58 : 1;
    icmp[0] = v6 ? 2 : 3;
    icmp[1] = v6 ? 0 : 4;
    put_be16(icmp + 6, mtu);
    memcpy(q, ip, inner);
    memcpy(q + (v6 ? 8 : 12), ip + (v6 ? 24 : 16), v6 ? 16 : 4);
    memcpy(q + (v6 ? 24 : 16), ip + (v6 ? 8 : 12), v6 ? 16 : 4);
    q[v6 ? 6 : 9] = 6;
    put_be16(q + (v6 ? 4 : 2), 2000);
    put_be16(q + inner, PORT);
    put_be16(q + inner + 2, w.port);
    put_be32(q + inner + 4, w.their_seq - 1);
    struct span changes = fuzz_octets(f, fuzz_u8(f) % 8);
    memcpy(q + (how >> 6) * 8, changes.p, changes.n);
    struct vnet_tcp t = {.l4 = n, .v6 = v6};
    vnet_put_ip_sum(frame, &t);
    uint8_t rest[4] = {0, 0, 0, 58};
    put_be16(rest, 8 + quoted);
    uint64_t sum = v6 ? vnet_sum(vnet_sum(0, ip + 8, 32), rest, sizeof rest) : 0;
    uint16_t end = vnet_sum_end(vnet_sum(sum, icmp, 8 + quoted));
    memcpy(icmp + 2, &end, sizeof end);
    post(frame, n + 8 + quoted);
}

/* Any octets in a frame of a kind that the net looks into. */
static void raw_frame(struct fuzz *f)
{
    static const uint16_t types[] = {VNET_TYPE_IP4, VNET_TYPE_IP6, VNET_TYPE_ARP, VNET_TYPE_VLAN};
    uint8_t frame[FRAME] = {0};
    unsigned how = fuzz_u8(f);
    if ((how & 0x30) == 0x30) {
        too_big(f, how);
        return;
    }
    uint32_t n = eth(frame, types[how % 4], (how & 4) != 0);
    struct span s = fuzz_octets(f, fuzz_u8(f));
    memcpy(frame + n, s.p, s.n);
    n += s.n;
    if ((how & 8) != 0) {
        n += fuzz_u16(f) % (FRAME - n);
    }
    post(frame, n);
}

struct tcp {
    bool v6;
    uint8_t flags;
    uint16_t window;
    int32_t seq_off, ack_off; /* from what would be right */
    struct span opts;
    uint32_t plen;
    int32_t longer; /* than it is, as the IP header says */
    uint8_t lie[2]; /* not 0: what the length of the header is said to be, and the version of IP */
};

static void put_segment(const struct tcp *s)
{
    static uint8_t frame[FRAME];
    memset(frame, 0, VNET_HDR_MAX);
    uint32_t olen = (s->opts.n + 3) & ~3u, tcp_len = VNET_TCP + olen + s->plen;
    uint32_t l4 = ip_header(frame, s->v6, tcp_len + (uint32_t)s->longer);
    struct vnet_tcp t = {.l4 = l4, .pay = l4 + VNET_TCP + olen, .end = l4 + tcp_len, .v6 = s->v6};
    uint8_t *tcp = frame + l4;
    put_be16(tcp, w.port);
    put_be16(tcp + 2, PORT);
    put_be32(tcp + 4, w.seq + (uint32_t)s->seq_off);
    put_be32(tcp + 8, w.their_seq + (uint32_t)s->ack_off);
    tcp[12] = s->lie[0] != 0 ? s->lie[0] : (uint8_t)((VNET_TCP + olen) / 4 << 4);
    tcp[13] = s->flags;
    put_be16(tcp + 14, s->window);
    if (s->opts.n > 0) {
        memcpy(tcp + VNET_TCP, s->opts.p, s->opts.n);
    }
    memset(frame + t.pay, FILL, s->plen);
    vnet_put_sums(frame, &t);
    frame[VNET_ETH] = s->lie[1] != 0 ? s->lie[1] : frame[VNET_ETH];
    post(frame, t.end);
    if (s->seq_off == 0) {
        w.seq += s->plen + ((s->flags & (VNET_SYN | VNET_FIN)) != 0);
    }
}

/* A connection, up to the end of its handshake unless something is wrong on purpose. */
static void dial(struct fuzz *f)
{
    unsigned how = fuzz_u8(f);
    static const uint8_t usual[] = {2, 4, 5, 0xa0, 1, 3, 3, 7, 4, 2, 0, 0};
    struct span opts = {usual, sizeof usual};
    w.port++;
    w.seq = 0xfffffff0u + how;
    if ((how & 0x80) != 0) {
        opts = fuzz_octets(f, fuzz_u8(f) % 41);
    }
    put_segment(
        &(struct tcp){.v6 = (how & 1) != 0, .flags = VNET_SYN, .opts = opts, .window = WINDOW});
    turn(2, 1);
    look();
    if ((how & 0x40) == 0) {
        put_segment(&(struct tcp){.v6 = (how & 1) != 0, .flags = VNET_ACK, .window = WINDOW});
        turn(2, 1);
        look();
    }
}

/* An offset that is mostly 0, or near. */
static int32_t offset(struct fuzz *f)
{
    unsigned how = fuzz_u8(f);
    if (how < 0x80) {
        return 0;
    }
    return how < 0xf0 ? (int32_t)how - 0xb8 : (int32_t)fuzz_u32(f);
}

static void segment(struct fuzz *f)
{
    unsigned how = fuzz_u8(f);
    struct tcp s = {.v6 = (how & 1) != 0, .flags = fuzz_u8(f)};
    s.seq_off = offset(f);
    s.ack_off = offset(f);
    s.opts = fuzz_octets(f, (how & 2) != 0 ? fuzz_u8(f) % 41 : 0);
    s.longer = (how & 4) != 0 ? offset(f) % PAYLOAD : 0;
    if ((how & 8) != 0) {
        s.lie[0] = fuzz_u8(f);
        s.lie[1] = fuzz_u8(f);
    }
    s.plen = fuzz_u16(f) % PAYLOAD;
    s.window = fuzz_u16(f);
    put_segment(&s);
}

/* Reports octets of the net as received, rightly or not (RFC 2018). */
static void sack(struct fuzz *f)
{
    uint8_t opt[36] = {1, 1, 5, 2};
    unsigned how = fuzz_u8(f), blocks = how / 2 % 4 + 1;
    int32_t ack_off = -(int32_t)fuzz_u16(f);
    for (unsigned i = 0; i < blocks; i++) {
        put_be32(opt + 4 + 8 * i, w.their_seq - fuzz_u16(f));
        put_be32(opt + 8 + 8 * i, w.their_seq - fuzz_u16(f));
    }
    opt[3] = (uint8_t)(2 + 8 * blocks);
    put_segment(&(struct tcp){.v6 = (how & 1) != 0,
                              .flags = VNET_ACK,
                              .ack_off = ack_off,
                              .opts = {opt, 4 + 8 * blocks},
                              .window = 30000});
}

/* --- the program's steps --- */

static void act(struct fuzz *f)
{
    unsigned how = fuzz_u8(f);
    struct net_stream *s = w.stream[how % STREAMS];
    uint32_t n = 1 + fuzz_u16(f) % 20000;
    if (s == NULL) {
        return;
    }
    uint8_t *p = how < 0xc0 ? net_tx_reserve(s, n) : NULL;
    if (p != NULL) {
        memset(p, FILL, n);
        net_tx_commit(s, n);
    } else if (how >= 0xe0) {
        forget(s);
        net_stream_close(s, how >= 0xf0);
    } else if (how >= 0xc0) {
        net_shutdown(s);
    }
    net_flush(w.net);
}

static void step(struct fuzz *f)
{
    unsigned n;
    switch (fuzz_u8(f) % 8) {
    case 0: garbage(f); break;
    case 1: raw_frame(f); break;
    case 2: dial(f); break;
    case 3:
    case 4: segment(f); break;
    case 5: sack(f); break;
    case 6: act(f); break;
    default:
        n = fuzz_u8(f);
        turn(n % 16, n / 16 * 20);
        look();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {data, size};
    static bool opened;
    if (!opened) {
        open_world();
        atexit(close_world);
        opened = true;
    }
    join();
    for (unsigned i = 0; i < STEPS && f.n > 0; i++) {
        step(&f);
    }
    turn(4, 20);
    for (unsigned i = 0; i < STREAMS; i++) {
        if (w.stream[i] != NULL) {
            net_stream_close(w.stream[i], true);
            w.stream[i] = NULL;
        }
    }
    turn(2, 1);
    part();
    turn(3, 25); /* the net sees that the other end has gone */
    return 0;
}
