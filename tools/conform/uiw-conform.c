/* SPDX-License-Identifier: MIT */
/* uiw-conform: plays the vector files as the peer of a live implementation, and judges its answers.
 * docs/man/uiw-conform.1 has the options. */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../address.h"
#include "api/devspec.h"
#include "report.h"
#include "resp.h"

enum {
    PORT = 7174,
    PATTERNS = 32,
    EXIT_USAGE = 2,
    MAX_PORT = 65535,
    MAX_TIMEOUT_MS = 600000,
    MAX_WAIT_MS = 60000,
    MAX_CUT = 65535,
};

#ifndef VECTORS_DIR
#define VECTORS_DIR "tests/rfc_vectors"
#endif

static struct {
    const char *device, *vectors, *output, *peer, *colour;
    const char *pattern[PATTERNS], *without[PATTERNS]; /* ids */
    const char *rfc[PATTERNS], *section[PATTERNS];
    unsigned patterns, withouts, rfcs, sections;
    enum report_format format;
    bool listen, responder, strict, list, verbose, host_order, plain_peer;
    unsigned port, timeout_ms, cut, pause_ms, gap_ms;
} opt = {.timeout_ms = 3000, .port = PORT, .colour = "auto"};

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
    (void)sig;
    stopped = 1;
}

static int trouble(const char *what, const char *why)
{
    fprintf(stderr, "uiw-conform: %s: %s\n", what, why);
    return EXIT_USAGE;
}

/* --- options --- */

enum { O_HOST_ORDER = 256, O_COLOUR, O_CUT, O_BASE, O_PAUSE, O_GAP, O_VERSION };

static const struct option options[] = {
    {"device", required_argument, NULL, 'd'},
    {"listen", no_argument, NULL, 'L'},
    {"responder", no_argument, NULL, 'R'},
    {"port", required_argument, NULL, 'p'},
    {"id", required_argument, NULL, 'i'},
    {"exclude", required_argument, NULL, 'x'},
    {"rfc", required_argument, NULL, 'r'},
    {"section", required_argument, NULL, 's'},
    {"format", required_argument, NULL, 'f'},
    {"output", required_argument, NULL, 'o'},
    {"strict", no_argument, NULL, 'S'},
    {"timeout", required_argument, NULL, 't'},
    {"vectors", required_argument, NULL, 'V'},
    {"list", no_argument, NULL, 'l'},
    {"verbose", no_argument, NULL, 'v'},
    {"host-order", no_argument, NULL, O_HOST_ORDER},
    {"color", required_argument, NULL, O_COLOUR},
    {"cut", required_argument, NULL, O_CUT},
    {"pause", required_argument, NULL, O_PAUSE},
    {"gap", required_argument, NULL, O_GAP},
    {"base", no_argument, NULL, O_BASE},
    {"version", no_argument, NULL, O_VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void usage(void)
{
    puts("usage: uiw-conform [OPTION]... PEER[:PORT]   play as the peer of what listens there\n"
         "       uiw-conform [OPTION]... --listen      wait for it to connect to us\n"
         "       uiw-conform --responder -d DEVICE     be the tested end, as told by a player\n\n"
         "  -d, --device SPEC      uiw's own TCP on that link, as tap:uiw0,ip=198.18.0.2/24;\n"
         "                         without it a player uses the kernel's\n"
         "  -p, --port N           to connect to, or to listen on (7174); for a responder 0 lets\n"
         "                         one be chosen, which it prints\n"
         "  -r, --rfc N            only vectors of that RFC; may be given again\n"
         "  -s, --section RFC:SEC  only what proves a requirement of it, as 5040:7.2\n"
         "  -i, --id PATTERN       only those ids, as S11 or 'V0*'\n"
         "  -x, --exclude PATTERN  but not those\n"
         "  -f, --format FORMAT    table, plain or junit\n"
         "  -o, --output FILE      instead of the terminal\n"
         "  -t, --timeout MS       how long to wait for each answer (3000)\n"
         "  -V, --vectors DIR      where the vectors are (or UIW_VECTORS)\n"
         "  -l, --list             print what there is, play nothing\n"
         "  -v, --verbose          every message\n"
         "      --strict           what the RFCs only recommend counts as well\n"
         "      --host-order       take a Terminate for right whose control word has its\n"
         "                         bit-fields in the order of a little-endian host (siw)\n"
         "      --pause MS         wait before the first FPDU, for a peer that is not ready\n"
         "                         when it has sent its Reply (siw)\n"
         "      --gap MS           wait before each file, for a server of one client at a time\n"
         "      --base             do not ask the peer whether it is a responder\n"
         "      --cut N            send in pieces of N octets\n"
         "      --color WHEN       auto, always or never\n"
         "      --version");
}

static bool set_format(const char *text)
{
    static const char *const names[] = {"table", "plain", "junit"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i], text) == 0) {
            opt.format = (enum report_format)i;
            return true;
        }
    }
    return false;
}

