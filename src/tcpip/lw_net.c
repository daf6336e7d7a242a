/* SPDX-License-Identifier: MIT */
/* Nets over lwIP: opening, closing, and the turns in which everything happens. lwIP is one stack for
 * all. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "lwip/init.h"
#include "lwip/timeouts.h"
#include "tcpip/lw.h"

enum { TURNS_PER_TIMERS = 64, IDLE_WEIGHT = 4 };

struct list lw_all = {&lw_all, &lw_all};

static struct in6_addr global6(const struct lw_net *net)
{
    struct in6_addr in;
    memcpy(&in, netif_ip6_addr(&net->nif, LW_IP6_GLOBAL)->addr, sizeof in);
    return in;
}

/* The text of the address that another net has, NULL: none. Link-local ones belong to their links. */
static const char *ip_taken(const struct net_cfg *cfg, char text[INET6_ADDRSTRLEN])
{
    LIST_EACH(node, &lw_all)
    {
        struct lw_net *net = CONTAINER_OF(node, struct lw_net, node);
        struct in6_addr six = global6(net);
        if (cfg->ip.s_addr != 0 && netif_ip4_addr(&net->nif)->addr == cfg->ip.s_addr) {
            return inet_ntop(AF_INET, &cfg->ip, text, INET6_ADDRSTRLEN);
        }
        if (!IN6_IS_ADDR_UNSPECIFIED(&six) && IN6_ARE_ADDR_EQUAL(&six, &cfg->ip6)) {
            return inet_ntop(AF_INET6, &cfg->ip6, text, INET6_ADDRSTRLEN);
        }
    }
    return NULL;
}

/* The same after a restart, so that neighbours need not learn a new one. FNV-1a; 02: is the range
 * for local use. */
static void choose_mac(const struct net_cfg *cfg, uint8_t mac[6])
{
    static const uint8_t none[6];
    if (memcmp(cfg->mac, none, 6) != 0) {
        memcpy(mac, cfg->mac, 6);
        return;
    }
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = cfg->name; *p != '\0'; p++) {
        h = (h ^ (uint8_t)*p) * 0x100000001b3u;
    }
    h = (h ^ (uint8_t)cfg->kind) * 0x100000001b3u;
    h = (h ^ ntohl(cfg->ip.s_addr)) * 0x100000001b3u;
    for (unsigned i = 0; cfg->ip.s_addr == 0 && i < sizeof cfg->ip6; i++) {
        h = (h ^ cfg->ip6.s6_addr[i]) * 0x100000001b3u;
    }
    mac[0] = 0x02;
    for (unsigned i = 1; i < 6; i++) {
        mac[i] = (uint8_t)(h >> (8 * i));
    }
}

static int link_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT])
{
    uint8_t mac[6];
    switch (cfg->kind) {
    case NET_TAP: return link_tap_open(cfg, out, err);
    case NET_SHM: return link_shm_open(cfg, out, err);
    case NET_PCAP: choose_mac(cfg, mac); return link_pcap_open(cfg, mac, out, err);
    case NET_PAIR:
    case NET_SOCK: break; /* NET_SOCK has a provider of its own */
    }
    return link_pair_open(cfg, out, err);
}

static void lists_init(struct lw_net *net)
{
    list_init(&net->node);
    list_init(&net->streams);
    list_init(&net->listeners);
    list_init(&net->timed);
    list_init(&net->dirty);
    list_init(&net->stalled);
    list_init(&net->dead);
    list_init(&net->clocked);
    list_init(&net->owing);
}

static int netif_start(struct lw_net *net, const struct net_cfg *cfg)
{
    static bool started;
    if (!started) {
        lwip_init();
        started = true;
    }
    uint8_t prefix = cfg->prefix != 0 ? cfg->prefix : 24;
    ip4_addr_t ip = {cfg->ip.s_addr}, gw = {cfg->gw.s_addr};
    ip4_addr_t mask = {htonl(~0u << (32 - prefix))};
    choose_mac(cfg, net->nif.hwaddr);
    if (netif_add(&net->nif, &ip, &mask, &gw, net, lw_netif_init, netif_input) == NULL) {
        return -ENOMEM;
    }
    list_append(&lw_all, &net->node);
    netif_set_up(&net->nif); /* announces the IPv4 address as well */
    if (!IN6_IS_ADDR_UNSPECIFIED(&cfg->ip6)) {
        lw_addr_start6(net, cfg);
        lw_nd_announce(net);
        log_line(LOG_INFO, "%s: link-local address %s", net->label,
                 ip6addr_ntoa(netif_ip6_addr(&net->nif, LW_IP6_LOCAL)));
    }
    return 0;
}

