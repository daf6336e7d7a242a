/* SPDX-License-Identifier: MIT */
/* Vectors of the MPA start-up: frames by themselves, and what the set-up makes of them. */
#include "mpa/mpa_setup.h"

#include "vec.h"

static const char *const fault_words[] = {
    [MPA_FAULT_NONE] = "-",
    [MPA_FAULT_KEY] = "key",
    [MPA_FAULT_ROLE] = "role",
    [MPA_FAULT_REV] = "rev",
    [MPA_FAULT_REV_MISMATCH] = "mismatch",
    [MPA_FAULT_PD_LENGTH] = "pd_length",
    [MPA_FAULT_TRAILING] = "trailing",
    [MPA_FAULT_IRD] = "ird",
    [MPA_FAULT_RTR] = "rtr",
};

static const char *const event_words[] = {
    [MPA_SETUP_MORE] = "more",         [MPA_SETUP_REQUEST] = "request",
    [MPA_SETUP_ACCEPTED] = "accepted", [MPA_SETUP_REJECTED] = "rejected",
    [MPA_SETUP_BAD] = "bad",           [MPA_SETUP_TERM] = "term",
};

/* "write+read" and so on. */
static uint8_t rtr_of(struct vec *v, struct vec_line *l, const char *def)
{
    static const struct {
        const char *word;
        unsigned bit;
    } kinds[] = {
        {"send", MPA_RTR_SEND}, {"write", MPA_RTR_WRITE}, {"read", MPA_RTR_READ}, {"none", 0}};
    const char *s = vec_word(l, "rtr", def);
    unsigned set = 0;
    while (*s != 0) {
        size_t n = strcspn(s, "+"), i = 0;
        while (i < ARRAY_LEN(kinds) &&
               (strlen(kinds[i].word) != n || strncmp(kinds[i].word, s, n) != 0)) {
            i++;
        }
        if (i == ARRAY_LEN(kinds) || strcmp(s + n, "+") == 0) {
            vec_fail(v, l->line, "rtr=%s is not known", s);
            return 0;
        }
        set |= kinds[i].bit;
        s += n + (s[n] == '+');
    }
    return (uint8_t)set;
}

static void want_word(struct vec *v, unsigned line, const char *want, const char *got)
{
    if (strcmp(want, got) != 0) {
        vec_fail(v, line, "'%s' was seen, must be '%s'", got, want);
    }
}

static bool we_initiate(struct vec *v)
{
    const char *us = vec_word(&v->cfg, "us", "?");
    bool initiator = strcmp(us, "initiator") == 0;
    if (!initiator && strcmp(us, "responder") != 0) {
        vec_fail(v, v->cfg.line, "us=%s is neither initiator nor responder", us);
    }
    return initiator;
}

static struct mpa_cfg our_cfg(struct vec *v)
{
    struct vec_line *l = &v->cfg;
    return (struct mpa_cfg){
        .markers = vec_num(v, l, "markers", 0) != 0,
        .crc = vec_num(v, l, "crc", 1) != 0,
        .rev = (uint8_t)vec_num(v, l, "rev", 2),
        .p2p = vec_num(v, l, "p2p", 0) != 0,
        .rtr = rtr_of(v, l, "write+read"),
        .ird = (uint16_t)vec_num(v, l, "ird", 16),
        .ord = (uint16_t)vec_num(v, l, "ord", 16),
    };
}

static struct vec_line *find(struct vec *v, const char *what)
{
    for (unsigned i = 0; i < v->ev_cnt; i++) {
        if (vec_is(&v->ev[i], what)) {
            return &v->ev[i];
        }
    }
    return NULL;
}

/* --- frames --- */

