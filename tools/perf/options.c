/* SPDX-License-Identifier: MIT */
/* The command line of uiw-perf. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

enum {
    OPT_VERSION = 256,
    OPT_THREADS,
    OPT_GBITS,
    OPT_JSON,
    OPT_PLOT,
    OPT_CHECK,
    OPT_HUGE,
    OPT_WARMUP,
    OPT_CRC,
    OPT_MARKERS,
    OPT_PROGRESS,
    OPT_TIMEOUT,
    OPT_MEMORY,
};

enum { ALL_SIZES = 24, DEPTH = 128, LAT_DEPTH = 32, RX_DEPTH = 512 };

static const char usage[] =
    "Usage: uiw-perf server [options]\n"
    "       uiw-perf write|read|send|atomic bw|lat [options] SERVER\n"
    "Measures bandwidth or latency of RDMA operations between two hosts.\n"
    "\n"
    "Both:\n"
    "  -d, --device DEVICE     for example tap:uiw0,ip=198.18.0.2/24 or shm:/lab,ip=198.18.0.1/24\n"
    "                          (default: the environment's UIW_DEVICE)\n"
    "  -p, --port PORT         default 7177\n"
    "  --crc on|off            ask for CRCs, --markers on|off for Markers, of the device: off "
    "only\n"
    "                          where the other end does not ask either\n"
    "  --progress threaded|polled\n"
    "  --timeout SECONDS       longest standstill (default 10)\n"
    "Server:\n"
    "  --bind ADDRESS          default: the device's\n"
    "  --max-memory OCTETS     for a client (default 2g)\n"
    "Client:\n"
    "  -s, --size SIZE[,...]   octets of a message (default 64k; latency: 64)\n"
    "  -a, --all               sizes from 1 to 8m\n"
    "  -n, --iters N           messages on each QP (default: up to 200000, latency 10000)\n"
    "  -D, --duration SECONDS  instead of -n\n"
    "  --warmup N              messages before the clock runs\n"
    "  -t, --tx-depth N        requests under way on each QP (default 128)\n"
    "  -r, --rx-depth N        receives posted on each QP (default 512)\n"
    "  -l, --post_list N       requests posted at a time (default a quarter of tx-depth)\n"
    "  -Q, --cq-mod N          every Nth request makes a completion (default likewise)\n"
    "  -q, --qp N              QPs of each thread (default 1)\n"
    "  --threads N             default 1\n"
    "  -b, --bidirectional\n"
    "  -e, --events            sleep until completions come, instead of polling\n"
    "  -I, --inline_size N     copy messages of up to N octets when they are posted (default 0)\n"
    "  -o, --outs N            Reads and Atomics under way\n"
    "  -A, --atomic_type FETCH_AND_ADD|CMP_AND_SWAP\n"
    "  --use_hugepages         memory of both ends in huge pages\n"
    "  --check                 compare the content of all messages (rates suffer)\n"
    "  --report_gbits          rates in Gbit/s instead of MiB/s\n"
    "  --json[=FILE]           all figures as JSON, on standard output instead of the table\n"
    "  --plot FILE             a picture (SVG), drawn by gnuplot\n"
    "  -h, --help   --version\n"
    "Numbers may end in k, m or g (powers of 1024).\n"
    "Status: 0 when all went well, 1 when not, 2 for wrong arguments.\n";

static const char short_options[] = "d:p:s:an:D:t:r:l:Q:q:beI:o:A:B:h";

static const struct option long_options[] = {
    {"device", required_argument, NULL, 'd'},
    {"port", required_argument, NULL, 'p'},
    {"bind", required_argument, NULL, 'B'},
    {"crc", required_argument, NULL, OPT_CRC},
    {"markers", required_argument, NULL, OPT_MARKERS},
    {"progress", required_argument, NULL, OPT_PROGRESS},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"max-memory", required_argument, NULL, OPT_MEMORY},
    {"size", required_argument, NULL, 's'},
    {"all", no_argument, NULL, 'a'},
    {"iters", required_argument, NULL, 'n'},
    {"duration", required_argument, NULL, 'D'},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"tx-depth", required_argument, NULL, 't'},
    {"rx-depth", required_argument, NULL, 'r'},
    {"post_list", required_argument, NULL, 'l'},
    {"cq-mod", required_argument, NULL, 'Q'},
    {"qp", required_argument, NULL, 'q'},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"bidirectional", no_argument, NULL, 'b'},
    {"events", no_argument, NULL, 'e'},
    {"inline_size", required_argument, NULL, 'I'},
    {"outs", required_argument, NULL, 'o'},
    {"atomic_type", required_argument, NULL, 'A'},
    {"check", no_argument, NULL, OPT_CHECK},
    {"use_hugepages", no_argument, NULL, OPT_HUGE},
    {"report_gbits", no_argument, NULL, OPT_GBITS},
    {"json", optional_argument, NULL, OPT_JSON},
    {"plot", required_argument, NULL, OPT_PLOT},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPT_VERSION},
    {0},
};

/* Options with a number. */
struct number {
    int opt;
    const char *name;
    uint64_t min, max;
    size_t offset; /* of a uint32_t in struct perf_options */
};

