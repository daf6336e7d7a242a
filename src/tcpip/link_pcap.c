/* SPDX-License-Identifier: MIT */
/* Any Ethernet interface through libpcap, with a MAC address and IP addresses of our own beside the
 * kernel's. There is no virtio-net header here: segments are cut and summed by us. */
#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tcpip/iface.h"
#include "tcpip/vnet.h"

enum {
    RX_BUFFER = 16 << 20,
    TX_BUFFER = 4 << 20,
    FILTER_TEXT = 160,
};

struct link_pcap {
    struct link base;
    struct iface iface;
    pcap_t *pcap;
    bool full;
    uint64_t lost, cut_short;
    struct frame **out; /* of the rx() that runs */
    uint32_t count;
    uint8_t whole[VNET_TAG + FRAME_ROOM], piece[VNET_TAG + FRAME_ROOM];
};

static struct link_pcap *pcap_of(struct link *l)
{
    return CONTAINER_OF(l, struct link_pcap, base);
}

/* --- receive --- */

/* A frame that the kernel of this host sends over a veth, or has put together from several (GRO), comes with
 * the sum of the pseudo header where the checksum belongs, and libpcap does not tell. Just that value
 * is taken for a frame that never was on a wire, or was checked when it left it. Damage to a frame
 * with a true checksum leads to that value as rarely as to a right one. */
static bool sum_is_partial(const struct frame *f)
{
    struct vnet_tcp t;
    return vnet_find_tcp(f->data, f->len, f->len, &t) && vnet_tcp_sum_partial(f->data, &t);
}

static void on_frame(u_char *user, const struct pcap_pkthdr *h, const u_char *d)
{
    struct link_pcap *p = (struct link_pcap *)(void *)user;
    if (h->caplen != h->len || h->len < VNET_ETH || h->len > FRAME_MAX) {
        p->cut_short++;
        return;
    }
    struct frame *f = frame_new(h->len);
    if (f == NULL) {
        return;
    }
    memcpy(f->data, d, h->len);
    f->len = h->len;
    if (p->iface.vlan != 0) {
        if (!vnet_untag(f->data, f->len, p->iface.vlan)) {
            frame_free(f); /* the filter lets none through without it */
            return;
        }
        f->data += VNET_TAG;
        f->len -= VNET_TAG;
    }
    f->sum_ok = sum_is_partial(f);
    p->out[p->count++] = f;
}

static uint32_t pcap_rx(struct link *l, struct frame **out, uint32_t max)
{
    struct link_pcap *p = pcap_of(l);
    p->out = out;
    p->count = 0;
    /* An error here is an interface that is down or gone; iface_follow() finds out which. */
    if (l->up) {
        (void)pcap_dispatch(p->pcap, (int)max, on_frame, (u_char *)p);
    }
    return p->count;
}

/* --- send --- */

/* 0, or a negative errno. There is room for a tag in front of d, and the frame is of no use afterwards. */
static int inject(struct link_pcap *p, uint8_t *d, uint32_t len)
{
    if (p->iface.vlan != 0) {
        d -= VNET_TAG;
        len += VNET_TAG;
        memmove(d, d + VNET_TAG, VNET_TAG_AT);
        vnet_put_tag(d + VNET_TAG_AT, p->iface.vlan);
    }
    errno = 0;
    if (pcap_inject(p->pcap, d, len) >= 0) {
        return 0;
    }
    return errno == ENOBUFS || errno == ENOMEM || errno == EWOULDBLOCK ? -EAGAIN
           : errno != 0                                                ? -errno
                                                                       : -EIO;
}

/* What does not fit behind the first piece is lost, as on any wire. */
static int inject_pieces(struct link_pcap *p, const struct vnet_tcp *t, uint32_t gso)
{
    uint32_t pay = t->end - t->pay;
    uint8_t *piece = p->piece + VNET_TAG;
    for (uint32_t off = 0; off < pay; off += gso) {
        uint32_t n = vnet_piece(p->whole + VNET_TAG, t, off, min_u32(pay - off, gso), piece);
        int r = inject(p, piece, n);
        if (r != 0) {
            p->lost += off > 0;
            return off > 0 ? 0 : r;
        }
    }
    return 0;
}

static int transmit(struct link_pcap *p, const struct link_tx *tx)
{
    uint8_t *whole = p->whole + VNET_TAG;
    uint32_t len = 0;
    for (uint32_t i = 1; i < tx->n; i++) {
        memcpy(whole + len, tx->v[i].iov_base, tx->v[i].iov_len);
        len += (uint32_t)tx->v[i].iov_len;
    }
    struct vnet_tcp t;
    if ((tx->vh.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) == 0 || !vnet_find_tcp(whole, len, len, &t)) {
        return inject(p, whole, len);
    }
    if (tx->vh.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
        return inject_pieces(p, &t, tx->vh.gso_size);
    }
    vnet_put_sums(whole, &t);
    return inject(p, whole, len);
}

static int pcap_tx(struct link *l, struct link_tx *tx)
{
    struct link_pcap *p = pcap_of(l);
    int r = l->up ? transmit(p, tx) : -ENETDOWN;
    p->full |= r == -EAGAIN;
    p->lost += r != 0 && r != -EAGAIN;
    return r;
}

static bool pcap_ready(struct link *l)
{
    struct link_pcap *p = pcap_of(l);
    struct pollfd fd = {l->fd, POLLOUT, 0};
    if (p->full && poll(&fd, 1, 0) > 0) {
        p->full = false;
    }
    return !p->full;
}

static void pcap_tick(struct link *l)
{
    struct link_pcap *p = pcap_of(l);
    p->full = false;
    iface_follow(&p->iface, l);
}

