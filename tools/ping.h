/* SPDX-License-Identifier: MIT */
/* uiw-ping speaks the protocol of rping (rdma-core). For each ping
 *
 *   client                              server
 *   Send: where the text is        ->
 *                                  <-   Read of the text
 *                                  <-   Send: go on
 *   Send: where the echo belongs   ->
 *                                  <-   Write of the echo, Send: done
 *
 * A Send carries 16 octets: address (64 bits), STag and size (32 bits each), big endian; of the
 * server's Sends only the arrival counts. */
#ifndef UIW_TOOLS_PING_H
#define UIW_TOOLS_PING_H

#include "tool.h"

enum {
    PING_PORT = 7174,
    PING_NOTE = 16, /* octets of a Send */
    PING_SIZE_DEFAULT = 64,
    PING_SIZE_MIN = 23,       /* of rping: room for the text's beginning */
    PING_SIZE_MAX = 16 << 20, /* ours; rping's is 65535 */
    PING_CLIENTS_MAX = 256,   /* of a server at a time */
    PING_CQE = PING_CLIENTS_MAX * 24,
};

struct ping_options {
    bool server, verbose, verify, persistent;
    uint64_t count; /* 0: without end */
    uint32_t size;
    unsigned timeout_s; /* for one answer */
    const char *address, *device;
    uint16_t port;
    struct sockaddr_storage endpoint; /* of address and port */
};

enum ping_work { PING_RECV, PING_SEND, PING_READ, PING_WRITE };

struct ping_buffer {
    char *data;
    uint32_t size;
    struct uiw_mr *mr;
};

/* One end of a connection. */
struct ping_end {
    struct tool *tool;
    struct uiw_qp *qp;
    struct uiw_conn *conn;
    struct ping_buffer notes; /* the Send's octets, then the receive's */
};

/* What a note says, in the order of this host. */
struct ping_place {
    uint64_t addr;
    uint32_t rkey, size;
};

/* A zeroed, registered buffer. ping_buffer_free() takes a zeroed struct too. */
int ping_buffer_make(struct tool *t, uint32_t size, unsigned access, struct ping_buffer *b);
void ping_buffer_free(struct ping_buffer *b);

/* A QP with user on its completions and one receive posted. On failure has said why and left nothing
 * behind. */
int ping_end_open(struct tool *t, void *user, struct ping_end *end);
/* Abrupt unless the stream was closed before. Completions of the end may still be in the CQ. */
void ping_end_close(struct ping_end *end);

int ping_post_recv(struct ping_end *end);
/* Sends what is in the Send's note. */
int ping_post_send(struct ping_end *end);
/* A Read into, or Write from, the first octets of b; length is that of the place. */
int ping_post_rdma(struct ping_end *end, enum ping_work work, const struct ping_buffer *b,
                   const struct ping_place *at);

void ping_note_set(struct ping_end *end, const struct ping_buffer *b);
void ping_note_get(const struct ping_end *end, struct ping_place *at);

/* The text for a ping, zero terminated at the end of the buffer, as rping makes it. */
void ping_text(uint64_t number, struct ping_buffer *b);

int ping_client(struct tool *t, const struct ping_options *o);
int ping_server(struct tool *t, const struct ping_options *o);

/* A line with the peer's text, up to its first NUL: what is not printable shows as '.', since it goes to
 * a terminal. */
void ping_print(const char *title, const void *data, uint32_t len);

#endif
