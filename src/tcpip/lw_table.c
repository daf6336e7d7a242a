/* SPDX-License-Identifier: MIT */
/* Where lwIP's connections are. lwIP keeps them in lists, walks these for each segment, and all of them
 * at each tick. So they are kept here instead: found by their addresses and ports, and put on lwIP's lists
 * only while it is to work on them: one for the segment that belongs to it, at a tick those that a timer
 * may run for. Outside of these two moments lwIP's lists of active and waiting connections are empty.
 *
 * A connection is
 *   busy         lwIP's ticks are for it: data on its way, a delayed ACK, being opened or closed
 *   quiet        nothing is due but to ask the peer, after a while, whether it is still there
 *   in TIME-WAIT
 * Quiet ones cost no time, and when there is no other, lwIP's timer stands still. */
#include <stdlib.h>

#include "base/random.h"
#include "lwip/timeouts.h"
#include "tcpip/lw.h"

enum {
    SLOTS_FIRST = 256,
    WORDS_MAX = 9, /* of a key: two addresses and the ports */
    /* Segments do not live for minutes in the networks meant here, and the sequence numbers of a new
     * connection start beyond the old ones. */
    TIME_WAIT_MS = 1000,
    ASK_AT_ONCE = 16, /* peers; links have room for so many frames as a rule */
};

/* What tells a connection from others, in octets as in packets. */
struct key {
    const uint8_t *local, *remote;
    uint16_t local_port, remote_port;
    bool v6;
    uint8_t netif;
};

static struct {
    struct lw_seat **slot;
    uint32_t slots; /* a power of two, or 0 */
    uint32_t count;
    struct list at[LW_PLACES]; /* those of a place; but for the busy, in the order of since */
    uint64_t seed[WORDS_MAX + 1];
} table = {.at = {{&table.at[LW_BUSY], &table.at[LW_BUSY]},
                  {&table.at[LW_QUIET], &table.at[LW_QUIET]},
                  {&table.at[LW_TIME_WAIT], &table.at[LW_TIME_WAIT]}}};

static struct lw_seat *seat_of(const struct tcp_pcb *pcb)
{
    return pcb->ext_args[0].data;
}

/* --- keys --- */

static const uint8_t *octets(const ip_addr_t *ip)
{
    return IP_IS_V6(ip) ? (const uint8_t *)ip_2_ip6(ip)->addr
                        : (const uint8_t *)&ip_2_ip4(ip)->addr;
}

static struct key key_of(const struct tcp_pcb *pcb)
{
    return (struct key){octets(&pcb->local_ip), octets(&pcb->remote_ip),  pcb->local_port,
                        pcb->remote_port,       IP_IS_V6(&pcb->local_ip), pcb->netif_idx};
}

/* Of the connection that a packet is for, or, when it is one of ours (sent), from. */
static struct key key_in(const struct lw_net *net, const uint8_t *f, const struct vnet_tcp *t,
                         bool sent)
{
    const uint8_t *from = f + VNET_ETH + (t->v6 ? 8 : 12), *to = from + (t->v6 ? 16 : 4);
    uint16_t from_port = get_be16(f + t->l4), to_port = get_be16(f + t->l4 + 2);
    uint8_t netif = netif_get_index(&net->nif);
    return sent ? (struct key){from, to, from_port, to_port, t->v6, netif}
                : (struct key){to, from, to_port, from_port, t->v6, netif};
}

static uint64_t mix(uint64_t h, const uint8_t *p, uint32_t words, const uint64_t *seed)
{
    for (uint32_t i = 0; i < words; i++) {
        uint32_t w;
        memcpy(&w, p + 4 * i, sizeof w);
        h += w * seed[i];
    }
    return h;
}

/* Sums of products with secret numbers: whatever ports peers choose, few share a slot. */
static uint32_t hash(const struct key *k)
{
    uint32_t words = k->v6 ? 4 : 1;
    uint32_t ports = (uint32_t)k->remote_port << 16 | k->local_port;
    uint64_t h = table.seed[WORDS_MAX] + ports * table.seed[WORDS_MAX - 1];
    h = mix(h, k->remote, words, table.seed);
    return (uint32_t)(mix(h, k->local, words, table.seed + 4) >> 32);
}

