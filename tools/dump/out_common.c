/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>

#include "out.h"

const char *out_end(const struct conn *c, unsigned dir, char buf[ADDR_TEXT])
{
    char ip[INET6_ADDRSTRLEN] = "?";
    inet_ntop(c->v6 ? AF_INET6 : AF_INET, c->addr[dir], ip, sizeof ip);
    snprintf(buf, ADDR_TEXT, c->v6 ? "[%s]:%u" : "%s:%u", ip, c->port[dir]);
    return buf;
}

double out_time(const struct dump *d, uint64_t ns)
{
    return ns >= d->start_ns ? (double)(ns - d->start_ns) / 1e9 : -(double)(d->start_ns - ns) / 1e9;
}

const char *out_duration(uint64_t ns, char buf[32])
{
    if (ns < 10000) {
        snprintf(buf, 32, "%llu ns", (unsigned long long)ns);
    } else if (ns < 10000000) {
        snprintf(buf, 32, "%.1f us", (double)ns / 1e3);
    } else if (ns < 10000000000) {
        snprintf(buf, 32, "%.1f ms", (double)ns / 1e6);
    } else {
        snprintf(buf, 32, "%.2f s", (double)ns / 1e9);
    }
    return buf;
}

/* Of a header that cannot be shown. */
static const char *no_header(const struct msg *m)
{
    return m->crc == CRC_BAD ? "header not believed" : "header not whole";
}

static void read_detail(const struct msg *m, char *buf, size_t n)
{
    if (!m->whole_hdr) {
        snprintf(buf, n, "%s, msn %u", no_header(m), m->msn);
        return;
    }
    snprintf(buf, n, "from stag 0x%08x to 0x%llx into 0x%08x 0x%llx msn %u", m->req.src_stag,
             (unsigned long long)m->req.src_to, m->req.sink_stag,
             (unsigned long long)m->req.sink_to, m->msn);
}

static void immediate_detail(const struct msg *m, char *buf, size_t n)
{
    if (m->head_len < 8) {
        snprintf(buf, n, "msn %u data not whole", m->msn);
        return;
    }
    snprintf(buf, n, "msn %u data 0x%016llx", m->msn, (unsigned long long)get_be64(m->head));
}

static void terminate_detail(const struct msg *m, char *buf, size_t n)
{
    const struct rdmap_term *t = &m->term;
    struct verdict other = verdict_bad(t->v.type, t->v.layer, t->v.code);
    if (!m->whole_hdr) {
        snprintf(buf, n, "%s", no_header(m));
        return;
    }
    /* Without a header that decides, both readings may be sound (see rdmap_term.h). */
    bool either = !t->host_order && !t->d && !t->m && other.layer != other.type &&
                  strstr(verdict_text(other), "unknown") == NULL;
    snprintf(buf, n, "%x/%x/%02x %s%s%s%s", t->v.layer, t->v.type, t->v.code, verdict_text(t->v),
             t->host_order ? " (control word in host order, as siw writes it)" : "",
             either ? "; in siw's order: " : "", either ? verdict_text(other) : "");
}

static void atomic_detail(const struct msg *m, char *buf, size_t n)
{
    const struct rdmap_atomic_request *a = &m->atomic;
    if (!m->whole_hdr) {
        snprintf(buf, n, "%s", no_header(m));
    } else if (m->opcode == RDMAP_ATOMIC_RESPONSE) {
        snprintf(buf, n, "id 0x%08x original 0x%016llx", m->result.id,
                 (unsigned long long)m->result.original);
    } else {
        snprintf(buf, n, "%s id 0x%08x stag 0x%08x to 0x%llx data 0x%llx mask 0x%llx",
                 a->op == RDMAP_FETCH_ADD  ? "FetchAdd"
                 : a->op == RDMAP_CMP_SWAP ? "CmpSwap"
                                           : "?",
                 a->id, a->stag, (unsigned long long)a->to, (unsigned long long)a->data,
                 (unsigned long long)a->mask);
    }
}

const char *out_detail(const struct msg *m, char *buf, size_t n)
{
    switch (m->opcode) {
    case RDMAP_WRITE:
    case RDMAP_READ_RESPONSE:
        snprintf(buf, n, "stag 0x%08x to 0x%llx", m->stag, (unsigned long long)m->to);
        break;
    case RDMAP_READ_REQUEST: read_detail(m, buf, n); break;
    case RDMAP_TERMINATE: terminate_detail(m, buf, n); break;
    case RDMAP_ATOMIC_REQUEST:
    case RDMAP_ATOMIC_RESPONSE: atomic_detail(m, buf, n); break;
    case RDMAP_IMMEDIATE:
    case RDMAP_IMMEDIATE_SE: immediate_detail(m, buf, n); break;
    case RDMAP_SEND_INV:
    case RDMAP_SEND_SE_INV:
        snprintf(buf, n, "msn %u invalidates 0x%08x", m->msn, m->inv_stag);
        break;
    default: snprintf(buf, n, "msn %u", m->msn); break;
    }
    return buf;
}

bool out_terminated_ddp(const struct rdmap_term *t, struct ddp_hdr *h)
{
    struct span v = {t->ddp, t->ddp_len};
    struct ddp_seg seg;
    if (t->ddp_len == 0) {
        return false;
    }
    ddp_seg_parse(cursor_of(&v, 1), &seg); /* its version may be what was wrong */
    *h = seg.hdr;
    return true;
}

bool out_terminated_read(const struct rdmap_term *t, struct rdmap_read_request *r)
{
    struct ddp_hdr h;
    if (!t->has_read || !out_terminated_ddp(t, &h) || h.tagged ||
        rdmap_opcode(h.ulp) != RDMAP_READ_REQUEST) {
        return false;
    }
    rdmap_read_request_unpack(t->read, r);
    return true;
}

void out_hex(FILE *f, const char *indent, struct cursor c)
{
    uint8_t row[16];
    for (uint32_t at = 0; c.left > 0; at += sizeof row) {
        uint32_t n = min_u32(c.left, sizeof row);
        cursor_take(&c, n, row);
        fprintf(f, "%s%06x ", indent, at);
        for (uint32_t i = 0; i < sizeof row; i++) {
            i < n ? fprintf(f, " %02x", row[i]) : fprintf(f, "   ");
        }
        fputs("  ", f);
        for (uint32_t i = 0; i < n; i++) {
            fputc(row[i] >= 0x20 && row[i] < 0x7f ? row[i] : '.', f);
        }
        fputc('\n', f);
    }
}

const char *out_rtr(unsigned rtr)
{
    static const char *const text[] = {"none", "send",      "write",      "send+write",
                                       "read", "send+read", "write+read", "send+write+read"};
    return text[rtr % ARRAY_LEN(text)];
}