#define FIELD(f) offsetof(struct perf_options, f)

static const struct number numbers[] = {
    {'t', "-t", 1, PERF_MAX_DEPTH, FIELD(job.tx_depth)},
    {'r', "-r", 1, PERF_MAX_DEPTH, FIELD(job.rx_depth)},
    {'l', "-l", 1, PERF_BATCH, FIELD(job.post_list)},
    {'Q', "-Q", 1, PERF_MAX_DEPTH, FIELD(job.cq_mod)},
    {'q', "-q", 1, PERF_MAX_LINKS, FIELD(job.qps)},
    {OPT_THREADS, "--threads", 1, PERF_MAX_THREADS, FIELD(job.threads)},
    {'I', "-I", 0, PERF_MAX_INLINE, FIELD(job.max_inline)},
    {'o', "-o", 1, PERF_MAX_OUTS, FIELD(job.outs)},
    {'D', "-D", 1, PERF_MAX_SECONDS, FIELD(duration_s)},
    {OPT_TIMEOUT, "--timeout", 1, 3600, FIELD(timeout_s)},
};

static int take_number(int opt, const char *text, struct perf_options *o)
{
    const struct number *k = numbers;
    uint64_t n;
    uint32_t small;

    while (k->opt != opt)
        k++;
    if (!tool_number(text, k->min, k->max, &n))
        return tool_misused("%s %s: not a number from %llu to %llu", k->name, text,
                            (unsigned long long)k->min, (unsigned long long)k->max);
    small = (uint32_t)n;
    memcpy((char *)o + k->offset, &small, sizeof small);
    return TOOL_OK;
}

static int take_long(int opt, const char *text, struct perf_options *o)
{
    uint64_t n = 0;

    switch (opt) {
    case 'n':
        if (!tool_number(text, 1, PERF_MAX_COUNT, &o->count))
            return tool_misused("-n %s: not a number of messages", text);
        return TOOL_OK;
    case OPT_WARMUP:
        o->warmup_given = true;
        if (!tool_number(text, 0, PERF_MAX_COUNT, &o->warmup))
            return tool_misused("--warmup %s: not a number of messages", text);
        return TOOL_OK;
    case OPT_MEMORY:
        if (!tool_number(text, 1 << 20, UINT64_C(1) << 40, &o->max_memory))
            return tool_misused("--max-memory %s: not a number of octets, 1m or more", text);
        return TOOL_OK;
    default:
        if (!tool_number(text, 1, UINT16_MAX, &n))
            return tool_misused("-p %s: not a port", text);
        o->port = (uint16_t)n;
        return TOOL_OK;
    }
}

static int take_sizes(const char *text, struct perf_options *o)
{
    char one[24];

    for (const char *at = text;;) {
        size_t n = strcspn(at, ",");

        if (o->nsizes == PERF_SIZES)
            return tool_misused("-s %s: more than %d sizes", text, PERF_SIZES);
        snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one), at);
        if (n >= sizeof one || !tool_number(one, 1, PERF_MAX_SIZE, &o->sizes[o->nsizes]))
            return tool_misused("-s %s: not a size from 1 to 1g", text);
        o->nsizes++;
        if (at[n] == '\0')
            return TOOL_OK;
        at += n + 1;
    }
}