static int pcap_due(const struct link *l)
{
    const struct link_pcap *p = CONTAINER_OF(l, const struct link_pcap, base);
    return p->full ? 1 : -1;
}

static bool pcap_link_sleep(struct link *l, bool want_room)
{
    (void)l;
    (void)want_room;
    return true;
}

static void pcap_woken(struct link *l)
{
    (void)l;
}

static void pcap_link_close(struct link *l)
{
    struct link_pcap *p = pcap_of(l);
    struct pcap_stat st = {0};
    if (p->pcap != NULL) {
        (void)pcap_stats(p->pcap, &st);
        pcap_close(p->pcap);
    }
    log_line(LOG_DEBUG, "pcap %s: %llu frames lost, %u not received in time, %llu too long",
             p->iface.name, (unsigned long long)p->lost, st.ps_drop,
             (unsigned long long)p->cut_short);
    iface_close(&p->iface);
    free(p);
}

static const struct link_ops pcap_link_ops = {
    .rx = pcap_rx,
    .tx = pcap_tx,
    .tx_ready = pcap_ready,
    .sleep = pcap_link_sleep,
    .woken = pcap_woken,
    .tick = pcap_tick,
    .due_ms = pcap_due,
    .close = pcap_link_close,
};

/* --- opening --- */

static int activation_fault(struct link_pcap *p, int r, char err[NET_ERR_TEXT])
{
    const struct iface *i = &p->iface;
    switch (r) {
    case PCAP_ERROR_PERM_DENIED:
    case PCAP_ERROR_PROMISC_PERM_DENIED:
        return iface_fault(i, err, EPERM, "no permission; it takes root or CAP_NET_RAW");
    case PCAP_ERROR_NO_SUCH_DEVICE: return iface_fault(i, err, ENODEV, "no such interface");
    case PCAP_ERROR_IFACE_NOT_UP: return iface_fault(i, err, ENETDOWN, "the interface is down");
    default: return iface_fault(i, err, EIO, "%s", pcap_geterr(p->pcap));
    }
}

/* Promiscuous, since the interface would filter a MAC address out that is not its own. */
static int activate(struct link_pcap *p, char err[NET_ERR_TEXT])
{
    char text[PCAP_ERRBUF_SIZE];
    const struct iface *i = &p->iface;
    p->pcap = pcap_create(i->name, text);
    if (p->pcap == NULL) {
        return iface_fault(i, err, ENOMEM, "%.150s", text);
    }
    if (pcap_set_snaplen(p->pcap, FRAME_ROOM) != 0 || pcap_set_promisc(p->pcap, 1) != 0 ||
        pcap_set_immediate_mode(p->pcap, 1) != 0 || pcap_set_buffer_size(p->pcap, RX_BUFFER) != 0) {
        return iface_fault(i, err, EINVAL, "%s", pcap_geterr(p->pcap));
    }
    int r = pcap_activate(p->pcap);
    if (r < 0) {
        return activation_fault(p, r, err);
    }
    if (pcap_datalink(p->pcap) != DLT_EN10MB) {
        return iface_fault(i, err, ENOTTY, "no Ethernet, but %s",
                           pcap_datalink_val_to_name(pcap_datalink(p->pcap)));
    }
    if (pcap_setnonblock(p->pcap, 1, text) != 0) {
        return iface_fault(i, err, EIO, "%.150s", text);
    }
    p->base.fd = pcap_get_selectable_fd(p->pcap);
    return p->base.fd >= 0 ? 0 : iface_fault(i, err, ENOTTY, "has no descriptor to wait on");
}

/* What we have sent ourselves and what is for others stays outside. */
static int filter(struct link_pcap *p, const uint8_t mac[6], char err[NET_ERR_TEXT])
{
    char text[FILTER_TEXT], tag[20] = "";
    struct bpf_program code;
    if (p->iface.vlan != 0) {
        snprintf(tag, sizeof tag, "vlan %u and ", p->iface.vlan);
    }
    snprintf(
        text, sizeof text,
        "(ether dst %02x:%02x:%02x:%02x:%02x:%02x or ether multicast) and %s(ip or arp or ip6)",
        mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], tag);
    int r = pcap_setdirection(p->pcap, PCAP_D_IN);
    if (r == 0 && pcap_compile(p->pcap, &code, text, 1, PCAP_NETMASK_UNKNOWN) == 0) {
        r = pcap_setfilter(p->pcap, &code);
        pcap_freecode(&code);
        if (r == 0) {
            return 0;
        }
    }
    return iface_fault(&p->iface, err, EIO, "filter: %s", pcap_geterr(p->pcap));
}

int link_pcap_open(const struct net_cfg *cfg, const uint8_t mac[6], struct link **out,
                   char err[NET_ERR_TEXT])
{
    struct link_pcap *p = calloc(1, sizeof *p);
    if (p == NULL) {
        snprintf(err, NET_ERR_TEXT, "pcap %.80s: out of memory", cfg->name);
        return -ENOMEM;
    }
    p->base.ops = &pcap_link_ops;
    p->base.fd = -1;
    p->base.up = true;
    p->iface.fd = -1;
    int r = iface_open(&p->iface, cfg, "ip link shows what there is", err);
    if (r == 0) {
        p->base.mtu = iface_mtu(&p->iface);
        r = activate(p, err);
    }
    if (r == 0) {
        r = filter(p, mac, err);
    }
    if (r != 0) {
        pcap_link_close(&p->base);
        return r;
    }
    int size = TX_BUFFER;
    (void)setsockopt(pcap_fileno(p->pcap), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    *out = &p->base;
    return 0;
}
