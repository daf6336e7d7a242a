/* SPDX-License-Identifier: MIT */
/* The regions that a responder exposes, and what stands in them. */
#include <errno.h>
#include <stdlib.h>

#include "octets.h"
#include "resp_int.h"

enum { GUARD_OCTET = 0xee, PATTERN_PERIOD = 256 };

enum {
    LOCAL = UIW_ACCESS_LOCAL_WRITE,
    READ = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_READ,
    WRITE = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE,
    BOTH = READ | WRITE,
};

static const struct resp_region regions[RESP_REGIONS] = {
    {.name = "rw", .len = 0x11000, .access = BOTH | UIW_ACCESS_ZERO_BASED},
    {.name = "ro", .len = 0x1000, .access = READ, .pattern = true},
    {.name = "wo", .len = 0x1000, .access = WRITE},
    {.name = "no", .len = 0x1000, .access = LOCAL},
    {.name = "other", .len = 0x11000, .access = BOTH, .other_pd = true},
    {.name = "inv1", .len = 0x1000, .access = BOTH},
    {.name = "inv2", .len = 0x1000, .access = BOTH},
    {.name = "noinv", .len = 0x1000, .access = BOTH | UIW_ACCESS_NO_REMOTE_INV},
    {.name = "small", .len = 100, .access = BOTH},
    {.name = "scoped", .len = 0x1000, .access = BOTH, .scoped = true},
    {.name = "sink", .len = 0x40000, .access = LOCAL},
    {.name = "src", .len = 0x40000, .access = LOCAL, .pattern = true},
    {.name = "big", .len = 0x40000, .access = BOTH, .pattern = true},
    {.name = "at", .len = 0x1000, .access = BOTH | UIW_ACCESS_REMOTE_ATOMIC, .numbers = true},
    {.name = "ato", .len = 0x1000, .access = LOCAL | UIW_ACCESS_REMOTE_ATOMIC, .numbers = true},
};

struct resp_region *resp_region(struct resp *r, const char *name)
{
    for (unsigned i = 0; i < RESP_REGIONS; i++) {
        if (strcmp(r->region[i].name, name) == 0) {
            return &r->region[i];
        }
    }
    return NULL;
}

bool resp_memory(struct resp *r, const char *name, struct mspan *out)
{
    struct resp_region *g = resp_region(r, name);
    if (g != NULL) {
        *out = (struct mspan){g->mem + RESP_GUARD, g->len};
        return true;
    }
    if (strcmp(name, "recv") == 0 && r->conns > 0 && r->conn[0].recv_mem != NULL) {
        *out = (struct mspan){r->conn[0].recv_mem, r->conn[0].recv_cnt * r->conn[0].recv_size};
        return true;
    }
    return false;
}

/* What the Atomics of the byte vectors find, in the order of this machine. */
static void fill_numbers(const struct resp_region *g, uint8_t *m)
{
    const uint64_t at8 = 41, at16 = 0x5555666677778888u;
    if (g->numbers) {
        memcpy(m + 8, &at8, sizeof at8);
        memcpy(m + 16, &at16, sizeof at16);
    }
}

static void fill(struct resp_region *g)
{
    uint8_t *m = g->mem + RESP_GUARD;
    memset(g->mem, GUARD_OCTET, RESP_GUARD);
    memset(m + g->len, GUARD_OCTET, RESP_GUARD);
    if (!g->pattern) {
        memset(m, 0, g->len);
        fill_numbers(g, m);
        return;
    }
    for (uint32_t i = 0; i < min_u32(g->len, PATTERN_PERIOD); i++) {
        m[i] = octets_pattern(i);
    }
    for (uint32_t n = PATTERN_PERIOD; n < g->len; n *= 2) {
        memcpy(m + n, m, min_u32(n, g->len - n));
    }
}

static bool intact(const uint8_t *p)
{
    for (unsigned i = 0; i < RESP_GUARD; i++) {
        if (p[i] != GUARD_OCTET) {
            return false;
        }
    }
    return true;
}

bool resp_guards_whole(const struct resp *r)
{
    for (unsigned i = 0; i < RESP_REGIONS; i++) {
        const struct resp_region *g = &r->region[i];
        if (!intact(g->mem) || !intact(g->mem + RESP_GUARD + g->len)) {
            return false;
        }
    }
    return true;
}

int resp_register(struct resp *r, struct resp_region *g, struct uiw_qp *qp)
{
    uint8_t *m = g->mem + RESP_GUARD;
    if (g->scoped) {
        return uiw_mr_reg_qp(qp, m, g->len, g->access, &g->mr);
    }
    return uiw_mr_reg(g->other_pd ? r->other_pd : r->pd, m, g->len, g->access, &g->mr);
}

bool resp_register_all(struct resp *r)
{
    for (unsigned i = 0; i < RESP_REGIONS; i++) {
        struct resp_region *g = &r->region[i];
        fill(g);
        int err = g->scoped ? 0 : resp_register(r, g, NULL);
        if (err != 0 && err != -EOPNOTSUPP) {
            return false;
        }
    }
    return true;
}

bool resp_memory_new(struct resp *r)
{
    for (unsigned i = 0; i < RESP_REGIONS; i++) {
        r->region[i] = regions[i];
        r->region[i].mem = malloc(r->region[i].len + 2 * (size_t)RESP_GUARD);
        if (r->region[i].mem == NULL) {
            return false;
        }
    }
    return true;
}

void resp_memory_free(struct resp *r)
{
    for (unsigned i = 0; i < RESP_REGIONS; i++) {
        free(r->region[i].mem);
    }
}