static int take_choice(const char *name, const char *text, const char *yes, const char *no)
{
    if (strcmp(text, yes) == 0 || strcmp(text, no) == 0)
        return TOOL_OK;
    return tool_misused("%s %s: either %s or %s", name, text, yes, no);
}

static int take_word(int opt, const char *text, struct perf_options *o)
{
    switch (opt) {
    case 'd': o->device = text; return TOOL_OK;
    case 'B': o->address = text; return TOOL_OK;
    case OPT_PLOT: o->plot_file = text; return TOOL_OK;
    case OPT_CRC: o->crc = text; return take_choice("--crc", text, "on", "off");
    case OPT_MARKERS: o->markers = text; return take_choice("--markers", text, "on", "off");
    case OPT_PROGRESS:
        o->progress = text;
        return take_choice("--progress", text, "threaded", "polled");
    default:
        o->job.op = strcmp(text, "CMP_AND_SWAP") == 0 ? PERF_CMP_SWAP : PERF_FETCH_ADD;
        o->atomic_given = true;
        return take_choice("-A", text, "FETCH_AND_ADD", "CMP_AND_SWAP");
    }
}

static int take(int opt, const char *text, struct perf_options *o)
{
    switch (opt) {
    case 'h': exit(fputs(usage, stdout) < 0 ? TOOL_FAILED : TOOL_OK);
    case OPT_VERSION: printf("uiw-perf %s\n", uiw_version()); exit(TOOL_OK);
    case 'a': o->all_sizes = true; return TOOL_OK;
    case 'b': o->job.bidir = true; return TOOL_OK;
    case 'e': o->job.events = true; return TOOL_OK;
    case OPT_CHECK: o->job.check = true; return TOOL_OK;
    case OPT_HUGE: o->job.huge = true; return TOOL_OK;
    case OPT_GBITS: o->gbits = true; return TOOL_OK;
    case OPT_JSON:
        o->json = true;
        o->json_file = text;
        return TOOL_OK;
    case 's': return take_sizes(text, o);
    case 'n':
    case 'p':
    case OPT_WARMUP:
    case OPT_MEMORY: return take_long(opt, text, o);
    case '?':
    case ':': return tool_misused("wrong arguments"); /* getopt has said what is wrong */
    default: break;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].opt == opt)
            return take_number(opt, text, o);
    }
    return take_word(opt, text, o);
}

/* --- what was given, as a whole --- */

static int take_operation(char **words, int n, struct perf_options *o)
{
    static const char *const ops[] = {"write", "read", "send", "atomic"};
    unsigned op = 0;

    while (op < 4 && strcmp(words[0], ops[op]) != 0)
        op++;
    if (op == 4)
        return tool_misused("%s: not server, write, read, send or atomic", words[0]);
    if (n < 2 || (strcmp(words[1], "bw") != 0 && strcmp(words[1], "lat") != 0))
        return tool_misused("%s: bw or lat?", words[0]);
    if (n < 3)
        return tool_misused("the address of the server is missing");
    if (n > 3)
        return tool_misused("%s: what is this?", words[3]);
    if (op < 3 && o->atomic_given)
        return tool_misused("-A is for atomic");
    if ((op == 0 || op == 2) && o->job.outs > 0)
        return tool_misused("-o is for read and atomic");
    if ((op == 1 || op == 3) && o->job.max_inline > 0)
        return tool_misused("-I is for write and send");
    if (op < 3)
        o->job.op = (enum perf_op)op;
    else if (!o->atomic_given)
        o->job.op = PERF_FETCH_ADD;
    o->job.lat = strcmp(words[1], "lat") == 0;
    o->address = words[2];
    return TOOL_OK;
}

