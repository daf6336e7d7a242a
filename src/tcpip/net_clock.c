/* SPDX-License-Identifier: MIT */
/* The clock of lwIP and of all timers here: real, or virtual for tests. */
#include <time.h>

#include "lwip/sys.h"
#include "lwip/timeouts.h"
#include "tcpip/net_base.h"
#include "tcpip/net_test.h"

static struct {
    bool is_virtual;
    uint64_t ms;
} test_clock;

void net_clock_virtual(uint64_t start_ms)
{
    test_clock.is_virtual = true;
    test_clock.ms = start_ms;
    sys_restart_timeouts(); /* those already set keep their distances */
}

void net_clock_advance(uint64_t ms)
{
    test_clock.ms += ms;
}

void net_clock_real(void)
{
    test_clock.is_virtual = false;
    sys_restart_timeouts();
}

uint64_t net_now_ms(void)
{
    if (test_clock.is_virtual) {
        return test_clock.ms;
    }
    /* The timers count in tens of ms: the coarse clock suffices and costs least. */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t net_now_us(void)
{
    if (test_clock.is_virtual) {
        return test_clock.ms * 1000;
    }
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

u32_t sys_now(void)
{
    return (u32_t)net_now_ms();
}
