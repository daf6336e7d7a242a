/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "conn.h"

enum { TERMS_MAX = 16, VALUES_MAX = 16 };

enum field {
    F_CONN,
    F_PORT,
    F_HOST,
    F_DIR,
    F_OP,
    F_STAG,
    F_SIZE,
    F_TIME,
    F_FRAME,
    F_LATENCY,
    F_ERROR
};

static const struct {
    const char *name;
    enum field f;
} fields[] = {
    {"conn", F_CONN},   {"port", F_PORT},   {"host", F_HOST},       {"dir", F_DIR},
    {"op", F_OP},       {"stag", F_STAG},   {"size", F_SIZE},       {"bytes", F_SIZE},
    {"time", F_TIME},   {"frame", F_FRAME}, {"latency", F_LATENCY}, {"errors", F_ERROR},
    {"error", F_ERROR},
};

/* An inclusive range; times in nanoseconds. */
struct value {
    uint64_t low, high;
    uint8_t addr[16];
};

struct term {
    bool negate;
    enum field field;
    unsigned values;
    struct value v[VALUES_MAX];
};

struct filter {
    unsigned terms;
    struct term t[TERMS_MAX];
};

static bool is_time(enum field f)
{
    return f == F_TIME || f == F_LATENCY;
}

/* A unit at *s, which then stands behind it, or 1. */
static double read_unit(enum field f, char **s)
{
    static const struct {
        const char *name;
        bool time;
        double factor;
    } units[] = {
        {"ns", true, 1e-9}, {"us", true, 1e-6},    {"ms", true, 1e-3},    {"s", true, 1},
        {"k", false, 1024}, {"M", false, 1 << 20}, {"G", false, 1 << 30},
    };
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        size_t n = strlen(units[i].name);
        bool fits = units[i].time ? is_time(f) : f == F_SIZE;
        if (fits && strncmp(*s, units[i].name, n) == 0) {
            *s += n;
            return units[i].factor;
        }
    }
    return 1;
}

/* Up to the dots of a range, which strtod() would take for a fraction's. */
static double read_real(const char *s, char **end)
{
    char copy[64];
    size_t n = strspn(s, "0123456789.eE+");
    const char *dots = strstr(s, "..");
    n = dots != NULL && (size_t)(dots - s) < n ? (size_t)(dots - s) : n;
    n = n < sizeof copy ? n : sizeof copy - 1;
    memcpy(copy, s, n);
    copy[n] = '\0';
    char *stop;
    double v = strtod(copy, &stop);
    *end = (char *)(uintptr_t)s + (stop - copy);
    return v;
}

static bool read_number(enum field f, const char **s, uint64_t *out)
{
    char *end;
    if (**s < '0' || **s > '9') { /* no signs, no blanks */
        return false;
    }
    if (is_time(f)) {
        double v = read_real(*s, &end);
        v *= read_unit(f, &end);
        *out = (uint64_t)(v * 1e9 + 0.5);
        *s = end;
        return v < 1e9;
    }
    errno = 0;
    *out = strtoull(*s, &end, 0);
    uint64_t unit = (uint64_t)read_unit(f, &end);
    bool ok = errno == 0 && *out <= UINT64_MAX / unit;
    *out *= unit;
    *s = end;
    return ok;
}

static bool read_word(enum field f, const char *s, struct value *v)
{
    if (f == F_HOST) {
        memset(v->addr, 0, sizeof v->addr);
        return inet_pton(AF_INET, s, v->addr) == 1 || inet_pton(AF_INET6, s, v->addr) == 1;
    }
    if (f == F_DIR) {
        bool c2s = strcmp(s, "c2s") == 0 || strcmp(s, ">") == 0;
        v->low = v->high = c2s ? 0 : 1;
        return c2s || strcmp(s, "s2c") == 0 || strcmp(s, "<") == 0;
    }
    for (unsigned i = 0; i < OPCODES; i++) { /* F_OP */
        if (strcmp(s, op_name(i)) == 0) {
            v->low = v->high = i;
            return true;
        }
    }
    return false;
}

