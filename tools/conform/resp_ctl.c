/* SPDX-License-Identifier: MIT */
/* Questions: Requests whose private data begins with a word that no other program sends. Each is
 * rejected, with the answer as the private data of the Reply. */
#include <stdlib.h>

#include "../address.h"
#include "base/crc32c.h"
#include "octets.h"
#include "resp_int.h"

static const char magic[] = "uiw-conform ";

bool resp_is_question(const struct uiw_event *ev)
{
    return ev->private_len >= RESP_MAGIC && memcmp(ev->private_data, magic, RESP_MAGIC) == 0;
}

/* --- case --- */

static bool set_pair(const char *text, uint32_t *a, uint32_t *b)
{
    return sscanf(text, "%ux%u", a, b) == 2 && *a <= RESP_RECVS && *b > 0 && *b <= 65536;
}

static bool set_to(const char *text, struct sockaddr_storage *to)
{
    return address_parse_endpoint(text, 0, to) && address_port(to) != 0;
}

/* The zone of a link-local address is ours, not the player's: that by which the question came. */
static void set_zone(struct sockaddr_storage *to, const struct uiw_conn *asked_on)
{
    struct sockaddr_in6 in6, from;
    struct uiw_conn_info info;
    memcpy(&in6, to, sizeof in6);
    if (to->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) &&
        uiw_conn_query(asked_on, &info) == 0 && info.remote.ss_family == AF_INET6) {
        memcpy(&from, &info.remote, sizeof from);
        in6.sin6_scope_id = from.sin6_scope_id;
        memcpy(to, &in6, sizeof in6);
    }
}

static bool set_pd(struct resp_case *c, const char *text)
{
    int64_t n = octets_group(text, c->pd, sizeof c->pd);
    c->pd_len = (uint16_t)(n > 0 ? n : 0);
    return n >= 0;
}

static bool set_rtr(struct resp_case *c, const char *text)
{
    c->rtr |= strstr(text, "send") != NULL ? (unsigned)UIW_RTR_SEND : 0;
    c->rtr |= strstr(text, "write") != NULL ? (unsigned)UIW_RTR_WRITE : 0;
    c->rtr |= strstr(text, "read") != NULL ? (unsigned)UIW_RTR_READ : 0;
    return c->rtr != 0;
}

static bool set_text(char *to, size_t room, const char *text)
{
    return snprintf(to, room, "%s", text) < (int)room;
}

static int depth(const char *text)
{
    int n = atoi(text);
    return n == 0 ? UIW_DEPTH_NONE : n;
}

static bool set_key(struct resp_case *c, const char *key, const char *val)
{
    if (strcmp(key, "recv") == 0) {
        return set_pair(val, &c->recv_cnt, &c->recv_size);
    }
    if (strcmp(key, "ird") == 0) {
        c->ird = depth(val);
    } else if (strcmp(key, "ord") == 0) {
        c->ord = depth(val);
    } else if (strcmp(key, "cq") == 0) {
        c->cqe = (uint32_t)atoi(val);
        c->unpolled = true;
    } else if (strcmp(key, "rtr") == 0) {
        return set_rtr(c, val);
    } else if (strcmp(key, "pd") == 0) {
        return set_pd(c, val);
    } else if (strcmp(key, "do") == 0) {
        return set_text(c->todo, sizeof c->todo, val);
    } else if (strcmp(key, "device") == 0) {
        return set_text(c->keys, sizeof c->keys, val);
    } else if (strcmp(key, "to") == 0) {
        c->initiator = true;
        return set_to(val, &c->to);
    } else {
        return false;
    }
    return true;
}

