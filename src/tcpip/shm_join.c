/* SPDX-License-Identifier: MIT */
#include "tcpip/shm_join.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

enum { RETRY_MS = 20, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, PASSED = 3 };

/* What comes along with the descriptors. */
static const char hello[8] = "uiw-shm1";

/* --- descriptors --- */

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* To close it is not enough: the peer has the same eventfd, and epoll would go on about it. */
static void unwatch_and_close(struct shm_join *j, int *fd)
{
    if (*fd >= 0) {
        (void)epoll_ctl(j->epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
    }
    close_fd(fd);
}

static bool watch(struct shm_join *j, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(j->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static int unix_socket(const struct shm_join *j, struct sockaddr_un *at)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    strcpy(at->sun_path, j->path);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* --- opening --- */

__attribute__((format(printf, 4, 5))) static int fault(char err[NET_ERR_TEXT], int error,
                                                       const char *name, const char *fmt, ...)
{
    int n = snprintf(err, NET_ERR_TEXT, "shm %.60s: ", name);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err + n, (size_t)(NET_ERR_TEXT - n), fmt, ap);
    va_end(ap);
    return -error;
}

/* NAME or /NAME stand in /dev/shm; anything longer is the path of the socket itself. */
static int make_paths(struct shm_join *j, const char *name)
{
    const char *bare = name[0] == '/' ? name + 1 : name;
    const char *front = "/dev/shm/uiw-", *inner = strrchr(bare, '/');
    if (bare[0] == '\0' || (inner != NULL && (name[0] != '/' || inner[1] == '\0'))) {
        return -EINVAL;
    }
    if (inner != NULL) {
        front = "";
        bare = name;
    }
    int n = snprintf(j->path, sizeof j->path, "%s%s", front, bare);
    int m = snprintf(j->lock_path, sizeof j->lock_path, "%s%s.lock", front, bare);
    return n > 0 && m < (int)sizeof j->lock_path ? 0 : -ENAMETOOLONG;
}

/* A name may have been mistyped: what is there is ours only if it is a socket of this user. */
static bool may_replace(const char *path)
{
    struct stat st;
    return lstat(path, &st) != 0 ? errno == ENOENT : S_ISSOCK(st.st_mode) && st.st_uid == geteuid();
}

/* The directory may be writable for all: the file must be ours. */
static int open_lock(struct shm_join *j)
{
    j->lock_fd = open(j->lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (j->lock_fd < 0) {
        return -errno;
    }
    struct stat st;
    if (fstat(j->lock_fd, &st) != 0 || st.st_uid != geteuid() || !S_ISREG(st.st_mode) ||
        st.st_size != 0) {
        close_fd(&j->lock_fd);
        return -EPERM;
    }
    return 0;
}

int shm_join_open(struct shm_join *j, const char *name, char err[NET_ERR_TEXT])
{
    *j = (struct shm_join){.epoll_fd = -1, .lock_fd = -1, .listen_fd = -1, .sock = -1};
    int r = make_paths(j, name);
    if (r != 0) {
        return fault(err, -r, name,
                     r == -EINVAL ? "expected NAME, /NAME or the whole path of a socket"
                                  : "the name is too long for a socket's path");
    }
    if (!may_replace(j->path)) {
        return fault(err, EEXIST, name, "%s is there and is no socket of this user", j->path);
    }
    r = open_lock(j);
    if (r != 0) {
        return fault(err, -r, name, "%s: %s", j->lock_path,
                     r == -EPERM ? "is there and is no lock of this user" : strerror(-r));
    }
    j->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (j->epoll_fd < 0) {
        r = errno;
        close_fd(&j->lock_fd);
        return fault(err, r, name, "epoll: %s", strerror(r));
    }
    return 0;
}

void shm_join_close(struct shm_join *j)
{
    /* Only who has the lock may remove the files: they are its own then. */
    if (j->listen_fd >= 0) {
        unlink(j->path);
        unlink(j->lock_path);
    }
    close_fd(&j->sock);
    close_fd(&j->listen_fd);
    close_fd(&j->lock_fd);
    close_fd(&j->epoll_fd);
}

/* --- the end that listens --- */

/* The lock of a file that its last owner has removed is worth nothing: another may exist by now. */
static bool get_lock(struct shm_join *j)
{
    struct stat mine, there;
    if (j->lock_fd < 0 && open_lock(j) != 0) {
        return false;
    }
    if (flock(j->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return false;
    }
    if (fstat(j->lock_fd, &mine) == 0 && stat(j->lock_path, &there) == 0 &&
        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) {
        return true;
    }
    close_fd(&j->lock_fd);
    return false;
}

static bool start_listening(struct shm_join *j)
{
    struct sockaddr_un at;
    int fd = unix_socket(j, &at);
    if (fd < 0) {
        return false;
    }
    if (may_replace(j->path)) {
        unlink(j->path); /* left by one that was killed */
    }
    if (fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(fd, 4) != 0 || !watch(j, fd)) {
        if (!j->told) {
            log_line(LOG_WARN, "shm: cannot listen on %s: %s", j->path, strerror(errno));
        }
        j->told = true;
        close(fd);
        return false;
    }
    j->listen_fd = fd;
    return true;
}

static bool same_user(int sock)
{
    struct ucred cred;
    socklen_t len = sizeof cred;
    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
           (cred.uid == geteuid() || cred.uid == 0 || geteuid() == 0);
}

static struct shm_area *map_area(int fd)
{
    void *m = mmap(NULL, sizeof(struct shm_area), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                   fd, 0);
    return m == MAP_FAILED ? NULL : m;
}

/* Sealed, or the other process could cut the memory off under us (SIGBUS). */
static int make_memory(void)
{
    int fd = memfd_create("uiw-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 &&
        (ftruncate(fd, sizeof(struct shm_area)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)) {
        close_fd(&fd);
    }
    return fd;
}

union passing {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int) * PASSED)];
};

static bool pass_fds(int sock, const int fd[PASSED])
{
    char text[sizeof hello];
    memcpy(text, hello, sizeof text);
    union passing control = {.room = {0}};
    struct iovec io = {text, sizeof text};
    struct msghdr m = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * PASSED);
    memcpy(CMSG_DATA(c), fd, sizeof(int) * PASSED);
    return sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)sizeof text;
}