static bool is_of(const struct tcp_pcb *pcb, const struct key *k)
{
    return pcb->remote_port == k->remote_port && pcb->local_port == k->local_port &&
           pcb->netif_idx == k->netif && lw_addr_is(&pcb->remote_ip, k->remote, k->v6) &&
           lw_addr_is(&pcb->local_ip, k->local, k->v6);
}

static struct lw_seat *find(const struct key *k)
{
    if (table.count == 0) {
        return NULL;
    }
    uint32_t h = hash(k);
    struct lw_seat *seat = table.slot[h & (table.slots - 1)];
    while (seat != NULL && (seat->hash != h || !is_of(seat->pcb, k))) {
        seat = seat->chain;
    }
    return seat;
}

/* --- coming and going --- */

/* Without memory for more slots the chains get longer. False: there are none at all. */
static bool grow(void)
{
    if (table.count < table.slots) {
        return true;
    }
    uint32_t slots = table.slots > 0 ? 2 * table.slots : SLOTS_FIRST;
    struct lw_seat **slot = calloc(slots, sizeof *slot);
    if (slot == NULL) {
        return table.slots > 0;
    }
    if (table.slots == 0) {
        random_bytes(table.seed, sizeof table.seed);
    }
    for (uint32_t i = 0; i < table.slots; i++) {
        struct lw_seat *seat = table.slot[i];
        while (seat != NULL) {
            struct lw_seat *next = seat->chain, **at = &slot[seat->hash & (slots - 1)];
            seat->chain = *at;
            *at = seat;
            seat = next;
        }
    }
    free(table.slot);
    table.slot = slot;
    table.slots = slots;
    return true;
}

static void on_destroy(u8_t id, void *data)
{
    (void)id;
    struct lw_seat *seat = data;
    if (seat->stream != NULL) {
        lw_stream_lost_pcb(seat->stream);
    }
    struct lw_seat **at = &table.slot[seat->hash & (table.slots - 1)];
    while (*at != seat) {
        at = &(*at)->chain;
    }
    *at = seat->chain;
    list_remove(&seat->node);
    free(seat);
    table.count--;
}

static const struct tcp_ext_arg_callbacks callbacks = {.destroy = on_destroy};

bool lw_table_add(struct tcp_pcb *pcb)
{
    struct lw_seat *seat = grow() ? malloc(sizeof *seat) : NULL;
    if (seat == NULL) {
        return false;
    }
    struct key k = key_of(pcb);
    *seat = (struct lw_seat){.pcb = pcb, .hash = hash(&k), .place = LW_BUSY};
    struct lw_seat **at = &table.slot[seat->hash & (table.slots - 1)];
    seat->chain = *at;
    *at = seat;
    list_append(&table.at[LW_BUSY], &seat->node);
    table.count++;
    tcp_ext_arg_set_callbacks(pcb, 0, &callbacks);
    tcp_ext_arg_set(pcb, 0, seat);
    return true;
}

void lw_table_give(struct tcp_pcb *pcb, struct lw_stream *s)
{
    seat_of(pcb)->stream = s;
}

bool lw_table_has(const struct lw_net *net, const struct lw_addr *local,
                  const struct lw_addr *remote)
{
    struct key k = {octets(&local->ip), octets(&remote->ip),  local->port,
                    remote->port,       IP_IS_V6(&local->ip), netif_get_index(&net->nif)};
    return find(&k) != NULL;
}

struct lw_stream *lw_table_sender(const struct lw_net *net, const uint8_t *f,
                                  const struct vnet_tcp *t)
{
    struct key k = key_in(net, f, t, true);
    struct lw_seat *seat = find(&k);
    return seat != NULL ? seat->stream : NULL;
}

/* --- places --- */

static void move(struct lw_seat *seat, enum lw_place place)
{
    list_remove(&seat->node);
    list_append(&table.at[place], &seat->node);
    seat->place = place;
    seat->since = place == LW_BUSY ? 0 : net_now_ms();
}

/* A virtual clock may go back to its beginning between tests. */
static uint64_t time_in_place(const struct lw_seat *seat, uint64_t now)
{
    return now > seat->since ? now - seat->since : 0;
}