static bool set_word(struct resp_case *c, char *word)
{
    char *eq = strchr(word, '=');
    if (eq != NULL) {
        *eq = 0;
        return set_key(c, word, eq + 1);
    }
    bool *flag = strcmp(word, "reject") == 0      ? &c->reject
                 : strcmp(word, "hold") == 0      ? &c->hold
                 : strcmp(word, "p2p") == 0       ? &c->p2p
                 : strcmp(word, "solicited") == 0 ? &c->solicited
                 : strcmp(word, "srq") == 0       ? &c->srq
                                                  : NULL;
    if (flag != NULL) {
        *flag = true;
    }
    return flag != NULL;
}

static void ask_case(struct resp *r, char *args, char *out, size_t room)
{
    struct resp_case c = {.recv_cnt = 8, .recv_size = 2048};
    char *save = NULL;
    for (char *w = strtok_r(args, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        if (!set_word(&c, w)) {
            snprintf(out, room, "no: '%.60s' is not understood", w);
            return;
        }
    }
    if (r->cfg.keys_ok != NULL && !r->cfg.keys_ok(c.keys)) {
        snprintf(out, room, "no: it cannot have %.100s", c.keys);
        return;
    }
    set_zone(&c.to, r->asker);
    resp_reset(r);
    r->now = c;
    if (strcmp(c.keys, r->keys) != 0) {
        r->reopen = true;
        r->reopen_turns = RESP_TURNS;
        snprintf(out, room, "ok reopen");
        return;
    }
    bool ok = resp_case_begin(r);
    snprintf(out, room, "%s%.150s", ok ? "ok" : "no: ", ok ? "" : uiw_error());
}

/* --- what can be seen --- */

static void ask_regions(struct resp *r, char *args, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "ok");
    unsigned from = (unsigned)strtoul(args, NULL, 10);
    for (unsigned i = from; i < RESP_REGIONS && n + 48 < room; i++) {
        const struct resp_region *g = &r->region[i];
        const struct uiw_mr *mr = g->mr;
        n += (size_t)snprintf(out + n, room - n, " %s=%x:%llx:%x", g->name,
                              mr != NULL ? uiw_mr_rkey(mr) : 0,
                              mr != NULL ? (unsigned long long)uiw_mr_addr(mr) : 0, g->len);
    }
}

static void ask_log(struct resp *r, char *args, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "ok");
    for (unsigned i = (unsigned)strtoul(args, NULL, 10); i < r->lines; i++) {
        if (n + strlen(r->line[i]) + 1 >= room) {
            return;
        }
        n += (size_t)snprintf(out + n, room - n, "\n%s", r->line[i]);
    }
}

/* NAME OFFSET LENGTH */
static bool find_memory(struct resp *r, const char *args, struct span *out)
{
    char name[16];
    unsigned long long off, len;
    struct mspan m;
    if (sscanf(args, "%15s %llu %llu", name, &off, &len) != 3 || !resp_memory(r, name, &m) ||
        off > m.n || len > m.n - off) {
        return false;
    }
    *out = (struct span){m.p + off, (uint32_t)len};
    return true;
}

static void ask_peek(struct resp *r, char *args, char *out, size_t room)
{
    struct span s;
    if (!find_memory(r, args, &s) || 2 * (size_t)s.n + 4 > room) {
        snprintf(out, room, "no: no such octets");
        return;
    }
    size_t n = (size_t)snprintf(out, room, "ok ");
    for (uint32_t i = 0; i < s.n; i++) {
        n += (size_t)snprintf(out + n, room - n, "%02x", s.p[i]);
    }
}

static void ask_sum(struct resp *r, char *args, char *out, size_t room)
{
    struct span s;
    if (!find_memory(r, args, &s)) {
        snprintf(out, room, "no: no such octets");
        return;
    }
    snprintf(out, room, "ok %08x", crc32c_final(crc32c_add(CRC32C_INIT, s.p, s.n)));
}

