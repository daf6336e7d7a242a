/* SPDX-License-Identifier: MIT */
/* Connection management: channels, listeners, the program's calls. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/conn.h"
#include "api/error.h"

struct uiw_event_channel {
    struct uiw_device *dev;
    struct notify notify;
    unsigned users; /* listeners and connections; under the loop's lock */
};

struct uiw_listener {
    struct uiw_device *dev;
    struct uiw_event_channel *channel;
    struct net_listener *net;
    void *user;
    struct list pending; /* conns in set-up or not fetched, by conn.on_listener */
    unsigned pending_cnt, backlog;
};

/* --- events --- */

int cm_errno_of(enum uiw_reason reason)
{
    switch (reason) {
    case UIW_REASON_NONE:
    case UIW_REASON_CLOSED: return 0;
    case UIW_REASON_REFUSED:
    case UIW_REASON_REJECTED: return -ECONNREFUSED;
    case UIW_REASON_UNREACHABLE: return -EHOSTUNREACH;
    case UIW_REASON_TIMEOUT: return -ETIMEDOUT;
    case UIW_REASON_RESET:
    case UIW_REASON_LOST: return -ECONNRESET;
    case UIW_REASON_LOCAL: return -ECONNABORTED;
    default: return -EPROTO;
    }
}

struct cm_event *cm_event_new(struct uiw_conn *c, enum uiw_event_type type,
                              const struct mpa_frame *peer)
{
    uint16_t len = peer != NULL ? peer->pd_len : 0;
    struct cm_event *e = calloc(1, sizeof *e + len);
    if (e == NULL) {
        return NULL;
    }
    list_init(&e->node);
    e->type = type;
    e->conn = c;
    e->user = c->user;
    e->private_len = len;
    if (type == UIW_EVENT_CONNECT_REQUEST) {
        e->user = c->listener->user;
        e->listener = c->listener;
    }
    if (peer != NULL) {
        e->ird = peer->enhanced ? peer->ird : MPA_DEPTH_UNSET;
        e->ord = peer->enhanced ? peer->ord : MPA_DEPTH_UNSET;
        memcpy(e->private_data, peer->pd, len);
    }
    return e;
}

static void event_fill(struct uiw_event *ev, const struct cm_event *e)
{
    *ev = (struct uiw_event){.type = e->type,
                             .conn = e->conn,
                             .user = e->user,
                             .listener = e->listener,
                             .reason = e->reason,
                             .status = e->status,
                             .layer = e->layer,
                             .etype = e->etype,
                             .code = e->code,
                             .ird = e->ird,
                             .ord = e->ord,
                             .private_len = e->private_len};
    memcpy(ev->text, e->text, sizeof ev->text);
    memcpy(ev->private_data, e->private_data, e->private_len);
}

bool cm_raise(struct uiw_conn *c, struct cm_event *e)
{
    if (c->orphan) {
        free(e);
        return false;
    }
    notify_raise(&c->channel->notify, &e->node);
    return true;
}

static bool speaks_of_conn(const struct list *node, const void *key)
{
    return ((const struct cm_event *)(const void *)node)->conn == key;
}

static void forget_events(struct uiw_conn *c)
{
    struct list *node;
    while ((node = notify_drop_if(&c->channel->notify, speaks_of_conn, c)) != NULL) {
        free(CONTAINER_OF(node, struct cm_event, node));
    }
}

/* --- channels --- */

int uiw_event_channel_create(struct uiw_device *dev, struct uiw_event_channel **out)
{
    struct uiw_event_channel *ch = calloc(1, sizeof *ch);
    if (ch == NULL) {
        return fail(ENOMEM, "uiw_event_channel_create: out of memory");
    }
    int err = device_notify_init(dev, &ch->notify);
    if (err != 0) {
        free(ch);
        return err;
    }
    ch->dev = dev;
    *out = ch;
    return 0;
}

int uiw_event_channel_destroy(struct uiw_event_channel *ch)
{
    unsigned left = device_notify_fini(ch->dev, &ch->notify, &ch->users);
    if (left > 0) {
        return fail(EBUSY, "uiw_event_channel_destroy: %u listeners or connections use it", left);
    }
    free(ch);
    return 0;
}

