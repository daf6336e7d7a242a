/* SPDX-License-Identifier: MIT */
/* What uiw.h over verbs adds to uiw.h. */
#ifndef UIW_TESTS_VERBS_API_H
#define UIW_TESTS_VERBS_API_H

#include <stdbool.h>

/* A switch of the driver; false: it is not there, and on was asked for. */
bool siw_set(const char *name, bool on);

#endif
