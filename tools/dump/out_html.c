/* SPDX-License-Identifier: MIT */
/* The page: a template around lines of data that are written as they come, so that memory stays flat;
 * what draws them is in page.html. */
#include <jansson.h>
#include <stdlib.h>

#include "out.h"
#include "page.h"

enum {
    /* A page of more would serve nobody; what is left out is said there. */
    ROWS_MAX = 100000,
    PAGE_CONNS_MAX = 2000,
    HEX_MAX = 64,
    DETAIL = 320,
};

struct out_html {
    struct out_cfg cfg;
    FILE *f;
    uint64_t rows, left, conns, conns_left;
    uint8_t *shown; /* a bit for each connection that is in the page */
    uint32_t shown_len;
};

static bool is_shown(const struct out_html *o, const struct conn *c)
{
    return c->id / 8 < o->shown_len && (o->shown[c->id / 8] >> (c->id % 8) & 1) != 0;
}

static bool add_conn(struct out_html *o, const struct conn *c)
{
    uint32_t need = c->id / 8 + 1;
    if (o->conns == PAGE_CONNS_MAX) {
        return false;
    }
    if (need > o->shown_len) {
        uint32_t n = max_u32(need, o->shown_len * 2);
        uint8_t *p = realloc(o->shown, n);
        if (p == NULL) {
            return false;
        }
        memset(p + o->shown_len, 0, n - o->shown_len);
        o->shown = p;
        o->shown_len = n;
    }
    o->shown[c->id / 8] |= (uint8_t)(1u << (c->id % 8));
    o->conns++;
    return true;
}

static bool has_room(struct out_html *o, const struct place *at)
{
    return is_shown(o, at->conn) && o->rows < ROWS_MAX;
}

static void set(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static void set_int(json_t *o, const char *key, uint64_t v)
{
    set(o, key, json_integer((json_int_t)v));
}

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text[0] != '\0') {
        set(o, key, json_string(text));
    }
}

static json_t *begin(const char *kind, uint32_t conn)
{
    json_t *j = json_object();
    set(j, "k", json_string(kind));
    set_int(j, "c", conn);
    return j;
}

static json_t *begin_at(const struct out_html *o, const char *kind, const struct place *at)
{
    json_t *j = begin(kind, at->conn->id);
    set(j, "t", json_real(out_time(o->cfg.d, at->ns)));
    set_int(j, "d", at->dir);
    set_int(j, "f", at->frame);
    return j;
}

/* Text inside a script element must not end it: every < is written as an escape. */
static void write_line(struct out_html *o, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(12) | JSON_ENSURE_ASCII);
    for (const char *p = text; p != NULL && *p != '\0'; p++) {
        if (*p == '<') {
            fputs("\\u003c", o->f);
        } else {
            fputc(*p, o->f);
        }
    }
    fputc('\n', o->f);
    free(text);
    json_decref(j);
}

static void write_row(struct out_html *o, json_t *j)
{
    o->rows++;
    write_line(o, j);
}

static void tell_conn(void *ctx, const struct conn *c)
{
    struct out_html *o = ctx;
    char a[ADDR_TEXT];
    char b[ADDR_TEXT];
    if (!add_conn(o, c)) {
        o->conns_left++;
        return;
    }
    json_t *j = begin("conn", c->id);
    set(j, "ends", json_pack("[s,s]", out_end(c, 0, a), out_end(c, 1, b)));
    write_line(o, j);
}

static void set_hex(json_t *j, const uint8_t *p, uint32_t n)
{
    char text[2 * HEX_MAX + 1] = "";
    for (uint32_t i = 0; i < n; i++) {
        snprintf(text + (size_t)2 * i, 3, "%02x", p[i]);
    }
    set_text(j, "h", text);
}

static void tell_setup(void *ctx, const struct setup_view *v)
{
    struct out_html *o = ctx;
    const struct mpa_frame *f = &v->f;
    char text[DETAIL];
    char depths[64];
    if (!has_room(o, &v->at)) {
        return;
    }
    json_t *j = begin_at(o, "setup", &v->at);
    set(j, "op", json_string(f->reply ? "Reply" : "Request"));
    snprintf(depths, sizeof depths, ", IRD %u, ORD %u, RTR %s", f->ird, f->ord, out_rtr(f->rtr));
    snprintf(text, sizeof text, "rev %u, markers %s, CRC %s%s%s, %u octets of private data%s%s",
             f->rev, f->markers ? "on" : "off", f->crc ? "on" : "off",
             f->reject ? ", rejected" : "", f->enhanced ? depths : "",
             v->whole ? f->pd_len : v->pd_length, v->bad != NULL ? "; malformed: " : "",
             v->bad != NULL ? v->bad : "");
    set_text(j, "x", text);
    if (v->bad != NULL) {
        set_text(j, "err", v->bad);
    }
    if (v->whole) {
        set_hex(j, f->pd, min_u32(f->pd_len, HEX_MAX));
    }
    write_row(o, j);
}

