/* SPDX-License-Identifier: MIT */
/* uiw-dump: what RDMA did in a capture, and what was wrong with it. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dump/out.h"
#include "dump/pick.h"

enum { SNAPLEN_MAX = 262144 };

struct options {
    struct input_cfg in;
    const char *filter, *write, *html;
    bool verbose, hex, json, summary, verdicts, messages, ignore_sums, list;
    enum { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER } colour;
};

/* Everything that one run needs; a few of the outputs are in use. */
struct run {
    struct options o;
    struct filter *filter;
    struct input *in;
    struct dump *d;
    struct pick *pick;
    struct out_text text;
    struct out_json json;
    struct out_summary summary;
    struct out_html *html;
};

static struct input *live;

static void on_signal(int sig)
{
    (void)sig;
    if (live != NULL) {
        input_stop(live);
    }
}

static void usage(FILE *f)
{
    fputs(
        "usage: uiw-dump [options] FILE | -        (a pcap or pcapng file, or standard input)\n"
        "       uiw-dump [options] -i INTERFACE [-f CAPTURE-FILTER]\n"
        "  -v, --verbose         every FPDU with all header fields\n"
        "  -x, --hex             as -v, with the payload\n"
        "      --summary         per connection: set-up, counts, sizes, latency, regions\n"
        "      --verdicts        each violation of a requirement of the RFCs\n"
        "      --messages        the message lines as well, with --summary or --verdicts\n"
        "      --json            one JSON object per line\n"
        "      --html FILE       a page with ladder diagrams and plots\n"
        "      --filter TERMS    only what matches: conn= host= port= dir= op= stag= size= time=\n"
        "                        frame= latency= error; ranges as 1..5, negation by !\n"
        "      --write FILE      the frames of the matching messages, as pcap\n"
        "  -f, --capture-filter  libpcap's filter language\n"
        "  -i, --interface NAME  capture live\n"
        "  -s, --snaplen N       octets per frame, live\n"
        "      --ignore-checksums  take segments whose TCP checksum is wrong\n"
        "      --color WHEN      auto, always or never\n"
        "      --version\n"
        "Status: 0; 1 when the input cannot be read, or an output not be written; 2 for wrong\n"
        "arguments.\n",
        f);
}

/* One line that says what is wrong, and where more is to be read. */
__attribute__((format(printf, 1, 2))) static bool refuse(const char *fmt, ...)
{
    va_list ap;
    fputs("uiw-dump: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs(" (--help lists the options)\n", stderr);
    return false;
}

static bool set_snaplen(struct options *o, const char *text)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || n == 0 || n > SNAPLEN_MAX) {
        return refuse("--snaplen takes 1 to %d octets, not '%s'", SNAPLEN_MAX, text);
    }
    o->in.snaplen = (uint32_t)n;
    return true;
}

static bool set_colour(struct options *o, const char *when)
{
    if (strcmp(when, "auto") == 0) {
        o->colour = COLOUR_AUTO;
    } else if (strcmp(when, "always") == 0) {
        o->colour = COLOUR_ALWAYS;
    } else if (strcmp(when, "never") == 0) {
        o->colour = COLOUR_NEVER;
    } else {
        return refuse("--color takes auto, always or never, not '%s'", when);
    }
    return true;
}

enum {
    O_SUMMARY = 256,
    O_VERDICTS,
    O_MESSAGES,
    O_JSON,
    O_HTML,
    O_FILTER,
    O_WRITE,
    O_SUMS,
    O_COLOUR,
    O_VERSION
};

static const struct option long_options[] = {
    {"verbose", no_argument, NULL, 'v'},
    {"hex", no_argument, NULL, 'x'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, O_VERSION},
    {"interface", required_argument, NULL, 'i'},
    {"capture-filter", required_argument, NULL, 'f'},
    {"snaplen", required_argument, NULL, 's'},
    {"summary", no_argument, NULL, O_SUMMARY},
    {"verdicts", no_argument, NULL, O_VERDICTS},
    {"messages", no_argument, NULL, O_MESSAGES},
    {"json", no_argument, NULL, O_JSON},
    {"html", required_argument, NULL, O_HTML},
    {"filter", required_argument, NULL, O_FILTER},
    {"write", required_argument, NULL, O_WRITE},
    {"ignore-checksums", no_argument, NULL, O_SUMS},
    {"color", required_argument, NULL, O_COLOUR},
    {"colour", required_argument, NULL, O_COLOUR},
    {NULL, 0, NULL, 0},
};

