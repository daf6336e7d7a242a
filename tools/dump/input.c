/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "input_int.h"

enum {
    FILE_HDR = 24,
    REC_HDR = 16,
    MAGIC_US = (int)0xa1b2c3d4,
    MAGIC_NS = (int)0xa1b23c4d,
};

bool input_fill(struct input *in, uint32_t n)
{
    if (in->have - in->at >= n) {
        return true;
    }
    memmove(in->buf, in->buf + in->at, in->have - in->at);
    in->have -= in->at;
    in->at = 0;
    while (in->have < n && !in->ended) {
        uint32_t most = max_u32(n - in->have, INPUT_READ);
        ssize_t got = read(in->fd, in->buf + in->have, min_u32(most, INPUT_BUFFER - in->have));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        in->io_errno = got < 0 ? errno : 0;
        in->ended = got <= 0;
        in->have += got > 0 ? (uint32_t)got : 0;
    }
    return in->have >= n;
}

static bool is_stdin(const struct input *in)
{
    return strcmp(in->cfg.file, "-") == 0;
}

/* What the input is called in errors. */
static const char *name_of(const struct input *in)
{
    return in->cfg.iface != NULL ? in->cfg.iface : is_stdin(in) ? "standard input" : in->cfg.file;
}

static bool say(struct input *in, const char *what)
{
    snprintf(in->err, sizeof in->err, "%s: %s", name_of(in), what);
    return false;
}

/* Takes the file's header; false when it is neither pcap nor pcapng. */
static bool take_header(struct input *in)
{
    ng_reset(&in->ng);
    in->is_ng = input_fill(in, 4) && ng_begins(in);
    if (in->is_ng) {
        return true;
    }
    if (!input_fill(in, FILE_HDR)) {
        return false;
    }
    in->swap = false;
    uint32_t magic = input_load32(in, in->buf);
    if (magic != (uint32_t)MAGIC_US && magic != (uint32_t)MAGIC_NS) {
        in->swap = true;
        magic = input_load32(in, in->buf);
    }
    if (magic != (uint32_t)MAGIC_US && magic != (uint32_t)MAGIC_NS) {
        return false;
    }
    in->nano = magic == (uint32_t)MAGIC_NS;
    in->link = input_link(input_load32(in, in->buf + 20) & 0xffff); /* the rest is about an FCS */
    in->at = FILE_HDR;
    return true;
}

static void close_file(struct input *in)
{
    if (in->fd > STDIN_FILENO) {
        close(in->fd);
    }
    free(in->buf);
    in->fd = -1;
    in->buf = NULL;
}

/* Why the octets at the start of the file are no capture. */
static const char *what_it_is(const struct input *in)
{
    static const struct {
        uint8_t magic[4];
        const char *text;
    } known[] = {
        {{0x1f, 0x8b, 0x08, 0}, "is compressed: zcat FILE | uiw-dump -"},
        {{0xfd, '7', 'z', 'X'}, "is compressed: xzcat FILE | uiw-dump -"},
        {{0x28, 0xb5, 0x2f, 0xfd}, "is compressed: zstdcat FILE | uiw-dump -"},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (in->have >= 4 && memcmp(in->buf, known[i].magic, i == 0 ? 3 : 4) == 0) {
            return known[i].text;
        }
    }
    return in->have == 0 ? "is empty" : "is no pcap or pcapng file";
}

