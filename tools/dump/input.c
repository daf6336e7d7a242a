/* SPDX-License-Identifier: MIT */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_HDR = 24,
    REC_HDR = 16,
    MAGIC_US = (int)0xa1b2c3d4,
    MAGIC_NS = (int)0xa1b23c4d,
    /* What lies behind is given back to the kernel in steps of this, or a file of 2 GB would count
     * as 2 GB of our memory. */
    RELEASE = 32 << 20,
    CAP_MAX = 1 << 28, /* no frame is larger; a length above is a broken file */
};

struct input {
    struct input_cfg cfg;
    char err[INPUT_ERR];
    uint64_t frames;
    int link;
    /* mapped */
    const uint8_t *map;
    uint64_t size, at, released;
    bool swap, nano;
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

/* Maps the file when it is classic pcap; false when libpcap has to take it. */
static bool map_file(struct input *in)
{
    int fd = open(in->cfg.file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    struct stat st;
    bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= FILE_HDR;
    void *p = ok ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED) {
        return false;
    }
    in->map = p;
    in->size = (uint64_t)st.st_size;
    uint32_t magic = load32(in, in->map);
    if (magic != (uint32_t)MAGIC_US && magic != (uint32_t)MAGIC_NS) {
        in->swap = true;
        magic = load32(in, in->map);
    }
    if (magic != (uint32_t)MAGIC_US && magic != (uint32_t)MAGIC_NS) {
        munmap(p, in->size);
        in->map = NULL;
        in->swap = false;
        return false;
    }
    in->nano = magic == (uint32_t)MAGIC_NS;
    in->link = (int)(load32(in, in->map + 20) & 0xffff); /* the rest is about an FCS */
    in->at = FILE_HDR;
    madvise(p, in->size, MADV_SEQUENTIAL);
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
        map_file(in)) {
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
    if (!start(in)) {
        snprintf(err, INPUT_ERR, "%s", in->err);
        input_close(in);
        return NULL;
    }
    return in;
}

void input_close(struct input *in)
{
    if (in->map != NULL) {
        munmap((void *)(uintptr_t)in->map, in->size);
    }
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

static int next_mapped(struct input *in, struct frame *f)
{
    if (in->at == in->size) {
        return 0;
    }
    if (in->size - in->at < REC_HDR) {
        return fail(in, "the file ends inside a frame's header");
    }
    const uint8_t *h = in->map + in->at;
    uint32_t cap = load32(in, h + 8);
    if (cap > CAP_MAX) {
        return fail(in, "a frame's length is impossible");
    }
    if (in->size - in->at - REC_HDR < cap) {
        return fail(in, "the file ends inside a frame");
    }
    uint64_t frac = load32(in, h + 4);
    *f = (struct frame){.num = ++in->frames,
                        .ns = load32(in, h) * 1000000000ull + (in->nano ? frac : frac * 1000),
                        .p = h + REC_HDR,
                        .cap = cap,
                        .len = max_u32(cap, load32(in, h + 12)),
                        .link = in->link};
    if (in->at - in->released >= 2 * (uint64_t)RELEASE) {
        madvise((void *)(uintptr_t)(in->map + in->released), RELEASE, MADV_DONTNEED);
        in->released += RELEASE;
    }
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
    return in->map != NULL ? next_mapped(in, f) : next_pcap(in, f);
}

const char *input_error(const struct input *in)
{
    return in->err;
}

bool input_rewind(struct input *in)
{
    in->frames = 0;
    if (in->map != NULL) {
        in->at = FILE_HDR;
        in->released = 0;
        return true;
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
