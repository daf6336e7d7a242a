/* SPDX-License-Identifier: MIT */
/* `<`: messages by name, with any field as the line wants it. */
#include <stdlib.h>

#include "base/crc32c.h"
#include "mpa/mpa_fpdu.h"
#include "octets.h"
#include "play_int.h"

enum { EMSS = 1460, SINK_STAG = 0xb602, SINK_TO = 0x2000 };

/* --- FPDUs --- */

void play_note_sent(struct play *p, const struct script_line *l, struct span ulpdu)
{
    struct play_sent *s = &p->now->sent[p->now->sent_cnt++ % PLAY_SENT];
    struct ddp_seg seg;
    if (p->cfg->above != NULL) {
        p->cfg->above->sent(p->cfg->above->arg, p, l, ulpdu);
    }
    *s = (struct play_sent){.cause = {.seg_len = ulpdu.n}};
    snprintf(s->name, sizeof s->name, "%s", script_word(l, "as", ""));
    ddp_seg_parse(cursor_of(&ulpdu, 1), &seg);
    s->cause.ddp_len = seg.raw_len;
    memcpy(s->cause.ddp, seg.raw, seg.raw_len);
    if (seg.raw_len > 0 && !seg.hdr.tagged && rdmap_opcode(seg.hdr.ulp) == RDMAP_READ_REQUEST &&
        seg.plen >= RDMAP_READ_REQUEST_LEN) {
        cursor_take(&seg.payload, RDMAP_READ_REQUEST_LEN, s->cause.read);
        s->cause.has_read = true;
    }
}

/* Changes the first Marker inside the FPDU, which begins at stream offset pos. */
static void patch_marker(struct play *p, const struct script_line *l, uint8_t *fpdu, uint32_t n)
{
    uint32_t end = p->now->mtx.pos; /* behind the FPDU */
    uint32_t at = (MPA_MARKER_GAP - (end - n) % MPA_MARKER_GAP) % MPA_MARKER_GAP;
    if (!p->now->mtx.markers || at >= n) {
        play_wrong(p, l, "ptr or markerbits, and no Marker is in the FPDU");
        return;
    }
    put_be16(fpdu + at + 2, (uint32_t)play_field(p, l, "ptr", 16, get_be16(fpdu + at + 2)));
    put_be16(fpdu + at, (uint32_t)play_field(p, l, "markerbits", 16, get_be16(fpdu + at)));
}

static void patch_pad(struct play *p, const struct script_line *l, uint8_t *fpdu, uint32_t n,
                      uint32_t ulpdu)
{
    if (mpa_fpdu_pad(ulpdu) == 0) {
        play_wrong(p, l, "pad=%s, and the FPDU has none", script_word(l, "pad", ""));
    }
    for (uint32_t i = 0; i < mpa_fpdu_pad(ulpdu); i++) {
        fpdu[n - MPA_CRC_LEN - 1 - i] = (uint8_t)play_field(p, l, "pad", 8, 0);
    }
}

static void patch_crc(struct play *p, const struct script_line *l, uint8_t *fpdu, uint32_t n)
{
    uint32_t sum = crc32c_final(crc32c_add(CRC32C_INIT, fpdu, n - MPA_CRC_LEN));
    const char *how = script_word(l, "crc", "good");
    if (strcmp(how, "good") != 0) {
        sum = strcmp(how, "bad") == 0 ? sum ^ 1 : play_field32(p, l, "crc", 0);
    }
    put_le32(fpdu + n - MPA_CRC_LEN, sum);
}

bool play_frame_out(struct play *p, const struct script_line *l, struct span ulpdu, bool hold)
{
    static uint8_t fpdu[PLAY_FPDU + 1024];
    struct play_stream *st = p->now;
    uint32_t pos = st->mtx.pos;
    ulpdu.n = min_u32(ulpdu.n, (uint32_t)play_field(p, l, "ulen", 16, ulpdu.n));
    struct cursor c = cursor_of(&ulpdu, 1);
    uint32_t n = mpa_tx_copy(&st->mtx, &(struct mpa_out){NULL, 0, &c, ulpdu.n}, fpdu);
    if (n == 0) {
        return play_fail(p, l, "%u octets do not fit an FPDU", ulpdu.n);
    }
    uint32_t lead = mpa_fpdu_lead(st->mtx.markers, pos);
    put_be16(fpdu + lead, (uint32_t)play_field(p, l, "length", 16, ulpdu.n));
    if (script_has(l, "ptr") || script_has(l, "markerbits")) {
        patch_marker(p, l, fpdu, n);
    }
    if (script_has(l, "pad")) {
        patch_pad(p, l, fpdu, n, ulpdu.n);
    }
    if (st->mtx.crc || script_has(l, "crc")) {
        patch_crc(p, l, fpdu, n);
    }
    play_note_sent(p, l, ulpdu);
    return play_send(p, fpdu, n, hold) || play_fail(p, l, "the octets cannot be sent");
}

