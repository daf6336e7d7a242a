/* SPDX-License-Identifier: MIT */
/* dump_gen FILE MEGABYTES SEGMENT [crc] [markers]: writes a capture for measuring uiw-dump: one
 * connection, Writes of 1 MiB with a Send behind each, in TCP segments of SEGMENT octets, and the ACKs
 * of the other end. */
#include <stdio.h>
#include <stdlib.h>

#include "ddp/ddp_tx.h"
#include "mpa/mpa_setup.h"
#include "mpa/mpa_tx.h"
#include "rdmap/rdmap_hdr.h"

enum { HEADERS = 14 + 20 + 20, MESSAGE = 1 << 20, ACK_EVERY = 16, MSS_MAX = 65000 };

struct gen {
    FILE *f;
    uint64_t written, want, ns;
    uint32_t seq[2];
    uint32_t segment, sent;
    struct mpa_tx tx;
    uint8_t buf[2 * MSS_MAX + 65536]; /* the stream, not yet in segments */
    uint32_t n;
};

static uint64_t add_up(const uint8_t *p, uint32_t n, uint64_t sum)
{
    for (; n > 1; n -= 2, p += 2) {
        sum += get_be16(p);
    }
    return n > 0 ? sum + (uint64_t)p[0] * 256 : sum;
}

static uint16_t fold(uint64_t sum)
{
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

static void headers(struct gen *g, unsigned dir, uint8_t flags, uint32_t len, uint8_t *p)
{
    memset(p, 0, HEADERS);
    p[12] = 0x08;
    uint8_t *ip = p + 14;
    ip[0] = 0x45;
    put_be16(ip + 2, 40 + len);
    ip[8] = 64;
    ip[9] = 6;
    put_be32(ip + 12, 0x0a4d0001 + dir);
    put_be32(ip + 16, 0x0a4d0002 - dir);
    put_be16(ip + 10, fold(add_up(ip, 20, 0)));
    uint8_t *tcp = ip + 20;
    put_be16(tcp, dir == 0 ? 40000 : 18515);
    put_be16(tcp + 2, dir == 0 ? 18515 : 40000);
    put_be32(tcp + 4, g->seq[dir]);
    put_be32(tcp + 8, g->seq[1 - dir]);
    tcp[12] = 5 << 4;
    tcp[13] = flags;
    put_be16(tcp + 14, 0xffff);
}

static void frame(struct gen *g, unsigned dir, uint8_t flags, const uint8_t *data, uint32_t len)
{
    uint8_t p[16 + HEADERS];
    uint8_t *tcp = p + 16 + 34;
    headers(g, dir, flags, len, p + 16);
    uint64_t sum = add_up(p + 16 + 26, 8, 6 + 20 + len);
    sum = add_up(tcp, 20, sum);
    put_be16(tcp + 16, fold(add_up(data, len, sum)));
    g->ns += 1000;
    put_le32(p, (uint32_t)(1700000000 + g->ns / 1000000000));
    put_le32(p + 4, (uint32_t)(g->ns % 1000000000 / 1000));
    put_le32(p + 8, HEADERS + len);
    put_le32(p + 12, HEADERS + len);
    fwrite(p, 1, sizeof p, g->f);
    fwrite(data, 1, len, g->f);
    g->written += sizeof p + len;
    g->seq[dir] += len + ((flags & 3) != 0);
}

static void flush(struct gen *g, bool all)
{
    uint32_t at = 0;
    while (g->n - at >= g->segment || (all && at < g->n)) {
        uint32_t len = min_u32(g->segment, g->n - at);
        frame(g, 0, 0x18, g->buf + at, len);
        if (++g->sent % ACK_EVERY == 0) {
            frame(g, 1, 0x10, g->buf, 0);
        }
        at += len;
    }
    memmove(g->buf, g->buf + at, g->n - at);
    g->n -= at;
}

static void message(struct gen *g, struct ddp_msg *m, const uint8_t *data)
{
    /* With Markers or without, an FPDU fits the segment, as a sender would have it. */
    uint32_t mulpdu = mpa_mulpdu(g->segment, g->tx.markers);
    while (!m->done) {
        uint8_t hdr[DDP_HDR_MAX];
        uint32_t hlen;
        uint32_t off = m->off;
        uint32_t n = ddp_tx_next(m, mulpdu, hdr, &hlen);
        struct span v = {data + off, n};
        struct cursor payload = cursor_of(&v, 1);
        struct mpa_out u = {.hdr = hdr, .hlen = hlen, .payload = &payload, .plen = n};
        g->n += mpa_tx_copy(&g->tx, &u, g->buf + g->n);
        flush(g, false);
    }
}

static void set_up(struct gen *g)
{
    struct mpa_frame f = {.rev = 2, .enhanced = true, .ird = 16, .ord = 16};
    uint8_t b[MPA_FRAME_MAX] = {0};
    f.crc = g->tx.crc;
    f.markers = g->tx.markers;
    frame(g, 0, 0x02, b, 0);
    frame(g, 1, 0x12, b, 0);
    frame(g, 0, 0x18, b, mpa_frame_pack(&f, b));
    f.reply = true;
    frame(g, 1, 0x18, b, mpa_frame_pack(&f, b));
}

int main(int argc, char **argv)
{
    static struct gen g;
    static uint8_t data[MESSAGE];
    static const uint8_t head[24] = {0xd4, 0xc3,        0xb2, 0xa1, 2, 0,
                                     4,    [16] = 0xff, 0xff, 0xff, 0, 1};
    if (argc < 4 || (g.f = fopen(argv[1], "w")) == NULL) {
        fprintf(stderr, "usage: dump_gen FILE MEGABYTES SEGMENT [crc] [markers]\n");
        return 2;
    }
    g.want = strtoull(argv[2], NULL, 0) * 1000000;
    g.segment = min_u32((uint32_t)strtoul(argv[3], NULL, 0), MSS_MAX);
    for (int i = 4; i < argc; i++) {
        g.tx.crc |= strcmp(argv[i], "crc") == 0;
        g.tx.markers |= strcmp(argv[i], "markers") == 0;
    }
    for (uint32_t i = 0; i < MESSAGE; i++) {
        data[i] = (uint8_t)(i * 7 + i / 256);
    }
    fwrite(head, 1, sizeof head, g.f);
    set_up(&g);
    for (uint32_t msn = 1; g.written < g.want; msn++) {
        struct ddp_msg w = {.tagged = true,
                            .ulp = rdmap_control(RDMAP_WRITE),
                            .stag = 0x1234,
                            .to = 0x10000,
                            .len = MESSAGE};
        struct ddp_msg s = {.ulp = rdmap_control(RDMAP_SEND), .msn = msn, .len = 16};
        message(&g, &w, data);
        message(&g, &s, data);
    }
    flush(&g, true);
    return fclose(g.f) == 0 ? 0 : 1;
}