/* --- closing --- */

/* Connections that only waited for their end are cut short. */
static void abort_rest(struct lw_net *net)
{
    while (!list_empty(&net->streams)) {
        lw_stream_close(&CONTAINER_OF(net->streams.next, struct lw_stream, node)->base, true);
    }
    lw_streams_reap(net);
    lw_table_abort(net);
}

static void lw_close(struct net *base)
{
    struct lw_net *net = lw_net_of(base);
    while (!list_empty(&net->listeners)) {
        lw_listener_close(&CONTAINER_OF(net->listeners.next, struct lw_listener, node)->base);
    }
    abort_rest(net);
    while (net->self_first != NULL) {
        struct frame *f = net->self_first;
        net->self_first = f->next;
        frame_free(f);
    }
    lw_late_drop(net);
    netif_remove(&net->nif);
    list_remove(&net->node);
    net_chunks_free(&net->chunks);
    lw_items_free(net);
    lw_runs_free(net);
    net->link->ops->close(net->link);
    capture_close(net->capture);
    log_line(LOG_DEBUG,
             "%s: %llu frames in (%llu bad checksums, %llu not for us), %llu out (%llu lost)",
             net->label, (unsigned long long)net->rx_frames, (unsigned long long)net->rx_bad_sum,
             (unsigned long long)net->rx_other, (unsigned long long)net->tx_frames,
             (unsigned long long)net->tx_lost);
    if (list_empty(&lw_all)) {
        frame_trim();
        lw_table_free();
        lw_mem_trim();
    }
    free(net);
}

static void lw_abandon(struct net *base)
{
    int fd = lw_net_of(base)->link->fd;
    if (fd >= 0) {
        close(fd);
    }
}

static uint32_t lw_mtu(const struct net *base)
{
    const struct lw_net *net = CONTAINER_OF(base, const struct lw_net, base);
    return net->link->mtu;
}

/* --- turning --- */

static void each_stream(struct lw_net *net, void (*fn)(struct lw_stream *))
{
    struct list *node = net->streams.next;
    while (node != &net->streams) {
        struct lw_stream *s = CONTAINER_OF(node, struct lw_stream, node);
        node = node->next; /* fn may end the stream */
        fn(s);
    }
}

/* The interface is there again, and the peers may be: what was lost is sent again at once. */
static void watch_interface(struct lw_net *net)
{
    const struct link *l = net->link;
    if (l->mtu != net->mtu) {
        net->mtu = l->mtu;
        each_stream(net, lw_stream_mtu);
    }
    if (l->resumed != net->resumed) {
        net->resumed = l->resumed;
        lw_nd_restart(net);
        lw_announce(net);
        each_stream(net, lw_stream_resume);
    }
}

/* The peer of a link that goes down is a process, and it is gone for sure. */
static void watch_link(struct lw_net *net)
{
    const struct link *l = net->link;
    watch_interface(net);
    if (net->link_up && (!l->up || l->epoch != net->epoch)) {
        net->link_up = false;
        each_stream(net, lw_stream_link_down);
        /* Nobody is there to go on with those that have no stream, and who comes next may have the same ports.
         * Nothing of his can be among them, since he has to learn our MAC address first. */
        lw_table_forget_rest(net);
    }
    if (l->up && l->epoch != net->epoch) {
        net->epoch = l->epoch;
        net->link_up = true;
        lw_nd_restart(net);
        lw_announce(net);
        each_stream(net, lw_stream_link_up);
    }
}

static void run_timers(struct lw_net *net)
{
    lw_table_timers();
    lw_loss_timers(net);
    uint64_t now = net_now_ms();
    /* The virtual clock may go back to its beginning between tests. */
    if (now < net->tick_at && net->tick_at <= now + LW_TICK_MS) {
        return;
    }
    net->tick_at = now + LW_TICK_MS;
    net->link->ops->tick(net->link);
    if (net->capture != NULL) {
        capture_flush(net->capture);
    }
    struct list *node = net->timed.next;
    while (node != &net->timed) {
        struct lw_stream *s = CONTAINER_OF(node, struct lw_stream, timed);
        node = node->next;
        lw_stream_timer(s, now);
    }
    if (net->chunks.starved) {
        net->chunks.starved = false;
        LIST_EACH(it, &net->streams)
        {
            struct lw_stream *s = CONTAINER_OF(it, struct lw_stream, node);
            lw_stream_dirty(s); /* it is called, then */
        }
    }
}