int uiw_event_channel_fd(const struct uiw_event_channel *ch)
{
    return ch->notify.fd;
}

/* Takes the connection off its listener's account; makes room for the next. */
static void leave_listener(struct uiw_conn *c)
{
    struct uiw_listener *l = c->listener;
    if (l != NULL) {
        list_remove(&c->on_listener);
        c->listener = NULL;
        l->pending_cnt--;
        cm_accept(l);
    }
}

void cm_forget(struct uiw_conn *c)
{
    c->orphan = true;
    /* Without a listener it is the listener's end that brought this about, and it counts itself. */
    if (c->listener != NULL) {
        c->channel->users--;
        leave_listener(c);
    }
}

int uiw_event_get(struct uiw_event_channel *ch, struct uiw_event *ev)
{
    struct list *node;
    int err = notify_get(&ch->notify, &node);
    if (err != 0) {
        return err;
    }
    struct cm_event *e = CONTAINER_OF(node, struct cm_event, node);
    event_fill(ev, e);
    free(e);
    if (ev->type == UIW_EVENT_CONNECT_REQUEST) {
        loop_lock(ch->dev->loop);
        leave_listener(ev->conn);
        loop_unlock(ch->dev->loop);
    }
    return 0;
}

/* --- listeners --- */

enum { ADDR_TEXT = INET6_ADDRSTRLEN + 12 };

static const char *addr_text(const struct sockaddr *addr, char text[ADDR_TEXT])
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;
    bool six = addr->sa_family == AF_INET6;
    char ip[INET6_ADDRSTRLEN] = "";
    inet_ntop(addr->sa_family, six ? (const void *)&in6->sin6_addr : (const void *)&in->sin_addr,
              ip, sizeof ip);
    snprintf(text, ADDR_TEXT, "%s port %u", ip, ntohs(six ? in6->sin6_port : in->sin_port));
    return text;
}

static int check_family(const char *who, const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET || addr->sa_family == AF_INET6
               ? 0
               : fail(EAFNOSUPPORT, "%s: address family %d, expected AF_INET or AF_INET6", who,
                      addr->sa_family);
}

int uiw_listen(struct uiw_event_channel *ch, const struct sockaddr *addr, int backlog, void *user,
               struct uiw_listener **out)
{
    int err = check_family("uiw_listen", addr);
    if (err == 0 && backlog < 1) {
        err = fail(EINVAL, "uiw_listen: backlog %d, expected at least 1", backlog);
    }
    if (err == 0) {
        err = device_alive(ch->dev, "uiw_listen");
    }
    if (err != 0) {
        return err;
    }
    struct uiw_listener *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return fail(ENOMEM, "uiw_listen: out of memory");
    }
    l->dev = ch->dev;
    l->channel = ch;
    l->user = user;
    l->backlog = (unsigned)backlog;
    list_init(&l->pending);
    loop_lock(l->dev->loop);
    err = net_listen(l->dev->net, addr, (int)l->backlog, l, &l->net);
    if (err == 0) {
        ch->users++;
        device_ref(l->dev);
    }
    loop_unlock(l->dev->loop);
    if (err != 0) {
        char at[ADDR_TEXT];
        free(l);
        return fail(-err, "uiw_listen: %s: %s", addr_text(addr, at), strerror(-err));
    }
    *out = l;
    return 0;
}

int uiw_listener_addr(const struct uiw_listener *l, struct sockaddr_storage *out)
{
    loop_lock(l->dev->loop);
    net_listener_addr(l->net, out);
    loop_unlock(l->dev->loop);
    return 0;
}

int uiw_listener_destroy(struct uiw_listener *l)
{
    struct uiw_device *dev = l->dev;
    struct list *node;
    loop_lock(dev->loop);
    while ((node = list_shift(&l->pending)) != NULL) {
        struct uiw_conn *c = CONTAINER_OF(node, struct uiw_conn, on_listener);
        c->listener = NULL; /* no leave_listener(): it would accept anew */
        c->orphan = true;
        l->channel->users--;
        forget_events(c);
        conn_kill(c, UIW_REASON_LOCAL, "the listener was destroyed");
        conn_maybe_free(c);
    }
    net_listener_close(l->net);
    l->channel->users--;
    device_unref(dev);
    loop_unlock(dev->loop);
    free(l);
    return 0;
}