static void ask_u64(struct resp *r, char *args, char *out, size_t room)
{
    char with_len[60];
    struct span s;
    uint64_t v;
    snprintf(with_len, sizeof with_len, "%.40s 8", args);
    if (!find_memory(r, with_len, &s)) {
        snprintf(out, room, "no: no such octets");
        return;
    }
    memcpy(&v, s.p, sizeof v);
    snprintf(out, room, "ok 0x%llx", (unsigned long long)v);
}

static void ask_guards(struct resp *r, char *args, char *out, size_t room)
{
    (void)args;
    snprintf(out, room, "%s",
             resp_guards_whole(r) ? "ok" : "no: octets outside a region were written");
}

static void ask_hello(struct resp *r, char *args, char *out, size_t room)
{
    (void)args;
    snprintf(out, room, "ok %.60s %s", r->cfg.hello != NULL ? r->cfg.hello : "uiw", uiw_version());
}

/* N registrations: how many STags came twice, were 0, or followed their predecessor (RFC 5040 sec
 * 8.1.1). */
static void ask_entropy(struct resp *r, char *args, char *out, size_t room)
{
    unsigned long n = strtoul(args, NULL, 10), twice = 0, in_row = 0, zero = 0;
    uint32_t *seen = n > 0 && n <= 20000 ? calloc(n, sizeof *seen) : NULL;
    uint8_t mem[16];
    for (unsigned long i = 0; seen != NULL && i < n; i++) {
        struct uiw_mr *mr;
        if (uiw_mr_reg(r->pd, mem, sizeof mem, UIW_ACCESS_LOCAL_WRITE, &mr) != 0) {
            break;
        }
        seen[i] = uiw_mr_rkey(mr) >> 8;
        uiw_mr_dereg(mr);
        zero += seen[i] == 0;
        in_row += i > 0 && seen[i] - seen[i - 1] + 1 <= 2;
        for (unsigned long k = i > 1000 ? i - 1000 : 0; k < i; k++) {
            twice += seen[k] == seen[i];
        }
    }
    free(seen);
    snprintf(out, room, "ok twice=%lu inrow=%s zero=%lu", twice, in_row > 2 ? "many" : "few", zero);
}

static void ask_do(struct resp *r, char *args, char *out, size_t room)
{
    unsigned no = 0;
    int at = 0;
    char why[150] = "";
    if (sscanf(args, "%u %n", &no, &at) != 1 || no < 1) {
        snprintf(out, room, "no: want do CONNECTION ACTIONS");
        return;
    }
    struct resp_conn *c = no <= r->conns ? &r->conn[no - 1] : NULL;
    bool ok = resp_do(r, c, args + at, why, sizeof why);
    snprintf(out, room, "%s", ok ? "ok" : why);
}

/* --- answers --- */

void resp_answer(struct resp *r, const struct uiw_event *ev)
{
    if (r->reopen) { /* what it would tell is of the device that goes */
        uiw_conn_destroy(ev->conn);
        return;
    }
    static const struct {
        const char *word;
        void (*ask)(struct resp *, char *, char *, size_t);
    } words[] = {
        {"case", ask_case},     {"regions", ask_regions}, {"log", ask_log},
        {"peek", ask_peek},     {"sum", ask_sum},         {"u64", ask_u64},
        {"guards", ask_guards}, {"hello", ask_hello},     {"entropy", ask_entropy},
        {"do", ask_do},
    };
    char text[UIW_PRIVATE_MAX + 1], out[RESP_ANSWER + 1] = "no: unknown question";
    uint32_t n = ev->private_len - RESP_MAGIC;
    memcpy(text, ev->private_data + RESP_MAGIC, n);
    text[n] = 0;
    size_t len = strcspn(text, " ");
    char *args = text[len] != 0 ? text + len + 1 : text + len;
    text[len] = 0;
    r->asker = ev->conn;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i].word, text) == 0) {
            words[i].ask(r, args, out, sizeof out);
            break;
        }
    }
    uiw_reject(ev->conn, out, (uint32_t)strlen(out));
    uiw_conn_destroy(ev->conn);
}
