/* SPDX-License-Identifier: MIT */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    FILE_HDR = 24,
    REC_HDR = 16,
    MAGIC_US = (int)0xa1b2c3d4,
    MAGIC_NS = (int)0xa1b23c4d,
    CAP_MAX = 262144, /* libpcap's limit too; a length above is a broken file */
    /* Small enough to stay in the cache between the kernel's copy and our reading. Mapping the file
     * costs more: the faults of the first touch take longer than a copy does. */
    BUFFER = 2 * CAP_MAX,
};

struct input {
    struct input_cfg cfg;
    char err[INPUT_ERR];
    uint64_t frames;
    int link;
    /* classic pcap, read here */
    int fd; /* -1: not in use */
    uint8_t *buf;
    uint32_t at, have; /* buf[at..have) is not looked at yet */
    bool swap, nano, ended;
    /* libpcap */
    pcap_t *pcap;
    bool pcap_nano;
    bool live;
    volatile bool stop;
};

static uint32_t load32(const struct input *in, const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return in->swap ? __builtin_bswap32(v) : v;
}

/* At least n octets in the buffer, from at on; false at the end of the file. */
static bool fill(struct input *in, uint32_t n)
{
    if (in->have - in->at >= n) {
        return true;
    }
    memmove(in->buf, in->buf + in->at, in->have - in->at);
    in->have -= in->at;
    in->at = 0;
    while (in->have < n && !in->ended) {
        ssize_t got = read(in->fd, in->buf + in->have, BUFFER - in->have);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        in->ended = got <= 0;
        in->have += got > 0 ? (uint32_t)got : 0;
    }
    return in->have >= n;
}

/* Takes the file's header; false when it is not classic pcap, and libpcap has to read it. */
static bool take_header(struct input *in)
{
    if (!fill(in, FILE_HDR)) {
        return false;
    }
    uint32_t magic = load32(in, in->buf);
    if (magic != (uint32_t)MAGIC_US && magic != (uint32_t)MAGIC_NS) {
        in->swap = true;
        magic = load32(in, in->buf);
    }
    if (magic != (uint32_t)MAGIC_US && magic != (uint32_t)MAGIC_NS) {
        in->swap = false;
        return false;
    }
    in->nano = magic == (uint32_t)MAGIC_NS;
    in->link = (int)(load32(in, in->buf + 20) & 0xffff); /* the rest is about an FCS */
    in->at = FILE_HDR;
    return true;
}

static void close_file(struct input *in)
{
    if (in->fd >= 0) {
        close(in->fd);
    }
    free(in->buf);
    in->fd = -1;
    in->buf = NULL;
}

static bool open_file(struct input *in)
{
    in->fd = open(in->cfg.file, O_RDONLY | O_CLOEXEC);
    in->buf = malloc(BUFFER);
    if (in->fd < 0 || in->buf == NULL || !take_header(in)) {
        close_file(in);
        return false;
    }
    posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return true;
}

static bool open_live(struct input *in)
{
    char why[PCAP_ERRBUF_SIZE] = "";
    in->live = true;
    in->pcap = pcap_create(in->cfg.iface, why);
    if (in->pcap == NULL) {
        snprintf(in->err, sizeof in->err, "%s: %s", in->cfg.iface, why);
        return false;
    }
    pcap_set_snaplen(in->pcap, in->cfg.snaplen > 0 ? (int)in->cfg.snaplen : 262144);
    pcap_set_promisc(in->pcap, 1);
    pcap_set_timeout(in->pcap, 100);
    pcap_set_buffer_size(in->pcap, 64 << 20);
    in->pcap_nano = pcap_set_tstamp_precision(in->pcap, PCAP_TSTAMP_PRECISION_NANO) == 0;
    int rc = pcap_activate(in->pcap);
    if (rc < 0) {
        const char *text = pcap_geterr(in->pcap);
        snprintf(in->err, sizeof in->err, "%s: %s", in->cfg.iface,
                 text[0] != '\0' ? text : pcap_statustostr(rc));
        return false;
    }
    return true;
}

static bool open_pcap(struct input *in)
{
    char why[PCAP_ERRBUF_SIZE] = "";
    in->pcap =
        pcap_open_offline_with_tstamp_precision(in->cfg.file, PCAP_TSTAMP_PRECISION_NANO, why);
    in->pcap_nano = true;
    if (in->pcap == NULL) {
        snprintf(in->err, sizeof in->err, "%s", why);
    }
    return in->pcap != NULL;
}

