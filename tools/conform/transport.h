/* SPDX-License-Identifier: MIT */
/* Where the player's octets go: the kernel's TCP, or streams of net.h. Nothing here blocks but
 * transport_turn(), and that for at most the time it is told. */
#ifndef UIW_CONFORM_TRANSPORT_H
#define UIW_CONFORM_TRANSPORT_H

#include <sys/socket.h>

#include "base/base.h"

struct tr_conn;

enum tr_state {
    TR_OPENING, /* our connect is on its way */
    TR_OPEN,
    TR_FIN,    /* the peer has sent FIN; what it sent before may still be read */
    TR_RESET,  /* reset, or given up */
    TR_FAILED, /* our connect was refused */
};

struct transport {
    const struct transport_ops *ops;
    struct sockaddr_storage peer; /* the tested end and its port */
    struct sockaddr_storage my;   /* ours towards it, any port; AF_UNSPEC until a dial succeeded */
    uint16_t my_port;             /* we listen there */
    uint32_t cut;                 /* not 0: writes are cut into pieces of so many octets */
};

struct transport_ops {
    struct tr_conn *(*dial)(struct transport *t); /* NULL: failed at once */
    bool (*listen)(struct transport *t);          /* on my_port, or any when that is 0 */
    struct tr_conn *(*accept)(struct transport *t);
    uint32_t (*read)(struct tr_conn *c, uint8_t *to, uint32_t max);
    uint32_t (*write)(struct tr_conn *c, const uint8_t *p, uint32_t n); /* how many it took */
    void (*fin)(struct tr_conn *c);
    enum tr_state (*state)(struct tr_conn *c);
    uint32_t (*emss)(struct tr_conn *c);         /* octets of a segment, or 0: not known */
    void (*drop)(struct tr_conn *c, bool reset); /* c is gone after */
    void (*turn)(struct transport *t, unsigned ms);
    uint64_t (*now)(struct transport *t); /* ms */
    /* Knobs of the wire below ("isn", "dup", "mss"); false: not here. */
    bool (*tune)(struct transport *t, const char *knob, uint32_t value);
    void (*close)(struct transport *t);
};

/* Kernel sockets. NULL: no memory. */
struct transport *transport_sock(void);

struct net;

/* What else turns in this process, and may touch the wire: the tested end of an in-memory wire. All of
 * it may be NULL. */
struct transport_guest {
    bool (*turn)(void *arg); /* whether it did anything */
    void (*idle)(void *arg); /* nobody did: time may go by */
    bool (*tune)(void *arg, const char *knob, uint32_t value);
    void *arg;
};

/* A net of net.h, which stays the caller's; guest may be NULL. */
struct transport *transport_net(struct net *net, const struct transport_guest *guest);

#endif
