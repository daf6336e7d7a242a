/* SPDX-License-Identifier: MIT */
#include "mpa_world.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "octets.h"
#include "play_int.h"

enum { LIMIT_MS = 2000, PORT = 7174 };

static const char magic[] = "uiw-conform ";

void mpa_trouble(struct mpa_world *w, const char *fmt, ...)
{
    if (w->trouble[0] == 0) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(w->trouble, sizeof w->trouble, fmt, ap);
        va_end(ap);
    }
}

void mpa_log(struct tr_conn *c, const char *fmt, ...)
{
    struct mpa_world *w = c->w;
    if (w->logged < MPA_LOG) {
        char *line = w->log[w->logged++];
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(line, MPA_LOG_LINE, fmt, ap);
        va_end(ap);
        if (c->no > 1 && n > 0 && n < MPA_LOG_LINE) {
            snprintf(line + n, MPA_LOG_LINE - (size_t)n, " conn=%u", c->no);
        }
    }
}

/* --- what MPA tells --- */

static const char *reason_of(enum mpa_fault f)
{
    switch (f) {
    case MPA_FAULT_KEY:
    case MPA_FAULT_ROLE: return "key";
    case MPA_FAULT_REV:
    case MPA_FAULT_REV_MISMATCH: return "revision";
    case MPA_FAULT_IRD: return "ird";
    case MPA_FAULT_RTR: return "rtr";
    default: return "malformed";
    }
}

static void log_frame(struct tr_conn *c, const char *word, unsigned ird, unsigned ord)
{
    const struct mpa_frame *f = &c->end.setup.peer;
    char hex[2 * 40 + 1] = "";
    for (unsigned i = 0; i < min_u32(f->pd_len, 40); i++) {
        snprintf(hex + 2 * i, 3, "%02x", f->pd[i]);
    }
    mpa_log(c, "%s ird=%u ord=%u pd=%u data=%s", word, ird, ord,
            c->initiator || strcmp(word, "request") == 0 ? f->pd_len : 0, hex);
}

static void log_established(struct tr_conn *c)
{
    log_frame(c, "established", c->end.setup.agreed.ird, c->end.setup.agreed.ord);
}

/* RFC 6581 sec 10: one more try with revision 1, on a new connection. Returns whether there is one. */
static bool fall_back(struct tr_conn *c)
{
    if (c->fell_back || c->end.setup.cfg.rev != MPA_REV_2) {
        return false;
    }
    mpa_connect(c->w, true);
    return true;
}

void mpa_answer(struct tr_conn *c, bool accept)
{
    const struct mpa_case *now = &c->w->now;
    const struct mpa_answer a = {now->cfg.ird, now->cfg.ord, now->pd, now->pd_len};
    bool ok = accept ? mpa_end_accept(&c->end, &a) : mpa_end_reject(&c->end, now->pd, now->pd_len);
    c->rejected = !accept;
    if (!ok) {
        mpa_trouble(c->w, "MPA makes no Reply");
    } else if (accept) {
        log_established(c);
    }
}

static void answer_question(struct tr_conn *c)
{
    char text[MPA_PD_MAX + 1], out[201];
    const struct mpa_frame *f = &c->end.setup.peer;
    c->question = true;
    snprintf(text, sizeof text, "%.*s", (int)(f->pd_len - strlen(magic)),
             (const char *)f->pd + strlen(magic));
    mpa_ask(c->w, text, out, sizeof out);
    mpa_end_reject(&c->end, out, (uint32_t)strlen(out));
}

static void on_request(struct tr_conn *c)
{
    const struct mpa_frame *f = &c->end.setup.peer;
    if (f->pd_len >= strlen(magic) && memcmp(f->pd, magic, strlen(magic)) == 0) {
        answer_question(c);
        return;
    }
    c->no = ++c->w->opened;
    c->w->frames++;
    log_frame(c, "request", f->enhanced ? f->ird : MPA_DEPTH_UNSET,
              f->enhanced ? f->ord : MPA_DEPTH_UNSET);
    if (!c->w->now.hold) {
        mpa_answer(c, !c->w->now.reject);
    }
}