/* The clock need not be asked at each turn of a spinning loop, but after a pause, and under load from
 * time to time. A wire in memory may run by a virtual clock that moves only between turns. */
static bool timers_wanted(struct lw_net *net, uint32_t frames)
{
    net->turns += frames > 0 ? frames : IDLE_WEIGHT;
    if (!net->paused && net->kind != NET_PAIR && net->turns < TURNS_PER_TIMERS) {
        return false;
    }
    net->paused = false;
    net->turns = 0;
    return true;
}

/* They have waited for longer than all that became dirty since. */
static void flush_first(struct lw_net *net, struct list *streams)
{
    list_join(streams, &net->dirty);
    list_join(&net->dirty, streams);
}

static void unstall(struct lw_net *net)
{
    if (!net->link_full || !net->link->ops->tx_ready(net->link)) {
        return;
    }
    net->link_full = false;
    if (lw_late_send(net)) {
        flush_first(net, &net->stalled);
    }
}

/* A lone frame is answered before the link is asked again; a busy link is read in batches, no larger than
 * what the sender has to have on its way meanwhile. */
static void choose_batch(struct lw_net *net, uint32_t n, uint32_t octets)
{
    if (n < net->batch) {
        net->batch = max_u32(n, 1);
    } else if (octets < LW_RX_OCTETS) {
        net->batch = min_u32(2 * n, LW_RX_BATCH);
    }
}

static uint32_t take_frames(struct lw_net *net)
{
    struct frame *f[LW_RX_BATCH];
    uint32_t n = net->link->ops->rx(net->link, f, net->batch), octets = 0;
    for (uint32_t i = 0; i < n; i++) {
        octets += f[i]->len + (f[i]->next != NULL ? f[i]->next->len : 0);
        lw_input(net, f[i]);
    }
    choose_batch(net, n, octets);
    return n;
}

static uint32_t lw_turn(struct net *base)
{
    struct lw_net *net = lw_net_of(base);
    net->now_us = 0;
    uint32_t n = take_frames(net);
    base->gone = net->link->gone;
    uint32_t own = lw_input_self(net);
    if (timers_wanted(net, n)) {
        run_timers(net);
        watch_link(net);
    }
    unstall(net);
    lw_streams_reap(net);
    return n + own;
}

/* Those that found no room in the link keep their places, before those that have just sent: else the first of
 * many would take all room each time, and the last would wait for ever. */
static void put_back(struct lw_net *net, struct list *rest, bool was_full)
{
    if (!net->link_full) {
        flush_first(net, rest);
        return;
    }
    if (!was_full) {
        list_join(rest, &net->stalled);
    }
    list_join(&net->stalled, rest);
}

/* Those fill the link now, while what they send is in the cache. */
static bool is_called_enough(const struct lw_net *net)
{
    return net->crowded && net->calls >= LW_CALLS;
}

/* So many frames leave at most before we look at what has come: with many connections the acknowledgements of
 * the first would fill the peer's link while the last are sent. */
__attribute__((noinline)) /* or each flush that finds nothing would save registers for it */
static void
flush_streams(struct lw_net *net)
{
    bool was_full = net->link_full;
    uint64_t limit = net->tx_frames + LW_TX_BATCH;
    net->calls = 0;
    struct list now = {&now, &now}; /* what becomes dirty meanwhile waits for the next flush */
    list_join(&now, &net->dirty);
    net->now_us = 0;
    while (!list_empty(&now)) {
        struct lw_stream *s = CONTAINER_OF(now.next, struct lw_stream, dirty);
        if (!s->gone && (net->link_full || net->tx_frames >= limit || is_called_enough(net))) {
            break;
        }
        list_remove(&s->dirty);
        if (!lw_stream_flush(s)) {
            list_prepend(&now, &s->dirty);
        }
    }
    net->crowded = net->link->memory && (net->link_full || (net->crowded && !list_empty(&now)));
    put_back(net, &now, was_full);
    net->out_pcb = NULL;
    lw_streams_reap(net);
}

static void lw_flush(struct net *base)
{
    struct lw_net *net = lw_net_of(base);
    if (!list_empty(&net->dirty)) { /* most turns find nothing */
        flush_streams(net);
    }
    if (net->link->untold) {
        net->link->ops->tell(net->link);
    }
}

/* --- sleeping --- */

static int lw_fd(const struct net *base)
{
    const struct lw_net *net = CONTAINER_OF(base, const struct lw_net, base);
    return net->link->fd;
}