static bool set_number(const char *text, unsigned min, unsigned max, unsigned *out)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    *out = (unsigned)v;
    return errno == 0 && *text >= '0' && *text <= '9' && *end == 0 && v >= min && v <= max;
}

static bool set_colour(const char *text)
{
    opt.colour = text;
    return strcmp(text, "auto") == 0 || strcmp(text, "always") == 0 || strcmp(text, "never") == 0;
}

static bool add(const char *list[PATTERNS], unsigned *cnt, const char *text)
{
    if (*cnt == PATTERNS) {
        return false;
    }
    list[(*cnt)++] = text;
    return true;
}

static bool set_option(int c, const char *arg)
{
    switch (c) {
    case 'd': opt.device = arg; return true;
    case 'L': opt.listen = true; return true;
    case 'R': opt.responder = true; return true;
    case 'p': return set_number(arg, 0, MAX_PORT, &opt.port);
    case 'i': return add(opt.pattern, &opt.patterns, arg);
    case 'x': return add(opt.without, &opt.withouts, arg);
    case 'r': return add(opt.rfc, &opt.rfcs, arg);
    case 's': return add(opt.section, &opt.sections, arg);
    case 'f': return set_format(arg);
    case 'o': opt.output = arg; return true;
    case 'S': opt.strict = true; return true;
    case 't': return set_number(arg, 1, MAX_TIMEOUT_MS, &opt.timeout_ms);
    case 'V': opt.vectors = arg; return true;
    case 'l': opt.list = true; return true;
    case 'v': opt.verbose = true; return true;
    case O_HOST_ORDER: opt.host_order = true; return true;
    case O_COLOUR: return set_colour(arg);
    case O_CUT: return set_number(arg, 0, MAX_CUT, &opt.cut);
    case O_PAUSE: return set_number(arg, 0, MAX_WAIT_MS, &opt.pause_ms);
    case O_GAP: return set_number(arg, 0, MAX_WAIT_MS, &opt.gap_ms);
    case O_BASE: opt.plain_peer = true; return true;
    default: return false;
    }
}

/* What set_option() did not take, and what it would have. */
static void say_expected(int c, const char *arg)
{
    char want[60] = "";
    const struct option *o = options;
    while (o->name != NULL && o->val != c) {
        o++;
    }
    switch (c) {
    case 'p': snprintf(want, sizeof want, "a port, 1..%d", MAX_PORT); break;
    case 't': snprintf(want, sizeof want, "milliseconds, 1..%d", MAX_TIMEOUT_MS); break;
    case O_CUT: snprintf(want, sizeof want, "octets, 0..%d", MAX_CUT); break;
    case O_PAUSE:
    case O_GAP: snprintf(want, sizeof want, "milliseconds, 0..%d", MAX_WAIT_MS); break;
    case 'f': snprintf(want, sizeof want, "table, plain or junit"); break;
    case O_COLOUR: snprintf(want, sizeof want, "auto, always or never"); break;
    default: snprintf(want, sizeof want, "at most %d of them", PATTERNS); break;
    }
    if (o->name != NULL) { /* else getopt has said it */
        fprintf(stderr, "uiw-conform: --%s '%s': expected %s\n", o->name, arg, want);
    }
    fprintf(stderr, "Try 'uiw-conform --help'.\n");
}

/* --- which files --- */

static bool in_list(const char *const *list, unsigned cnt, const char *text)
{
    for (unsigned i = 0; i < cnt; i++) {
        if (fnmatch(list[i], text, 0) == 0) {
            return true;
        }
    }
    return cnt == 0;
}

