/* SPDX-License-Identifier: MIT */
/* Nets: opening, closing, and the turns in which everything happens. lwIP is one stack for all. */
#include "tcpip/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/random.h"
#include "lwip/init.h"
#include "lwip/timeouts.h"
#include "tcpip/net_int.h"

enum { TURNS_PER_TIMERS = 64, IDLE_WEIGHT = 4 };

struct list net_all = {&net_all, &net_all};

static const char *const kind_names[] = {[NET_TAP] = "tap", [NET_SHM] = "shm", [NET_PAIR] = "pair"};

bool net_kind_shares_loop(enum net_kind kind)
{
    (void)kind;
    return true; /* all kinds there are run over lwIP */
}

/* --- opening --- */

static int config_fault(const struct net_cfg *cfg, char err[NET_ERR_TEXT])
{
    const char *what = NULL;
    if ((unsigned)cfg->kind >= ARRAY_LEN(kind_names)) {
        snprintf(err, NET_ERR_TEXT, "net: unknown kind of link %u", (unsigned)cfg->kind);
        return -EINVAL;
    }
    if (memchr(cfg->name, 0, sizeof cfg->name) == NULL || cfg->name[0] == '\0') {
        what = "a name is missing";
    } else if (cfg->ip.s_addr == INADDR_ANY || cfg->ip.s_addr == INADDR_BROADCAST ||
               IN_MULTICAST(ntohl(cfg->ip.s_addr))) {
        what = "the IPv4 address is missing or no host address";
    } else if (cfg->prefix > 30) {
        what = "the prefix of the address must be from 1 to 30";
    } else if ((cfg->mac[0] & 1) != 0) {
        what = "the MAC address is a group address";
    } else if (cfg->mtu != 0 && (cfg->mtu < 576 || cfg->mtu > 65535)) {
        what = "the MTU must be from 576 to 65535";
    }
    if (what == NULL) {
        return 0;
    }
    snprintf(err, NET_ERR_TEXT, "%s %.80s: %s", kind_names[cfg->kind], cfg->name, what);
    return -EINVAL;
}

static bool ip_taken(struct in_addr ip)
{
    LIST_EACH(node, &net_all)
    {
        struct net *net = CONTAINER_OF(node, struct net, node);
        if (netif_ip4_addr(&net->nif)->addr == ip.s_addr) {
            return true;
        }
    }
    return false;
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
    mac[0] = 0x02;
    for (unsigned i = 1; i < 6; i++) {
        mac[i] = (uint8_t)(h >> (8 * i));
    }
}

static int link_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT])
{
    switch (cfg->kind) {
    case NET_TAP: return link_tap_open(cfg, out, err);
    case NET_SHM: return link_shm_open(cfg, out, err);
    case NET_PAIR: break;
    }
    return link_pair_open(cfg, out, err);
}

static void lists_init(struct net *net)
{
    list_init(&net->node);
    list_init(&net->streams);
    list_init(&net->listeners);
    list_init(&net->timed);
    list_init(&net->dirty);
    list_init(&net->stalled);
    list_init(&net->ready);
    list_init(&net->later);
    list_init(&net->dead);
}

static int netif_start(struct net *net, const struct net_cfg *cfg)
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
    if (netif_add(&net->nif, &ip, &mask, &gw, net, net_netif_init, netif_input) == NULL) {
        return -ENOMEM;
    }
    list_append(&net_all, &net->node);
    netif_set_up(&net->nif); /* announces the address as well */
    return 0;
}

int net_open(const struct net_cfg *cfg, struct net **out, char err[NET_ERR_TEXT])
{
    int r = config_fault(cfg, err);
    if (r != 0) {
        return r;
    }
    const char *kind = kind_names[cfg->kind];
    if (ip_taken(cfg->ip)) {
        snprintf(err, NET_ERR_TEXT, "%s %.80s: another device of this process has address %s", kind,
                 cfg->name, inet_ntoa(cfg->ip));
        return -EADDRINUSE;
    }
    struct net *net = calloc(1, sizeof *net);
    if (net == NULL) {
        snprintf(err, NET_ERR_TEXT, "%s %.80s: out of memory", kind, cfg->name);
        return -ENOMEM;
    }
    lists_init(net);
    net->kind = cfg->kind;
    net->batch = 1;
    snprintf(net->label, sizeof net->label, "%s %.10s", kind, cfg->name);
    r = link_open(cfg, &net->link, err);
    if (r != 0) {
        free(net);
        return r;
    }
    net->link_up = net->link->up;
    net->epoch = net->link->epoch;
    r = netif_start(net, cfg);
    if (r != 0) {
        snprintf(err, NET_ERR_TEXT, "%s %.80s: out of interfaces", kind, cfg->name);
        net->link->ops->close(net->link);
        free(net);
        return r;
    }
    *out = net;
    return 0;
}

/* --- closing --- */

static struct tcp_pcb *pcb_of(struct tcp_pcb *pcb, const struct net *net)
{
    while (pcb != NULL && pcb->netif_idx != netif_get_index(&net->nif)) {
        pcb = pcb->next;
    }
    return pcb;
}

/* Connections that only waited for their end are cut short. */
static void abort_rest(struct net *net)
{
    while (!list_empty(&net->streams)) {
        net_stream_close(CONTAINER_OF(net->streams.next, struct net_stream, node), true);
    }
    net_streams_reap(net);
    struct tcp_pcb *pcb;
    while ((pcb = pcb_of(tcp_active_pcbs, net)) != NULL) {
        tcp_abort(pcb);
    }
    while ((pcb = pcb_of(tcp_tw_pcbs, net)) != NULL) {
        tcp_abort(pcb);
    }
}

