/* SPDX-License-Identifier: MIT */
/* The responder: a program over uiw.h that does what the player tells it (docs/vectors.md has the
 * protocol), so that an implementation can be driven wholly from outside. One thread, never blocks. */
#ifndef UIW_CONFORM_RESP_H
#define UIW_CONFORM_RESP_H

#include <stdio.h>

#include "api/uiw.h"

struct resp;

/* What only a test that lives in this process can do to a connection ("msn", "emss"); false: nothing
 * of that name. */
typedef bool resp_hook(void *arg, struct uiw_conn *conn, const char *what, uint64_t value);

struct resp_cfg {
    const char *hello;                 /* what it calls itself; NULL: uiw and its version */
    bool (*keys_ok)(const char *keys); /* whether the device can be opened with those; NULL: any */
    bool (*spec_ok)(const char *spec); /* the same of the whole device string, with uiw_error() */
    bool lasting;                      /* there is no uiw_device_fail() */
    const char *spec;                  /* device string; progress=polled is added */
    uint16_t port;                     /* 0: one is chosen */
    resp_hook *hook;
    void *hook_arg;
    FILE *trace; /* every line of the log, or NULL */
};

/* 0, or a negative errno with uiw_error(). */
int resp_open(const struct resp_cfg *cfg, struct resp **out);
void resp_close(struct resp *r);

struct uiw_device *resp_device(struct resp *r);
uint16_t resp_port(const struct resp *r); /* where it listens */

/* Turns the device's loop, waiting up to ms when there is nothing to do, and acts on what came.
 * Returns whether anything did. */
bool resp_turn(struct resp *r, int ms);

#endif
