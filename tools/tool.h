/* SPDX-License-Identifier: MIT */
/* What uiw-ping and uiw-stream share: a device with one of everything, waiting, messages to the user.
 * One thread, no locks. */
#ifndef UIW_TOOLS_TOOL_H
#define UIW_TOOLS_TOOL_H

#include "address.h"
#include "api/uiw.h"

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

struct tool {
    struct uiw_device *dev;
    struct uiw_pd *pd;
    struct uiw_comp_channel *comps;
    struct uiw_event_channel *events;
    struct uiw_cq *cq;
    bool polled;
};

/* Sets the name that starts every message of tool_fail(), and catches SIGINT and SIGTERM: the first
 * one makes tool_stopped() true, the second one ends the program. Whose output could not all be written
 * exits with TOOL_FAILED, and has said so. */
void tool_init(const char *name);
bool tool_stopped(void);

/* One line on stderr. Returns TOOL_FAILED, so that callers can return it. */
int tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says how to get help and returns TOOL_USAGE. */
int tool_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A whole number within [min, max], with a suffix k, m or g for powers of 1024. */
bool tool_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* The device string with ",KEY=VALUE" behind it; frees spec. NULL: no memory. */
char *tool_with_key(char *spec, const char *key, const char *value);

/* The same with the limit of a connection's set-up, unless spec has one or seconds is the default.
 * Takes NULL for "no memory" as well. */
enum { TOOL_TIMEOUT_S = 10 };
char *tool_with_setup(char *spec, unsigned seconds);

/* Opens spec, or what UIW_DEVICE names when spec is NULL, and what goes with it. On failure has said
 * why, and tool_close() cleans up. */
int tool_open(struct tool *t, const char *spec, uint32_t cqe);
void tool_close(struct tool *t);

/* Waits up to ms for a completion (1: it is in *wc) or an event (0: there may be one, or time is up).
 * Spins a little before it sleeps, because an answer on a fast network is there by then. Negative:
 * failed, and has said why. */
int tool_wait(struct tool *t, struct uiw_wc *wc, int ms);

/* Takes a completion or an event without waiting: 1, or 0 for none. */
int tool_completion(struct tool *t, struct uiw_wc *wc);
int tool_event(struct tool *t, struct uiw_event *ev);

/* Whether the device has failed, as when its interface was removed: nobody will come any more. Has said so
 * then. For when there is neither a completion nor an event. */
bool tool_device_lost(struct tool *t);

/* A monotonic clock. */
uint64_t tool_now_ns(void);

#endif
