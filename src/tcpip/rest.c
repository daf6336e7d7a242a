/* SPDX-License-Identifier: MIT */
#include "tcpip/rest.h"

uint32_t rest_time(struct rest *r, uint64_t now_us)
{
    uint32_t came = r->run - r->seen;
    r->seen = r->run;
    if (came == 0) {
        return 0; /* that was the end: the next one is not to be late */
    }
    if (now_us - r->came_us > REST_MEMORY_US) {
        r->run = r->seen = came;
        r->poor = 0;
    }
    r->came_us = now_us;
    if (r->run < REST_RUN) {
        return 0;
    }
    if (r->is_long) {
        return REST_LONG_US;
    }
    r->poor = came > 1 ? 0 : r->poor + 1;
    if (r->poor > REST_POOR) {
        rest_over(r);
        r->poor = 0;
        return 0;
    }
    return REST_US;
}