static void on_setup(void *arg, enum mpa_setup_event ev)
{
    struct tr_conn *c = arg;
    const struct mpa_setup *s = &c->end.setup;
    switch (ev) {
    case MPA_SETUP_REQUEST: on_request(c); return;
    case MPA_SETUP_ACCEPTED: log_established(c); break;
    case MPA_SETUP_REJECTED:
        c->rejected = true;
        log_frame(c, "rejected", s->peer.ird, s->peer.ord);
        break;
    case MPA_SETUP_BAD:
        if (c->initiator && (strcmp(reason_of(s->fault), "revision") != 0 || !fall_back(c))) {
            mpa_log(c, "failed %s", reason_of(s->fault));
        }
        break;
    case MPA_SETUP_TERM:
        mpa_log(c, "failed %s %u/%u/%02x", reason_of(s->fault), s->term.layer, s->term.type,
                s->term.code);
        break;
    default: break;
    }
    c->w->frames++;
}

/* --- ULPDUs that come up --- */

static void pop_due(struct tr_conn *c)
{
    free(c->due[0].octets);
    memmove(c->due, c->due + 1, --c->due_cnt * sizeof *c->due);
}

static void on_ulpdu(void *arg, struct span u)
{
    struct tr_conn *c = arg;
    c->w->up++;
    c->last_n = u.n;
    if (c->blind) {
        return;
    }
    const struct mpa_due *d = c->due_cnt > 0 ? &c->due[0] : NULL;
    if (d == NULL) {
        mpa_trouble(c->w, "MPA hands up %u octets that nobody has framed", u.n);
        return;
    }
    if (d->known && d->fault.bad) {
        mpa_trouble(c->w, "MPA hands up an FPDU that it must refuse (%s)", verdict_text(d->fault));
    }
    if (u.n != d->n || memcmp(u.p, d->octets, u.n) != 0) {
        mpa_trouble(c->w, "MPA hands up %u octets, other than the %u that were framed", u.n, d->n);
    }
    pop_due(c);
}

static void on_refused(void *arg, struct verdict why)
{
    struct tr_conn *c = arg;
    const struct mpa_due *d = c->due_cnt > 0 && !c->blind ? &c->due[0] : NULL;
    if (d != NULL && d->known && !d->fault.bad) {
        mpa_trouble(c->w, "MPA refuses a good FPDU: %s", verdict_text(why));
    } else if (d != NULL && d->known &&
               !verdict_is(why, d->fault.layer, d->fault.type, d->fault.code)) {
        mpa_trouble(c->w, "MPA refuses an FPDU as %s, must be %s", verdict_text(why),
                    verdict_text(d->fault));
    }
    mpa_log(c, "down fault %u/%u/%02x", why.layer, why.type, why.code);
}

/* What the keys of the line make of an FPDU, where that is plain. */
static void foretell(const struct tr_conn *c, const struct script_line *l, struct mpa_due *d)
{
    const char *crc = script_word(l, "crc", "good"), *what = script_plain(l, 0);
    bool marker = script_has(l, "ptr") && c->end.rx.markers;
    d->known = what == NULL || strcmp(what, "vector") != 0;
    if (strcmp(crc, "good") != 0 && c->end.rx.crc) {
        d->fault = verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_CRC);
    } else if (marker) {
        d->known = false; /* it may be the right one */
    }
}

static void sent(void *arg, struct play *p, const struct script_line *l, struct span ulpdu)
{
    struct tr_conn *c = p->now->conn;
    (void)arg;
    if (ulpdu.p == NULL || script_has(l, "length")) {
        c->blind = true;
        return;
    }
    struct mpa_due d = {.octets = malloc(ulpdu.n + 1), .n = ulpdu.n};
    struct mpa_due *more = realloc(c->due, (c->due_cnt + 1) * sizeof *more);
    if (d.octets == NULL || more == NULL) {
        abort();
    }
    memcpy(d.octets, ulpdu.p, ulpdu.n);
    foretell(c, l, &d);
    c->due = more;
    c->due[c->due_cnt++] = d;
}

