/* SPDX-License-Identifier: MIT */
/* The one way to log: lines on standard error, chosen by UIW_LOG=error|warn|info|debug (default
 * warn). Not for the data path. */
#ifndef UIW_BASE_LOG_H
#define UIW_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Whether a line of that level would be written. */
int log_wants(enum log_level level);

/* One line without its newline; thread safe. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