/* "5040:7.2" means every requirement PREFIX-5040-7.2-NN and those of its subsections. */
static bool proves_section(const struct script *s)
{
    char word[64];
    for (unsigned i = 0; i < opt.sections; i++) {
        snprintf(word, sizeof word, "-%s", opt.section[i]);
        char *colon = strchr(word, ':');
        if (colon != NULL) {
            *colon = '-';
        }
        size_t n = strlen(word);
        for (const char *at = s->proves; (at = strstr(at, word)) != NULL; at += n) {
            if (at[n] == '-' || at[n] == '.') {
                return true;
            }
        }
    }
    return opt.sections == 0;
}

static bool wanted(const struct script *s)
{
    const char *rfc = strncmp(s->rfc, "rfc", 3) == 0 ? s->rfc + 3 : s->rfc;
    if (opt.withouts > 0 && in_list(opt.without, opt.withouts, s->id)) {
        return false;
    }
    return in_list(opt.pattern, opt.patterns, s->id) && in_list(opt.rfc, opt.rfcs, rfc) &&
           proves_section(s) && (s->lines > 0 || s->fault[0] != 0);
}

static struct script **load(unsigned *cnt, char **err)
{
    static const char *const standard[] = {VECTORS_DIR, "tests/rfc_vectors"};
    const char *dir = opt.vectors != NULL ? opt.vectors : getenv("UIW_VECTORS");
    if (dir != NULL) {
        return script_find(&dir, 1, cnt, err);
    }
    struct script **v = NULL;
    for (size_t i = 0; i < ARRAY_LEN(standard) && v == NULL; i++) {
        v = script_find(&standard[i], 1, cnt, err);
        if (*err != NULL) {
            return NULL;
        }
    }
    return v;
}

static void print_list(struct script **v, unsigned cnt)
{
    for (unsigned i = 0; i < cnt; i++) {
        if (wanted(v[i])) {
            printf("%s %-5s %-22s %-6s %s\n", v[i]->rfc, v[i]->id, v[i]->name,
                   v[i]->should ? "should" : "must", v[i]->text);
        }
    }
}

/* --- the peer's address --- */

enum { IP4 = 1, IP6 = 2 };

static unsigned family_of(const struct sockaddr_storage *a)
{
    return a->ss_family == AF_INET6 ? IP6 : IP4;
}

/* What a peer can have: the families that the device has an address of. A sock: without one has both. */
static unsigned families_of(const struct net_cfg *net)
{
    unsigned f = net->ip.s_addr != 0 ? IP4 : 0;
    f |= !IN6_IS_ADDR_UNSPECIFIED(&net->ip6) ? IP6 : 0;
    return f != 0 ? f : IP4 | IP6;
}

/* Of a name's addresses the first that fits, those of IPv4 before the others. */
static bool resolve(const char *host, unsigned families, uint16_t port,
                    struct sockaddr_storage *out)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    bool found = false;
    if (getaddrinfo(host, NULL, &hints, &all) != 0) {
        return false;
    }
    for (unsigned family = IP4; family <= IP6 && !found; family++) {
        for (struct addrinfo *ai = all; ai != NULL && !found; ai = ai->ai_next) {
            memset(out, 0, sizeof *out);
            memcpy(out, ai->ai_addr, ai->ai_addrlen);
            address_set_port(out, port);
            found = (family_of(out) & family & families) != 0;
        }
    }
    freeaddrinfo(all);
    return found;
}

/* NAME or NAME:PORT */
static const char *set_named_peer(struct transport *t, const char *text, unsigned families)
{
    char host[256];
    uint16_t port = (uint16_t)opt.port;
    const char *colon = strrchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if ((colon != NULL && !address_parse_port(colon + 1, &port)) || n >= sizeof host ||
        memchr(text, '[', n) != NULL) {
        return "expected an address or a name, and then ':' and a port 1..65535 if any; an IPv6 "
               "address with a port stands in [ ]";
    }
    snprintf(host, sizeof host, "%.*s", (int)n, text);
    return resolve(host, families, port, &t->peer)
               ? NULL
               : "no such address or name, or none of a kind that the device has";
}