/* Its pcb is on lwIP's list. lwIP's ticks may have stood still meanwhile. */
static void wake(struct lw_seat *seat)
{
    struct tcp_pcb *pcb = seat->pcb;
    uint64_t idle = min_u64(time_in_place(seat, net_now_ms()), pcb->keep_idle);
    pcb->tmr = tcp_ticks - (uint32_t)idle / TCP_SLOW_INTERVAL;
    move(seat, LW_BUSY);
    tcp_timer_needed();
}

void lw_table_wake(struct tcp_pcb *pcb)
{
    struct lw_seat *seat = seat_of(pcb);
    if (seat->place == LW_QUIET) {
        tcp_active_pcbs = pcb;
        wake(seat);
        tcp_active_pcbs = NULL;
    }
}

static bool is_quiet(const struct tcp_pcb *pcb)
{
    const tcpflags_t due = TF_ACK_DELAY | TF_ACK_NOW | TF_CLOSEPEND | TF_NAGLEMEMERR;
    return (pcb->state == ESTABLISHED || pcb->state == CLOSE_WAIT) && pcb->unacked == NULL &&
           pcb->unsent == NULL && pcb->ooseq == NULL && pcb->refused_data == NULL &&
           (pcb->flags & due) == 0 && pcb->persist_backoff == 0 && pcb->keep_cnt_sent == 0 &&
           tcp_ticks - pcb->tmr < pcb->keep_idle / TCP_SLOW_INTERVAL;
}

/* --- what lwIP gets to see --- */

static void show_waiting(struct lw_seat *seat, const uint8_t *f, const struct vnet_tcp *t)
{
    if (lw_timewait_over(seat, f, t)) {
        tcp_abandon(seat->pcb, 0); /* in TIME-WAIT this only forgets it; nothing is sent */
        return;
    }
    if ((f[t->l4 + 13] & (VNET_SYN | VNET_RST | VNET_FIN)) == VNET_FIN) {
        move(seat, LW_TIME_WAIT); /* begins anew */
    }
    tcp_tw_pcbs = seat->pcb;
}

void lw_table_show(const struct lw_net *net, const uint8_t *f, const struct vnet_tcp *t)
{
    struct key k = key_in(net, f, t, false);
    struct lw_seat *seat = find(&k);
    if (seat == NULL) {
        return;
    }
    if (seat->place == LW_TIME_WAIT) {
        show_waiting(seat, f, t);
        return;
    }
    tcp_active_pcbs = seat->pcb;
    if (seat->place == LW_QUIET) {
        wake(seat);
    }
}

static struct tcp_pcb *take(struct tcp_pcb **list)
{
    struct tcp_pcb *pcb = *list;
    if (pcb != NULL) {
        *list = pcb->next;
        pcb->next = NULL;
    }
    return pcb;
}

void lw_table_take_back(void)
{
    struct tcp_pcb *pcb;
    while ((pcb = take(&tcp_active_pcbs)) != NULL) {
        if (seat_of(pcb) == NULL && !lw_table_add(pcb)) { /* a SYN has brought it forth */
            tcp_abort(pcb);
        }
    }
    while ((pcb = take(&tcp_tw_pcbs)) != NULL) {
        if (seat_of(pcb)->place != LW_TIME_WAIT) {
            move(seat_of(pcb), LW_TIME_WAIT);
        }
    }
}

/* --- time --- */

/* lwIP counts a probe of a closed window that a full link refused, as if the peer had not answered, and tries
 * again at the next tick: in a quarter of a second the connection would be given up. */
static void forget_unsent_probe(struct tcp_pcb *pcb)
{
    const struct lw_seat *seat = seat_of(pcb);
    if (pcb->persist_backoff > 0 && pcb->persist_probe > seat->probes && pcb->persist_cnt > 0) {
        pcb->persist_probe = seat->probes;
    }
}

static void run_lwip_timers(void)
{
    LIST_EACH(node, &table.at[LW_BUSY])
    {
        struct lw_seat *seat = CONTAINER_OF(node, struct lw_seat, node);
        struct tcp_pcb *pcb = seat->pcb;
        seat->probes = pcb->persist_probe;
        pcb->next = tcp_active_pcbs;
        tcp_active_pcbs = pcb;
    }
    sys_check_timeouts();
    struct tcp_pcb *pcb;
    while ((pcb = take(&tcp_active_pcbs)) != NULL) {
        forget_unsent_probe(pcb);
        if (seat_of(pcb)->stream != NULL) {
            lw_loss_watch(seat_of(pcb)->stream); /* lwIP may have sent into a small window */
        }
        if (is_quiet(pcb)) {
            move(seat_of(pcb), LW_QUIET);
        }
    }
}