/* False: the error says why; *other is set when libpcap may know better. */
static bool open_file(struct input *in, bool *other)
{
    *other = false;
    in->fd = is_stdin(in) ? STDIN_FILENO : open(in->cfg.file, O_RDONLY | O_CLOEXEC);
    in->buf = malloc(INPUT_BUFFER);
    if (in->fd < 0 || in->buf == NULL) {
        say(in, strerror(errno));
        close_file(in);
        return false;
    }
    if (!take_header(in)) {
        say(in, in->io_errno != 0 ? strerror(in->io_errno) : what_it_is(in));
        *other = in->have >= FILE_HDR && !is_stdin(in);
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
    pcap_set_snaplen(in->pcap, in->cfg.snaplen > 0 ? (int)in->cfg.snaplen : INPUT_CAP_MAX);
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
    in->link = pcap_datalink(in->pcap);
    return true;
}

/* Old variants of pcap. */
static bool open_pcap(struct input *in)
{
    char why[PCAP_ERRBUF_SIZE] = "";
    in->pcap =
        pcap_open_offline_with_tstamp_precision(in->cfg.file, PCAP_TSTAMP_PRECISION_NANO, why);
    in->pcap_nano = true;
    in->link = in->pcap != NULL ? pcap_datalink(in->pcap) : 0;
    return in->pcap != NULL;
}

/* The capture filter for that link; NULL, with the error set, when it makes no sense there. */
static struct bpf_program *filter_for(struct input *in, int link)
{
    for (uint32_t i = 0; i < in->progs; i++) {
        if (in->prog_link[i] == link) {
            return &in->prog[i];
        }
    }
    if (in->progs == INPUT_LINKS) {
        input_fail(in, "too many kinds of links for one capture filter");
        return NULL;
    }
    pcap_t *form = pcap_open_dead(link, INPUT_CAP_MAX);
    struct bpf_program *prog = &in->prog[in->progs];
    bool ok =
        form != NULL && pcap_compile(form, prog, in->cfg.filter, 1, PCAP_NETMASK_UNKNOWN) == 0;
    if (ok) {
        in->prog_link[in->progs++] = link;
    } else {
        snprintf(in->err, sizeof in->err, "capture filter '%s': %s", in->cfg.filter,
                 form != NULL ? pcap_geterr(form) : "out of memory");
    }
    if (form != NULL) {
        pcap_close(form);
    }
    return ok ? prog : NULL;
}

static bool set_live_filter(struct input *in)
{
    struct bpf_program *prog =
        in->cfg.filter != NULL ? filter_for(in, pcap_datalink(in->pcap)) : NULL;
    if (prog == NULL) {
        return in->cfg.filter == NULL;
    }
    return pcap_setfilter(in->pcap, prog) == 0 || say(in, pcap_geterr(in->pcap));
}

static bool start(struct input *in)
{
    bool other = false;
    if (in->cfg.iface != NULL) {
        return open_live(in) && set_live_filter(in);
    }
    if (!open_file(in, &other) && !(other && open_pcap(in))) {
        return false;
    }
    bool early = in->cfg.filter != NULL && !in->is_ng; /* else the links are not known yet */
    return !early || filter_for(in, in->link) != NULL;
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
    ng_reset(&in->ng);
    for (uint32_t i = 0; i < in->progs; i++) {
        pcap_freecode(&in->prog[i]);
    }
    if (in->pcap != NULL) {
        pcap_close(in->pcap);
    }
    free(in);
}

int input_fail(struct input *in, const char *what)
{
    snprintf(in->err, sizeof in->err, "%s: after frame %llu: %s", name_of(in),
             (unsigned long long)in->frames, in->io_errno != 0 ? strerror(in->io_errno) : what);
    return -1;
}

static int next_read(struct input *in, struct frame *f)
{
    if (!input_fill(in, REC_HDR)) {
        bool whole = in->have == in->at && in->io_errno == 0;
        return whole ? 0 : input_fail(in, "the file ends inside a frame's header");
    }
    uint32_t cap = input_load32(in, in->buf + in->at + 8);
    if (cap > INPUT_CAP_MAX) {
        return input_fail(in, "a frame's length is impossible");
    }
    if (!input_fill(in, REC_HDR + cap)) {
        return input_fail(in, "the file ends inside a frame");
    }
    const uint8_t *h = in->buf + in->at;
    uint64_t frac = input_load32(in, h + 4);
    *f = (struct frame){.num = ++in->frames,
                        .ns = input_load32(in, h) * 1000000000ull + (in->nano ? frac : frac * 1000),
                        .p = h + REC_HDR,
                        .cap = cap,
                        .len = max_u32(cap, input_load32(in, h + 12)),
                        .link = in->link};
    in->at += REC_HDR + cap;
    return 1;
}

static int next_pcap(struct input *in, struct frame *f)
{
    struct pcap_pkthdr *h;
    const u_char *p;
    int rc = pcap_next_ex(in->pcap, &h, &p);
    if (in->stop || rc == PCAP_ERROR_BREAK) {
        return 0;
    }
    if (rc == 0) { /* a live device was silent for a while */
        return 2;
    }
    if (rc != 1) {
        return input_fail(in, pcap_geterr(in->pcap));
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

/* 1 or 0: the capture filter takes the frame or not. -1: it cannot be asked. */
static int passes(struct input *in, const struct frame *f)
{
    if (in->live || in->cfg.filter == NULL) {
        return 1; /* of a live capture only such frames come */
    }
    const struct bpf_program *prog = filter_for(in, f->link);
    const struct pcap_pkthdr h = {.caplen = f->cap, .len = f->len};
    return prog == NULL ? -1 : pcap_offline_filter(prog, &h, f->p) != 0;
}

int input_next(struct input *in, struct frame *f)
{
    for (;;) {
        int rc = in->buf == NULL ? next_pcap(in, f) : in->is_ng ? ng_next(in, f) : next_read(in, f);
        int pass = rc == 1 ? passes(in, f) : 1;
        if (pass != 0) {
            return pass < 0 ? -1 : rc;
        }
    }
}

const char *input_error(const struct input *in)
{
    return in->err;
}

uint64_t input_dropped(struct input *in)
{
    struct pcap_stat st;
    if (in->live && pcap_stats(in->pcap, &st) == 0) {
        return (uint64_t)st.ps_drop + st.ps_ifdrop;
    }
    return in->dropped;
}

bool input_rewind(struct input *in)
{
    in->frames = in->dropped = 0;
    if (in->buf != NULL) {
        in->at = in->have = 0;
        in->ended = false;
        return lseek(in->fd, 0, SEEK_SET) == 0 && take_header(in);
    }
    if (in->live) {
        return false;
    }
    pcap_close(in->pcap);
    in->pcap = NULL;
    return open_pcap(in);
}

void input_stop(struct input *in)
{
    in->stop = true;
    if (in->pcap != NULL) {
        pcap_breakloop(in->pcap);
    }
}