/* --- events --- */

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* The set-up's, and the end by a fault that is MPA's. */
static bool tells(const struct play *p, const struct script_line *l, unsigned i)
{
    const struct tr_conn *c = p->now != NULL ? p->now->conn : NULL;
    const char *what = i < l->cnt ? l->arg[i].val : "", *why = script_plain(l, i + 1);
    if (is(what, "failed") || is(what, "request") || is(what, "established") ||
        is(what, "rejected")) {
        return why == NULL || (!is(why, "lost") && !is(why, "reset") && !is(why, "timeout"));
    }
    const char *which = script_plain(l, i + 2);
    struct verdict v;
    return is(what, "down") && why != NULL && is(why, "fault") && which != NULL &&
           octets_verdict(which, &v) && v.layer == LAYER_LLP && c != NULL && c->end.fault.bad;
}

static bool sees(void *arg, struct play *p, const struct script_line *l)
{
    struct mpa_world *w = arg;
    bool can = tells(p, l, l->cnt > 0 && is(l->arg[0].val, "none") ? 1 : 0);
    w->events += can;
    w->beyond += !can;
    return can;
}

/* --- connections --- */

static const struct mpa_end_ulp ulp = {on_setup, on_ulpdu, on_refused};

static struct tr_conn *conn_new(struct mpa_world *w, const struct mpa_cfg *cfg, bool initiator)
{
    for (unsigned i = 0; i < MPA_CONNS; i++) {
        if (w->conn[i] == NULL) {
            struct tr_conn *c = calloc(1, sizeof *c);
            if (c == NULL) {
                abort();
            }
            c->w = w;
            c->initiator = initiator;
            mpa_end_init(&c->end, initiator, cfg, &ulp, c);
            w->conn[i] = c;
            return c;
        }
    }
    return NULL;
}

void mpa_connect(struct mpa_world *w, bool fell_back)
{
    struct mpa_cfg cfg = w->now.cfg;
    if (fell_back) {
        cfg.rev = MPA_REV_1;
        cfg.p2p = false;
    }
    struct tr_conn *c = conn_new(w, &cfg, true);
    if (c == NULL || !mpa_end_request(&c->end, w->now.pd, w->now.pd_len)) {
        mpa_trouble(w, "MPA makes no Request");
        return;
    }
    w->frames++;
    c->fell_back = fell_back;
    c->no = fell_back ? w->opened : ++w->opened;
}

/* Whatever was framed has come up, and what was refused the file has named. */
static void look_back(struct tr_conn *c)
{
    if (c->end.fault.bad && !c->told) {
        mpa_trouble(c->w, "MPA refuses an FPDU (%s), and the file does not say so",
                    verdict_text(c->end.fault));
    }
    if (c->due_cnt > 0 && !c->blind && !c->end.fault.bad && !c->end.ended) {
        mpa_trouble(c->w, "%u ULPDUs were framed and did not come up", c->due_cnt);
    }
}

static void conn_free(struct tr_conn *c)
{
    for (unsigned i = 0; i < MPA_CONNS; i++) {
        if (c->w->conn[i] == c) {
            c->w->conn[i] = NULL;
        }
    }
    look_back(c);
    c->w->fed += c->question ? 0 : c->octets;
    while (c->due_cnt > 0) {
        pop_due(c);
    }
    free(c->due);
    mpa_end_free(&c->end);
    free(c);
}

/* --- transport --- */

static struct mpa_world *of(struct transport *t)
{
    return (struct mpa_world *)t;
}

static struct tr_conn *mpa_dial(struct transport *t)
{
    struct tr_conn *c = conn_new(of(t), &of(t)->now.cfg, false);
    if (c != NULL) {
        c->taken = true;
    }
    return c;
}

static bool mpa_listen(struct transport *t)
{
    (void)t;
    return true;
}

