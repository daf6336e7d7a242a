/* SPDX-License-Identifier: MIT */
#include "api/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "api/uiw.h"
#include "base/log.h"

static _Thread_local char last[320];

int fail(int err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(last, sizeof last, fmt, ap);
    va_end(ap);
    log_line(LOG_INFO, "%s", last);
    return -err;
}

const char *uiw_error(void)
{
    return last;
}

const char *uiw_version(void)
{
    return UIW_VERSION;
}
