/* SPDX-License-Identifier: MIT */
/* Actions, as in "send:n=10:se,read:n=4096:stag=0xc703:to=0x3000,disc". */
#include <stdarg.h>

#include "octets.h"
#include "resp_int.h"

/* One action: its word, and what stands behind the colons. */
struct action {
    char *word;
    char *part[12];
    unsigned cnt;
};

struct doing {
    struct resp *r;
    struct resp_conn *c;
    char *why;
    size_t room;
};

static bool cannot(struct doing *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool cannot(struct doing *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(d->why, d->room, fmt, ap);
    va_end(ap);
    return false;
}

static bool did(struct doing *d, int err)
{
    return err >= 0 || cannot(d, "no: %.120s", uiw_error());
}

static bool flag(const struct action *a, const char *name)
{
    for (unsigned i = 0; i < a->cnt; i++) {
        if (strcmp(a->part[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *value(const struct action *a, const char *key)
{
    size_t n = strlen(key);
    for (unsigned i = 0; i < a->cnt; i++) {
        if (strncmp(a->part[i], key, n) == 0 && a->part[i][n] == '=') {
            return a->part[i] + n + 1;
        }
    }
    return NULL;
}

/* It was looked at before. */
static uint64_t number(const struct action *a, const char *key, uint64_t def)
{
    const char *v = value(a, key);
    if (v != NULL) {
        octets_number(v, &def);
    }
    return def;
}

/* --- requests --- */

static struct uiw_send_wr request(const struct action *a, enum uiw_wr_opcode op)
{
    struct uiw_send_wr wr = {.wr_id = number(a, "id", 0),
                             .opcode = op,
                             .flags = UIW_SEND_SIGNALED,
                             .remote_addr = number(a, "to", 0x3000),
                             .rkey = (uint32_t)number(a, "stag", 0xc703),
                             .invalidate = (uint32_t)number(a, "inv", 0)};
    wr.flags = flag(a, "uns") ? 0 : UIW_SEND_SIGNALED;
    wr.flags |= flag(a, "se") ? UIW_SEND_SOLICITED : 0;
    wr.flags |= flag(a, "fence") ? UIW_SEND_FENCE : 0;
    wr.flags |= flag(a, "inline") ? UIW_SEND_INLINE : 0;
    return wr;
}

static bool is_atomic(enum uiw_wr_opcode op)
{
    return op >= UIW_WR_ATOMIC_FETCH_ADD && op <= UIW_WR_MASKED_ATOMIC_CMP_SWAP;
}

/* The action's octets: of src, or of sink for a Read. */
static bool post(struct doing *d, const struct action *a, struct uiw_send_wr *wr,
                 const char *region)
{
    struct resp_region *g = resp_region(d->r, region);
    uint64_t off = number(a, "off", 0), n = number(a, "n", is_atomic(wr->opcode) ? 8 : 0);
    if (d->c == NULL || d->c->qp == NULL || g->mr == NULL) {
        return cannot(d, "no: no connection of that number");
    }
    struct uiw_sge sge = {.addr = (uint64_t)(uintptr_t)(g->mem + RESP_GUARD) + off,
                          .length = (uint32_t)n,
                          .lkey = uiw_mr_lkey(g->mr)};
    wr->sg_list = &sge;
    wr->num_sge = 1;
    for (uint64_t times = number(a, "times", 1); times > 0; times--) {
        if (!did(d, uiw_qp_post_send(d->c->qp, wr, NULL))) {
            return false;
        }
    }
    return true;
}

static bool do_send(struct doing *d, const struct action *a)
{
    bool inv = value(a, "inv") != NULL;
    struct uiw_send_wr wr = request(a, inv ? UIW_WR_SEND_WITH_INV : UIW_WR_SEND);
    return post(d, a, &wr, "src");
}

static bool do_write(struct doing *d, const struct action *a)
{
    struct uiw_send_wr wr = request(a, UIW_WR_RDMA_WRITE);
    return post(d, a, &wr, "src");
}

static bool do_read(struct doing *d, const struct action *a)
{
    struct uiw_send_wr wr =
        request(a, flag(a, "inv") ? UIW_WR_RDMA_READ_WITH_INV : UIW_WR_RDMA_READ);
    return post(d, a, &wr, "sink");
}

static bool do_imm(struct doing *d, const struct action *a)
{
    struct uiw_send_wr wr = request(a, UIW_WR_IMM);
    wr.imm = number(a, "imm", 1);
    if (d->c == NULL || d->c->qp == NULL) {
        return cannot(d, "no: no connection of that number");
    }
    return did(d, uiw_qp_post_send(d->c->qp, &wr, NULL));
}

static bool do_write_imm(struct doing *d, const struct action *a)
{
    struct uiw_send_wr wr = request(a, UIW_WR_RDMA_WRITE_WITH_IMM);
    wr.imm = number(a, "imm", 1);
    return post(d, a, &wr, "src");
}

static bool atomic(struct doing *d, const struct action *a, enum uiw_wr_opcode plain,
                   enum uiw_wr_opcode masked)
{
    bool has_mask = value(a, "mask") != NULL || value(a, "smask") != NULL;
    struct uiw_send_wr wr = request(a, has_mask ? masked : plain);
    wr.atomic = (struct uiw_atomic){.compare_add = number(a, "add", number(a, "cmp", 0)),
                                    .swap = number(a, "swap", 0),
                                    .compare_add_mask = number(a, "mask", 0),
                                    .swap_mask = number(a, "smask", 0)};
    return post(d, a, &wr, "sink");
}

static bool do_fetch_add(struct doing *d, const struct action *a)
{
    return atomic(d, a, UIW_WR_ATOMIC_FETCH_ADD, UIW_WR_MASKED_ATOMIC_FETCH_ADD);
}

static bool do_cmp_swap(struct doing *d, const struct action *a)
{
    return atomic(d, a, UIW_WR_ATOMIC_CMP_SWAP, UIW_WR_MASKED_ATOMIC_CMP_SWAP);
}

static bool do_recv(struct doing *d, const struct action *a)
{
    uint64_t n = number(a, "n", 1);
    if (d->c == NULL || d->c->qp == NULL) {
        return cannot(d, "no: no connection of that number");
    }
    if (n > d->c->recv_slots - d->c->recv_cnt) {
        return cannot(d, "no: recv:n=%llu: there is room for %u more", (unsigned long long)n,
                      d->c->recv_slots - d->c->recv_cnt);
    }
    return did(d, resp_post_recv(d->r, d->c, (uint32_t)n));
}

/* --- connections --- */

/* It may have been destroyed, with its QP left. */
static bool has_conn(const struct doing *d)
{
    return d->c != NULL && d->c->conn != NULL;
}

static bool do_disconnect(struct doing *d, const struct action *a)
{
    (void)a;
    return has_conn(d) && did(d, uiw_disconnect(d->c->conn));
}

static bool do_abort(struct doing *d, const struct action *a)
{
    (void)a;
    return has_conn(d) && did(d, uiw_abort(d->c->conn));
}

static bool do_error(struct doing *d, const struct action *a)
{
    (void)a;
    return d->c != NULL && d->c->qp != NULL && did(d, uiw_qp_error(d->c->qp));
}

static bool do_destroy(struct doing *d, const struct action *a)
{
    bool conn = flag(a, "conn");
    if (d->c == NULL) {
        return cannot(d, "no: no connection of that number");
    }
    if (conn && d->c->conn != NULL) {
        uiw_conn_destroy(d->c->conn);
        d->c->conn = NULL;
    }
    struct resp_region *scoped = resp_region(d->r, "scoped");
    if (!conn && d->c->no == 1 && scoped->mr != NULL) {
        uiw_mr_dereg(scoped->mr);
        scoped->mr = NULL;
    }
    if (!conn && d->c->qp != NULL) {
        int err = uiw_qp_destroy(d->c->qp);
        d->c->qp = err == 0 ? NULL : d->c->qp;
        return did(d, err);
    }
    return true;
}

static bool do_accept(struct doing *d, const struct action *a)
{
    (void)a;
    return has_conn(d) && (resp_accept(d->r, d->c) || cannot(d, "no: %.120s", uiw_error()));
}

static bool do_reject(struct doing *d, const struct action *a)
{
    (void)a;
    return has_conn(d) && did(d, uiw_reject(d->c->conn, d->r->now.pd, d->r->now.pd_len));
}

static bool do_connect(struct doing *d, const struct action *a)
{
    (void)a;
    return resp_connect(d->r) || cannot(d, "no: %.120s", uiw_error());
}

/* The listener goes and comes again: what it has not told yet is lost. */
static bool do_relisten(struct doing *d, const struct action *a)
{
    (void)a;
    uiw_listener_destroy(d->r->listener);
    d->r->listener = NULL;
    return did(d, resp_listen(d->r));
}

/* --- the rest --- */

static bool do_dereg(struct doing *d, const struct action *a)
{
    struct resp_region *g = a->cnt > 0 ? resp_region(d->r, a->part[0]) : NULL;
    if (g == NULL || g->mr == NULL) {
        return cannot(d, "no: no such region");
    }
    int err = uiw_mr_dereg(g->mr);
    g->mr = err == 0 ? NULL : g->mr;
    return did(d, err);
}

static bool do_poll(struct doing *d, const struct action *a)
{
    (void)a;
    d->r->now.unpolled = false;
    return true;
}

static bool do_fail(struct doing *d, const struct action *a)
{
    (void)a;
    if (d->r->cfg.lasting) {
        return cannot(d, "cannot: its device does not fail when told to");
    }
    resp_fail(d->r);
    return true;
}

static bool do_hook(struct doing *d, const struct action *a)
{
    const struct resp_cfg *cfg = &d->r->cfg;
    if (cfg->hook == NULL || a->cnt == 0) {
        return cannot(d, "cannot do that from outside");
    }
    char *eq = strchr(a->part[0], '=');
    uint64_t v = 0;
    if (eq != NULL && !octets_is_number(eq + 1, UINT32_MAX, &v)) {
        return cannot(d, "no: hook:%.40s: want a number from 0 to %u", a->part[0], UINT32_MAX);
    }
    if (eq != NULL) {
        *eq = 0;
    }
    return cfg->hook(cfg->hook_arg, d->c != NULL ? d->c->conn : NULL, a->part[0], v) ||
           cannot(d, "cannot do that from outside");
}

/* --- words --- */

#define POSTED " id= uns se fence inline "
#define PLACED POSTED "n= off= stag= to= times= "

/* Each action, and what may stand behind it: KEY= has a number, "*" is anything. */
static const struct known {
    const char *word;
    bool (*act)(struct doing *, const struct action *);
    const char *parts;
} words[] = {
    {"send", do_send, POSTED "n= off= inv= times= "},
    {"write", do_write, PLACED},
    {"read", do_read, PLACED "inv "},
    {"imm", do_imm, POSTED "imm= "},
    {"writeimm", do_write_imm, PLACED "imm= "},
    {"fetchadd", do_fetch_add, PLACED "add= mask= "},
    {"cmpswap", do_cmp_swap, PLACED "cmp= swap= mask= smask= "},
    {"recv", do_recv, " n= "},
    {"disc", do_disconnect, ""},
    {"abort", do_abort, ""},
    {"error", do_error, ""},
    {"destroy", do_destroy, " conn "},
    {"accept", do_accept, ""},
    {"reject", do_reject, ""},
    {"connect", do_connect, ""},
    {"relisten", do_relisten, ""},
    {"dereg", do_dereg, "*"},
    {"poll", do_poll, ""},
    {"fail", do_fail, ""},
    {"hook", do_hook, "*"},
};

static bool is_wide(const char *key)
{
    static const char *const keys[] = {
        "id=", "to=", "off=", "imm=", "add=", "cmp=", "swap=", "mask=", "smask="};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strcmp(keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static bool part_is_known(struct doing *d, const struct known *k, const char *part)
{
    char key[24], word[26];
    size_t n = strcspn(part, "=");
    n += part[n] == '=';
    if (k->parts[0] == '*') {
        return true;
    }
    snprintf(key, sizeof key, "%.*s", (int)min_u64(n, sizeof key - 1), part);
    snprintf(word, sizeof word, " %s ", key);
    if (n >= sizeof key || strstr(k->parts, word) == NULL) {
        return cannot(d, "no: %s: '%.40s' is not understood", k->word, part);
    }
    uint64_t max = is_wide(key) ? UINT64_MAX : UINT32_MAX, v;
    return strchr(key, '=') == NULL || octets_is_number(part + n, max, &v) ||
           cannot(d, "no: %s: '%.40s': want a number from 0 to %llu", k->word, part,
                  (unsigned long long)max);
}

/* Cuts one action up; NULL, and what is wrong with it in d->why. */
static const struct known *parse(struct doing *d, char *text, struct action *a)
{
    const struct known *k = NULL;
    char *save = NULL;
    *a = (struct action){.word = strtok_r(text, ":", &save)};
    for (size_t i = 0; a->word != NULL && i < ARRAY_LEN(words); i++) {
        k = strcmp(words[i].word, a->word) == 0 ? &words[i] : k;
    }
    if (k == NULL) {
        cannot(d, "no: unknown action '%.40s'", a->word != NULL ? a->word : "");
        return NULL;
    }
    size_t most = k->parts[0] == '*' ? 1 : ARRAY_LEN(a->part);
    for (char *w; (w = strtok_r(NULL, ":", &save)) != NULL; a->part[a->cnt++] = w) {
        if (a->cnt == most) {
            cannot(d, "no: %s: '%.40s' is too much", k->word, w);
            return NULL;
        }
        if (!part_is_known(d, k, w)) {
            return NULL;
        }
    }
    return k;
}

static bool each(struct doing *d, const char *actions, bool act)
{
    char text[UIW_PRIVATE_MAX + 1], *save = NULL;
    struct action a;
    unsigned cnt = 0;
    d->why[0] = 0;
    snprintf(text, sizeof text, "%s", actions);
    for (char *w = strtok_r(text, ", ", &save); w != NULL; w = strtok_r(NULL, ", ", &save)) {
        const struct known *k = parse(d, w, &a);
        if (k != NULL && act && !k->act(d, &a) && d->why[0] == 0) {
            cannot(d, "no: no such connection");
        }
        if (d->why[0] != 0) {
            return false;
        }
        cnt++;
    }
    return cnt > 0 || cannot(d, "no: no action is named");
}

bool resp_do(struct resp *r, struct resp_conn *c, const char *actions, char *why, size_t room)
{
    struct doing d = {.r = r, .c = c, .why = why, .room = room};
    return each(&d, actions, false) && each(&d, actions, true);
}

bool resp_do_known(const char *actions, char *why, size_t room)
{
    struct doing d = {.why = why, .room = room};
    return each(&d, actions, false);
}