static struct tr_conn *mpa_take(struct transport *t)
{
    struct mpa_world *w = of(t);
    for (unsigned i = 0; i < MPA_CONNS; i++) {
        if (w->conn[i] != NULL && !w->conn[i]->taken) {
            w->conn[i]->taken = true;
            return w->conn[i];
        }
    }
    return NULL;
}

static uint32_t mpa_read(struct tr_conn *c, uint8_t *to, uint32_t max)
{
    return mpa_end_read(&c->end, to, max);
}

static uint32_t mpa_write(struct tr_conn *c, const uint8_t *p, uint32_t n)
{
    uint32_t every = c->w->tr.cut, at_each = c->w->cut_at;
    for (uint32_t at = 0; at < n;) {
        uint32_t k = every > 0 ? min_u32(every, n - at) : n - at;
        if (at_each > 0) {
            k = min_u32(k, at_each - (uint32_t)(c->octets % at_each));
        }
        c->octets += k;
        mpa_end_rx(&c->end, p + at, k);
        at += k;
    }
    return n;
}

/* What it means to have heard half is the business of whoever owns TCP. */
static void mpa_fin(struct tr_conn *c)
{
    c->end.ended |= !c->end.full;
}

static enum tr_state mpa_state(struct tr_conn *c)
{
    return c->end.ended ? TR_FIN : TR_OPEN;
}

static uint32_t mpa_emss(struct tr_conn *c)
{
    return c->end.emss;
}

static void mpa_drop(struct tr_conn *c, bool reset)
{
    bool during = c->initiator && c->taken && !c->end.full && !c->end.ended && !c->rejected;
    if (during && reset && c->octets == 0 && !fall_back(c)) {
        mpa_log(c, "failed reset");
    }
    conn_free(c);
}

static void mpa_turn(struct transport *t, unsigned ms)
{
    of(t)->ms += ms > 0 ? ms : 1;
}

static uint64_t mpa_now(struct transport *t)
{
    return of(t)->ms;
}

/* There is no wire. */
static bool mpa_tune(struct transport *t, const char *knob, uint32_t value)
{
    (void)t;
    (void)knob;
    (void)value;
    return false;
}

static const struct transport_ops ops = {.dial = mpa_dial,
                                         .listen = mpa_listen,
                                         .accept = mpa_take,
                                         .read = mpa_read,
                                         .write = mpa_write,
                                         .fin = mpa_fin,
                                         .state = mpa_state,
                                         .emss = mpa_emss,
                                         .drop = mpa_drop,
                                         .turn = mpa_turn,
                                         .now = mpa_now,
                                         .tune = mpa_tune};

/* --- life --- */

void mpa_world_open(struct mpa_world *w, struct script **all, unsigned all_cnt)
{
    struct sockaddr_in my = {.sin_family = AF_INET};
    *w = (struct mpa_world){.tr = {.ops = &ops, .my_port = PORT}};
    memcpy(&w->tr.my, &my, sizeof my);
    mpa_case_usual(&w->now);
    w->above = (struct play_above){.want = mpa_ulp_want, .sent = sent, .sees = sees, .arg = w};
    w->cfg = (struct play_cfg){.tr = &w->tr,
                               .above = &w->above,
                               .responder = true,
                               .limit_ms = LIMIT_MS,
                               .all = all,
                               .all_cnt = all_cnt};
}

void mpa_world_play(struct mpa_world *w, const struct script *s, uint32_t cut, struct play_out *out)
{
    w->cut_at = cut;
    w->trouble[0] = 0;
    w->up = w->down = w->frames = w->events = w->beyond = 0;
    w->fed = 0;
    play_run(&w->cfg, s, out);
    for (unsigned i = 0; i < MPA_CONNS; i++) {
        if (w->conn[i] != NULL) {
            conn_free(w->conn[i]);
        }
    }
    if (w->trouble[0] != 0 && out->result == PLAY_PASS) {
        out->result = PLAY_FAIL;
        snprintf(out->why, sizeof out->why, "%s", w->trouble);
    }
}