static void responder_cfg(const struct uiw_device *dev, struct mpa_cfg *cfg)
{
    *cfg = (struct mpa_cfg){.markers = dev->spec.markers,
                            .crc = dev->spec.crc,
                            .rev = dev->spec.rev,
                            .rtr = MPA_RTR_WRITE | MPA_RTR_READ | MPA_RTR_SEND,
                            .ird = dev->spec.ird,
                            .ord = dev->spec.ord};
}

void cm_accept(struct uiw_listener *l)
{
    while (l->pending_cnt < l->backlog) {
        struct net_stream *s = net_accept(l->net);
        if (s == NULL) {
            return;
        }
        struct uiw_conn *c = l->dev->failed ? NULL : conn_new(l->dev, l->channel);
        if (c == NULL) {
            net_stream_close(s, true);
            continue;
        }
        struct mpa_cfg cfg;
        responder_cfg(l->dev, &cfg);
        mpa_setup_init(&c->setup->mpa, false, &cfg);
        c->stream = s;
        c->state = CONN_SETUP;
        c->listener = l;
        l->channel->users++;
        l->pending_cnt++;
        list_append(&l->pending, &c->on_listener);
        net_stream_set_user(s, c);
        conn_set_deadline(c, l->dev->spec.setup_s * 1000u);
        /* What came before the stream had a user is not told again. */
        net_stream_again(s, NET_EV_DATA);
    }
}

/* --- the program's calls --- */

/* Judges the parts of param that both roles share. room: octets that the frame has for private data. */
static int check_param(const char *who, const struct uiw_device *dev,
                       const struct uiw_conn_param *p, uint32_t room)
{
    if (p->private_len > room) {
        return fail(EINVAL, "%s: %u octets of private data, the limit is %u", who, p->private_len,
                    room);
    }
    if (p->private_len > 0 && p->private_data == NULL) {
        return fail(EINVAL, "%s: private_len %u without private_data", who, p->private_len);
    }
    if ((p->rtr & ~(unsigned)(UIW_RTR_SEND | UIW_RTR_WRITE | UIW_RTR_READ)) != 0) {
        return fail(EINVAL, "%s: rtr 0x%x, expected UIW_RTR_*", who, p->rtr);
    }
    if (p->ird > dev->spec.ird || p->ord > dev->spec.ord || p->ird < UIW_DEPTH_NONE ||
        p->ord < UIW_DEPTH_NONE) {
        return fail(EINVAL, "%s: ird %d, ord %d, the device's limits are %u and %u", who, p->ird,
                    p->ord, dev->spec.ird, dev->spec.ord);
    }
    return 0;
}

static const struct uiw_conn_param default_param;

static uint16_t depth(int asked, uint16_t standard)
{
    if (asked == UIW_DEPTH_NONE) {
        return 0;
    }
    return asked == UIW_DEPTH_DEFAULT ? standard : (uint16_t)asked;
}

static uint32_t private_room(const struct uiw_device *dev)
{
    return dev->spec.rev >= MPA_REV_2 ? MPA_PD_MAX - MPA_ENHANCED_LEN : MPA_PD_MAX;
}