/* One alternative: a word, a number, or a range low..high with either end left out. */
static bool read_value(enum field f, const char *s, struct value *v)
{
    if (f == F_HOST || f == F_DIR || f == F_OP) {
        return read_word(f, s, v);
    }
    v->low = 0;
    if (strncmp(s, "..", 2) != 0 && !read_number(f, &s, &v->low)) {
        return false;
    }
    v->high = v->low;
    if (strncmp(s, "..", 2) == 0) {
        s += 2;
        v->high = UINT64_MAX;
        if (*s != '\0' && !read_number(f, &s, &v->high)) {
            return false;
        }
    }
    return *s == '\0' && v->low <= v->high;
}

/* field OP value: the comparison as a range. */
static bool read_comparison(struct term *t, const char *op, const char *s)
{
    struct value *v = &t->v[0];
    uint64_t n;
    t->values = 1;
    if (t->field == F_HOST || t->field == F_DIR || t->field == F_OP ||
        !read_number(t->field, &s, &n) || *s != '\0') {
        return false;
    }
    bool open = op[1] != '='; /* the bound itself is left out */
    if (op[0] == '<') {
        v->low = open && n == 0 ? 1 : 0;
        v->high = open && n > 0 ? n - 1 : open ? 0 : n;
    } else {
        v->low = open ? n + 1 : n;
        v->high = UINT64_MAX;
    }
    return true;
}

static bool find_field(const char *name, size_t n, enum field *f)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strlen(fields[i].name) == n && strncmp(fields[i].name, name, n) == 0) {
            *f = fields[i].f;
            return true;
        }
    }
    return false;
}

static bool read_term(struct term *t, char *s)
{
    memset(t, 0, sizeof *t);
    if (*s == '!') {
        t->negate = true;
        s++;
    }
    size_t n = strcspn(s, "=<>!");
    if (!find_field(s, n, &t->field)) {
        return false;
    }
    char *op = s + n;
    if (*op == '\0') {
        return t->field == F_ERROR;
    }
    if (*op == '<' || *op == '>') {
        return read_comparison(t, op, op + (op[1] == '=' ? 2 : 1));
    }
    if (*op == '!') {
        t->negate = !t->negate;
        op++;
    }
    if (*op != '=') {
        return false;
    }
    char *save = NULL;
    for (char *p = strtok_r(op + 1, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save)) {
        if (t->values == VALUES_MAX || !read_value(t->field, p, &t->v[t->values++])) {
            return false;
        }
    }
    return t->values > 0;
}

/* What the field of the term takes. */
static const char *help_on(const char *term)
{
    const char *name = term + (*term == '!');
    enum field f;
    if (!find_field(name, strcspn(name, "=<>!"), &f)) {
        return "the fields are conn host port dir op stag size time frame latency error";
    }
    switch (f) {
    case F_DIR: return "dir is c2s or s2c";
    case F_HOST: return "host is an IPv4 or IPv6 address";
    case F_ERROR: return "error stands alone, or is compared with a number";
    case F_OP:
        return "op is send send_inv send_se send_se_inv write read_request read_response terminate "
               "immediate immediate_se atomic_request atomic_response";
    case F_TIME:
    case F_LATENCY: return "a number of seconds, with ns us ms or s behind it, or a range a..b";
    default: return "a number, decimal or 0x..., or a range a..b";
    }
}

struct filter *filter_parse(const char *text, char err[FILTER_ERR])
{
    struct filter *f = calloc(1, sizeof *f);
    char *copy = strdup(text);
    char *save = NULL;
    bool ok = f != NULL && copy != NULL;
    snprintf(err, FILTER_ERR, "out of memory");
    for (char *p = ok ? strtok_r(copy, " \t", &save) : NULL; ok && p != NULL;
         p = strtok_r(NULL, " \t", &save)) {
        snprintf(err, FILTER_ERR, "term %u of the filter is not understood: %.80s; %s",
                 f->terms + 1, p, help_on(p));
        if (strcmp(p, "and") == 0) {
            continue;
        }
        ok = f->terms < TERMS_MAX && read_term(&f->t[f->terms++], p);
    }
    free(copy);
    if (!ok) {
        free(f);
        return NULL;
    }
    return f;
}

void filter_free(struct filter *f)
{
    free(f);
}

