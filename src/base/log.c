/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"error", "warn", "info", "debug"};

static int configured(void)
{
    static atomic_int level = -1;
    int now = atomic_load_explicit(&level, memory_order_relaxed);
    if (now >= 0) {
        return now;
    }
    now = LOG_WARN;
    const char *want = getenv("UIW_LOG");
    for (int i = 0; want != NULL && i < 4; i++) {
        if (strcmp(want, names[i]) == 0) {
            now = i;
        }
    }
    atomic_store_explicit(&level, now, memory_order_relaxed);
    return now;
}

int log_wants(enum log_level level)
{
    return (int)level <= configured();
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (!log_wants(level)) {
        return;
    }
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "uiw: %s: %s\n", names[level], line);
}
