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

/* NxSIZE, in which 0x64 is none of 64 octets. */
static bool set_pair(const char *text, uint32_t *a, uint32_t *b)
{
    uint64_t cnt, size;
    char digits[8];
    size_t n = strspn(text, "0123456789");
    if (n >= sizeof digits || text[n] != 'x') {
        return false;
    }
    snprintf(digits, sizeof digits, "%.*s", (int)n, text);
    if (!octets_is_number(digits, RESP_RECVS, &cnt) ||
        !octets_is_number(text + n + 1, RESP_RECV_SIZE, &size) || size == 0) {
        return false;
    }
    *a = (uint32_t)cnt;
    *b = (uint32_t)size;
    return true;
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
    static const struct {
        const char *word;
        unsigned bit;
    } kinds[] = {{"send", UIW_RTR_SEND}, {"write", UIW_RTR_WRITE}, {"read", UIW_RTR_READ}};
    do {
        size_t n = strcspn(text, "+"), i = 0;
        while (i < ARRAY_LEN(kinds) &&
               (strlen(kinds[i].word) != n || strncmp(kinds[i].word, text, n) != 0)) {
            i++;
        }
        if (i == ARRAY_LEN(kinds)) {
            return false;
        }
        c->rtr |= kinds[i].bit;
        text += n;
    } while (*text++ == '+');
    return true;
}

static bool set_text(char *to, size_t room, const char *text)
{
    return snprintf(to, room, "%s", text) < (int)room;
}

/* 14 bits on the wire; what the device can do is the API's to say. */
static bool set_depth(int *depth, const char *text)
{
    uint64_t n;
    if (!octets_is_number(text, 0x3fff, &n)) {
        return false;
    }
    *depth = n == 0 ? UIW_DEPTH_NONE : (int)n;
    return true;
}

static bool set_cq(struct resp_case *c, const char *text)
{
    uint64_t n;
    if (!octets_is_number(text, RESP_CQE, &n) || n == 0) {
        return false;
    }
    c->cqe = (uint32_t)n;
    c->unpolled = true;
    return true;
}

static bool set_key(struct resp_case *c, const char *key, const char *val)
{
    if (strcmp(key, "recv") == 0) {
        return set_pair(val, &c->recv_cnt, &c->recv_size);
    }
    if (strcmp(key, "ird") == 0) {
        return set_depth(&c->ird, val);
    }
    if (strcmp(key, "ord") == 0) {
        return set_depth(&c->ord, val);
    }
    if (strcmp(key, "cq") == 0) {
        return set_cq(c, val);
    }
    if (strcmp(key, "rtr") == 0) {
        return set_rtr(c, val);
    }
    if (strcmp(key, "pd") == 0) {
        return set_pd(c, val);
    }
    if (strcmp(key, "do") == 0) {
        return set_text(c->todo, sizeof c->todo, val);
    }
    if (strcmp(key, "device") == 0) {
        return set_text(c->keys, sizeof c->keys, val);
    }
    c->initiator |= strcmp(key, "to") == 0;
    return strcmp(key, "to") == 0 && set_to(val, &c->to);
}

