/* SPDX-License-Identifier: MIT */
/* What siwx (over libibverbs) and uiwx (over uiw) have in common: options, the list of operations, the
 * course of a connection, and output that a script can compare.
 *
 *   siwx|uiwx -s|-c -a ADDRESS [-p PORT] [-o OPS] [-b BUFFER] [-r RECEIVES] [-R SIZE] [-A lwr]
 *             [-P LENGTH] [-j LENGTH] [-i IRD] [-d ORD] [-2] [-n CONNECTIONS] [-t MS] [-T SECONDS]
 *   siwx|uiwx -m -s|-c -o OPS [-b BUFFER]      prints what OPS would leave at both ends
 *
 * OPS is a comma list of KIND[:LENGTH[:OFFSET[:COUNT[:FLAGS]]]]. KIND is one of
 *   send sse sinv ssinv sinl ssg  Send; solicited; invalidating; both; inline; of three pieces
 *   write wsg winl read           Write; of three pieces; inline; Read
 *   sleep:MS recv:N sync          wait; for N receives in all; for all that was posted
 *   disc kill dereg err           disconnect; die by SIGKILL; deregister the buffer; QP to error
 * FLAGS: k a wrong STag, K a wrong key in it, z STag 0, o half of it beyond the end of the peer's
 * buffer, n do not wait for it, m tell the rate, from the first post until all are in place at the peer.
 * Both sides put {magic, rkey, addr, len} (20 octets, little endian) first in their private data,
 * unless -P asks for less; -j rejects with that much.
 */
#ifndef UIW_TESTS_INTEROP_XOPS_H
#define UIW_TESTS_INTEROP_XOPS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum x_kind {
    X_SEND,
    X_SEND_SOLICITED,
    X_SEND_INVALIDATE,
    X_SEND_SOLICITED_INVALIDATE,
    X_SEND_INLINE,
    X_SEND_PIECES,
    X_WRITE,
    X_WRITE_PIECES,
    X_WRITE_INLINE,
    X_READ,
    X_SLEEP,
    X_RECEIVE,
    X_SYNC,
    X_DISCONNECT,
    X_KILL,
    X_DEREGISTER,
    X_ERROR,
    X_KINDS,
};

enum { X_PLACE = 20, X_PRIVATE_MAX = 256, X_PIECES = 3, X_DEPTH = 64 };

struct x_options {
    bool server, model, other_pd;
    struct sockaddr_storage address;
    const char *ops;
    uint32_t buffer, receives, receive_size;
    bool local_write, remote_write, remote_read;
    int private_len, reject_len; /* -1: the place only; no rejection */
    int ird, ord;
    unsigned connections, timeout_ms, limit_s;
};

/* The peer's buffer, as its private data told. */
struct x_place {
    uint32_t rkey;
    uint64_t addr;
    uint32_t length;
};

struct x_piece {
    uint32_t offset, length; /* of the buffer */
};

/* A request to post. */
struct x_work {
    enum x_kind kind;
    uint64_t id; /* from 1 */
    unsigned pieces;
    struct x_piece piece[X_PIECES];
    uint64_t remote_addr;
    uint32_t rkey;
};

struct x_completion {
    bool receive, ok, solicited, invalidated;
    uint64_t id; /* of the request; of the receive: its slot */
    uint32_t length;
    uint32_t stag; /* that was invalidated */
    const char *text;
};

struct x_run {
    const struct x_options *o;
    uint8_t *buffer, *inbox; /* the inbox has a slot for each receive */
    struct x_place peer;
    uint32_t own_rkey;
    uint64_t next_id;
    unsigned requests_ok, requests_bad, receives_ok, receives_bad, under_way;
    bool established, disconnected;
    uint32_t received; /* sum over what receives brought */
};

/* What differs between the two libraries. Functions that return bool say themselves why not. */
struct x_backend {
    bool (*open)(struct x_run *r);
    bool (*listen)(struct x_run *r);
    bool (*await_request)(struct x_run *r);
    void (*reject)(struct x_run *r, const uint8_t *data, uint8_t length);
    /* These register the buffer and post the receives; true: established. The private data is that
     * of x_private(). */
    bool (*accept)(struct x_run *r);
    bool (*connect)(struct x_run *r);
    /* 0 or an errno. */
    int (*post)(struct x_run *r, const struct x_work *w);
    bool (*poll)(struct x_run *r, struct x_completion *c);
    /* Looks for events without waiting. */
    void (*events)(struct x_run *r);
    /* X_DISCONNECT, X_DEREGISTER or X_ERROR. */
    void (*control)(struct x_run *r, enum x_kind kind);
    void (*close)(struct x_run *r);
    /* At the end of the program; may be NULL. */
    bool (*shut)(struct x_run *r);
};

/* The whole program: the exit status. */
int x_main(int argc, char **argv, const struct x_backend *b);

/* A line on stdout, with the side's name before it. */
void x_say(const struct x_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Own private data of that length (-1: X_PLACE) into data[X_PRIVATE_MAX]; returns the length. */
uint8_t x_private(const struct x_run *r, int length, uint8_t *data);
/* Looks at the peer's, takes its place if there is one, and says what it found. */
void x_take_private(struct x_run *r, const void *data, uint32_t length);

/* For backends that wait in steps of a millisecond. */
uint64_t x_now_ms(void);
void x_pause(void);

/* xmodel.c: FNV-1a, and what a list of operations does to two buffers. */
enum { X_SUM_START = 0x811c9dc5 };
uint32_t x_sum(uint32_t sum, const uint8_t *data, uint64_t length);
void x_fill(uint8_t *buffer, uint32_t length, bool server);
void x_model(const struct x_options *o);

/* xparse.c. x_next() takes the next operation off the list; false at its end, and a kind that is not
 * known ends the program. */
struct x_op {
    enum x_kind kind;
    uint32_t length, offset, count;
    char flags[8];
};
bool x_next(const char **list, struct x_op *op);
void x_parse(int argc, char **argv, struct x_options *o);
bool x_is_send(enum x_kind kind);
/* The pieces of the buffer that a request of that kind takes, not in their order. */
unsigned x_cut(const struct x_op *op, struct x_piece *piece);

#endif
