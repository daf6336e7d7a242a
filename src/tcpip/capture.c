/* SPDX-License-Identifier: MIT */
/* pcapng files (draft-ietf-opsawg-pcapng), in this machine's byte order as the format allows. */
#include "tcpip/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "tcpip/vnet.h"

enum {
    BLOCK_SECTION = 0x0a0d0d0a,
    BLOCK_INTERFACE = 1,
    BLOCK_PACKET = 6,
    BYTE_ORDER_MAGIC = 0x1a2b3c4d,
    LINK_ETHERNET = 1,
    LINK_RAW = 101,
    OPT_END = 0,
    OPT_IF_NAME = 2,
    OPT_IF_TSRESOL = 9,
    OPT_EPB_FLAGS = 2,
    NANOSECONDS = 9,
    INBOUND = 1,
    OUTBOUND = 2,
    BUFFER = 1 << 18,
    NAME_MAX_LEN = 64,
};

/* One for each path that is open. */
struct file {
    struct list node;
    FILE *out;
    char *buffer;
    uint32_t users, interfaces;
    bool broken;
    dev_t dev;
    ino_t ino;
    char path[PATH_MAX];
};

struct capture {
    struct file *file;
    uint32_t interface;
    uint16_t vlan; /* 0: none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list files = {&files, &files};

/* --- octets; the lock is held --- */

static void give_up(struct file *f)
{
    if (!f->broken) {
        f->broken = true;
        log_line(LOG_ERROR, "capture %s: %s; nothing more is captured", f->path, strerror(errno));
    }
}

static void put(struct file *f, const void *p, size_t n)
{
    if (n > 0 && !f->broken && fwrite(p, 1, n, f->out) != n) {
        give_up(f);
    }
}

static void put32(struct file *f, uint32_t v)
{
    put(f, &v, sizeof v);
}

static void put_pad(struct file *f, uint32_t n)
{
    static const uint8_t zeros[4];
    put(f, zeros, (4 - n % 4) % 4);
}

static void put_option(struct file *f, uint16_t code, const void *p, uint16_t n)
{
    put(f, &code, sizeof code);
    put(f, &n, sizeof n);
    put(f, p, n);
    put_pad(f, n);
}

static uint32_t option_len(uint32_t n)
{
    return 4 + (n + 3) / 4 * 4;
}

static void put_section(struct file *f)
{
    static const uint16_t version[2] = {1, 0};
    const uint64_t unknown = UINT64_MAX; /* the section's length */
    const uint32_t len = 28;
    put32(f, BLOCK_SECTION);
    put32(f, len);
    put32(f, BYTE_ORDER_MAGIC);
    put(f, version, sizeof version);
    put(f, &unknown, sizeof unknown);
    put32(f, len);
}

static void put_interface(struct file *f, const char *name, enum capture_kind kind)
{
    uint16_t n = (uint16_t)strnlen(name, NAME_MAX_LEN);
    uint16_t link[2] = {kind == CAPTURE_ETHERNET ? LINK_ETHERNET : LINK_RAW, 0};
    uint8_t resolution = NANOSECONDS;
    uint32_t len = 20 + option_len(n) + option_len(1) + 4;
    put32(f, BLOCK_INTERFACE);
    put32(f, len);
    put(f, link, sizeof link);
    put32(f, 0); /* no limit of a packet's length */
    put_option(f, OPT_IF_NAME, name, n);
    put_option(f, OPT_IF_TSRESOL, &resolution, 1);
    put32(f, OPT_END);
    put32(f, len);
}

/* --- files --- */

/* The same file by another name is the same file. */
static struct file *find(const struct stat *st)
{
    LIST_EACH(it, &files)
    {
        struct file *f = CONTAINER_OF(it, struct file, node);
        if (f->dev == st->st_dev && f->ino == st->st_ino) {
            return f;
        }
    }
    return NULL;
}

static void file_free(struct file *f)
{
    if (f->out != NULL && fclose(f->out) != 0) {
        give_up(f);
    }
    free(f->buffer);
    free(f);
}

/* A descriptor of the file, emptied, or a negative errno. Two processes that write one file would make a
 * mess of it; devices and pipes are the user's affair. */
static int take_file(const char *path, struct stat *st)
{
    /* Nobody but the owner needs to read what passed. */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    if (fstat(fd, st) != 0 ||
        (S_ISREG(st->st_mode) && (flock(fd, LOCK_EX | LOCK_NB) != 0 || ftruncate(fd, 0) != 0))) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

static int file_open(const char *path, struct file **out)
{
    struct stat st;
    if (stat(path, &st) == 0 && (*out = find(&st)) != NULL) {
        return 0;
    }
    int fd = take_file(path, &st);
    if (fd < 0) {
        return fd;
    }
    struct file *f = calloc(1, sizeof *f);
    if (f == NULL || (f->out = fdopen(fd, "w")) == NULL) {
        close(fd);
        free(f);
        return -ENOMEM;
    }
    f->buffer = malloc(BUFFER);
    if (f->buffer != NULL) {
        setvbuf(f->out, f->buffer, _IOFBF, BUFFER);
    }
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    snprintf(f->path, sizeof f->path, "%s", path);
    put_section(f);
    list_append(&files, &f->node);
    *out = f;
    return 0;
}

static void file_put(struct file *f)
{
    if (--f->users == 0) {
        list_remove(&f->node);
        file_free(f);
    }
}

/* %p in a path stands for the process id, so that one environment serves several processes. */
static void expand(const char *path, char out[PATH_MAX])
{
    const char *mark = strstr(path, "%p");
    if (mark == NULL) {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        snprintf(out, PATH_MAX, "%.*s%d%s", (int)(mark - path), path, (int)getpid(), mark + 2);
    }
}

/* --- the face --- */

int capture_open(const char *path, const char *name, enum capture_kind kind, struct capture **out,
                 char err[NET_ERR_TEXT])
{
    struct capture *c = calloc(1, sizeof *c);
    struct file *f = NULL;
    char whole[PATH_MAX];
    expand(path, whole);
    pthread_mutex_lock(&lock);
    int r = c != NULL ? file_open(whole, &f) : -ENOMEM;
    if (r == 0) {
        f->users++;
        put_interface(f, name, kind);
        fflush(f->out);
        c->file = f;
        c->interface = f->interfaces++;
        *out = c;
    }
    pthread_mutex_unlock(&lock);
    if (r != 0) {
        snprintf(err, NET_ERR_TEXT, "capture %.180s: %s", whole,
                 r == -EWOULDBLOCK ? "another process writes it (%p in a name is the process id)"
                                   : strerror(-r));
        free(c);
    }
    return r;
}

void capture_close(struct capture *c)
{
    if (c != NULL) {
        pthread_mutex_lock(&lock);
        file_put(c->file);
        pthread_mutex_unlock(&lock);
        free(c);
    }
}

void capture_vlan(struct capture *c, uint16_t vlan)
{
    c->vlan = vlan;
}

static uint32_t octets_of(const struct capture *c, const struct iovec *v, uint32_t n)
{
    uint32_t len = c->vlan != 0 ? VNET_TAG : 0;
    for (uint32_t i = 0; i < n; i++) {
        len += (uint32_t)v[i].iov_len;
    }
    return len;
}

static void put_pieces(struct capture *c, const struct iovec *v, uint32_t n)
{
    uint32_t untagged = c->vlan != 0 ? VNET_TAG_AT : UINT32_MAX; /* octets before the tag */
    uint8_t tag[VNET_TAG];
    vnet_put_tag(tag, c->vlan);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *p = v[i].iov_base;
        uint32_t len = (uint32_t)v[i].iov_len;
        if (untagged < len) {
            put(c->file, p, untagged);
            put(c->file, tag, sizeof tag);
            p += untagged;
            len -= untagged;
            untagged = UINT32_MAX;
        } else if (untagged != UINT32_MAX) {
            untagged -= len;
        }
        put(c->file, p, len);
    }
}

void capture_packet(struct capture *c, bool sent, const struct iovec *v, uint32_t n)
{
    struct timespec t;
    uint32_t len = octets_of(c, v, n), flags = sent ? OUTBOUND : INBOUND;
    uint32_t block = 32 + (len + 3) / 4 * 4 + option_len(sizeof flags) + 4;
    pthread_mutex_lock(&lock);
    struct file *f = c->file;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    put32(f, BLOCK_PACKET);
    put32(f, block);
    put32(f, c->interface);
    put32(f, (uint32_t)(ns >> 32));
    put32(f, (uint32_t)ns);
    put32(f, len);
    put32(f, len);
    put_pieces(c, v, n);
    put_pad(f, len);
    put_option(f, OPT_EPB_FLAGS, &flags, sizeof flags);
    put32(f, OPT_END);
    put32(f, block);
    pthread_mutex_unlock(&lock);
}

void capture_flush(struct capture *c)
{
    pthread_mutex_lock(&lock);
    if (!c->file->broken && fflush(c->file->out) != 0) {
        give_up(c->file);
    }
    pthread_mutex_unlock(&lock);
}