/* --- segments --- */

/* One message, to be cut. */
struct outgoing {
    struct ddp_hdr h;
    const uint8_t *payload;
    uint32_t n;
    uint32_t seg; /* payload octets of a segment at most */
};

static void fields(struct play *p, const struct script_line *l, unsigned opcode, struct ddp_hdr *h)
{
    unsigned op = (unsigned)play_field(p, l, "op", 4, opcode);
    unsigned rv = (unsigned)play_field(p, l, "rv", 2, RDMAP_VERSION);
    h->tagged = play_flag(p, l, "t", h->tagged);
    h->version = (uint8_t)play_field(p, l, "dv", 2, DDP_VERSION);
    h->ulp = (uint8_t)(rv << 6 | op);
    h->ulp32 = play_stag(p, l, "inv", h->ulp32);
    h->qn = play_field32(p, l, "qn", h->qn);
    h->stag = play_stag(p, l, "stag", h->stag);
    h->to = play_num(p, l, "to", h->to);
    h->last = play_flag(p, l, "last", true);
    uint32_t qn = h->qn & 3;
    h->msn = play_field32(p, l, "msn", p->now->tx_msn[qn]);
    h->mo = play_field32(p, l, "mo", p->now->tx_mo[qn]);
}

/* What the next message of that queue has for MSN and MO. */
static void count(struct play_stream *st, const struct ddp_hdr *h, uint32_t n)
{
    uint32_t qn = h->qn & 3;
    if (h->tagged) {
        return;
    }
    st->tx_msn[qn] = h->last ? h->msn + 1 : h->msn;
    st->tx_mo[qn] = h->last ? 0 : h->mo + n;
}

static bool send_segments(struct play *p, const struct script_line *l, struct outgoing *m,
                          bool hold)
{
    static uint8_t ulpdu[PLAY_ULPDU];
    bool last = m->h.last;
    uint32_t at = 0;
    do {
        uint32_t n = min_u32(m->n - at, m->seg);
        m->h.last = last && at + n == m->n;
        uint32_t hlen = ddp_hdr_pack(&m->h, ulpdu);
        if (play_flag(p, l, "rsvd", false)) {
            ulpdu[0] |= 0x3c;
            ulpdu[1] |= 0x30;
        }
        memcpy(ulpdu + hlen, m->payload + at, n);
        count(p->now, &m->h, n);
        play_trace_octets(p, '<', rdmap_opcode_text(rdmap_opcode(m->h.ulp)),
                          (struct span){ulpdu, hlen + n});
        bool more = at + n < m->n;
        if (!play_frame_out(p, l, (struct span){ulpdu, hlen + n}, hold || more)) {
            return false;
        }
        at += n;
        m->h.mo += n;
        m->h.to += n;
    } while (at < m->n);
    return true;
}

static bool out(struct play *p, const struct script_line *l, struct outgoing *m, bool hold)
{
    uint32_t hlen = m->h.tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    uint32_t fit = mpa_mulpdu(EMSS, p->now->mtx.markers) - hlen;
    m->payload = p->msg;
    m->seg = (uint32_t)play_most(p, l, "seg", fit, PLAY_ULPDU - 800);
    if (p->over) {
        return false;
    }
    if (m->seg == 0) {
        return play_wrong(p, l, "seg=%s: want a number from 1", script_word(l, "seg", ""));
    }
    return send_segments(p, l, m, hold);
}

/* --- messages --- */

static bool send_send(struct play *p, const struct script_line *l, bool hold)
{
    bool se = play_flag(p, l, "se", false), inv = script_has(l, "inv");
    unsigned op =
        se ? (inv ? RDMAP_SEND_SE_INV : RDMAP_SEND_SE) : (inv ? RDMAP_SEND_INV : RDMAP_SEND);
    struct outgoing m = {.h = {.qn = DDP_QN_SEND}};
    fields(p, l, op, &m.h);
    return play_octets(p, l, 1, p->msg, &m.n) && out(p, l, &m, hold);
}

