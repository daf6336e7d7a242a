/* SPDX-License-Identifier: MIT */
/* How the loop sleeps on the links, and what it owes to those who sleep; for loop.c. */
#ifndef UIW_API_LOOP_SLEEP_H
#define UIW_API_LOOP_SLEEP_H

#include "api/loop.h"

/* Lets go of the lock, after a look at what was posted meanwhile; wakes those who sleep if wake, or need be. */
void loop_let_go(struct loop *l, bool wake);
void loop_release(struct loop *l);

/* Takes what was written to an eventfd. */
void loop_drain(int fd);

/* Whoever has had the lock may leave behind what those who sleep do not hear of: work that no descriptor tells,
 * or a timer that is due before they wake. With the lock. */
bool loop_must_wake(struct loop *l);

/* Announces to the links that somebody sleeps. How long at most; 0 when there is work already. With the lock. */
int loop_lie_down(struct loop *l, struct sleeper *me, int timeout_ms);
void loop_get_up(struct loop *l, struct sleeper *me);

/* For how long (us) to leave all links alone; see net_rest_us(). Not when we were told to spin for longer. */
uint32_t loop_rest_us(struct loop *l);

/* Sleeps until a link has frames (but not within rest us, if that is not 0: then no longer than that), somebody
 * wakes us, a timer is due or fd (if not -1) is readable. One of several sleepers may eat a wake-up: he turns
 * the loop for all. Lock not held. */
void loop_sleep(struct loop *l, int timeout_ms, int fd, uint32_t rest);

#endif
