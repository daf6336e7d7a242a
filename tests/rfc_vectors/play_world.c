/* SPDX-License-Identifier: MIT */
#include "play_world.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "api/conn.h"
#include "api/devspec.h"
#include "family.h"
#include "tcpip/net_base.h"

enum { PORT = 7174, LIMIT_MS = 2000 };

static void die(const char *what, const char *why)
{
    printf("%s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

/* --- the tested end in this process --- */

static bool turn(void *arg)
{
    struct world *w = arg;
    return resp_turn(w->resp, 0);
}

static void idle(void *arg)
{
    (void)arg;
    net_clock_advance(1);
}

static bool tune(void *arg, const char *knob, uint32_t value)
{
    struct world *w = arg;
    if (strcmp(knob, "isn") == 0) {
        net_test_isn(true, value);
        return true;
    }
    uint32_t *ppm = strcmp(knob, "dup") == 0       ? &w->wire.dup_ppm
                    : strcmp(knob, "loss") == 0    ? &w->wire.loss_ppm
                    : strcmp(knob, "reorder") == 0 ? &w->wire.reorder_ppm
                                                   : NULL;
    if (ppm == NULL) {
        return false;
    }
    *ppm = value;
    net_wire_set(w->net, &w->wire);
    return true;
}

/* What no peer and no program can do. */
static bool hook(void *arg, struct uiw_conn *c, const char *what, uint64_t value)
{
    (void)arg;
    if (c == NULL) {
        return false;
    }
    if (strcmp(what, "rxmsn") == 0) {
        for (unsigned i = 0; i < DDP_QNS; i++) {
            c->st.rx.q[i].msn = (uint32_t)value;
        }
    } else if (strcmp(what, "txmsn") == 0) {
        c->st.tx_msn[DDP_QN_SEND] = c->st.tx_msn[DDP_QN_REQUEST] = (uint32_t)value;
    } else if (strcmp(what, "emss") == 0) {
        c->stream->emss = (uint32_t)value;
    } else {
        return false;
    }
    return true;
}

static bool spec_ok(const char *spec)
{
    struct devspec d;
    return devspec_parse(spec, &d) == 0;
}

/* --- life --- */

void world_open(struct world *w, struct script **all, unsigned all_cnt, bool verbose)
{
    struct net_cfg cfg = {.kind = NET_PAIR, .name = "conform", .prefix = 24, .mtu = 1500};
    char err[NET_ERR_TEXT], ip[INET6_ADDRSTRLEN], spec[120];
    const struct resp_cfg rcfg = {.spec = spec,
                                  .spec_ok = spec_ok,
                                  .port = PORT,
                                  .hook = hook,
                                  .trace = verbose ? stdout : NULL};
    snprintf(spec, sizeof spec, "pair:conform,ip=%s,mtu=1500,spin=0", test_ip("198.18.0.2", ip));
    *w = (struct world){.wire = {.seed = 1}};
    if (test_v6()) {
        cfg.ip6 = test_ip6("198.18.0.1");
    } else {
        inet_pton(AF_INET, "198.18.0.1", &cfg.ip);
    }
    net_clock_virtual(1000);
    if (resp_open(&rcfg, &w->resp) != 0) {
        die("responder", uiw_error());
    }
    if (net_open(&cfg, &w->net, err) != 0) {
        die("net", err);
    }
    w->tr = transport_net(
        w->net, &(struct transport_guest){.turn = turn, .idle = idle, .tune = tune, .arg = w});
    if (w->tr == NULL) {
        die("transport", "out of memory");
    }
    w->tr->peer = test_addr("198.18.0.2", PORT);
    w->cfg = (struct play_cfg){.tr = w->tr,
                               .responder = true,
                               .limit_ms = LIMIT_MS,
                               .all = all,
                               .all_cnt = all_cnt,
                               .trace = verbose ? stdout : NULL};
}

/* Thousands of connections in one virtual second would all stand in TIME-WAIT. */
static void let_time_pass(struct world *w, unsigned ms)
{
    for (unsigned i = 0; i < ms; i += 10) {
        resp_turn(w->resp, 0);
        net_turn(w->net);
        net_flush(w->net);
        net_clock_advance(10);
    }
}

unsigned world_close(struct world *w)
{
    unsigned faults = 0;
    w->tr->ops->close(w->tr);
    let_time_pass(w, 200);
    resp_close(w->resp);
    net_close(w->net);
    net_clock_real();
    if (net_test_asserts() > 0) {
        printf("lwIP: %llu failed assertions\n", (unsigned long long)net_test_asserts());
        faults++;
    }
    return faults;
}

void world_reopen(struct world *w)
{
    const struct play_cfg cfg = w->cfg;
    world_close(w);
    world_open(w, cfg.all, cfg.all_cnt, cfg.trace != NULL);
}

void world_cut(struct world *w, uint32_t cut)
{
    w->wire = (struct net_wire){.seed = 1, .cut_at = cut};
    net_wire_set(w->net, &w->wire);
}

void world_play(struct world *w, const struct script *s, struct play_out *out)
{
    if (w->cfg.trace != NULL) {
        fprintf(w->cfg.trace, "%s %s\n", s->id, s->name);
    }
    play_run(&w->cfg, s, out);
    net_test_isn(false, 0);
    let_time_pass(w, 1200);
}
