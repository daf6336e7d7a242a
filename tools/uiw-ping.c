/* SPDX-License-Identifier: MIT */
/* uiw-ping: RDMA ping in rping's protocol; either end may be rping. See ping.h. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"

enum { OPT_DEVICE = 256, OPT_TIMEOUT, OPT_VERSION };

static const char usage[] =
    "Usage: uiw-ping -s [-vP] [-a ADDRESS] [-p PORT] [--device DEVICE]\n"
    "       uiw-ping -c -a ADDRESS [-vV] [-p PORT] [-C COUNT] [-S SIZE] [--device DEVICE]\n"
    "RDMA ping over iWARP; the other end may be rping.\n"
    "\n"
    "  -s               serve one client\n"
    "  -P               with -s: serve any number of clients, until interrupted\n"
    "  -c               be the client\n"
    "  -a ADDRESS       server: the address to listen on (default: the device's); client: of the\n"
    "                   server\n"
    "  -p PORT          default 7174\n"
    "  -C COUNT         client: how many pings (default: until interrupted)\n"
    "  -S SIZE          client: octets of a ping, 23 to 16m (default 64; rping takes up to 65535)\n"
    "  -v               show each ping's data\n"
    "  -V               client: check that the data came back as it was\n"
    "  --timeout SEC    client: longest wait for an answer (default 10)\n"
    "  --device DEVICE  for example tap:uiw0,ip=198.18.0.2/24 or shm:/lab,ip=198.18.0.1\n"
    "                   (default: the environment's UIW_DEVICE)\n"
    "  -h, --help       this text\n"
    "  --version\n"
    "Status: 0 when every ping came back right, 1 when not, 2 for wrong arguments.\n";

static const struct option long_options[] = {
    {"device", required_argument, NULL, OPT_DEVICE},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* An option with a number. */
static int numbers(int opt, const char *text, struct ping_options *o)
{
    uint64_t n;

    switch (opt) {
    case 'p':
        if (!tool_number(text, 1, UINT16_MAX, &n))
            return tool_misused("-p %s: not a port", text);
        o->port = (uint16_t)n;
        return TOOL_OK;
    case 'C':
        if (!tool_number(text, 0, UINT32_MAX, &n))
            return tool_misused("-C %s: not a count", text);
        o->count = n;
        return TOOL_OK;
    case 'S':
        if (!tool_number(text, PING_SIZE_MIN, PING_SIZE_MAX, &n))
            return tool_misused("-S %s: not a size from %d to 16m", text, PING_SIZE_MIN);
        o->size = (uint32_t)n;
        return TOOL_OK;
    default:
        if (!tool_number(text, 1, 3600, &n))
            return tool_misused("--timeout %s: not from 1 to 3600 seconds", text);
        o->timeout_s = (unsigned)n;
        return TOOL_OK;
    }
}

static int take(int opt, const char *text, struct ping_options *o, bool *client)
{
    switch (opt) {
    case 's': o->server = true; return TOOL_OK;
    case 'c': *client = true; return TOOL_OK;
    case 'P': o->persistent = true; return TOOL_OK;
    case 'v': o->verbose = true; return TOOL_OK;
    case 'V': o->verify = true; return TOOL_OK;
    case 'a': o->address = text; return TOOL_OK;
    case OPT_DEVICE: o->device = text; return TOOL_OK;
    case 'p':
    case 'C':
    case 'S':
    case OPT_TIMEOUT: return numbers(opt, text, o);
    case 'h': exit(fputs(usage, stdout) < 0 ? TOOL_FAILED : TOOL_OK);
    case OPT_VERSION: printf("uiw-ping %s\n", uiw_version()); exit(TOOL_OK);
    default: break;
    }
    /* getopt has said what is wrong. */
    return tool_misused("wrong arguments");
}

static int parse(int argc, char **argv, struct ping_options *o)
{
    bool client = false;
    int opt, r = TOOL_OK;

    while (r == TOOL_OK &&
           (opt = getopt_long(argc, argv, "scPvVa:p:C:S:h", long_options, NULL)) >= 0)
        r = take(opt, optarg, o, &client);
    if (r != TOOL_OK)
        return r;
    if (optind < argc)
        return tool_misused("%s: what is this?", argv[optind]);
    if (o->server == client)
        return tool_misused("either -s or -c");
    if (client && o->address == NULL)
        return tool_misused("-c needs -a ADDRESS");
    if (o->address == NULL)
        o->address = "::"; /* all there are, of both families */
    if (!address_parse(o->address, o->port, &o->endpoint))
        return tool_misused("-a %s: not an IP address", o->address);
    return TOOL_OK;
}

/* NULL: what the environment names, if it does. To be freed. */
static char *device(const struct ping_options *o)
{
    const char *given = o->device != NULL ? o->device : getenv("UIW_DEVICE");

    return given != NULL ? tool_with_setup(strdup(given), o->timeout_s) : NULL;
}

int main(int argc, char **argv)
{
    struct ping_options o = {
        .port = PING_PORT, .size = PING_SIZE_DEFAULT, .timeout_s = TOOL_TIMEOUT_S};
    struct tool tool;
    char *spec;
    int r;

    tool_init("uiw-ping");
    r = parse(argc, argv, &o);
    if (r != TOOL_OK)
        return r;
    spec = device(&o);
    r = tool_open(&tool, spec, PING_CQE);
    if (r == TOOL_OK)
        r = o.server ? ping_server(&tool, &o) : ping_client(&tool, &o);
    tool_close(&tool);
    free(spec);
    return r;
}