static int choose_sizes(struct perf_options *o)
{
    bool atomic = perf_is_atomic(&o->job);

    if (atomic && (o->nsizes > 0 || o->all_sizes))
        return tool_misused("an Atomic has 8 octets, always");
    if (o->all_sizes && o->nsizes > 0)
        return tool_misused("either -s or -a");
    if (o->all_sizes) {
        while (o->nsizes < ALL_SIZES) {
            o->sizes[o->nsizes] = UINT64_C(1) << o->nsizes;
            o->nsizes++;
        }
    } else if (o->nsizes == 0) {
        o->sizes[o->nsizes++] = atomic ? 8 : o->job.lat ? 64 : 65536;
    }
    for (unsigned i = 0; i < o->nsizes; i++) {
        if (o->sizes[i] > o->job.max_size)
            o->job.max_size = o->sizes[i];
    }
    return TOOL_OK;
}

static void choose_depths(struct perf_job *job)
{
    uint32_t quarter;

    if (job->tx_depth == 0)
        job->tx_depth = job->lat ? LAT_DEPTH : DEPTH;
    quarter = job->tx_depth / 4 > 0 ? job->tx_depth / 4 : 1;
    if (job->rx_depth == 0)
        job->rx_depth = RX_DEPTH;
    if (job->cq_mod == 0)
        job->cq_mod = quarter < PERF_BATCH ? quarter : PERF_BATCH;
    if (job->post_list == 0)
        job->post_list = quarter < PERF_BATCH ? quarter : PERF_BATCH;
    /* The answer is waited for. */
    if (job->lat)
        job->post_list = 1;
    if (job->lat && !perf_ping_pong(job))
        job->cq_mod = 1;
}

static int finish_client(char **words, int n, struct perf_options *o)
{
    int r = take_operation(words, n, o);

    if (r != TOOL_OK)
        return r;
    r = choose_sizes(o);
    if (r != TOOL_OK)
        return r;
    if (o->count > 0 && o->duration_s > 0)
        return tool_misused("either -n or -D");
    choose_depths(&o->job);
    if (perf_job_fault(&o->job) != NULL)
        return tool_misused("%s", perf_job_fault(&o->job));
    if (!address_parse(o->address, o->port, &o->endpoint))
        return tool_misused("%s: not an IP address", o->address);
    return TOOL_OK;
}

static int finish_server(int n, char **words, struct perf_options *o)
{
    if (n > 1)
        return tool_misused("%s: what is this?", words[1]);
    if (!address_parse(o->address != NULL ? o->address : "::", o->port, &o->endpoint))
        return tool_misused("--bind %s: not an IP address", o->address);
    return TOOL_OK;
}

static bool is_of_server(int opt)
{
    return opt == 'B' || opt == OPT_MEMORY;
}

static bool is_of_both(int opt)
{
    return opt == 'd' || opt == 'p' || opt == OPT_CRC || opt == OPT_MARKERS ||
           opt == OPT_PROGRESS || opt == OPT_TIMEOUT;
}

/* An option of the other end would do nothing: given is one that was, or 0. */
static int misplaced(int given, const char *end)
{
    const struct option *l = long_options;

    while (l->val != given)
        l++;
    return given == 0 ? TOOL_OK : tool_misused("--%s is for the %s", l->name, end);
}

int perf_parse(int argc, char **argv, struct perf_options *o)
{
    int opt, r = TOOL_OK, of_client = 0, of_server = 0;

    *o = (struct perf_options){.port = PERF_PORT,
                               .timeout_s = TOOL_TIMEOUT_S,
                               .max_memory = UINT64_C(2) << 30,
                               .job = {.threads = 1, .qps = 1}};
    while (r == TOOL_OK &&
           (opt = getopt_long(argc, argv, short_options, long_options, NULL)) >= 0) {
        r = take(opt, optarg, o);
        if (is_of_server(opt))
            of_server = opt;
        else if (!is_of_both(opt))
            of_client = opt;
    }
    if (r != TOOL_OK)
        return r;
    if (optind == argc)
        return tool_misused("what to do? server, write, read, send or atomic");
    o->server = strcmp(argv[optind], "server") == 0;
    r = o->server ? misplaced(of_client, "client") : misplaced(of_server, "server");
    if (r != TOOL_OK)
        return r;
    return o->server ? finish_server(argc - optind, argv + optind, o)
                     : finish_client(argv + optind, argc - optind, o);
}