static bool lw_sleep(struct net *base)
{
    struct lw_net *net = lw_net_of(base);
    if (!list_empty(&net->dirty) || net->self_first != NULL) {
        return false;
    }
    if (net->capture != NULL) {
        capture_flush(net->capture);
    }
    return net->link->ops->sleep(net->link, net->link_full);
}

static uint32_t lw_rest_us(struct net *base)
{
    struct lw_net *net = lw_net_of(base);
    uint32_t us = rest_time(&net->rest, net_now_us());
    net->batch = us > 0 ? LW_RX_RESTED : net->batch;
    return us;
}

static void lw_woken(struct net *base)
{
    struct lw_net *net = lw_net_of(base);
    net->paused = true;
    net->link->ops->woken(net->link);
}

/* A wire in memory has no descriptor at all. */
static bool lw_untold(const struct net *base)
{
    const struct lw_net *net = CONTAINER_OF(base, const struct lw_net, base);
    return !list_empty(&base->ready) || !list_empty(&base->later) || !list_empty(&net->dirty) ||
           net->self_first != NULL ||
           (net->link->fd < 0 && !net->link->ops->sleep(net->link, false));
}

static int lw_timeout_ms(const struct net *base)
{
    const struct lw_net *net = CONTAINER_OF(base, const struct lw_net, base);
    u32_t t = sys_timeouts_sleeptime();
    int ms = t > 1000 ? 1000 : (int)t;
    int due = net->link->ops->due_ms(net->link), loss = lw_loss_due_ms(net);
    ms = due >= 0 && due < ms ? due : ms;
    uint64_t now = net_now_ms(), table = lw_table_due();
    ms = (int)min_u64(table > now ? table - now : 0, (uint64_t)ms);
    return loss >= 0 && loss < ms ? loss : ms;
}

/* --- the face --- */

static const struct net_ops lw_ops = {
    .close = lw_close,
    .abandon = lw_abandon,
    .mtu = lw_mtu,
    .turn = lw_turn,
    .flush = lw_flush,
    .fd = lw_fd,
    .sleep = lw_sleep,
    .rest_us = lw_rest_us,
    .woken = lw_woken,
    .untold = lw_untold,
    .timeout_ms = lw_timeout_ms,
    .listen = lw_listen,
    .listener_addr = lw_listener_addr,
    .listener_close = lw_listener_close,
    .accept = lw_accept,
    .connect = lw_connect,
    .rx_peek = lw_rx_peek,
    .rx_consume = lw_rx_consume,
    .tx_reserve = lw_tx_reserve,
    .tx_commit = lw_tx_commit,
    .tx_lend = lw_tx_lend,
    .tx_room = lw_tx_room,
    .tx_unlend = lw_tx_unlend,
    .peer_behind = lw_peer_behind,
    .shutdown = lw_shutdown,
    .stream_close = lw_stream_close,
};

int lw_open(const struct net_cfg *cfg, struct net **out, char err[NET_ERR_TEXT])
{
    const char *kind = net_kind_name(cfg->kind);
    char text[INET6_ADDRSTRLEN];
    const char *taken = ip_taken(cfg, text);
    if (taken != NULL) {
        snprintf(err, NET_ERR_TEXT, "%s %.80s: another device of this process has address %s", kind,
                 cfg->name, taken);
        return -EADDRINUSE;
    }
    struct lw_net *net = calloc(1, sizeof *net);
    if (net == NULL) {
        snprintf(err, NET_ERR_TEXT, "%s %.80s: out of memory", kind, cfg->name);
        return -ENOMEM;
    }
    net_init(&net->base, &lw_ops);
    lists_init(net);
    net->clock_due = UINT64_MAX;
    net->kind = cfg->kind;
    net->batch = 1;
    snprintf(net->label, sizeof net->label, "%s %.10s", kind, cfg->name);
    int r = link_open(cfg, &net->link, err);
    if (r != 0) {
        free(net);
        return r;
    }
    net->link_up = net->link->up;
    net->epoch = net->link->epoch;
    net->mtu = net->link->mtu;
    if (cfg->capture[0] != '\0') {
        r = capture_open(cfg->capture, net->label, CAPTURE_ETHERNET, &net->capture, err);
        if (r == 0) {
            capture_vlan(net->capture, cfg->vlan);
        }
    }
    if (r == 0 && (r = netif_start(net, cfg)) != 0) {
        snprintf(err, NET_ERR_TEXT, "%s %.80s: out of interfaces", kind, cfg->name);
    }
    if (r != 0) {
        capture_close(net->capture);
        net->link->ops->close(net->link);
        free(net);
        return r;
    }
    *out = &net->base;
    return 0;
}
