/* SPDX-License-Identifier: MIT */
/* Options and operations of siwx and uiwx: see xops.h. */
#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xops.h"

static const char *const kind_names[X_KINDS] = {
    [X_SEND] = "send",
    [X_SEND_SOLICITED] = "sse",
    [X_SEND_INVALIDATE] = "sinv",
    [X_SEND_SOLICITED_INVALIDATE] = "ssinv",
    [X_SEND_INLINE] = "sinl",
    [X_SEND_PIECES] = "ssg",
    [X_WRITE] = "write",
    [X_WRITE_PIECES] = "wsg",
    [X_WRITE_INLINE] = "winl",
    [X_READ] = "read",
    [X_SLEEP] = "sleep",
    [X_RECEIVE] = "recv",
    [X_SYNC] = "sync",
    [X_DISCONNECT] = "disc",
    [X_KILL] = "kill",
    [X_DEREGISTER] = "dereg",
    [X_ERROR] = "err",
};

static void __attribute__((noreturn)) wrong(const char *what, const char *text)
{
    fprintf(stderr, "%s: %s\n", what, text);
    exit(2);
}

static uint32_t number(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 0);

    if (end == text || *end != '\0' || n > UINT32_MAX)
        wrong("not a number", text);
    return (uint32_t)n;
}

/* Copies the next field up to a ':' or the end. False: there is none. */
static bool field(const char **at, const char *end, char *out, size_t room)
{
    const char *colon;
    size_t n;

    if (*at > end)
        return false;
    colon = memchr(*at, ':', (size_t)(end - *at));
    n = (size_t)((colon != NULL ? colon : end) - *at);
    if (n >= room)
        wrong("too long", *at);
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n + 1;
    return true;
}

static enum x_kind kind_of(const char *name)
{
    for (int k = 0; k < X_KINDS; k++) {
        if (strcmp(name, kind_names[k]) == 0)
            return (enum x_kind)k;
    }
    wrong("no such operation", name);
}

bool x_next(const char **list, struct x_op *op)
{
    const char *at = *list, *end;
    char text[16];
    uint32_t *numbers[] = {&op->length, &op->offset, &op->count};

    if (*at == '\0')
        return false;
    end = at + strcspn(at, ",");
    *list = *end == ',' ? end + 1 : end;
    *op = (struct x_op){.count = 1};
    if (!field(&at, end, text, sizeof text))
        wrong("no operation", *list);
    op->kind = kind_of(text);
    for (int i = 0; i < 3 && field(&at, end, text, sizeof text); i++) {
        if (text[0] != '\0')
            *numbers[i] = number(text);
    }
    field(&at, end, op->flags, sizeof op->flags);
    return true;
}

bool x_is_send(enum x_kind kind)
{
    return kind <= X_SEND_PIECES;
}

unsigned x_cut(const struct x_op *op, struct x_piece *piece)
{
    uint32_t a = op->length / 3, b = op->length / 2;

    if (op->length < X_PIECES || (op->kind != X_SEND_PIECES && op->kind != X_WRITE_PIECES)) {
        piece[0] = (struct x_piece){op->offset, op->length};
        return op->length > 0 ? 1 : 0;
    }
    piece[0] = (struct x_piece){op->offset + b, op->length - b};
    piece[1] = (struct x_piece){op->offset, a};
    piece[2] = (struct x_piece){op->offset + a, b - a};
    return X_PIECES;
}

static void access_rights(const char *text, struct x_options *o)
{
    o->local_write = strchr(text, 'l') != NULL;
    o->remote_write = strchr(text, 'w') != NULL;
    o->remote_read = strchr(text, 'r') != NULL;
}

/* The port lies at the same place for both families. */
static void set_port(struct x_options *o, in_port_t port)
{
    struct sockaddr_in in;

    memcpy(&in, &o->address, sizeof in);
    in.sin_port = port;
    memcpy(&o->address, &in, sizeof in);
}

static void set_address(struct x_options *o, const char *text)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    memcpy(&in, &o->address, sizeof in);
    in6.sin6_port = in.sin_port;
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        memcpy(&o->address, &in, sizeof in);
    else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
        memcpy(&o->address, &in6, sizeof in6);
    else
        wrong("not an address", text);
}

static void take(int opt, const char *text, struct x_options *o)
{
    switch (opt) {
    case 's': o->server = true; break;
    case 'c': o->server = false; break;
    case 'm': o->model = true; break;
    case '2': o->other_pd = true; break;
    case 'o': o->ops = text; break;
    case 'A': access_rights(text, o); break;
    case 'a': set_address(o, text); break;
    case 'p': set_port(o, htons((uint16_t)number(text))); break;
    case 'b': o->buffer = number(text); break;
    case 'r': o->receives = number(text); break;
    case 'R': o->receive_size = number(text); break;
    case 'P': o->private_len = (int)number(text); break;
    case 'j': o->reject_len = (int)number(text); break;
    case 'i': o->ird = (int)number(text); break;
    case 'd': o->ord = (int)number(text); break;
    case 'n': o->connections = number(text); break;
    case 't': o->timeout_ms = number(text); break;
    case 'T': o->limit_s = number(text); break;
    default: wrong("usage", "see the top of xops.h");
    }
}

void x_parse(int argc, char **argv, struct x_options *o)
{
    int opt;

    *o = (struct x_options){
        .address = {.ss_family = AF_INET},
        .ops = "",
        .buffer = 1 << 20,
        .receives = 16,
        .receive_size = 1 << 16,
        .local_write = true,
        .remote_write = true,
        .remote_read = true,
        .private_len = -1,
        .reject_len = -1,
        .ird = 16,
        .ord = 16,
        .connections = 1,
        .timeout_ms = 20000,
        .limit_s = 60,
    };
    set_port(o, htons(7174));
    while ((opt = getopt(argc, argv, "scm2o:A:a:p:b:r:R:P:j:i:d:n:t:T:")) >= 0)
        take(opt, optarg, o);
    if (optind < argc)
        wrong("usage", argv[optind]);
    if (o->private_len > X_PRIVATE_MAX - 1 || o->reject_len > X_PRIVATE_MAX - 1)
        wrong("usage", "private data of more than 255 octets");
}