/* Returns what is wrong with PEER, or NULL. */
static const char *set_peer(struct transport *t, const char *text, unsigned families, bool zones)
{
    struct sockaddr_in6 in6;
    if (!address_parse_endpoint(text, (uint16_t)opt.port, &t->peer)) {
        return set_named_peer(t, text, families);
    }
    address_unmap(&t->peer);
    if ((family_of(&t->peer) & families) == 0) {
        return family_of(&t->peer) == IP6 ? "the device has no IPv6 address"
                                          : "the device has no IPv4 address";
    }
    memcpy(&in6, &t->peer, sizeof in6);
    return zones && in6.sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) &&
                   in6.sin6_scope_id == 0
               ? "a link-local address, expected its interface as well, as fe80::1%eth0"
               : NULL;
}

/* --- playing --- */

/* Where to play. */
struct place {
    struct transport *t;
    struct net *net;   /* NULL: the kernel's */
    unsigned families; /* that a peer may have */
    bool zones;        /* several links: a link-local address needs one */
};

static bool open_place(struct place *w)
{
    struct devspec spec = {.net.kind = NET_SOCK};
    char err[NET_ERR_TEXT] = "";
    *w = (struct place){0};
    if (opt.device != NULL) {
        if (devspec_parse(opt.device, &spec) != 0) {
            trouble("device", uiw_error());
            return false;
        }
        if (net_open(&spec.net, &w->net, err) != 0) {
            trouble("device", err);
            return false;
        }
    }
    w->families = families_of(&spec.net);
    w->zones = spec.net.kind == NET_SOCK;
    w->t = w->net != NULL ? transport_net(w->net, NULL) : transport_sock();
    if (w->t == NULL) {
        trouble("device", "out of memory");
    }
    return w->t != NULL;
}

static void close_place(struct place *w)
{
    if (w->t != NULL) {
        w->t->ops->close(w->t);
    }
    if (w->net != NULL) {
        net_close(w->net);
    }
}

static bool is_colourful(FILE *out)
{
    if (strcmp(opt.colour, "auto") == 0) {
        return isatty(fileno(out)) != 0 && getenv("NO_COLOR") == NULL;
    }
    return strcmp(opt.colour, "always") == 0;
}

static int nothing_fits(void)
{
    return trouble("vectors", "none has such an RFC, section and id; --list shows what there is");
}

