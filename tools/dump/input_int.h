/* SPDX-License-Identifier: MIT */
/* Between input.c and pcapng.c. */
#ifndef UIW_DUMP_INPUT_INT_H
#define UIW_DUMP_INPUT_INT_H

#include <pcap/pcap.h>

#include "input.h"

enum {
    INPUT_CAP_MAX = 262144, /* libpcap's limit too; a length above is a broken file */
    INPUT_BUFFER = 2 * INPUT_CAP_MAX,
    /* What is read at a time: it stays in the cache between the kernel's copy and our reading. Mapping
     * the file costs more: the faults of the first touch take longer than a copy does. */
    INPUT_READ = 128 << 10,
    NG_IFACES = 4096,
    INPUT_LINKS = 16, /* kinds of links that one capture filter is compiled for */
};

struct ng_iface {
    int link;
    uint32_t snaplen;
    uint8_t resolution; /* as the file has it */
    int64_t offset_s;
    uint64_t dropped;
};

/* A pcapng file between two blocks. */
struct ng {
    struct ng_iface *iface;
    uint32_t ifaces, cap;
    uint64_t rest;  /* octets of the last block that are still to come */
    uint32_t total; /* what stands at its end again */
    uint64_t last_ns;
};

struct input {
    struct input_cfg cfg;
    char err[INPUT_ERR];
    uint64_t frames, dropped;
    int link;
    /* pcap and pcapng, read here */
    int fd; /* -1: not in use */
    uint8_t *buf;
    uint32_t at, have; /* buf[at..have) is not looked at yet */
    bool swap, nano, ended, is_ng;
    int io_errno;
    struct ng ng;
    /* the capture filter, for each kind of link */
    struct bpf_program prog[INPUT_LINKS];
    int prog_link[INPUT_LINKS];
    uint32_t progs;
    /* libpcap */
    pcap_t *pcap;
    bool pcap_nano;
    bool live;
    volatile bool stop;
};

static inline uint32_t input_load32(const struct input *in, const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return in->swap ? __builtin_bswap32(v) : v;
}

/* Files number raw IP otherwise than libpcap's calls do. */
static inline int input_link(uint32_t in_file)
{
    return in_file == 101 ? DLT_RAW : (int)in_file;
}

/* At least n octets, at most INPUT_BUFFER, in the buffer from at on; false at the end of the file. */
bool input_fill(struct input *in, uint32_t n);
/* -1, with the error text set. */
int input_fail(struct input *in, const char *what);

/* Whether a pcapng file begins in the buffer, which holds 4 octets. */
bool ng_begins(const struct input *in);
void ng_reset(struct ng *ng);
/* As input_next(). */
int ng_next(struct input *in, struct frame *f);

#endif
