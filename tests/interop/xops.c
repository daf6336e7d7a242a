/* SPDX-License-Identifier: MIT */
/* The course of siwx and uiwx: see xops.h. */
#include "xops.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x53495758 };

enum { STATUS_OK = 0, STATUS_SETUP = 3, STATUS_NO_PEER = 4, STATUS_NOT_CONNECTED = 6 };

void x_say(const struct x_run *r, const char *format, ...)
{
    va_list args;

    printf("%s: ", r->o->server ? "server" : "client");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

uint64_t x_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void x_pause(void)
{
    usleep(500);
}

/* ---- Private data ---- */

static uint8_t pattern(unsigned i, bool server)
{
    return (uint8_t)(i ^ (server ? 0xa5 : 0x5a));
}

static void put_le(uint8_t *p, unsigned octets, uint64_t value)
{
    for (unsigned i = 0; i < octets; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_le(const uint8_t *p, unsigned octets)
{
    uint64_t value = 0;

    for (unsigned i = octets; i > 0; i--)
        value = value << 8 | p[i - 1];
    return value;
}

uint8_t x_private(const struct x_run *r, int length, uint8_t *data)
{
    unsigned n = length < 0 ? X_PLACE : (unsigned)length;

    for (unsigned i = 0; i < X_PRIVATE_MAX; i++)
        data[i] = pattern(i, r->o->server);
    if (n >= X_PLACE) {
        put_le(data, 4, MAGIC);
        put_le(data + 4, 4, r->own_rkey);
        put_le(data + 8, 8, (uintptr_t)r->buffer);
        put_le(data + 16, 4, r->o->buffer);
    }
    return (uint8_t)n;
}

void x_take_private(struct x_run *r, const void *data, uint32_t length)
{
    const uint8_t *p = data;
    bool place = length >= X_PLACE && get_le(p, 4) == MAGIC, right = true;

    if (place) {
        r->peer.rkey = (uint32_t)get_le(p + 4, 4);
        r->peer.addr = get_le(p + 8, 8);
        r->peer.length = (uint32_t)get_le(p + 16, 4);
    }
    for (unsigned i = place ? X_PLACE : 0; i < length; i++)
        right = right && p[i] == pattern(i, !r->o->server);
    x_say(r, "private data: %u octets, %s", (unsigned)length, right ? "right" : "wrong");
}

/* ---- Requests and completions ---- */

static void on_receive(struct x_run *r, const struct x_completion *c)
{
    if (!c->ok) {
        if (r->receives_bad++ == 0)
            x_say(r, "receive failed: %s", c->text);
        return;
    }
    r->receives_ok++;
    r->received = x_sum(r->received, r->inbox + c->id * r->o->receive_size, c->length);
    if (c->invalidated)
        x_say(r, "receive of %u octets invalidated %s", (unsigned)c->length,
              c->stag == r->own_rkey ? "the buffer" : "another key");
    if (c->solicited)
        x_say(r, "receive of %u octets was solicited", (unsigned)c->length);
}

static bool poll_one(struct x_run *r, const struct x_backend *b)
{
    struct x_completion c = {0};

    if (!b->poll(r, &c))
        return false;
    if (c.receive) {
        on_receive(r, &c);
        return true;
    }
    r->under_way--;
    if (c.ok) {
        r->requests_ok++;
    } else if (r->requests_bad++ < 4) {
        x_say(r, "request %u failed: %s", (unsigned)c.id, c.text);
    }
    return true;
}

static void turn(struct x_run *r, const struct x_backend *b)
{
    if (!poll_one(r, b)) {
        x_pause();
        b->events(r);
    }
}

static void drain(struct x_run *r, const struct x_backend *b, unsigned ms)
{
    uint64_t end = x_now_ms() + ms;

    while (r->under_way > 0 && x_now_ms() < end)
        turn(r, b);
    while (poll_one(r, b))
        ;
}

static bool flag(const struct x_op *op, char f)
{
    return strchr(op->flags, f) != NULL;
}

static bool post_work(struct x_run *r, const struct x_backend *b, const struct x_work *w)
{
    int error;

    while (r->under_way >= X_DEPTH && !r->disconnected)
        turn(r, b);
    error = b->post(r, w);
    if (error != 0)
        x_say(r, "request %u was refused: %s", (unsigned)w->id, strerror(error));
    else
        r->under_way++;
    return error == 0;
}

static bool post_one(struct x_run *r, const struct x_backend *b, const struct x_op *op)
{
    struct x_work w = {.kind = op->kind, .id = r->next_id++};

    w.pieces = x_cut(op, w.piece);
    w.remote_addr = r->peer.addr + op->offset;
    w.rkey = r->peer.rkey;
    if (flag(op, 'k'))
        w.rkey ^= 0x100;
    if (flag(op, 'K'))
        w.rkey ^= 1;
    if (flag(op, 'z'))
        w.rkey = 0;
    if (flag(op, 'o'))
        w.remote_addr = r->peer.addr + r->peer.length - op->length / 2;
    return post_work(r, b, &w);
}

static void post_all(struct x_run *r, const struct x_backend *b, const struct x_op *op)
{
    for (uint32_t i = 0; i < op->count && !r->disconnected; i++) {
        if (!post_one(r, b, op))
            break;
    }
}

/* A completion tells only that the sender is done; the answer to a Read tells that all before it is in
 * place at the peer (RFC 5040 sec 5.5). siw wants a piece even for a Read of nothing. */
static void post_measured(struct x_run *r, const struct x_backend *b, const struct x_op *op)
{
    struct x_work last = {.kind = X_READ, .pieces = 1};
    unsigned bad = r->requests_bad;
    uint64_t began, ms;

    drain(r, b, r->o->timeout_ms);
    began = x_now_ms();
    post_all(r, b, op);
    last.id = r->next_id++;
    last.remote_addr = r->peer.addr;
    last.rkey = r->peer.rkey;
    if (!post_work(r, b, &last))
        return;
    drain(r, b, r->o->timeout_ms);
    ms = x_now_ms() - began;
    if (r->under_way > 0 || r->requests_bad > bad || ms == 0)
        x_say(r, "no rate");
    else
        x_say(r, "rate: %u x %u octets in %u ms, %.3f Gbit/s", op->count, op->length, (unsigned)ms,
              8e-6 * op->count * op->length / (double)ms);
}

/* The operations that only wait. */
static void wait_for(struct x_run *r, const struct x_backend *b, const struct x_op *op)
{
    uint64_t end = x_now_ms() + (op->kind == X_SLEEP ? op->length : r->o->timeout_ms);

    if (op->kind == X_SYNC) {
        drain(r, b, r->o->timeout_ms);
        return;
    }
    while (x_now_ms() < end && !r->disconnected &&
           (op->kind == X_SLEEP || r->receives_ok < op->length))
        turn(r, b);
}

static void carry_out(struct x_run *r, const struct x_backend *b, const struct x_op *op)
{
    switch (op->kind) {
    case X_SLEEP:
    case X_RECEIVE:
    case X_SYNC: wait_for(r, b, op); break;
    case X_KILL:
        x_say(r, "dies");
        kill(getpid(), SIGKILL);
        break;
    case X_DISCONNECT:
    case X_DEREGISTER:
    case X_ERROR: b->control(r, op->kind); break;
    default:
        if (flag(op, 'm')) {
            post_measured(r, b, op);
            break;
        }
        post_all(r, b, op);
        if (!flag(op, 'n'))
            drain(r, b, r->o->timeout_ms);
        break;
    }
    b->events(r);
}

static void run_ops(struct x_run *r, const struct x_backend *b)
{
    const char *list = r->o->ops;
    struct x_op op;

    while (!r->disconnected && x_next(&list, &op))
        carry_out(r, b, &op);
}

static void finish(struct x_run *r, const struct x_backend *b)
{
    drain(r, b, 300);
    x_say(r, "done: requests_ok=%u requests_bad=%u receives_ok=%u receives_bad=%u disconnected=%d",
          r->requests_ok, r->requests_bad, r->receives_ok, r->receives_bad, r->disconnected);
    x_say(r, "buffer=%08x received=%08x", x_sum(X_SUM_START, r->buffer, r->o->buffer), r->received);
}

/* ---- Connections ---- */

static void start_over(struct x_run *r)
{
    r->peer = (struct x_place){0};
    r->next_id = 1;
    r->requests_ok = r->requests_bad = r->receives_ok = r->receives_bad = r->under_way = 0;
    r->established = r->disconnected = false;
    r->received = X_SUM_START;
    x_fill(r->buffer, r->o->buffer, r->o->server);
}

static void until_disconnected(struct x_run *r, const struct x_backend *b)
{
    uint64_t end = x_now_ms() + r->o->timeout_ms;

    while (!r->disconnected && x_now_ms() < end)
        turn(r, b);
}

static int serve_one(struct x_run *r, const struct x_backend *b)
{
    uint8_t data[X_PRIVATE_MAX];

    if (!b->await_request(r))
        return STATUS_NO_PEER;
    if (r->o->reject_len >= 0) {
        b->reject(r, data, x_private(r, r->o->reject_len, data));
        return STATUS_OK;
    }
    if (b->accept(r)) {
        run_ops(r, b);
        until_disconnected(r, b);
        finish(r, b);
    }
    b->close(r);
    return r->established ? STATUS_OK : STATUS_NOT_CONNECTED;
}

static int call_one(struct x_run *r, const struct x_backend *b)
{
    if (b->connect(r)) {
        run_ops(r, b);
        finish(r, b);
        if (!r->disconnected) {
            b->control(r, X_DISCONNECT);
            until_disconnected(r, b);
        }
    }
    b->close(r);
    return r->established ? STATUS_OK : STATUS_NOT_CONNECTED;
}

static int run(struct x_run *r, const struct x_backend *b)
{
    int status = STATUS_OK;

    if (!b->open(r))
        return STATUS_SETUP;
    if (r->o->server) {
        if (!b->listen(r))
            return STATUS_SETUP;
        x_say(r, "listening");
    }
    for (unsigned i = 0; i < r->o->connections && status == STATUS_OK; i++) {
        start_over(r);
        status = r->o->server ? serve_one(r, b) : call_one(r, b);
    }
    if (b->shut != NULL && !b->shut(r) && status == STATUS_OK)
        status = STATUS_SETUP;
    return status;
}

int x_main(int argc, char **argv, const struct x_backend *b)
{
    struct x_options o;
    struct x_run r = {.o = &o};
    int status;

    x_parse(argc, argv, &o);
    if (o.model) {
        x_model(&o);
        return STATUS_OK;
    }
    /* Nothing here may wait for ever, whatever the peer does. */
    alarm(o.limit_s);
    r.buffer = aligned_alloc(4096, (o.buffer + 4095U) & ~4095U);
    r.inbox = calloc(o.receives + 1U, o.receive_size + 1U);
    if (r.buffer == NULL || r.inbox == NULL)
        return STATUS_SETUP;
    status = run(&r, b);
    free(r.buffer);
    free(r.inbox);
    return status;
}
