/* SPDX-License-Identifier: MIT */
/* What a list of operations should leave behind at both ends: see xops.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xops.h"

uint32_t x_sum(uint32_t sum, const uint8_t *data, uint64_t length)
{
    for (uint64_t i = 0; i < length; i++)
        sum = (sum ^ data[i]) * 0x01000193;
    return sum;
}

void x_fill(uint8_t *buffer, uint32_t length, bool server)
{
    for (uint32_t i = 0; i < length; i++)
        buffer[i] = (uint8_t)(i * 7 + (i >> 8) * 3 + (i >> 16) + (server ? 0x80 : 0));
}

struct end {
    uint8_t *buffer;
    uint32_t received;
};

static struct end new_end(const struct x_options *o, bool server)
{
    struct end e = {.buffer = malloc(o->buffer), .received = X_SUM_START};

    if (e.buffer == NULL)
        exit(3);
    x_fill(e.buffer, o->buffer, server);
    return e;
}

/* Requests with a fault on purpose move nothing. */
static void apply(const struct x_op *op, struct end *own, struct end *peer)
{
    struct x_piece piece[X_PIECES];
    unsigned pieces = x_cut(op, piece);
    uint32_t to = op->offset;

    if (op->kind > X_READ || strpbrk(op->flags, "kKzo") != NULL)
        return;
    for (unsigned i = 0; i < pieces; i++) {
        uint8_t *from = own->buffer + piece[i].offset;

        if (x_is_send(op->kind))
            peer->received = x_sum(peer->received, from, piece[i].length);
        else if (op->kind == X_READ)
            memcpy(from, peer->buffer + piece[i].offset, piece[i].length);
        else
            memcpy(peer->buffer + to, from, piece[i].length);
        to += piece[i].length;
    }
}

static void show(const struct x_options *o, const struct end *e, bool server)
{
    printf("%s: buffer=%08x received=%08x\n", server ? "server" : "client",
           x_sum(X_SUM_START, e->buffer, o->buffer), e->received);
}

void x_model(const struct x_options *o)
{
    struct end own = new_end(o, o->server), peer = new_end(o, !o->server);
    const char *list = o->ops;
    struct x_op op;

    while (x_next(&list, &op)) {
        for (uint32_t i = 0; i < op.count; i++)
            apply(&op, &own, &peer);
    }
    show(o, &own, o->server);
    show(o, &peer, !o->server);
    free(own.buffer);
    free(peer.buffer);
}