/* The frame that a line describes. */
static void describe(struct vec *v, struct vec_line *l, struct mpa_frame *f)
{
    *f = (struct mpa_frame){
        .reply = strcmp(vec_word(l, "", ""), "reply") == 0,
        .markers = vec_num(v, l, "m", 0) != 0,
        .crc = vec_num(v, l, "c", 0) != 0,
        .reject = vec_num(v, l, "r", 0) != 0,
        .enhanced = vec_num(v, l, "s", 0) != 0,
        .rev = (uint8_t)vec_num(v, l, "rev", 1),
        .p2p = vec_num(v, l, "a", 0) != 0,
        .rtr = rtr_of(v, l, "none"),
        .ird = (uint16_t)vec_num(v, l, "ird", MPA_DEPTH_UNSET),
        .ord = (uint16_t)vec_num(v, l, "ord", MPA_DEPTH_UNSET),
    };
    f->pd_len = (uint16_t)vec_octets(v, l, "pd", f->pd, MPA_PD_MAX);
}

static void compare(struct vec *v, struct vec_line *l, const struct mpa_frame *f)
{
    struct mpa_frame want;
    describe(v, l, &want);
    want_word(v, l->line, vec_word(l, "", "?"), f->reply ? "reply" : "request");
    vec_want(v, l, "m", 0, f->markers);
    vec_want(v, l, "c", 0, f->crc);
    vec_want(v, l, "r", 0, f->reject);
    vec_want(v, l, "s", 0, f->enhanced);
    vec_want(v, l, "rev", 1, f->rev);
    vec_want(v, l, "a", 0, f->p2p);
    vec_want(v, l, "ird", MPA_DEPTH_UNSET, f->ird);
    vec_want(v, l, "ord", MPA_DEPTH_UNSET, f->ord);
    if (want.rtr != f->rtr) {
        vec_fail(v, l->line, "rtr is 0x%x, must be 0x%x", f->rtr, want.rtr);
    }
    vec_want_octets(v, l->line, (struct span){want.pd, want.pd_len},
                    (struct span){f->pd, f->pd_len});
}

/* One call of mpa_frame_unpack() over the first `in->left` octets, which may not be all. */
static void parse_prefix(struct vec *v, struct cursor in)
{
    static struct mpa_frame f;
    enum mpa_fault why;
    struct vec_line *frame = find(v, "frame"), *bad = find(v, "bad");
    uint32_t have = in.left;
    uint32_t due = UINT32_MAX;
    if (frame != NULL) {
        /* an enhanced frame's PD_Length counts four octets more than the private data */
        describe(v, frame, &f);
        due = MPA_FRAME_HDR + f.pd_len + (f.enhanced ? 4u : 0u);
    } else if (bad != NULL) {
        due = (uint32_t)vec_num(v, bad, "after", 0);
    }
    enum mpa_parse res = mpa_frame_unpack(&in, we_initiate(v), &f, &why);
    if (have < due) {
        if (res != MPA_PARSE_MORE || in.left != have) {
            vec_fail(v, 1, "%u octets are no frame yet, but were taken for one", have);
        }
    } else if (frame != NULL) {
        if (res != MPA_PARSE_OK || in.left != have - due) {
            vec_fail(v, frame->line, "no frame seen (%s)", mpa_fault_text(why));
        } else {
            compare(v, frame, &f);
        }
    } else if (bad != NULL) {
        want_word(v, bad->line, vec_word(bad, "", "?"),
                  res == MPA_PARSE_BAD ? fault_words[why] : "no fault");
    }
}

static void build(struct vec *v)
{
    struct mpa_frame f;
    uint8_t out[MPA_FRAME_MAX];
    struct vec_line *frame = find(v, "frame");
    if (frame == NULL) {
        vec_fail(v, 1, "octets by = but no frame to build");
        return;
    }
    v->how = "built";
    describe(v, frame, &f);
    uint32_t n = mpa_frame_pack(&f, out);
    vec_want_octets(v, frame->line, (struct span){v->bytes, v->n}, (struct span){out, n});
    v->runs++;
}

/* --- the connection --- */

static void start(struct vec *v, struct mpa_setup *s)
{
    struct mpa_cfg cfg = our_cfg(v);
    bool initiator = we_initiate(v);
    uint8_t out[MPA_FRAME_MAX];
    mpa_setup_init(s, initiator, &cfg);
    if (initiator && mpa_setup_request(s, NULL, 0, out) == 0) {
        vec_fail(v, v->cfg.line, "no Request was made");
    }
}