static bool within(const struct term *t, uint64_t x)
{
    for (unsigned i = 0; i < t->values; i++) {
        if (x >= t->v[i].low && x <= t->v[i].high) {
            return true;
        }
    }
    return false;
}

static bool of_conn(enum field f)
{
    return f == F_CONN || f == F_PORT || f == F_HOST;
}

static bool holds_conn(const struct term *t, const struct conn *c)
{
    if (t->field == F_CONN) {
        return within(t, c->id);
    }
    if (t->field == F_PORT) {
        return within(t, c->port[0]) || within(t, c->port[1]);
    }
    for (unsigned i = 0; i < t->values; i++) {
        if (memcmp(t->v[i].addr, c->addr[0], 16) == 0 ||
            memcmp(t->v[i].addr, c->addr[1], 16) == 0) {
            return true;
        }
    }
    return false;
}

static bool touches_stag(const struct term *t, const struct msg *m)
{
    bool inv = rdmap_opcode_invalidates(m->opcode) && within(t, m->inv_stag);
    bool read =
        (m->opcode == RDMAP_READ_REQUEST || m->opcode == RDMAP_READ_RESPONSE) && m->whole_hdr;
    return inv || (m->tagged && within(t, m->stag)) ||
           (read && (within(t, m->req.sink_stag) || within(t, m->req.src_stag))) ||
           (m->opcode == RDMAP_ATOMIC_REQUEST && m->whole_hdr && within(t, m->atomic.stag));
}

static bool holds(const struct term *t, const struct msg *m, uint64_t start_ns)
{
    switch (t->field) {
    case F_DIR: return within(t, m->at.dir);
    case F_OP: return within(t, m->opcode);
    case F_STAG: return touches_stag(t, m);
    case F_SIZE:
        return m->opcode != OP_NONE && msg_size(m) != SIZE_UNKNOWN && within(t, msg_size(m));
    case F_TIME: return m->at.ns >= start_ns && within(t, m->at.ns - start_ns);
    case F_FRAME: return within(t, m->at.frame);
    case F_LATENCY: return m->answered && within(t, m->latency_ns);
    case F_ERROR: {
        uint32_t n = max_u32(m->errors, m->opcode == RDMAP_TERMINATE ? 1 : 0);
        return t->values == 0 ? n > 0 : within(t, n);
    }
    default: return holds_conn(t, m->at.conn);
    }
}

bool filter_conn(const struct filter *f, const struct conn *c)
{
    for (unsigned i = 0; i < f->terms; i++) {
        const struct term *t = &f->t[i];
        if (of_conn(t->field) && holds_conn(t, c) == t->negate) {
            return false;
        }
    }
    return true;
}

bool filter_is_deep(const struct filter *f)
{
    for (unsigned i = 0; i < f->terms; i++) {
        if (!of_conn(f->t[i].field)) {
            return true;
        }
    }
    return false;
}

int filter_fpdu(const struct filter *f, const struct place *at, unsigned opcode)
{
    struct msg m = {.at = *at, .opcode = opcode};
    int verdict = 1;
    for (unsigned i = 0; i < f->terms; i++) {
        const struct term *t = &f->t[i];
        if (!of_conn(t->field) && t->field != F_DIR && t->field != F_OP) {
            verdict = 0;
        } else if (holds(t, &m, 0) == t->negate) {
            return -1;
        }
    }
    return verdict;
}

bool filter_gap(const struct filter *f, const struct place *at, uint64_t start_ns)
{
    struct msg m = {.at = *at, .opcode = OP_NONE};
    for (unsigned i = 0; i < f->terms; i++) {
        const struct term *t = &f->t[i];
        bool known =
            of_conn(t->field) || t->field == F_DIR || t->field == F_TIME || t->field == F_FRAME;
        if (known && holds(t, &m, start_ns) == t->negate) {
            return false;
        }
    }
    return true;
}

bool filter_message(const struct filter *f, const struct msg *m, uint64_t start_ns)
{
    for (unsigned i = 0; i < f->terms; i++) {
        if (holds(&f->t[i], m, start_ns) == f->t[i].negate) {
            return false;
        }
    }
    return true;
}