static bool set_filter(struct input *in)
{
    struct bpf_program prog;
    if (in->cfg.filter == NULL) {
        return true;
    }
    if (pcap_compile(in->pcap, &prog, in->cfg.filter, 1, PCAP_NETMASK_UNKNOWN) != 0) {
        snprintf(in->err, sizeof in->err, "filter: %s", pcap_geterr(in->pcap));
        return false;
    }
    bool ok = pcap_setfilter(in->pcap, &prog) == 0;
    pcap_freecode(&prog);
    return ok;
}

static bool start(struct input *in)
{
    if (in->cfg.iface == NULL && in->cfg.filter == NULL && strcmp(in->cfg.file, "-") != 0 &&
        open_file(in)) {
        return true;
    }
    bool ok = in->cfg.iface != NULL ? open_live(in) : open_pcap(in);
    if (!ok || !set_filter(in)) {
        return false;
    }
    in->link = pcap_datalink(in->pcap);
    return true;
}

struct input *input_open(const struct input_cfg *cfg, char err[INPUT_ERR])
{
    struct input *in = calloc(1, sizeof *in);
    if (in == NULL) {
        snprintf(err, INPUT_ERR, "out of memory");
        return NULL;
    }
    in->cfg = *cfg;
    in->fd = -1;
    if (!start(in)) {
        snprintf(err, INPUT_ERR, "%s", in->err);
        input_close(in);
        return NULL;
    }
    return in;
}

void input_close(struct input *in)
{
    close_file(in);
    if (in->pcap != NULL) {
        pcap_close(in->pcap);
    }
    free(in);
}

static int fail(struct input *in, const char *what)
{
    snprintf(in->err, sizeof in->err, "after frame %llu: %s", (unsigned long long)in->frames, what);
    return -1;
}

static int next_read(struct input *in, struct frame *f)
{
    if (!fill(in, REC_HDR)) {
        return in->have == in->at ? 0 : fail(in, "the file ends inside a frame's header");
    }
    uint32_t cap = load32(in, in->buf + in->at + 8);
    if (cap > CAP_MAX) {
        return fail(in, "a frame's length is impossible");
    }
    if (!fill(in, REC_HDR + cap)) {
        return fail(in, "the file ends inside a frame");
    }
    const uint8_t *h = in->buf + in->at;
    uint64_t frac = load32(in, h + 4);
    *f = (struct frame){.num = ++in->frames,
                        .ns = load32(in, h) * 1000000000ull + (in->nano ? frac : frac * 1000),
                        .p = h + REC_HDR,
                        .cap = cap,
                        .len = max_u32(cap, load32(in, h + 12)),
                        .link = in->link};
    in->at += REC_HDR + cap;
    return 1;
}

static int next_pcap(struct input *in, struct frame *f)
{
    struct pcap_pkthdr *h;
    const u_char *p;
    int rc = 0;
    while (rc == 0 && !in->stop) { /* 0: a live device was silent for a while */
        rc = pcap_next_ex(in->pcap, &h, &p);
    }
    if (in->stop || rc == PCAP_ERROR_BREAK) {
        return 0;
    }
    if (rc != 1) {
        return fail(in, pcap_geterr(in->pcap));
    }
    uint64_t frac = (uint64_t)h->ts.tv_usec;
    *f = (struct frame){.num = ++in->frames,
                        .ns = (uint64_t)h->ts.tv_sec * 1000000000ull +
                              (in->pcap_nano ? frac : frac * 1000),
                        .p = p,
                        .cap = h->caplen,
                        .len = max_u32(h->caplen, h->len),
                        .link = in->link};
    return 1;
}

int input_next(struct input *in, struct frame *f)
{
    return in->buf != NULL ? next_read(in, f) : next_pcap(in, f);
}

const char *input_error(const struct input *in)
{
    return in->err;
}

bool input_rewind(struct input *in)
{
    in->frames = 0;
    if (in->buf != NULL) {
        in->at = in->have = 0;
        in->ended = false;
        return lseek(in->fd, 0, SEEK_SET) == 0 && take_header(in);
    }
    if (in->live || strcmp(in->cfg.file, "-") == 0) {
        return false;
    }
    pcap_close(in->pcap);
    in->pcap = NULL;
    return open_pcap(in) && set_filter(in);
}

void input_stop(struct input *in)
{
    in->stop = true;
    if (in->pcap != NULL) {
        pcap_breakloop(in->pcap);
    }
}
