/* SPDX-License-Identifier: MIT */
/* What arrived out of order. lwIP keeps it as a list of segments, one for each frame, and walks that for
 * every frame more; so a peer could buy much time for little. Here neighbours are joined at the end of
 * a batch, so that the list is as long as there are holes, and the number of holes has a limit. */
#include "tcpip/lw.h"
#include "tcpip/net_test.h"

enum {
    SEGMENTS_MAX = 512, /* far more holes than losses leave in a window */
    PIECES_MAX = 64,    /* pbufs of a segment */
};

bool lw_oos_admit(struct lw_stream *s)
{
    lw_stream_dirty(s);
    if (s->oos >= SEGMENTS_MAX) {
        return false; /* the peer has to send it again, when there are fewer holes */
    }
    s->oos++;
    return true;
}

static bool joins(const struct tcp_seg *a, const struct tcp_seg *b)
{
    return (TCPH_FLAGS(a->tcphdr) & TCP_FIN) == 0 &&
           a->tcphdr->seqno + a->len == b->tcphdr->seqno && a->len + b->len <= FRAME_MAX &&
           a->p->tot_len == a->len && b->p->tot_len == b->len;
}

static uint32_t pieces(const struct pbuf *p, uint32_t most)
{
    uint32_t n = 0;
    for (; p != NULL && n <= most; p = p->next) {
        n++;
    }
    return n;
}

/* Takes over b's memory and frees b. */
static void join(struct tcp_seg *a, struct tcp_seg *b)
{
    if ((TCPH_FLAGS(b->tcphdr) & TCP_FIN) != 0) {
        TCPH_SET_FLAG(a->tcphdr, TCP_FIN);
    }
    pbuf_cat(a->p, b->p);
    a->len = (u16_t)(a->len + b->len);
    a->next = b->next;
    b->p = NULL;
    tcp_seg_free(b);
}

void lw_oos_tidy(struct lw_stream *s)
{
    uint32_t count = 0, have = 0;
    struct tcp_seg *last = NULL;
    for (struct tcp_seg *seg = s->pcb->ooseq; seg != NULL; seg = last->next) {
        uint32_t n = pieces(seg->p, PIECES_MAX);
        if (last != NULL && have + n <= PIECES_MAX && joins(last, seg)) {
            join(last, seg);
            have += n;
        } else {
            last = seg;
            have = n;
            count++;
        }
    }
    s->oos = count;
}

uint32_t net_test_oos(const struct net_stream *stream)
{
    uint32_t n = 0;
    const struct lw_stream *s = CONTAINER_OF(stream, const struct lw_stream, base);
    for (const struct tcp_seg *seg = s->pcb != NULL ? s->pcb->ooseq : NULL; seg != NULL;
         seg = seg->next) {
        n++;
    }
    return n;
}
