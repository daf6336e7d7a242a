/* SPDX-License-Identifier: MIT */
/* How two processes find each other by a name and come to share memory. Whoever gets the lock file
 * listens on a UNIX socket, makes the memory and passes it on; the other connects. Nothing blocks. */
#ifndef UIW_TCPIP_SHM_JOIN_H
#define UIW_TCPIP_SHM_JOIN_H

#include "tcpip/net.h"
#include "tcpip/shm_ring.h"

/* A session with the other process, given up as a whole when that one ends. */
struct shm_session {
    struct shm_area *area;
    int wake_us, wake_peer; /* eventfds */
    bool listened;          /* we are the end that listened: way[1] comes to us */
};

struct shm_join {
    char path[NET_NAME_MAX], lock_path[NET_NAME_MAX];
    int epoll_fd; /* readable when shm_join_step() has something to do, or the peer signals */
    int lock_fd, listen_fd, sock;
    uint64_t retry_at;
    bool told; /* about a third process, or why listening fails: once is enough */
};

/* A name without a slash, or with one in front only, stands for the socket uiw-NAME in /dev/shm;
 * anything else is the socket's path. Errors as net_open(). */
int shm_join_open(struct shm_join *j, const char *name, char err[NET_ERR_TEXT]);
void shm_join_close(struct shm_join *j);

/* Goes on with it. 1: a session has begun. 0: not yet. Only while there is no session. */
int shm_join_step(struct shm_join *j, struct shm_session *out);

/* The peer of the session is still there. */
bool shm_join_alive(struct shm_join *j);

/* Ends the session but for its memory, which frames may still lie in; see shm_area_free(). */
void shm_join_part(struct shm_join *j, struct shm_session *s);
void shm_area_free(struct shm_area *area);

/* ms until shm_join_step() is worth another call; -1: epoll_fd tells. */
int shm_join_due_ms(const struct shm_join *j);

#endif
