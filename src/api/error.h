/* SPDX-License-Identifier: MIT */
/* The one way to report misuse and set-up failures: a negative errno and a line for uiw_error(). */
#ifndef UIW_API_ERROR_H
#define UIW_API_ERROR_H

/* Keeps the line for this thread and returns -err. err is a positive errno. */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