static void check_agreed(struct vec *v, struct vec_line *l, struct mpa_setup *s)
{
    const struct mpa_agreed *a = &s->agreed;
    uint8_t out[MPA_FRAME_MAX];
    if (!s->initiator &&
        mpa_setup_accept(s, &(struct mpa_answer){s->cfg.ird, s->cfg.ord, NULL, 0}, out) == 0) {
        vec_fail(v, l->line, "no Reply was made");
        return;
    }
    const struct {
        const char *key;
        uint32_t got;
    } fields[] = {
        {"rev", a->rev},
        {"s", a->enhanced},
        {"crc", a->crc},
        {"tx_markers", a->tx_markers},
        {"rx_markers", a->rx_markers},
        {"ird", a->ird},
        {"ord", a->ord},
        {"peer_ird", a->peer_ird},
        {"peer_ord", a->peer_ord},
        {"p2p", a->p2p},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        vec_want(v, l, fields[i].key, fields[i].got, fields[i].got);
    }
    if (vec_has(l, "rtr") && rtr_of(v, l, "none") != a->rtr) {
        vec_fail(v, l->line, "rtr is 0x%x", a->rtr);
    }
}

static void check_outcome(struct vec *v, struct mpa_setup *s, enum mpa_setup_event ev)
{
    struct vec_line *bad = find(v, "bad"), *setup = find(v, "setup"), *agreed = find(v, "agreed");
    if (setup == NULL) {
        want_word(v, 1, bad != NULL ? "bad" : "more", event_words[ev]);
        return;
    }
    want_word(v, setup->line, vec_word(setup, "", "?"), event_words[ev]);
    if (ev == MPA_SETUP_BAD || ev == MPA_SETUP_TERM) {
        /* "bad" and "term" are followed by the fault */
        want_word(v, setup->line, vec_plain(setup, 1, "?"), fault_words[s->fault]);
    }
    if (agreed != NULL && v->faults == 0) {
        check_agreed(v, agreed, s);
    }
}

static void setup_at_once(struct vec *v, struct cursor in)
{
    struct mpa_setup s;
    start(v, &s);
    enum mpa_setup_event ev = mpa_setup_rx(&s, &in);
    check_outcome(v, &s, ev);
}

/* Octet by octet: MORE until something is seen; the last thing seen counts. */
static void setup_fed(struct vec *v)
{
    struct mpa_setup s;
    enum mpa_setup_event last = MPA_SETUP_MORE;
    uint32_t used = 0;
    v->how = "fed octet by octet";
    start(v, &s);
    for (uint32_t have = 0; have <= v->n; have++) {
        struct span piece = {v->bytes + used, have - used};
        struct cursor in = cursor_of(&piece, 1);
        enum mpa_setup_event ev = mpa_setup_rx(&s, &in);
        used = have - in.left;
        last = ev != MPA_SETUP_MORE ? ev : last;
        piece.n = have;
        piece.p = v->bytes;
        parse_prefix(v, cursor_of(&piece, 1));
    }
    check_outcome(v, &s, last);
    v->runs++;
}

static void both(struct vec *v, struct cursor in)
{
    parse_prefix(v, in);
    setup_at_once(v, in);
}

void vec_run_startup(struct vec *v)
{
    for (unsigned i = 0; i < v->ev_cnt; i++) {
        static const char *const known[] = {"frame", "bad", "more", "setup", "agreed"};
        size_t k = 0;
        while (k < ARRAY_LEN(known) && !vec_is(&v->ev[i], known[k])) {
            k++;
        }
        if (k == ARRAY_LEN(known)) {
            vec_fail(v, v->ev[i].line, "unknown event '%s'", v->ev[i].what);
        }
    }
    vec_each_cut(v, UINT32_MAX / 2, both);
    if (v->faults == 0) {
        setup_fed(v);
    }
    if (v->faults == 0 && v->build) {
        build(v);
    }
}