static bool set_word(struct resp_case *c, char *word)
{
    char *eq = strchr(word, '=');
    if (eq != NULL) {
        *eq = 0;
        bool ok = set_key(c, word, eq + 1);
        *eq = '=';
        return ok;
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

/* What can be known of it before it is opened. */
static bool device_ok(struct resp *r, const char *keys, char *out, size_t room)
{
    char spec[RESP_SPEC];
    resp_spec(r, keys, spec);
    if (r->cfg.keys_ok != NULL && !r->cfg.keys_ok(keys)) {
        snprintf(out, room, "no: it cannot have %.100s", keys);
        return false;
    }
    if (keys[0] != 0 && r->cfg.spec_ok != NULL && !r->cfg.spec_ok(spec)) {
        snprintf(out, room, "no: %.150s", uiw_error());
        return false;
    }
    return true;
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
    if (c.todo[0] != 0 && !resp_do_known(c.todo, out, room)) {
        return;
    }
    if (!device_ok(r, c.keys, out, room)) {
        return;
    }
    r->broken[0] = 0;
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

/* The number that the question has, and nothing else; false has said what is wanted. */
static bool sole_number(const char *args, uint64_t max, uint64_t *n, char *out, size_t room)
{
    if (!octets_is_number(args, max, n)) {
        snprintf(out, room, "no: '%.60s': want a number from 0 to %llu", args,
                 (unsigned long long)max);
        return false;
    }
    return true;
}

/* Nothing may stand behind the question. */
static bool no_more(const char *args, char *out, size_t room)
{
    if (args[0] != 0) {
        snprintf(out, room, "no: '%.60s' is not understood", args);
    }
    return args[0] == 0;
}

static void ask_regions(struct resp *r, char *args, char *out, size_t room)
{
    uint64_t from;
    if (!sole_number(args, UINT32_MAX, &from, out, room)) {
        return;
    }
    size_t n = (size_t)snprintf(out, room, "ok");
    for (uint64_t i = from; i < RESP_REGIONS && n + 48 < room; i++) {
        const struct resp_region *g = &r->region[i];
        const struct uiw_mr *mr = g->mr;
        n += (size_t)snprintf(out + n, room - n, " %s=%x:%llx:%x", g->name,
                              mr != NULL ? uiw_mr_rkey(mr) : 0,
                              mr != NULL ? (unsigned long long)uiw_mr_addr(mr) : 0, g->len);
    }
}

static void ask_log(struct resp *r, char *args, char *out, size_t room)
{
    uint64_t from;
    if (!sole_number(args, UINT32_MAX, &from, out, room)) {
        return;
    }
    size_t n = (size_t)snprintf(out, room, "ok");
    for (uint64_t i = from; i < r->lines; i++) {
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
    uint64_t off, len;
    struct mspan m;
    size_t n = strcspn(args, " ");
    if (n >= sizeof name || args[n] == 0) {
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)n, args);
    const char *at = octets_number(args + n + 1, &off);
    if (at == NULL || *at != ' ' || !octets_is_number(at + 1, UINT32_MAX, &len) ||
        !resp_memory(r, name, &m) || off > m.n || len > m.n - off) {
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
    if (no_more(args, out, room)) {
        snprintf(out, room, "%s",
                 resp_guards_whole(r) ? "ok" : "no: octets outside a region were written");
    }
}

static void ask_hello(struct resp *r, char *args, char *out, size_t room)
{
    if (no_more(args, out, room)) {
        snprintf(out, room, "ok %.60s %s", r->cfg.hello != NULL ? r->cfg.hello : "uiw",
                 uiw_version());
    }
}

/* N registrations: how many STags came twice, were 0, or followed their predecessor (RFC 5040 sec
 * 8.1.1). */
static void ask_entropy(struct resp *r, char *args, char *out, size_t room)
{
    unsigned long twice = 0, in_row = 0, zero = 0;
    uint64_t n;
    uint8_t mem[16];
    if (!sole_number(args, RESP_ENTROPY, &n, out, room)) {
        return;
    }
    uint32_t *seen = calloc(n + 1, sizeof *seen);
    for (uint64_t i = 0; seen != NULL && i < n; i++) {
        struct uiw_mr *mr;
        if (uiw_mr_reg(r->pd, mem, sizeof mem, UIW_ACCESS_LOCAL_WRITE, &mr) != 0) {
            snprintf(out, room, "no: %.120s", uiw_error());
            free(seen);
            return;
        }
        seen[i] = uiw_mr_rkey(mr) >> 8;
        uiw_mr_dereg(mr);
        zero += seen[i] == 0;
        in_row += i > 0 && seen[i] - seen[i - 1] + 1 <= 2;
        for (uint64_t k = i > 1000 ? i - 1000 : 0; k < i; k++) {
            twice += seen[k] == seen[i];
        }
    }
    free(seen);
    snprintf(out, room, "ok twice=%lu inrow=%s zero=%lu", twice, in_row > 2 ? "many" : "few", zero);
}

static void ask_do(struct resp *r, char *args, char *out, size_t room)
{
    char why[150] = "";
    uint64_t no;
    const char *at = octets_number(args, &no);
    if (at == NULL || *at != ' ' || no < 1) {
        snprintf(out, room, "no: want do CONNECTION ACTIONS");
        return;
    }
    struct resp_conn *c = no <= r->conns ? &r->conn[no - 1] : NULL;
    bool ok = resp_do(r, c, at, why, sizeof why);
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
    bool broken = r->broken[0] != 0 && strcmp(text, "case") != 0;
    if (broken) {
        snprintf(out, sizeof out, "no: the device cannot be opened so: %s", r->broken);
    }
    for (size_t i = 0; i < ARRAY_LEN(words) && !broken; i++) {
        if (strcmp(words[i].word, text) == 0) {
            words[i].ask(r, args, out, sizeof out);
            break;
        }
    }
    uiw_reject(ev->conn, out, (uint32_t)strlen(out));
    uiw_conn_destroy(ev->conn);
}
