/* SPDX-License-Identifier: MIT */
/* Streams of octets: the only face of this folder. No lwIP type shows here; the streams may as well
 * be the kernel's. Nothing here is thread safe: the owner of the loop holds its lock. */
#ifndef UIW_TCPIP_NET_H
#define UIW_TCPIP_NET_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/base.h"

enum net_kind { NET_TAP, NET_SHM, NET_PAIR, NET_PCAP, NET_SOCK };

enum { NET_NAME_MAX = 108, NET_PATH_MAX = 256, NET_ERR_TEXT = 256, NET_CC_MAX = 16 };

/* A device's network side. Zero fields mean "the default". */
struct net_cfg {
    enum net_kind kind;
    /* TAP, pcap: the interface. shm: the path of a UNIX socket that the two processes meet at, or a name,
     * with or without a slash in front, that stands for /dev/shm/uiw-NAME. pair: name of the wire.
     * sock: an address of this host, as text; or empty, and it is ip or ip6, or any. */
    char name[NET_NAME_MAX];
    struct in_addr ip; /* this, ip6 or both */
    uint8_t prefix;    /* 0: 24 */
    struct in_addr gw;
    /* The link-local address comes from the MAC address unless ip6 is one. All work at once, without
     * detection of duplicates. Without gw6, routers that announce themselves are used. */
    struct in6_addr ip6;
    uint8_t prefix6; /* 64..128, 0: 64 */
    struct in6_addr gw6;
    uint8_t mac[6]; /* all zero: derived from kind, name and ip, so that it survives a restart */
    uint32_t mtu;   /* 0: what the link has (TAP, pcap: the interface's; shm, pair: 65535; sock: the
                     * route's) */
    char cc[NET_CC_MAX]; /* sock: the kernel's congestion control; empty: the host's default */
    uint16_t vlan;       /* TAP, pcap: in and out with the tag of that VLAN, 1..4094; 0: untagged */
    char capture[NET_PATH_MAX]; /* pcapng file for all that is sent and received; empty: none */
};

struct net;
struct net_listener;
struct net_stream;

/* Opens link and stack. On failure a negative errno and one line in err that names what and where
 * ("tap uiw0: no such interface; ip tuntap add uiw0 mode tap makes one"). */
int net_open(const struct net_cfg *cfg, struct net **out, char err[NET_ERR_TEXT]);

/* Streams and listeners must be gone. */
void net_close(struct net *net);

/* In a child of fork(): closes the descriptors and nothing else. The net is of no use after. */
void net_abandon(struct net *net);

/* Largest IP datagram of the link, octets. */
uint32_t net_mtu(const struct net *net);

/* True when the link has gone for good: no stream will come over it again. */
bool net_gone(const struct net *net);

/* True when all nets of that kind are one stack inside and must share one loop (lwIP). */
bool net_kind_shares_loop(enum net_kind kind);

/* --- progress: turn, take events, act, flush --- */

/* Takes in a bounded batch of frames (sock: of events and reads) and runs due timers. Returns how many
 * there were. */
uint32_t net_turn(struct net *net);

/* Sends what the streams have queued, acknowledges and opens windows: once per batch. */
void net_flush(struct net *net);

/* Something to wait on for reading when net_turn() has nothing to do; -1 for pair. */
int net_fd(const struct net *net);

/* When net_turn() had nothing to do: for how many us it pays to do something else before waiting on
 * net_fd(), because many small frames are coming. 0: it does not. */
uint32_t net_rest_us(struct net *net);

/* Before sleeping on net_fd(): false when there is work already (turn again). After either: net_woken(). Of
 * several who sleep on a net each calls net_sleep(), and only the last one net_woken(). */
bool net_sleep(struct net *net);
void net_woken(struct net *net);

/* Whether there is work that net_fd() does not tell of: who sleeps on it already has to be woken by other means. */
bool net_untold(const struct net *net);

/* Milliseconds until a timer is due; -1: none. */
int net_timeout_ms(const struct net *net);

/* The clock that timers here run by, ms; virtual for pair when a test set it so. */
uint64_t net_now_ms(void);

enum net_event {
    NET_EV_UP = 0x01,   /* our connect succeeded */
    NET_EV_DATA = 0x02, /* more to peek at */
    NET_EV_ROOM = 0x04, /* net_tx_room() has grown after a refusal */
    NET_EV_ACKED =
        0x08,          /* net_tx_acked() has passed lent memory. To be handled before NET_EV_DATA */
    NET_EV_FIN = 0x10, /* the peer's FIN: no data after what is queued */
    NET_EV_CLOSED = 0x20, /* gone; net_error() says why. What was received stays readable; only
                             net_stream_close() remains to be called */
    NET_EV_ACCEPT = 0x40, /* a listener has streams to accept */
};

struct net_ready {
    unsigned events;           /* NET_EV_*; 0: nothing */
    struct net_stream *stream; /* or */
    struct net_listener *listener;
    void *user; /* of the stream or listener */
};

/* The next stream or listener with news since its last turn here. A stream in question may be
 * closed by the caller at any time; it is then not shown again. */
struct net_ready net_next(struct net *net);