void net_close(struct net *net)
{
    while (!list_empty(&net->listeners)) {
        net_listener_close(CONTAINER_OF(net->listeners.next, struct net_listener, node));
    }
    abort_rest(net);
    while (net->self_first != NULL) {
        struct frame *f = net->self_first;
        net->self_first = f->next;
        frame_free(f);
    }
    netif_remove(&net->nif);
    list_remove(&net->node);
    net_chunks_free(net);
    net->link->ops->close(net->link);
    log_line(LOG_DEBUG,
             "%s: %llu frames in (%llu bad checksums, %llu not for us), %llu out (%llu lost)",
             net->label, (unsigned long long)net->rx_frames, (unsigned long long)net->rx_bad_sum,
             (unsigned long long)net->rx_other, (unsigned long long)net->tx_frames,
             (unsigned long long)net->tx_lost);
    if (list_empty(&net_all)) {
        frame_trim();
    }
    free(net);
}

uint32_t net_mtu(const struct net *net)
{
    return net->link->mtu;
}

/* --- turning --- */

static void each_stream(struct net *net, void (*fn)(struct net_stream *))
{
    struct list *node = net->streams.next;
    while (node != &net->streams) {
        struct net_stream *s = CONTAINER_OF(node, struct net_stream, node);
        node = node->next; /* fn may end the stream */
        fn(s);
    }
}

/* The peer of a link that goes down is a process, and it is gone for sure. */
static void watch_link(struct net *net)
{
    const struct link *l = net->link;
    if (net->link_up && (!l->up || l->epoch != net->epoch)) {
        net->link_up = false;
        each_stream(net, net_stream_link_down);
    }
    if (l->up && l->epoch != net->epoch) {
        net->epoch = l->epoch;
        net->link_up = true;
        net_announce(net);
        each_stream(net, net_stream_link_up);
    }
}

static void run_timers(struct net *net)
{
    sys_check_timeouts();
    uint64_t now = net_now_ms();
    /* The virtual clock may go back to its beginning between tests. */
    if (now < net->tick_at && net->tick_at <= now + NET_TICK_MS) {
        return;
    }
    net->tick_at = now + NET_TICK_MS;
    net->link->ops->tick(net->link);
    struct list *node = net->timed.next;
    while (node != &net->timed) {
        struct net_stream *s = CONTAINER_OF(node, struct net_stream, timed);
        node = node->next;
        net_stream_timer(s, now);
    }
    if (net->starved) {
        net->starved = false;
        LIST_EACH(it, &net->streams)
        {
            struct net_stream *s = CONTAINER_OF(it, struct net_stream, node);
            net_tx_tell_room(s);
            net_stream_dirty(s);
        }
    }
}

/* The clock need not be asked at each turn of a spinning loop, but after a pause, and under load from
 * time to time. A wire in memory may run by a virtual clock that moves only between turns. */
static bool timers_wanted(struct net *net, uint32_t frames)
{
    net->turns += frames > 0 ? frames : IDLE_WEIGHT;
    if (!net->paused && net->kind != NET_PAIR && net->turns < TURNS_PER_TIMERS) {
        return false;
    }
    net->paused = false;
    net->turns = 0;
    return true;
}

static void unstall(struct net *net)
{
    if (!net->link_full || !net->link->ops->tx_ready(net->link)) {
        return;
    }
    net->link_full = false;
    struct list *node;
    while ((node = list_shift(&net->stalled)) != NULL) {
        list_append(&net->dirty, node);
    }
}

uint32_t net_turn(struct net *net)
{
    struct frame *f[NET_RX_BATCH];
    uint32_t n = net->link->ops->rx(net->link, f, net->batch);
    for (uint32_t i = 0; i < n; i++) {
        net_input(net, f[i]);
    }
    uint32_t own = net_input_self(net);
    /* A lone frame is answered before the link is asked again; a busy link is read in batches. */
    net->batch = n == net->batch ? min_u32(2 * n, NET_RX_BATCH) : 1;
    if (timers_wanted(net, n)) {
        run_timers(net);
        watch_link(net);
    }
    unstall(net);
    net_streams_reap(net);
    return n + own;
}

void net_flush(struct net *net)
{
    /* What becomes dirty meanwhile waits for the next flush. */
    struct list now = {&now, &now};
    struct list *node;
    while ((node = list_shift(&net->dirty)) != NULL) {
        list_append(&now, node);
    }
    while ((node = list_shift(&now)) != NULL) {
        net_stream_flush(CONTAINER_OF(node, struct net_stream, dirty));
    }
    net->out_pcb = NULL;
    net_streams_reap(net);
}

/* --- sleeping --- */

int net_fd(const struct net *net)
{
    return net->link->fd;
}

bool net_sleep(struct net *net)
{
    if (!list_empty(&net->ready) || !list_empty(&net->later) || !list_empty(&net->dirty) ||
        net->self_first != NULL) {
        return false;
    }
    return net->link->ops->sleep(net->link, net->link_full);
}

void net_woken(struct net *net)
{
    net->paused = true;
    net->link->ops->woken(net->link);
}

int net_timeout_ms(const struct net *net)
{
    u32_t t = sys_timeouts_sleeptime();
    int ms = t > 1000 ? 1000 : (int)t;
    int due = net->link->ops->due_ms(net->link);
    return due >= 0 && due < ms ? due : ms;
}