static bool take_option(struct options *o, int c)
{
    switch (c) {
    case 'v': o->verbose = true; return true;
    case 'x': o->verbose = o->hex = true; return true;
    case 'i': o->in.iface = optarg; return true;
    case 'f': o->in.filter = optarg; return true;
    case 's': return set_snaplen(o, optarg);
    case O_SUMMARY: o->summary = true; return true;
    case O_VERDICTS: o->verdicts = true; return true;
    case O_MESSAGES: o->messages = true; return true;
    case O_JSON: o->json = true; return true;
    case O_HTML: o->html = optarg; return true;
    case O_FILTER: o->filter = optarg; return true;
    case O_WRITE: o->write = optarg; return true;
    case O_SUMS: o->ignore_sums = true; return true;
    case O_COLOUR: return set_colour(o, optarg);
    default: return false;
    }
}

static bool is_dash(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

/* Somebody may watch while the packets come. */
static bool is_stream(const struct options *o)
{
    return o->in.iface != NULL || strcmp(o->in.file, "-") == 0;
}

/* Options that contradict each other. */
static bool agrees(const struct options *o, int files)
{
    bool other = o->summary || o->verdicts || o->html != NULL || o->write != NULL;
    bool lines = o->messages || o->verbose || o->json || o->summary || o->verdicts || !other;
    if (o->in.iface == NULL && files == 0) {
        return refuse("no file is given, and no interface");
    }
    if (files > (o->in.iface == NULL ? 1 : 0)) {
        return refuse(o->in.iface != NULL ? "a file and an interface: one of them"
                                          : "more than one file");
    }
    if (o->write != NULL && is_stream(o)) {
        return refuse("--write reads its input twice, which only a file allows");
    }
    if (o->in.snaplen > 0 && o->in.iface == NULL) {
        return refuse("--snaplen is for a live capture");
    }
    if (is_dash(o->html) + is_dash(o->write) + lines > 1 &&
        (is_dash(o->html) || is_dash(o->write))) {
        return refuse("standard output can be one thing only");
    }
    return true;
}

/* What getopt_long() found fault with, in the last argument it looked at. */
static void refuse_option(int c, const char *arg)
{
    char letter[] = {'-', (char)optopt, '\0'};
    if (strncmp(arg, "--", 2) != 0) {
        refuse("%s %s", letter, c == ':' ? "needs a value" : "is no option");
    } else if (c == ':') {
        refuse("%s needs a value", arg);
    } else { /* optopt: the option that was recognised */
        refuse("%s %s", arg, optopt != 0 ? "takes no value" : "is no option, or may be several");
    }
}

/* 0 to go on; else the exit status plus one. */
static int parse(struct options *o, int argc, char **argv)
{
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":vxhi:f:s:", long_options, NULL)) != -1) {
        if (c == 'h') {
            usage(stdout);
            return 1;
        }
        if (c == O_VERSION) {
            puts("uiw-dump " UIW_DUMP_VERSION);
            return 1;
        }
        if (c == '?' || c == ':') {
            refuse_option(c, argv[optind - 1]);
            return 3;
        }
        if (!take_option(o, c)) {
            return 3;
        }
    }
    o->in.file = argv[optind];
    if (!agrees(o, argc - optind)) {
        return 3;
    }
    /* Without a list there is nothing on standard output but what was asked for. */
    bool other = o->summary || o->verdicts || o->html != NULL || o->write != NULL;
    o->list = o->messages || o->verbose || !other;
    return 0;
}

static bool wants_colour(const struct options *o)
{
    if (o->colour != COLOUR_AUTO) {
        return o->colour == COLOUR_ALWAYS;
    }
    const char *none = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && (none == NULL || none[0] == '\0');
}

static bool add_outputs(struct run *r)
{
    const struct options *o = &r->o;
    struct sink s;
    struct out_cfg cfg = {.f = stdout,
                          .colour = wants_colour(o),
                          .filter = o->filter,
                          .fpdus = o->verbose,
                          .hex = o->hex,
                          .messages = o->list,
                          .findings = o->verdicts,
                          .summary = o->summary,
                          .source = o->in.iface != NULL ? o->in.iface
                                    : is_stream(o)      ? "standard input"
                                                        : o->in.file,
                          .d = r->d};
    r->text.cfg = r->json.cfg = r->summary.cfg = cfg;
    if (o->json) {
        out_json_sink(&r->json, &s);
        dump_add_sink(r->d, &s);
    } else if (o->list || o->verdicts) {
        out_text_sink(&r->text, &s);
        dump_add_sink(r->d, &s);
    }
    if (o->summary && !o->json) {
        out_summary_sink(&r->summary, &s);
        dump_add_sink(r->d, &s);
    }
    if (o->html != NULL) {
        r->html = out_html_open(o->html, &cfg);
        if (r->html == NULL) {
            fprintf(stderr, "uiw-dump: %s: %s\n", o->html, strerror(errno));
            return false;
        }
        out_html_sink(r->html, &s);
        dump_add_sink(r->d, &s);
    }
    if (r->pick != NULL) {
        pick_sink(r->pick, &s);
        dump_add_sink(r->d, &s);
    }
    return true;
}