static socklen_t addr_len(const struct sockaddr *a)
{
    return a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

_Static_assert(UIW_RTR_SEND == (int)MPA_RTR_SEND && UIW_RTR_WRITE == (int)MPA_RTR_WRITE &&
                   UIW_RTR_READ == (int)MPA_RTR_READ,
               "the API's values are those of mpa");

static void fill_setup(struct uiw_conn *c, const struct sockaddr *addr,
                       const struct uiw_conn_param *p)
{
    struct conn_setup *s = c->setup;
    const struct devspec *spec = &c->dev->spec;
    struct mpa_cfg cfg = {.markers = spec->markers,
                          .crc = spec->crc,
                          .rev = spec->rev,
                          .p2p = p->p2p && spec->rev >= MPA_REV_2,
                          .rtr = (uint8_t)(p->rtr != 0 ? p->rtr : MPA_RTR_WRITE | MPA_RTR_READ),
                          .ird = depth(p->ird, spec->ird),
                          .ord = depth(p->ord, spec->ord)};
    mpa_setup_init(&s->mpa, true, &cfg);
    memcpy(&s->remote, addr, addr_len(addr));
    if (p->local != NULL) {
        memcpy(&s->local, p->local, addr_len(p->local));
        s->has_local = true;
    }
    s->pd_len = p->private_len;
    if (p->private_len > 0) {
        memcpy(s->pd, p->private_data, p->private_len);
    }
}

static void bind_qp(struct uiw_conn *c, struct uiw_qp *qp)
{
    c->qp = qp;
    qp->conn = c;
}

static bool qp_is_free(const struct uiw_qp *qp)
{
    return qp->conn == NULL && qp_state(qp) == UIW_QP_IDLE;
}

/* With the lock held. */
static int dial(struct uiw_event_channel *ch, struct uiw_qp *qp, const struct sockaddr *addr,
                const struct uiw_conn_param *p, struct uiw_conn **out)
{
    if (!qp_is_free(qp)) {
        return fail(EINVAL, "uiw_connect: QP %u is not idle: %s", qp->num,
                    uiw_qp_state_text(qp_state(qp)));
    }
    struct uiw_conn *c = conn_new(qp->dev, ch);
    if (c == NULL) {
        return fail(ENOMEM, "uiw_connect: out of memory");
    }
    c->initiator = true;
    c->user = p->user;
    fill_setup(c, addr, p);
    int err = conn_dial(c);
    if (err != 0) {
        c->orphan = true;
        conn_maybe_free(c);
        char to[ADDR_TEXT];
        return fail(-err, "uiw_connect: %s: %s", addr_text(addr, to), strerror(-err));
    }
    bind_qp(c, qp);
    ch->users++;
    *out = c;
    return 0;
}

int uiw_connect(struct uiw_event_channel *ch, struct uiw_qp *qp, const struct sockaddr *addr,
                const struct uiw_conn_param *param, struct uiw_conn **out)
{
    const struct uiw_conn_param *p = param != NULL ? param : &default_param;
    int err = device_alive(qp->dev, "uiw_connect");
    if (err == 0) {
        err = check_family("uiw_connect", addr);
    }
    if (err == 0 && p->local != NULL) {
        err = check_family("uiw_connect: local", p->local);
    }
    if (err == 0) {
        err = check_param("uiw_connect", qp->dev, p, private_room(qp->dev));
    }
    if (err == 0 && ch->dev != qp->dev) {
        err = fail(EINVAL, "uiw_connect: channel and QP are not of one device");
    }
    if (err != 0) {
        return err;
    }
    loop_lock(qp->dev->loop);
    err = dial(ch, qp, addr, p, out);
    loop_unlock(qp->dev->loop);
    return err;
}

static int may_answer(const struct uiw_conn *c, const char *who)
{
    if (c->initiator || c->state == CONN_OPEN) {
        return fail(EINVAL, "%s: not an unanswered connection request", who);
    }
    if (c->state != CONN_DECIDE || c->stream == NULL) {
        return fail(ENOTCONN, "%s: the peer has gone", who);
    }
    return 0;
}

/* With the lock held. */
static int answer(struct uiw_conn *c, struct uiw_qp *qp, const struct uiw_conn_param *p)
{
    int err = may_answer(c, "uiw_accept");
    if (err != 0) {
        return err;
    }
    uint32_t room = c->setup->mpa.peer.enhanced ? MPA_PD_MAX - MPA_ENHANCED_LEN : MPA_PD_MAX;
    err = check_param("uiw_accept", c->dev, p, room);
    if (err != 0) {
        return err;
    }
    if (!qp_is_free(qp)) {
        return fail(EINVAL, "uiw_accept: QP %u is not idle: %s", qp->num,
                    uiw_qp_state_text(qp_state(qp)));
    }
    bind_qp(c, qp);
    c->user = p->user;
    const struct devspec *spec = &c->dev->spec;
    if (!conn_setup_accept(c, depth(p->ird, spec->ird), depth(p->ord, spec->ord), p->private_data,
                           p->private_len)) {
        return fail(ENOTCONN, "uiw_accept: the connection was lost");
    }
    return 0;
}

int uiw_accept(struct uiw_conn *conn, struct uiw_qp *qp, const struct uiw_conn_param *param)
{
    if (conn->dev != qp->dev) {
        return fail(EINVAL, "uiw_accept: connection and QP are not of one device");
    }
    loop_lock(conn->dev->loop);
    int err = answer(conn, qp, param != NULL ? param : &default_param);
    loop_unlock(conn->dev->loop);
    return err;
}

int uiw_reject(struct uiw_conn *conn, const void *private_data, uint32_t private_len)
{
    loop_lock(conn->dev->loop);
    int err = may_answer(conn, "uiw_reject");
    if (err == 0) {
        struct uiw_conn_param p = default_param;
        p.private_data = private_data;
        p.private_len = private_len;
        bool enhanced = conn->setup->mpa.peer.enhanced;
        err = check_param("uiw_reject", conn->dev, &p,
                          enhanced ? MPA_PD_MAX - MPA_ENHANCED_LEN : MPA_PD_MAX);
    }
    if (err == 0) {
        conn_setup_reject(conn, private_data, private_len);
    }
    loop_unlock(conn->dev->loop);
    return err;
}

int uiw_disconnect(struct uiw_conn *conn)
{
    loop_lock(conn->dev->loop);
    if (conn->state == CONN_OPEN) {
        conn_begin_close(conn);
    } else if (conn->state < CONN_OPEN) {
        conn_kill(conn, UIW_REASON_LOCAL, "given up by this program");
    }
    loop_unlock(conn->dev->loop);
    return 0;
}

int uiw_abort(struct uiw_conn *conn)
{
    loop_lock(conn->dev->loop);
    conn_kill(conn, UIW_REASON_LOCAL, "reset by this program");
    loop_unlock(conn->dev->loop);
    return 0;
}

int uiw_conn_destroy(struct uiw_conn *conn)
{
    struct uiw_device *dev = conn->dev;
    loop_lock(dev->loop);
    conn->orphan = true;
    leave_listener(conn);
    forget_events(conn);
    conn->channel->users--;
    if (conn->state != CONN_CLOSING && conn->state != CONN_DRAIN) {
        conn_kill(conn, UIW_REASON_LOCAL, "let go of by this program");
    }
    if (conn->qp != NULL && conn->state != CONN_CLOSING) {
        conn_end(conn, UIW_REASON_LOCAL, NULL, "let go of by this program");
        conn->qp->conn = NULL;
        conn->qp = NULL;
    }
    conn_maybe_free(conn);
    loop_unlock(dev->loop);
    return 0;
}

int uiw_conn_query(const struct uiw_conn *conn, struct uiw_conn_info *info)
{
    loop_lock(conn->dev->loop);
    const struct mpa_agreed *a = &conn->agreed;
    *info = (struct uiw_conn_info){.mpa_revision = a->rev,
                                   .crc = a->crc,
                                   .tx_markers = a->tx_markers,
                                   .rx_markers = a->rx_markers,
                                   .enhanced = a->enhanced,
                                   .p2p = a->p2p,
                                   .rtr = a->p2p ? a->rtr : 0,
                                   .ird = a->ird,
                                   .ord = a->ord,
                                   .peer_ird = a->peer_ird,
                                   .peer_ord = a->peer_ord,
                                   .rx_octets = conn->rx_octets};
    if (conn->stream != NULL) {
        net_stream_local(conn->stream, &info->local);
        net_stream_remote(conn->stream, &info->remote);
        info->emss = net_emss(conn->stream);
        info->mulpdu = mpa_mulpdu(info->emss, a->tx_markers);
        info->tx_octets = net_tx_queued(conn->stream);
    }
    loop_unlock(conn->dev->loop);
    return 0;
}

const char *uiw_event_type_text(enum uiw_event_type type)
{
    static const char *const text[] = {"connect request", "established", "rejected",
                                       "connect error", "disconnected"};
    return (size_t)type < ARRAY_LEN(text) ? text[type] : "unknown event";
}
