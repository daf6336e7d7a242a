/* SPDX-License-Identifier: MIT */
/* Frames from a file, standard input or a live interface. Pcap and pcapng are read here, all else by
 * libpcap; the caller sees no difference. */
#ifndef UIW_DUMP_INPUT_H
#define UIW_DUMP_INPUT_H

#include "base/base.h"

enum { INPUT_ERR = 512 };

struct frame {
    uint64_t num; /* from 1 */
    uint64_t ns;  /* since 1970 */
    const uint8_t *p;
    uint32_t cap, len; /* octets captured and on the wire */
    int link;          /* DLT_* */
};

struct input_cfg {
    const char *file;   /* "-" is standard input; NULL when iface is given */
    const char *iface;  /* live */
    const char *filter; /* libpcap's filter language, or NULL */
    uint32_t snaplen;   /* live; 0: all */
};

struct input;

/* NULL, and err filled, when it cannot be opened. */
struct input *input_open(const struct input_cfg *cfg, char err[INPUT_ERR]);
void input_close(struct input *in);

/* 1: *f is the next frame, its octets borrowed until the next call. 0: the end. 2: nothing came for a
 * while (live only). -1: what follows cannot be read; input_error() says why, and all frames before it
 * were good. */
int input_next(struct input *in, struct frame *f);
const char *input_error(const struct input *in);

/* Packets that the capture lost, as the kernel or the file says. */
uint64_t input_dropped(struct input *in);

/* Back to the first frame; false for what cannot be read twice. */
bool input_rewind(struct input *in);

/* Makes a live input_next() return 0; may be called from a signal handler. */
void input_stop(struct input *in);

#endif
