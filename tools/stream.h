/* SPDX-License-Identifier: MIT */
/* uiw-stream: RDMA Writes into a window of the server's memory, as many octets as asked for, all of
 * them checked.
 *
 * The server's reply to the connect request carries, as private data, where its window is. The window
 * has two halves, and the stream is cut into laps, one half each. After the Writes of a lap the client
 * Sends a note with the lap's checksum; the server answers with a note that has its own. A half is
 * written again only after the answer, so no lap is missed. The client closes at the end. */
#ifndef UIW_TOOLS_STREAM_H
#define UIW_TOOLS_STREAM_H

#include "tool.h"

enum {
    STREAM_PORT = 7175,
    STREAM_HALF = 32 << 20,
    STREAM_NOTE = 24,
    STREAM_PLACE = 16,
    STREAM_NOTES = 4, /* receives kept posted: two laps under way, and room */
    STREAM_DEPTH = 64,
    STREAM_CQE = 2 * STREAM_DEPTH + 2 * STREAM_NOTES,
    STREAM_TURN_MS = 100, /* how often a wait looks whether the user wants to stop */
    STREAM_CLOSE_MS = 5000,
};

struct stream_options {
    bool server;
    uint64_t total;
    uint32_t chunk; /* octets of a Write */
    const char *address, *device;
    uint16_t port;
    struct sockaddr_storage endpoint; /* of address and port */
};

struct stream_note {
    uint64_t lap, length, checksum;
};

/* One end: the window, and notes (outgoing ones by parity of the lap, then received ones). */
struct stream_end {
    struct tool *tool;
    struct uiw_qp *qp;
    struct uiw_conn *conn;
    uint8_t *window, *notes;
    struct uiw_mr *window_mr, *notes_mr;
};

/* access: of the window. On failure has said why; stream_close() cleans up. */
int stream_open(struct tool *t, unsigned access, struct stream_end *end);
void stream_close(struct stream_end *end);

int stream_send_note(struct stream_end *end, const struct stream_note *note);
/* Takes the note that wc received, and posts its buffer again. */
int stream_take_note(struct stream_end *end, const struct uiw_wc *wc, struct stream_note *note);

/* The next event within ms; completions that come meanwhile are dropped. */
bool stream_await_event(struct stream_end *end, uint64_t ms, struct uiw_event *ev);

/* Where the window is, as private data of STREAM_PLACE octets. */
void stream_put_place(const struct stream_end *end, uint8_t *data);
bool stream_get_place(const uint8_t *data, uint32_t length, uint64_t *addr, uint32_t *rkey);

/* Depends on every octet and on their order; start is the sum so far. */
uint64_t stream_checksum(uint64_t start, const void *data, uint64_t length);

int stream_client(struct tool *t, const struct stream_options *o);
int stream_server(struct tool *t, const struct stream_options *o);

#endif
