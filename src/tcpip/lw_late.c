/* SPDX-License-Identifier: MIT */
/* Frames without payload that the link had no room for. lwIP sends an ACK or a reset once, and when many
 * connections have one to send at the same tick, links fill up: what is refused then would be lost, though
 * nothing on the way was. Payload lwIP keeps itself. */
#include <errno.h>

#include "tcpip/lw.h"

enum {
    LEN_MAX = 192,   /* all headers */
    COUNT_MAX = 4096 /* frames */
};

_Static_assert(sizeof(struct virtio_net_hdr) <= FRAME_HEAD, "it is kept in front of the frame");

bool lw_late_keep(struct lw_net *net)
{
    const struct link_tx *tx = &net->tx;
    if (tx->len > LEN_MAX || net->late_count == COUNT_MAX) {
        return false;
    }
    struct frame *f = frame_new(tx->len);
    if (f == NULL) {
        return false;
    }
    memcpy(f->buf, &tx->vh, sizeof tx->vh);
    for (uint32_t i = 1; i < tx->n; i++) {
        memcpy(f->data + f->len, tx->v[i].iov_base, tx->v[i].iov_len);
        f->len += (uint32_t)tx->v[i].iov_len;
    }
    struct frame **at = net->late_first == NULL ? &net->late_first : &net->late_last->next;
    *at = f;
    net->late_last = f;
    net->late_count++;
    return true;
}

static void drop_first(struct lw_net *net)
{
    struct frame *f = net->late_first;
    net->late_first = f->next;
    net->late_count--;
    frame_free(f);
}

bool lw_late_send(struct lw_net *net)
{
    struct link_tx *tx = &net->tx;
    while (net->late_first != NULL) {
        const struct frame *f = net->late_first;
        memcpy(&tx->vh, f->buf, sizeof tx->vh);
        tx->v[1].iov_base = f->data;
        tx->v[1].iov_len = tx->len = f->len;
        tx->n = 2;
        if (!lw_transmit(net)) {
            return false;
        }
        drop_first(net);
    }
    return true;
}

void lw_late_drop(struct lw_net *net)
{
    while (net->late_first != NULL) {
        drop_first(net);
    }
}