static bool send_imm(struct play *p, const struct script_line *l, bool hold)
{
    struct outgoing m = {.h = {.qn = DDP_QN_SEND}};
    fields(p, l, play_flag(p, l, "se", false) ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE, &m.h);
    return play_octets(p, l, 1, p->msg, &m.n) && out(p, l, &m, hold);
}

static bool send_write(struct play *p, const struct script_line *l, bool hold)
{
    struct outgoing m = {.h = {.tagged = true}};
    fields(p, l, RDMAP_WRITE, &m.h);
    return play_octets(p, l, 1, p->msg, &m.n) && out(p, l, &m, hold);
}

static bool send_read_request(struct play *p, const struct script_line *l, bool hold)
{
    struct play_stream *st = p->now;
    struct rdmap_read_request r = {
        .sink_stag = play_stag(p, l, "sinkstag", SINK_STAG),
        .sink_to = play_num(p, l, "sinkto", SINK_TO),
        .len = play_field32(p, l, "len", 0),
        .src_stag = play_stag(p, l, "stag", 0),
        .src_to = play_num(p, l, "to", 0),
    };
    struct outgoing m = {.h = {.qn = DDP_QN_REQUEST}};
    /* stag and to are those of the source here; the segment is untagged and has none. */
    fields(p, l, RDMAP_READ_REQUEST, &m.h);
    rdmap_read_request_pack(&r, p->msg);
    m.n = (uint32_t)play_most(p, l, "plen", RDMAP_READ_REQUEST_LEN, RDMAP_READ_REQUEST_LEN);
    if (st->asking_cnt < PLAY_READS) {
        st->asking[st->asking_cnt++] = r;
    }
    return out(p, l, &m, hold);
}

/* The Read that is due for an answer is done. */
static void answered(struct play_stream *st)
{
    memmove(st->asked, st->asked + 1, (PLAY_READS - 1) * sizeof *st->asked);
    st->asked_cnt -= st->asked_cnt > 0;
    st->answered = 0;
}

static bool send_read_response(struct play *p, const struct script_line *l, bool hold)
{
    struct play_stream *st = p->now;
    struct rdmap_read_request none = {.sink_stag = 1};
    const struct rdmap_read_request *r = st->asked_cnt > 0 ? &st->asked[0] : &none;
    struct outgoing m = {
        .h = {.tagged = true, .stag = r->sink_stag, .to = r->sink_to + st->answered}};
    uint32_t due = r->len - min_u32(st->answered, r->len);
    fields(p, l, RDMAP_READ_RESPONSE, &m.h);
    if (!play_octets(p, l, 1, p->msg, &m.n)) {
        return false;
    }
    if (!play_has_octets(l, 1)) {
        m.n = (uint32_t)play_most(p, l, "len", min_u32(due, PLAY_MESSAGE), PLAY_MESSAGE);
        for (uint32_t i = 0; i < m.n; i++) {
            p->msg[i] = octets_pattern((uint64_t)st->answered + i);
        }
    }
    uint32_t n = m.n;
    if (!script_has(l, "last")) {
        m.h.last = n >= due;
    }
    bool last = m.h.last;
    bool ok = out(p, l, &m, hold);
    st->answered += n;
    if (last) {
        answered(st);
    }
    return ok;
}

static bool send_atomic(struct play *p, const struct script_line *l, bool hold)
{
    bool add = strcmp(script_plain(l, 0), "fetchadd") == 0;
    struct rdmap_atomic_request r = {
        .op = (uint8_t)play_field(p, l, "aop", 4, add ? RDMAP_FETCH_ADD : RDMAP_CMP_SWAP),
        .id = play_field32(p, l, "id", 1),
        .stag = play_stag(p, l, "stag", 0),
        .to = play_num(p, l, "to", 0),
        .data = play_num(p, l, add ? "add" : "swap", 0),
        .mask = play_num(p, l, add ? "mask" : "smask", add ? 0 : UINT64_MAX),
        .compare = play_num(p, l, "cmp", 0),
        .compare_mask = play_num(p, l, "cmask", UINT64_MAX),
    };
    struct outgoing m = {.h = {.qn = DDP_QN_REQUEST}};
    fields(p, l, RDMAP_ATOMIC_REQUEST, &m.h);
    rdmap_atomic_request_pack(&r, p->msg);
    m.n = (uint32_t)play_most(p, l, "plen", RDMAP_ATOMIC_REQUEST_LEN, RDMAP_ATOMIC_REQUEST_LEN);
    return out(p, l, &m, hold);
}