/* Asks to be shown that stream again by the next net_next() round with these events. */
void net_stream_again(struct net_stream *s, unsigned events);

/* --- set-up --- */

/* -EADDRINUSE, -EADDRNOTAVAIL (not an address of this net; INADDR_ANY is its IPv4 address, :: are all it
 * has, IPv4 among them), -EAFNOSUPPORT, -ENOMEM; sock: -EACCES (a port below 1024), -EMFILE. Port 0: one
 * is chosen, net_listener_addr() tells. backlog: connections not yet accepted, at least 1; sock: what
 * listen() makes of it. */
int net_listen(struct net *net, const struct sockaddr *addr, int backlog, void *user,
               struct net_listener **out);
void net_listener_addr(const struct net_listener *l, struct sockaddr_storage *out);
void net_listener_close(struct net_listener *l); /* streams not accepted are reset */

/* The next established inbound stream, or NULL. Its user is NULL until set. */
struct net_stream *net_accept(struct net_listener *l);

/* Addresses are sockaddr_in or sockaddr_in6 here and everywhere; ::ffff:a.b.c.d means a.b.c.d. The net is
 * the link that a link-local address belongs to: sin6_scope_id is not looked at, and given as 0. Not so
 * with sock, where it is the kernel's. */

/* local may be NULL (or port 0). Success or failure comes as an event: UP or CLOSED with
 * -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH, -ECONNRESET, -EACCES (sock: the host's rules forbid it),
 * within about 10 s. At once: -EAFNOSUPPORT (or no address of that family here), -EINVAL (no port),
 * -EADDRNOTAVAIL (local is not ours), -EADDRINUSE, -ENOMEM; sock: -EMFILE. */
int net_connect(struct net *net, const struct sockaddr *local, const struct sockaddr *remote,
                void *user, struct net_stream **out);

void net_stream_set_user(struct net_stream *s, void *user);
void net_stream_local(const struct net_stream *s, struct sockaddr_storage *out);
void net_stream_remote(const struct net_stream *s, struct sockaddr_storage *out);

/* Octets of one wire segment (EMSS): FPDUs are to fit it (RFC 5044 sec 5). May change. */
uint32_t net_emss(const struct net_stream *s);

int net_error(const struct net_stream *s); /* 0 or negative errno, after NET_EV_CLOSED */

/* --- receive: borrowed pieces, then one consume ---
 * A piece other than the last is at least 512 octets long or has a neighbour that is: at most 256
 * pieces hold any 64 KB, however the peer cut its segments. */

/* Fills v with up to max pieces from the front of the queue; returns how many. They stay valid
 * until net_rx_consume(), net_stream_close() or net_close(). */
uint32_t net_rx_peek(struct net_stream *s, struct span *v, uint32_t max);
uint32_t net_rx_queued(const struct net_stream *s);
void net_rx_consume(struct net_stream *s, uint32_t n); /* the window opens at the next flush */

/* --- send ---
 * The stream is sent in the order of commit and lend. Nothing leaves before net_flush(). */

/* n contiguous octets (at most 65536) to write to, or NULL when there is no room now: NET_EV_ROOM
 * comes when it is worth another try. Begins a new large segment when the present one has less
 * than n left, so what is committed in one piece never straddles two. */
uint8_t *net_tx_reserve(struct net_stream *s, uint32_t n);
void net_tx_commit(struct net_stream *s, uint32_t n); /* at most what was reserved */

/* The same for several units of that length behind each other: segments had better begin with a unit, as
 * with what is committed alone. n is a multiple of unit. */
void net_tx_commit_units(struct net_stream *s, uint32_t n, uint32_t unit);

/* By reference, until net_tx_acked() has passed it; n at most 65536. False: no room, NET_EV_ROOM
 * comes. */
bool net_tx_lend(struct net_stream *s, const void *p, uint32_t n);

/* Octets that commit and lend will surely take now, in up to 20 pieces. When it is less than what the
 * caller wants (he has seen it by this call), NET_EV_ROOM comes when it has grown. 0 when not
 * connected. */
uint32_t net_tx_room(struct net_stream *s);

/* Stream offsets since the first octet sent. acked: up to where the stream needs no lent memory any
 * more, since the peer has acknowledged it or (sock) the kernel has a copy. */
uint64_t net_tx_queued(const struct net_stream *s);
uint64_t net_tx_acked(const struct net_stream *s);

/* Whether the peer has octets that its owner has not taken yet, as far as its window tells. Never for sock, where
 * the kernel looks after what was sent. */
bool net_peer_behind(const struct net_stream *s);

/* All octets lent from [p, p + n) that are not acknowledged are copied; the stream refers to that
 * memory no longer. */
void net_tx_unlend(struct net_stream *s, const void *p, uint64_t n);

/* --- end --- */

/* FIN behind all that is queued; receiving goes on. */
void net_shutdown(struct net_stream *s);

/* Lets go of the stream: with abort, a reset; without, what is queued is still delivered, then FIN,
 * in the background, for at most a minute. Lent memory is copied where needed. s is invalid after.
 * Its unread data is lost. */
void net_stream_close(struct net_stream *s, bool abort);

#endif
