/* SPDX-License-Identifier: MIT */
/* See tool.h. */
#include "tool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_NS = 20000, SECOND_WISH_NS = 300000000 };

static const char *tool_name = "uiw";
static atomic_bool stopped; /* threads look at it too */

/* An impatient second one ends us at once. Not one that comes with the first: timeout(1) and a terminal
 * may send it to the process and to its group. */
static void on_signal(int sig)
{
    static _Atomic uint64_t first_ns;

    if (!atomic_exchange(&stopped, true)) {
        atomic_store(&first_ns, tool_now_ns());
    } else if (tool_now_ns() - atomic_load(&first_ns) > SECOND_WISH_NS) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
}

/* What went to a full disk is lost; nobody should take that for success. */
static void check_stdout(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return;
    fprintf(stderr, "%s: standard output: cannot write\n", tool_name);
    _exit(TOOL_FAILED);
}

void tool_init(const char *name)
{
    /* Without SA_RESTART, so that poll() returns. */
    struct sigaction act = {.sa_handler = on_signal};

    setvbuf(stdout, NULL, _IOLBF, 0); /* who reads a log wants each line when it is written */

    tool_name = name;
    (void)atexit(check_stdout);
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

bool tool_stopped(void)
{
    return atomic_load(&stopped);
}

static void say(const char *format, va_list args)
{
    /* What went to stdout before belongs before it, also when both are one file. */
    fflush(stdout);
    fprintf(stderr, "%s: ", tool_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int tool_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
    return TOOL_FAILED;
}

int tool_misused(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
    fprintf(stderr, "Try '%s --help'.\n", tool_name);
    return TOOL_USAGE;
}

bool tool_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    static const char suffixes[] = "kmg";
    unsigned long long value;
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (*end != '\0') {
        const char *suffix = strchr(suffixes, *end | 0x20);

        if (suffix == NULL || end[1] != '\0')
            return false;
        for (const char *s = suffixes; s <= suffix; s++) {
            if (value > UINT64_MAX / 1024)
                return false;
            value *= 1024;
        }
    }
    *out = value;
    return value >= min && value <= max;
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int open_parts(struct tool *t, uint32_t cqe)
{
    int r = uiw_pd_create(t->dev, &t->pd);

    if (r == 0)
        r = uiw_comp_channel_create(t->dev, &t->comps);
    if (r == 0)
        r = uiw_event_channel_create(t->dev, &t->events);
    if (r == 0)
        r = uiw_cq_create(t->dev, cqe, t->comps, NULL, &t->cq);
    return r;
}

char *tool_with_key(char *spec, const char *key, const char *value)
{
    size_t size = strlen(spec) + strlen(key) + strlen(value) + 3;
    char *longer = malloc(size);

    if (longer != NULL)
        snprintf(longer, size, "%s,%s=%s", spec, key, value);
    free(spec);
    return longer;
}

char *tool_with_setup(char *spec, unsigned seconds)
{
    char value[16];

    if (spec == NULL || spec[0] == '\0' || seconds == TOOL_TIMEOUT_S ||
        strstr(spec, ",setup=") != NULL)
        return spec;
    snprintf(value, sizeof value, "%u", seconds);
    return tool_with_key(spec, "setup", value);
}

int tool_open(struct tool *t, const char *spec, uint32_t cqe)
{
    struct uiw_device_attr attr;
    const char *env = getenv("UIW_DEVICE");

    *t = (struct tool){0};
    if (spec == NULL && (env == NULL || env[0] == '\0'))
        return tool_misused("no device: give --device KIND:NAME,ip=A.B.C.D/LEN or set UIW_DEVICE");
    if (uiw_device_open(spec, &t->dev) != 0 || open_parts(t, cqe) != 0 ||
        uiw_device_query(t->dev, &attr) != 0)
        return tool_fail("%s", uiw_error());
    t->polled = attr.progress == UIW_POLLED;
    if (set_nonblocking(uiw_comp_channel_fd(t->comps)) != 0 ||
        set_nonblocking(uiw_event_channel_fd(t->events)) != 0)
        return tool_fail("fcntl: %s", strerror(errno));
    return TOOL_OK;
}

void tool_close(struct tool *t)
{
    int r = 0;

    if (t->cq != NULL)
        r |= uiw_cq_destroy(t->cq);
    if (t->events != NULL)
        r |= uiw_event_channel_destroy(t->events);
    if (t->comps != NULL)
        r |= uiw_comp_channel_destroy(t->comps);
    if (t->pd != NULL)
        r |= uiw_pd_destroy(t->pd);
    if (t->dev != NULL)
        r |= uiw_device_close(t->dev);
    if (r != 0)
        tool_fail("closing: %s", uiw_error());
    *t = (struct tool){0};
}

int tool_completion(struct tool *t, struct uiw_wc *wc)
{
    int n = uiw_cq_poll(t->cq, 1, wc);

    if (n < 0)
        tool_fail("%s", uiw_error());
    return n;
}

int tool_event(struct tool *t, struct uiw_event *ev)
{
    return uiw_event_get(t->events, ev) == 0;
}

bool tool_device_lost(struct tool *t)
{
    struct pollfd fd = {.fd = uiw_async_fd(t->dev), .events = POLLIN};
    struct uiw_async_event ev;

    while (poll(&fd, 1, 0) > 0 && uiw_async_get(t->dev, &ev) == 0) {
        if (ev.type == UIW_ASYNC_DEVICE_FATAL) {
            tool_fail("%s", ev.text);
            return true;
        }
    }
    return false;
}

static int spin(struct tool *t, struct uiw_wc *wc)
{
    uint64_t end = tool_now_ns() + SPIN_NS;
    int n;

    do {
        n = tool_completion(t, wc);
    } while (n == 0 && tool_now_ns() < end);
    return n;
}

static int sleep_on_channels(struct tool *t, struct uiw_wc *wc, int ms)
{
    struct pollfd fds[2] = {
        {.fd = uiw_comp_channel_fd(t->comps), .events = POLLIN},
        {.fd = uiw_event_channel_fd(t->events), .events = POLLIN},
    };
    struct uiw_cq *cq;
    void *user;
    int n;

    if (uiw_cq_arm(t->cq, false) != 0)
        return tool_fail("%s", uiw_error()), -1;
    n = tool_completion(t, wc);
    if (n != 0)
        return n;
    if (poll(fds, 2, ms) > 0 && (fds[0].revents & POLLIN) != 0)
        (void)uiw_comp_channel_get(t->comps, &cq, &user);
    return tool_completion(t, wc);
}

int tool_wait(struct tool *t, struct uiw_wc *wc, int ms)
{
    int n = spin(t, wc);

    if (n != 0)
        return n;
    if (!t->polled)
        return sleep_on_channels(t, wc, ms);
    (void)uiw_progress(t->dev, ms);
    return tool_completion(t, wc);
}

uint64_t tool_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}