static int play_all(struct play_cfg *cfg, FILE *out, const char *peer)
{
    const struct report_cfg rc = {.out = out,
                                  .format = opt.format,
                                  .colour = is_colourful(out),
                                  .strict = opt.strict,
                                  .peer = peer};
    static struct play_out result;
    unsigned played = 0;
    struct report *r = report_new(&rc);
    if (r == NULL) {
        return trouble("report", "out of memory");
    }
    for (unsigned i = 0; i < cfg->all_cnt && !stopped; i++) {
        if (wanted(cfg->all[i])) {
            if (opt.verbose) {
                fprintf(out, "%s %s\n", cfg->all[i]->id, cfg->all[i]->name);
            }
            play_run(cfg, cfg->all[i], &result);
            report_add(r, cfg->all[i], &result);
            played += result.result != PLAY_SKIP;
        }
    }
    bool failed = report_end(r) > 0;
    if (played == 0) {
        return trouble("vectors",
                       "none of those that fit the options can be driven with this peer");
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int play_on(const struct place *w, struct script **v, unsigned cnt, FILE *out)
{
    struct transport *t = w->t;
    char peer[900] = "what connects to us", hello[PLAY_HELLO] = "";
    struct play_cfg cfg = {.tr = t,
                           .listens = opt.listen,
                           .limit_ms = opt.timeout_ms,
                           .least_ms = 1000,
                           .host_order = opt.host_order,
                           .pause_ms = opt.pause_ms,
                           .gap_ms = opt.gap_ms,
                           .all = v,
                           .all_cnt = cnt,
                           .trace = opt.verbose ? out : NULL};
    t->my_port = (uint16_t)(opt.listen ? opt.port : 0);
    if (!opt.listen) {
        const char *wrong = set_peer(t, opt.peer, w->families, w->zones);
        if (wrong != NULL) {
            return trouble(opt.peer, wrong);
        }
        enum play_peer kind = opt.plain_peer ? PLAY_PEER_PLAIN : play_probe(&cfg, hello);
        if (kind == PLAY_PEER_NONE) {
            return trouble(opt.peer, "it takes no TCP connection on that port");
        }
        cfg.responder = kind == PLAY_PEER_RESPONDER;
        cfg.blind = strstr(hello, "blind") != NULL;
        snprintf(peer, sizeof peer, "%s%s%s", opt.peer, cfg.responder ? ", a responder: " : "",
                 cfg.responder ? hello + 3 : "");
    } else if (!t->ops->listen(t)) {
        return trouble("listen", "the port cannot be had");
    }
    t->cut = opt.cut;
    if (opt.format != REPORT_JUNIT) {
        fprintf(out, "%s\n\n", peer);
    }
    return play_all(&cfg, out, peer);
}

static int player(struct script **v, unsigned cnt)
{
    FILE *out = opt.output != NULL ? fopen(opt.output, "w") : stdout;
    if (out == NULL) {
        return trouble(opt.output, strerror(errno));
    }
    struct place w;
    int rc = open_place(&w) ? play_on(&w, v, cnt, out) : EXIT_USAGE;
    close_place(&w);
    bool bad = ferror(out) != 0;
    bad |= (out != stdout ? fclose(out) : fflush(out)) != 0;
    return bad && opt.output != NULL ? trouble(opt.output, "cannot write") : rc;
}

/* --- the other end --- */

static bool spec_ok(const char *spec)
{
    struct devspec d;
    return devspec_parse(spec, &d) == 0;
}

static int responder(void)
{
    const char *spec = opt.device != NULL ? opt.device : getenv("UIW_DEVICE");
    struct resp *r;
    if (spec == NULL) {
        return trouble("responder", "give --device or set UIW_DEVICE");
    }
    const struct resp_cfg cfg = {.spec = spec,
                                 .spec_ok = spec_ok,
                                 .port = (uint16_t)opt.port,
                                 .trace = opt.verbose ? stdout : NULL};
    if (resp_open(&cfg, &r) != 0) {
        return trouble("responder", uiw_error());
    }
    printf("responder: listening on port %u\n", resp_port(r));
    fflush(stdout);
    while (!stopped) {
        resp_turn(r, 50);
    }
    resp_close(r);
    return EXIT_SUCCESS;
}

static int run(void)
{
    unsigned cnt = 0;
    char *err;
    if (opt.responder) {
        return responder();
    }
    struct script **v = load(&cnt, &err);
    if (v == NULL) {
        int r = trouble("vectors", err != NULL ? err : "none found; give --vectors DIR");
        free(err);
        return r;
    }
    unsigned fit = 0;
    for (unsigned i = 0; i < cnt; i++) {
        fit += wanted(v[i]);
    }
    int rc = EXIT_SUCCESS;
    if (fit == 0) {
        rc = nothing_fits();
    } else if (opt.list) {
        print_list(v, cnt);
    } else {
        rc = player(v, cnt);
    }
    script_free_all(v, cnt);
    return rc;
}

/* A report that went to a full disk is none. */
static int written(int rc)
{
    bool bad = fflush(stdout) != 0 || ferror(stdout) != 0;
    return bad ? trouble("standard output", "cannot write") : rc;
}

int main(int argc, char **argv)
{
    int c;
    while ((c = getopt_long(argc, argv, "d:p:r:s:i:x:f:o:t:V:lvh", options, NULL)) != -1) {
        if (c == 'h') {
            usage();
            return written(EXIT_SUCCESS);
        }
        if (c == O_VERSION) {
            printf("uiw-conform %s\n", uiw_version());
            return written(EXIT_SUCCESS);
        }
        if (!set_option(c, optarg)) {
            say_expected(c, optarg);
            return EXIT_USAGE;
        }
    }
    if (opt.port == 0 && !opt.responder) {
        say_expected('p', "0");
        return EXIT_USAGE;
    }
    opt.peer = argv[optind];
    bool no_peer = opt.responder || opt.listen || opt.list;
    if (argc - optind != (no_peer ? 0 : 1)) {
        return trouble("arguments", no_peer ? "no PEER is wanted here" : "a PEER is wanted");
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGPIPE, SIG_IGN);
    return written(run());
}
