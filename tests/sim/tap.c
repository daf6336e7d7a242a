/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mpa/mpa_rx.h"
#include "tcpip/vnet.h"

static void take_data(struct tap *t, uint32_t seq, const uint8_t *p, uint32_t n)
{
    uint32_t at = seq - t->first;
    if (at + n <= t->len) {
        t->again++;
        return;
    }
    if (at > t->len || at + n > TAP_ROOM || t->segments == TAP_SEGMENTS) {
        fail_msg("tap: %u octets at %u, %u are there", n, at, t->len);
    }
    t->segment[t->segments++] = t->len;
    memcpy(t->octets + at, p, n);
    t->len = at + n;
}

static void on_frame(void *arg, const uint8_t *f, uint32_t len)
{
    struct tap *t = arg;
    struct vnet_tcp tcp;
    if (!vnet_find_tcp(f, len, len, &tcp)) {
        return;
    }
    uint8_t flags = f[tcp.l4 + 13];
    uint32_t seq = get_be32(f + tcp.l4 + 4);
    if ((flags & VNET_SYN) != 0) {
        t->first = seq + 1;
        t->len = t->segments = t->again = 0;
        t->syn = true;
        t->fin = t->rst = false;
        t->least_window = UINT32_MAX;
        return;
    }
    t->rst |= (flags & VNET_RST) != 0;
    t->fin |= (flags & VNET_FIN) != 0;
    t->least_window = min_u32(t->least_window, get_be16(f + tcp.l4 + 14));
    if (tcp.end > tcp.pay && t->syn) {
        take_data(t, seq, f + tcp.pay, tcp.end - tcp.pay);
    }
}

struct tap *tap_open(struct net *net)
{
    struct tap *t = calloc(1, sizeof *t);
    assert_non_null(t);
    net_wire_tap(net, on_frame, t);
    return t;
}

void tap_close(struct net *net, struct tap *t)
{
    net_wire_tap(net, NULL, NULL);
    free(t);
}

static void take_fpdu(struct tap *t, uint32_t at, const struct mpa_ulpdu *m)
{
    if (t->fpdus == TAP_FPDUS) {
        fail_msg("tap: too many FPDUs");
    }
    struct tap_fpdu *f = &t->fpdu[t->fpdus++];
    *f = (struct tap_fpdu){.at = at, .size = m->used, .len = m->len};
    assert_false(ddp_seg_parse(cursor_of(m->v, m->cnt), &f->seg).bad);
    f->opcode = rdmap_opcode(f->seg.hdr.ulp);
}

void tap_parse(struct tap *t, bool is_reply, bool markers, bool crc)
{
    static struct mpa_ulpdu m;
    struct span v = {t->octets, t->len};
    struct cursor cur = cursor_of(&v, 1);
    enum mpa_fault fault = MPA_FAULT_NONE;
    assert_int_equal(mpa_frame_unpack(&cur, is_reply, &t->frame, &fault), MPA_PARSE_OK);
    t->frame_len = t->len - cur.left;
    t->fpdus = 0;
    struct mpa_rx rx;
    mpa_rx_init(&rx, markers, crc);
    for (;;) {
        struct verdict why;
        uint32_t at = t->len - cur.left;
        enum mpa_rx_result got = mpa_rx_next(&rx, &cur, &m, &why);
        assert_int_not_equal(got, MPA_RX_BAD);
        if (got == MPA_RX_MORE) {
            break;
        }
        take_fpdu(t, at, &m);
    }
    t->rest = cur.left;
}
