/* SPDX-License-Identifier: MIT */
/* All of uiw-dump under made-up input. The first octet chooses what the rest is:
 *   0  a capture file
 *   1  a list of frames: link type, then length (2) and octets of each
 *   2  segments of one connection: control, length (2), octets; the headers are made here, or few
 *      inputs would get past them. Control: bit 0 direction, 1 SYN, 2 FIN, 3 RST, 4 cut by a
 *      snaplen, 5 to 7 a step of the sequence number back or ahead
 *   3  a filter */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static FILE *null;

struct session {
    struct dump *d;
    struct filter *filter;
    struct out_text text;
    struct out_json json;
    struct out_summary summary;
    struct out_html *html;
};

/* A clock that makes waiting events go after a few more. */
static uint64_t ticks(void)
{
    static uint64_t now;
    return now += 50 * 1000 * 1000;
}

/* The page's template is long, so not every input gets one; others have a filter that makes what comes
 * wait for the end of its message. */
static void open_session(struct session *s, bool page, bool filtered)
{
    char err[FILTER_ERR];
    s->filter = filtered ? filter_parse("size>8 !op=terminate", err) : NULL;
    struct dump_cfg cfg = {.filter = s->filter,
                           .ignore_sums = true,
                           .want_payload = true,
                           .clock = filtered ? ticks : NULL};
    struct sink sink;
    s->d = dump_new(&cfg);
    struct out_cfg out = {.f = null,
                          .fpdus = true,
                          .hex = true,
                          .messages = true,
                          .findings = true,
                          .summary = true,
                          .d = s->d};
    s->text.cfg = s->json.cfg = s->summary.cfg = out;
    out_text_sink(&s->text, &sink);
    dump_add_sink(s->d, &sink);
    out_json_sink(&s->json, &sink);
    dump_add_sink(s->d, &sink);
    out_summary_sink(&s->summary, &sink);
    dump_add_sink(s->d, &sink);
    s->html = page ? out_html_open("/dev/null", &out) : NULL;
    if (s->html != NULL) {
        out_html_sink(s->html, &sink);
        dump_add_sink(s->d, &sink);
    }
}

static void close_session(struct session *s)
{
    dump_finish(s->d);
    if (s->html != NULL) {
        out_html_close(s->html);
    }
    dump_free(s->d);
    filter_free(s->filter);
}

static void run_file(struct session *s, const uint8_t *p, size_t n)
{
    char path[64];
    char err[INPUT_ERR];
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n) {
        abort();
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct input_cfg cfg = {.file = path};
    struct input *in = input_open(&cfg, err);
    struct frame f;
    while (in != NULL && input_next(in, &f) == 1) {
        dump_frame(s->d, &f);
    }
    if (in != NULL) {
        input_close(in);
    }
    close(fd);
}

/* A copy of its own, so that reading past a frame is seen. */
static void give(struct session *s, const uint8_t *p, uint32_t cap, uint32_t len, int link)
{
    struct frame f = {.num = s->d->frames + 1,
                      .ns = 1000000000ull + s->d->frames * 1000000,
                      .cap = cap,
                      .len = len,
                      .link = link};
    uint8_t *copy = malloc(cap + 1);
    memcpy(copy, p, cap);
    f.p = copy;
    dump_frame(s->d, &f);
    free(copy);
}

static void run_frames(struct session *s, const uint8_t *p, size_t n)
{
    static const int links[] = {1, 0, 12, 101, 108, 113, 228, 229, 276, 147};
    int link = n > 0 ? links[p[0] % ARRAY_LEN(links)] : 1;
    for (size_t at = 1; at + 2 <= n;) {
        uint32_t len = get_be16(p + at);
        uint32_t cap = min_u32(len, (uint32_t)(n - at - 2));
        give(s, p + at + 2, cap, len, link);
        at += 2 + cap;
    }
}

static void run_segments(struct session *s, const uint8_t *p, size_t n)
{
    static const int32_t steps[] = {0, 0, -1, -20, 1, 24, 1500, 70000};
    static uint8_t frame[54 + 65536];
    uint32_t seq[2] = {0xfffff000, 7};
    for (size_t at = 0; at + 3 <= n;) {
        uint8_t control = p[at];
        unsigned dir = control & 1;
        uint32_t cap = min_u32(get_be16(p + at + 1), (uint32_t)(n - at - 3));
        uint32_t len = cap + ((control & 0x10) != 0 ? 700 : 0);
        seq[dir] += (uint32_t)steps[control >> 5];
        memset(frame, 0, 54);
        put_be16(frame + 12, 0x0800);
        frame[14] = 0x45;
        put_be16(frame + 16, min_u32(40 + len, 65535));
        frame[23] = 6;
        put_be32(frame + 26, 1 + dir);
        put_be32(frame + 30, 2 - dir);
        put_be16(frame + 34, dir == 0 ? 40000 : 20049);
        put_be16(frame + 36, dir == 0 ? 20049 : 40000);
        put_be32(frame + 38, seq[dir]);
        put_be32(frame + 42, seq[1 - dir]);
        frame[46] = 5 << 4;
        frame[47] = (uint8_t)(TCP_ACK | (control & 2) | (control >> 2 & 1) | (control >> 1 & 4));
        memcpy(frame + 54, p + at + 3, cap);
        give(s, frame, 54 + cap, 54 + len, 1);
        seq[dir] += len + ((control & 6) != 0);
        at += 3 + cap;
    }
}

static void run_filter(const uint8_t *p, size_t n)
{
    char err[FILTER_ERR];
    char *text = malloc(n + 1);
    memcpy(text, p, n);
    text[n] = '\0';
    struct filter *f = filter_parse(text, err);
    filter_free(f);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct session s;
    if (null == NULL) {
        null = fopen("/dev/null", "w");
    }
    if (size == 0 || size > 1 << 20) {
        return 0;
    }
    if (data[0] % 4 == 3) {
        run_filter(data + 1, size - 1);
        return 0;
    }
    open_session(&s, size % 16 == 0, size % 3 == 1);
    switch (data[0] % 4) {
    case 0: run_file(&s, data + 1, size - 1); break;
    case 1: run_frames(&s, data + 1, size - 1); break;
    default: run_segments(&s, data + 1, size - 1); break;
    }
    close_session(&s);
    return 0;
}