static bool begin_listened(struct shm_join *j, struct shm_session *s)
{
    int fd[PASSED] = {make_memory(), eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                      eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    *s = (struct shm_session){.wake_peer = fd[1], .wake_us = fd[2], .listened = true};
    if (fd[0] >= 0 && fd[1] >= 0 && fd[2] >= 0) {
        s->area = map_area(fd[0]);
    }
    bool ok = s->area != NULL && pass_fds(j->sock, fd) && watch(j, s->wake_us);
    close_fd(&fd[0]);
    if (!ok) {
        if (s->area != NULL) {
            shm_area_free(s->area);
        }
        unwatch_and_close(j, &s->wake_us);
        close_fd(&s->wake_peer);
    }
    return ok;
}

static int step_listening(struct shm_join *j, struct shm_session *out)
{
    j->sock = accept4(j->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (j->sock < 0) {
        return 0;
    }
    if (same_user(j->sock) && watch(j, j->sock) && begin_listened(j, out)) {
        return 1;
    }
    close_fd(&j->sock);
    return 0;
}

/* --- the end that connects --- */

static bool start_connecting(struct shm_join *j)
{
    struct sockaddr_un at;
    int fd = unix_socket(j, &at);
    if (fd < 0) {
        return false;
    }
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0 || !same_user(fd) || !watch(j, fd)) {
        close(fd);
        return false;
    }
    j->sock = fd;
    return true;
}

/* Takes the descriptors out of a message; those not there are -1. */
static ssize_t receive_fds(int sock, int fd[PASSED])
{
    char text[sizeof hello] = {0};
    union passing control = {.room = {0}};
    struct iovec io = {text, sizeof text};
    struct msghdr m = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        size_t len = c->cmsg_len - CMSG_LEN(0);
        memcpy(fd, CMSG_DATA(c), len < sizeof(int) * PASSED ? len : sizeof(int) * PASSED);
    }
    return n == (ssize_t)sizeof text && memcmp(text, hello, sizeof text) == 0 ? n : -1;
}

static struct shm_area *map_passed(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 ||
        st.st_size != (off_t)sizeof(struct shm_area)) {
        return NULL;
    }
    return map_area(fd);
}

static int step_connected(struct shm_join *j, struct shm_session *out)
{
    int fd[PASSED] = {-1, -1, -1};
    ssize_t n = receive_fds(j->sock, fd);
    if (n == 0) {
        return 0;
    }
    bool ok = n > 0 && fd[0] >= 0 && fd[1] >= 0 && fd[2] >= 0;
    *out = (struct shm_session){.wake_us = fd[1], .wake_peer = fd[2]};
    out->area = ok ? map_passed(fd[0]) : NULL;
    close_fd(&fd[0]);
    if (out->area != NULL && watch(j, out->wake_us)) {
        return 1;
    }
    if (out->area != NULL) {
        shm_area_free(out->area);
    }
    unwatch_and_close(j, &out->wake_us);
    close_fd(&out->wake_peer);
    close_fd(&j->sock);
    return 0;
}

/* --- the face --- */

int shm_join_step(struct shm_join *j, struct shm_session *out)
{
    if (j->listen_fd >= 0) {
        return step_listening(j, out);
    }
    if (j->sock >= 0) {
        return step_connected(j, out);
    }
    uint64_t now = net_now_ms();
    if (now < j->retry_at && j->retry_at <= now + RETRY_MS) {
        return 0;
    }
    j->retry_at = now + RETRY_MS;
    if (get_lock(j)) {
        if (!start_listening(j)) {
            flock(j->lock_fd, LOCK_UN);
        }
        return 0;
    }
    return start_connecting(j) ? step_connected(j, out) : 0;
}

/* Nothing is ever sent after the first message, so what can be read is the end. A third process that
 * tries to join is turned away. */
bool shm_join_alive(struct shm_join *j)
{
    char c;
    ssize_t n = recv(j->sock, &c, 1, MSG_DONTWAIT);
    if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
        return false;
    }
    int third = j->listen_fd >= 0 ? accept4(j->listen_fd, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (third >= 0) {
        close(third);
        if (!j->told) {
            log_line(LOG_WARN, "shm: %s has two ends, a third was turned away", j->path);
        }
        j->told = true;
    }
    return true;
}

void shm_join_part(struct shm_join *j, struct shm_session *s)
{
    close_fd(&j->sock);
    unwatch_and_close(j, &s->wake_us);
    close_fd(&s->wake_peer);
}

void shm_area_free(struct shm_area *area)
{
    munmap(area, sizeof *area);
}

int shm_join_due_ms(const struct shm_join *j)
{
    return j->listen_fd >= 0 || j->sock >= 0 ? -1 : RETRY_MS;
}