/* The first of a place, if it has been there for so long. */
static struct lw_seat *overdue(enum lw_place place, uint64_t now, uint64_t ms)
{
    struct list *node = table.at[place].next;
    struct lw_seat *seat = CONTAINER_OF(node, struct lw_seat, node);
    return node != &table.at[place] && time_in_place(seat, now) >= ms ? seat : NULL;
}

/* Whether the peers are still there. lwIP would do so at its next tick, for all at once, and asks again
 * those that do not answer. */
static void ask_peers(uint64_t now)
{
    struct lw_seat *seat;
    for (uint32_t i = 0; i < ASK_AT_ONCE; i++) {
        if ((seat = overdue(LW_QUIET, now, LW_KEEP_IDLE_MS)) == NULL) {
            break;
        }
        lw_table_wake(seat->pcb);
        if (tcp_keepalive(seat->pcb) != ERR_OK) {
            break; /* the link is full */
        }
        seat->pcb->keep_cnt_sent++;
    }
}

void lw_table_timers(void)
{
    uint64_t now = net_now_ms();
    struct lw_seat *seat;
    while ((seat = overdue(LW_TIME_WAIT, now, TIME_WAIT_MS)) != NULL) {
        tcp_abandon(seat->pcb, 0);
    }
    ask_peers(now);
    if (sys_timeouts_sleeptime() == 0) {
        run_lwip_timers();
    }
}

static uint64_t due(enum lw_place place, uint64_t ms)
{
    struct list *node = table.at[place].next;
    bool none = node == &table.at[place];
    return none ? UINT64_MAX : CONTAINER_OF(node, struct lw_seat, node)->since + ms;
}

uint64_t lw_table_due(void)
{
    return min_u64(due(LW_TIME_WAIT, TIME_WAIT_MS), due(LW_QUIET, LW_KEEP_IDLE_MS));
}

/* --- all of them --- */

bool lw_table_port_used(const struct lw_addr *local)
{
    for (uint32_t i = 0; i < table.slots; i++) {
        for (const struct lw_seat *seat = table.slot[i]; seat != NULL; seat = seat->chain) {
            const struct tcp_pcb *pcb = seat->pcb;
            if (pcb->local_port == local->port && ip_addr_eq(&pcb->local_ip, &local->ip)) {
                return true;
            }
        }
    }
    return false;
}

/* What lwIP does for those on its lists. */
void lw_table_forget_listener(const struct tcp_pcb *listener)
{
    for (uint32_t i = 0; i < table.slots; i++) {
        for (struct lw_seat *seat = table.slot[i]; seat != NULL; seat = seat->chain) {
            if ((const void *)seat->pcb->listener == listener) {
                seat->pcb->listener = NULL;
            }
        }
    }
}

static void each_of(const struct lw_net *net, void (*fn)(struct lw_seat *))
{
    for (unsigned place = 0; place < LW_PLACES; place++) {
        struct list *node = table.at[place].next;
        while (node != &table.at[place]) {
            struct lw_seat *seat = CONTAINER_OF(node, struct lw_seat, node);
            node = node->next; /* fn may end this one */
            if (seat->pcb->netif_idx == netif_get_index(&net->nif)) {
                fn(seat);
            }
        }
    }
}

static void end(struct lw_seat *seat)
{
    tcp_abort(seat->pcb);
}

void lw_table_abort(const struct lw_net *net)
{
    each_of(net, end);
}

static void end_nobodys(struct lw_seat *seat)
{
    if (seat->stream == NULL) {
        tcp_abandon(seat->pcb, 0);
    }
}

void lw_table_forget_rest(const struct lw_net *net)
{
    each_of(net, end_nobodys);
}

void lw_table_free(void)
{
    if (table.count == 0) {
        free(table.slot);
        table.slot = NULL;
        table.slots = 0;
    }
}