static void tell_message(void *ctx, const struct msg *m)
{
    struct out_html *o = ctx;
    char text[DETAIL];
    if (!has_room(o, &m->at)) {
        o->left++;
        return;
    }
    json_t *j = begin_at(o, "message", &m->at);
    set(j, "op", json_string(op_name(m->opcode)));
    if (msg_size(m) != SIZE_UNKNOWN) {
        set_int(j, "n", msg_size(m));
    }
    set_int(j, "f0", m->first_frame);
    set_int(j, "fpdus", m->fpdus);
    set_text(j, "x", out_detail(m, text, sizeof text));
    set_text(j, "crc", crc_text(m->crc));
    set_text(j, "note", m->note);
    if (m->tagged || (m->opcode == RDMAP_READ_REQUEST && m->whole_hdr)) {
        snprintf(text, sizeof text, "0x%08x", m->tagged ? m->stag : m->req.src_stag);
        set_text(j, "s", text);
    }
    if (m->answered) {
        set_int(j, "lat", m->latency_ns);
        set_int(j, "rf", m->request_frame);
    }
    if (m->missing > 0) {
        set_int(j, "miss", m->missing);
    }
    if (m->errors > 0) {
        set_text(j, "err", require_text(m->first_error));
    }
    set_hex(j, m->head, min_u32(m->head_len, HEX_MAX));
    write_row(o, j);
}

static void tell_finding(void *ctx, const struct finding *f)
{
    struct out_html *o = ctx;
    if (!has_room(o, &f->at)) {
        return;
    }
    json_t *j = begin_at(o, "verdict", &f->at);
    set_text(j, "id", require_id(f->req));
    set_text(j, "req", require_text(f->req));
    set_text(j, "x", f->text);
    set_text(j, "err", require_text(f->req));
    set_hex(j, f->octets, f->octets_len);
    write_row(o, j);
}

static void tell_gap(void *ctx, const struct gap *g)
{
    struct out_html *o = ctx;
    if (!has_room(o, &g->at)) {
        return;
    }
    json_t *j = begin_at(o, "gap", &g->at);
    set_text(j, "op", gap_text(g->kind));
    set_text(j, "x", g->text);
    write_row(o, j);
}

static json_t *hex_number(uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)v);
    return json_string(text);
}

static void close_conn(void *ctx, const struct conn *c)
{
    struct out_html *o = ctx;
    char facts[DETAIL];
    if (!is_shown(o, c)) {
        return;
    }
    json_t *all = json_array();
    for (uint32_t i = 0; c->stats != NULL && i < c->stats->regions; i++) {
        const struct region *r = &c->stats->region[i];
        json_t *row = json_array();
        json_array_append_new(row, hex_number(r->stag));
        json_array_append_new(row, hex_number(r->low));
        json_array_append_new(row, hex_number(r->high));
        json_array_append_new(row, json_string(r->written ? "write" : "read"));
        json_array_append_new(row, json_string(r->dir == 0 ? "client" : "server"));
        json_array_append_new(row, json_integer((json_int_t)r->messages));
        json_array_append_new(row, json_integer((json_int_t)r->bytes));
        json_array_append_new(all, row);
    }
    snprintf(facts, sizeof facts,
             "%llu frames in %.6f s%s%s; CRC %s, markers %s/%s; %llu retransmitted segments; "
             "%u violations, %u gaps",
             (unsigned long long)c->frames, (double)(c->last_ns - c->first_ns) / 1e9,
             c->upper != UPPER_UNKNOWN ? "; " : "", upper_text(c->upper),
             c->h[0].s.rx.crc ? "on" : "off", c->h[0].s.rx.markers ? "on" : "off",
             c->h[1].s.rx.markers ? "on" : "off",
             (unsigned long long)(c->h[0].st.retrans + c->h[1].st.retrans), c->findings, c->gaps);
    json_t *j = begin("close", c->id);
    set(j, "regions", all);
    set_text(j, "facts", facts);
    write_line(o, j);
}

static void finish(void *ctx, const struct dump *d)
{
    struct out_html *o = ctx;
    char text[DETAIL];
    snprintf(text, sizeof text,
             "%llu frames, %u TCP connections, %u with iWARP, %llu messages, %llu violations, "
             "%llu gaps",
             (unsigned long long)d->frames, d->conns, d->mpa_conns, (unsigned long long)d->messages,
             (unsigned long long)d->findings, (unsigned long long)d->gaps);
    json_t *j = begin("end", 0);
    set_text(j, "text", text);
    set_int(j, "left", o->left);
    set_int(j, "conns", o->conns_left);
    set_text(j, "source", o->cfg.source != NULL ? o->cfg.source : "");
    set_text(j, "filter", o->cfg.filter != NULL ? o->cfg.filter : "");
    set_int(j, "start", d->start_ns / 1000000);
    write_line(o, j);
}

struct out_html *out_html_open(const char *path, const struct out_cfg *cfg)
{
    struct out_html *o = calloc(1, sizeof *o);
    if (o == NULL) {
        return NULL;
    }
    o->cfg = *cfg;
    o->f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (o->f == NULL) {
        free(o);
        return NULL;
    }
    fwrite(page_head, 1, page_head_len, o->f);
    return o;
}

void out_html_sink(struct out_html *o, struct sink *s)
{
    *s = (struct sink){.ctx = o,
                       .conn = tell_conn,
                       .setup = tell_setup,
                       .message = tell_message,
                       .finding = tell_finding,
                       .gap = tell_gap,
                       .close = close_conn,
                       .finish = finish};
}

bool out_html_close(struct out_html *o)
{
    fwrite(page_tail, 1, page_tail_len, o->f);
    bool ok = ferror(o->f) == 0;
    ok = (o->f == stdout ? fflush(o->f) : fclose(o->f)) == 0 && ok;
    free(o->shown);
    free(o);
    return ok;
}