/* An output that is the input would destroy it before it was read. */
static bool is_same(const char *a, const char *b)
{
    struct stat x;
    struct stat y;
    return a != NULL && b != NULL && stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool outputs_differ(const struct options *o)
{
    const char *in = o->in.file != NULL && !is_dash(o->in.file) ? o->in.file : NULL;
    const char *twice = is_same(o->html, in)         ? o->html
                        : is_same(o->write, in)      ? o->write
                        : is_same(o->html, o->write) ? o->html
                                                     : NULL;
    if (o->html != NULL && o->write != NULL && strcmp(o->html, o->write) == 0) {
        twice = o->html;
    }
    return twice == NULL || refuse("%s cannot be two files at once", twice);
}

/* What is wrong with arguments beyond their syntax. */
static bool check_values(struct run *r)
{
    char why[FILTER_ERR];
    if (r->o.filter != NULL && (r->filter = filter_parse(r->o.filter, why)) == NULL) {
        return refuse("%s", why);
    }
    return outputs_differ(&r->o);
}

static uint64_t clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool set_up(struct run *r)
{
    char err[INPUT_ERR];
    struct dump_cfg cfg = {.ignore_sums = r->o.ignore_sums,
                           .want_payload = r->o.hex,
                           .clock = is_stream(&r->o) ? clock_ns : NULL};
    cfg.filter = r->filter;
    r->in = input_open(&r->o.in, err);
    if (r->in == NULL) {
        fprintf(stderr, "uiw-dump: %s\n", err);
        return false;
    }
    if (r->o.write != NULL) {
        if (!input_rewind(r->in)) {
            fprintf(stderr, "uiw-dump: --write reads its input twice, which only a file allows\n");
            return false;
        }
        r->pick = pick_new(r->filter == NULL);
    }
    r->d = dump_new(&cfg);
    if (r->d == NULL || (r->o.write != NULL && r->pick == NULL)) {
        fprintf(stderr, "uiw-dump: out of memory\n");
        return false;
    }
    return add_outputs(r);
}

static void catch_signals(struct run *r)
{
    if (r->o.in.iface != NULL) {
        struct sigaction sa = {.sa_handler = on_signal,
                               .sa_flags = (int)SA_RESETHAND /* the second one ends it */};
        live = r->in;
        sigaction(SIGINT, &sa, NULL);
        sigaction(SIGTERM, &sa, NULL);
    }
}

static bool finish_files(struct run *r)
{
    bool ok = true;
    if (r->html != NULL) {
        ok = out_html_close(r->html);
        r->html = NULL;
        if (!ok) {
            fprintf(stderr, "uiw-dump: %s: %s\n", r->o.html, strerror(errno));
        }
    }
    const char *why = r->pick != NULL ? pick_write(r->pick, r->in, r->o.write) : NULL;
    if (why != NULL) {
        fprintf(stderr, "uiw-dump: %s: %s\n", r->o.write, why);
        ok = false;
    }
    return ok;
}

/* What went to a full disk is lost; nobody should take that for success. */
static bool is_written(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return true;
    }
    fprintf(stderr, "uiw-dump: standard output: %s\n", strerror(errno));
    return false;
}

static bool read_all(struct run *r)
{
    struct frame f;
    int rc;
    while ((rc = input_next(r->in, &f)) > 0 && ferror(stdout) == 0) {
        if (rc == 1) {
            dump_frame(r->d, &f);
        } else {
            dump_idle(r->d);
        }
    }
    r->d->dropped = input_dropped(r->in);
    dump_finish(r->d);
    if (rc < 0) { /* all that could be read was shown */
        fprintf(stderr, "uiw-dump: %s\n", input_error(r->in));
    }
    bool written = is_written();
    return finish_files(r) && rc == 0 && written;
}

static void tear_down(struct run *r)
{
    if (r->html != NULL) {
        out_html_close(r->html);
    }
    if (r->pick != NULL) {
        pick_free(r->pick);
    }
    if (r->d != NULL) {
        dump_free(r->d);
    }
    if (r->in != NULL) {
        input_close(r->in);
    }
    filter_free(r->filter);
}

int main(int argc, char **argv)
{
    static struct run r;
    static char buffer[1 << 18];
    int rc = parse(&r.o, argc, argv);
    if (rc != 0) {
        return is_written() ? rc - 1 : EXIT_FAILURE;
    }
    if (!check_values(&r)) {
        filter_free(r.filter);
        return 2;
    }
    bool watched = is_stream(&r.o) || isatty(STDOUT_FILENO);
    setvbuf(stdout, buffer, watched ? _IOLBF : _IOFBF, sizeof buffer);
    bool ok = set_up(&r);
    if (ok) {
        catch_signals(&r);
        ok = read_all(&r);
    }
    tear_down(&r);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