static bool send_atomic_response(struct play *p, const struct script_line *l, bool hold)
{
    struct rdmap_atomic_response r = {.id = play_field32(p, l, "id", p->atomic_id),
                                      .original = play_num(p, l, "value", 0)};
    struct outgoing m = {.h = {.qn = DDP_QN_ATOMIC}};
    fields(p, l, RDMAP_ATOMIC_RESPONSE, &m.h);
    rdmap_atomic_response_pack(&r, p->msg);
    m.n = RDMAP_ATOMIC_RESPONSE_LEN;
    return out(p, l, &m, hold);
}

static bool send_terminate(struct play *p, const struct script_line *l, bool hold)
{
    struct verdict v;
    struct rdmap_cause cause = {.seg_len = p->in.n, .ddp_len = p->in.seg.raw_len};
    struct outgoing m = {.h = {.qn = DDP_QN_TERMINATE}};
    const char *text = script_plain(l, 1);
    if (text == NULL || !octets_verdict(text, &v)) {
        return play_wrong(p, l, "'%s': want LAYER/TYPE/CODE", text != NULL ? text : "");
    }
    memcpy(cause.ddp, p->in.seg.raw, p->in.seg.raw_len);
    if (strcmp(script_word(l, "hdr", "in"), "none") == 0) {
        cause.ddp_len = 0;
    }
    fields(p, l, RDMAP_TERMINATE, &m.h);
    m.n = rdmap_term_pack(v, &cause, p->msg);
    return out(p, l, &m, hold);
}

/* A Read of nothing: everybody has to answer it, so it asks "are you alive". */
bool play_read0(struct play *p)
{
    const struct script_line l = {.word = "<"};
    return send_read_request(p, &l, false);
}

/* --- raw --- */

static bool send_octets(struct play *p, const struct script_line *l, bool hold)
{
    uint32_t n;
    if (!play_octets(p, l, 1, p->msg, &n)) {
        return false;
    }
    play_learn_frame(p, (struct span){p->msg, n});
    if (p->now->full) {
        p->now->mtx.pos += n;
    }
    play_trace_octets(p, '<', "octets", (struct span){p->msg, n});
    return play_send(p, p->msg, n, hold) || play_fail(p, l, "the octets cannot be sent");
}

/* A ULPDU of any octets. */
static bool send_fpdu(struct play *p, const struct script_line *l, bool hold)
{
    uint32_t n;
    return play_octets(p, l, 1, p->msg, &n) && play_frame_out(p, l, (struct span){p->msg, n}, hold);
}

static bool send_end(struct play *p, const struct script_line *l, bool hold)
{
    (void)l;
    (void)hold;
    p->cfg->tr->ops->fin(p->now->conn);
    return true;
}

static bool send_reset(struct play *p, const struct script_line *l, bool hold)
{
    (void)l;
    (void)hold;
    play_drop(p, p->now_no, true);
    p->now = play_stream(p, p->now_no);
    return true;
}

static bool send_request(struct play *p, const struct script_line *l, bool hold)
{
    return play_send_frame(p, l, false, hold);
}

static bool send_reply(struct play *p, const struct script_line *l, bool hold)
{
    return play_send_frame(p, l, true, hold);
}

bool play_line_send(struct play *p, const struct script_line *l, bool hold)
{
    static const struct {
        const char *word;
        bool (*send)(struct play *, const struct script_line *, bool);
    } kinds[] = {
        {"request", send_request},
        {"reply", send_reply},
        {"send", send_send},
        {"write", send_write},
        {"readreq", send_read_request},
        {"readresp", send_read_response},
        {"terminate", send_terminate},
        {"imm", send_imm},
        {"fetchadd", send_atomic},
        {"cmpswap", send_atomic},
        {"atomicresp", send_atomic_response},
        {"octets", send_octets},
        {"fpdu", send_fpdu},
        {"vector", play_vector},
        {"fin", send_end},
        {"rst", send_reset},
    };
    const char *what = script_plain(l, 0);
    if (p->now == NULL || p->now->conn == NULL) {
        return play_fail(p, l, "there is no connection to send on");
    }
    for (size_t i = 0; what != NULL && i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].word, what) == 0) {
            return kinds[i].send(p, l, hold);
        }
    }
    return play_wrong(p, l, "unknown message '%s'", what != NULL ? what : "");
}
