/* SPDX-License-Identifier: MIT */
/* uiw-stream: how fast RDMA Writes go, with every octet checked. See stream.h. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "stream.h"

enum { OPT_DEVICE = 256, OPT_VERSION };

static const char usage[] =
    "Usage: uiw-stream -s [-a ADDRESS] [-p PORT] [--device DEVICE]\n"
    "       uiw-stream -c -a ADDRESS [-p PORT] [-n OCTETS] [-S SIZE] [--device DEVICE]\n"
    "Streams RDMA Writes from the client to the server, which checks them.\n"
    "\n"
    "  -s               serve one stream\n"
    "  -c               be the client\n"
    "  -a ADDRESS       server: the address to listen on (default: the device's); client: of the\n"
    "                   server\n"
    "  -p PORT          default 7175\n"
    "  -n OCTETS        client: how much (default 1g)\n"
    "  -S SIZE          client: octets of a Write, 1k to 32m (default 1m)\n"
    "  --device DEVICE  for example tap:uiw0,ip=198.18.0.2/24 or shm:/lab,ip=198.18.0.1\n"
    "                   (default: the environment's UIW_DEVICE)\n"
    "  -h, --help       this text\n"
    "  --version\n"
    "Numbers may end in k, m or g (powers of 1024).\n"
    "Status: 0 when all octets arrived right, 1 when not, 2 for wrong arguments.\n";

static const struct option long_options[] = {
    {"device", required_argument, NULL, OPT_DEVICE},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* An option with a number. */
static int numbers(int opt, const char *text, struct stream_options *o)
{
    uint64_t n;

    switch (opt) {
    case 'p':
        if (!tool_number(text, 1, UINT16_MAX, &n))
            return tool_misused("-p %s: not a port", text);
        o->port = (uint16_t)n;
        return TOOL_OK;
    case 'n':
        if (!tool_number(text, 1, UINT64_C(1) << 50, &o->total))
            return tool_misused("-n %s: not a number of octets", text);
        return TOOL_OK;
    default:
        if (!tool_number(text, 1024, STREAM_HALF, &n))
            return tool_misused("-S %s: not a size from 1k to 32m", text);
        o->chunk = (uint32_t)n;
        return TOOL_OK;
    }
}

static int take(int opt, const char *text, struct stream_options *o, bool *client)
{
    switch (opt) {
    case 's': o->server = true; return TOOL_OK;
    case 'c': *client = true; return TOOL_OK;
    case 'a': o->address = text; return TOOL_OK;
    case OPT_DEVICE: o->device = text; return TOOL_OK;
    case 'p':
    case 'n':
    case 'S': return numbers(opt, text, o);
    case 'h': exit(fputs(usage, stdout) < 0 ? TOOL_FAILED : TOOL_OK);
    case OPT_VERSION: printf("uiw-stream %s\n", uiw_version()); exit(TOOL_OK);
    default: break;
    }
    /* getopt has said what is wrong. */
    return tool_misused("wrong arguments");
}

static int parse(int argc, char **argv, struct stream_options *o)
{
    bool client = false;
    int opt, r = TOOL_OK;

    while (r == TOOL_OK && (opt = getopt_long(argc, argv, "sca:p:n:S:h", long_options, NULL)) >= 0)
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

int main(int argc, char **argv)
{
    struct stream_options o = {.port = STREAM_PORT, .total = 1 << 30, .chunk = 1 << 20};
    struct tool tool;
    int r;

    tool_init("uiw-stream");
    r = parse(argc, argv, &o);
    if (r != TOOL_OK)
        return r;
    r = tool_open(&tool, o.device, STREAM_CQE);
    if (r == TOOL_OK)
        r = o.server ? stream_server(&tool, &o) : stream_client(&tool, &o);
    tool_close(&tool);
    return r;
}
