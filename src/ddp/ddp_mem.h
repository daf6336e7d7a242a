/* SPDX-License-Identifier: MIT */
/* The STag table: the only way from an STag and an offset to a user pointer (RFC 5041 sec 8.2, RFC
 * 5040 sec 8.1.1, RFC 5042 sec 6). Not thread safe: the owner of the device holds its lock. */
#ifndef UIW_DDP_DDP_MEM_H
#define UIW_DDP_DDP_MEM_H

#include "base/base.h"
#include "base/cursor.h"
#include "base/verdict.h"

/* Rights of a region. Local read is always given, save to windows. */
enum {
    DDP_LOCAL_READ = 0x01,
    DDP_LOCAL_WRITE = 0x02,
    DDP_REMOTE_READ = 0x04,
    DDP_REMOTE_WRITE = 0x08,
    DDP_REMOTE_ATOMIC = 0x10,
};

enum ddp_mem_fault {
    DDP_MEM_OK,
    DDP_MEM_STAG,   /* unknown, revoked */
    DDP_MEM_BOUNDS, /* not wholly inside */
    DDP_MEM_RIGHT,  /* right not given */
    DDP_MEM_STREAM, /* other PD or stream */
    DDP_MEM_WRAP,   /* TO + length passes 2^64 */
};

/* ddp_mem.user when more than one stream has used it. */
#define DDP_MEM_MANY UINT32_MAX

/* One region or window; storage and lifetime are the caller's (embedded in the memory object). */
struct ddp_mem {
    uint8_t *base;   /* first octet */
    uint64_t to;     /* TO of the first octet */
    uint64_t len;    /* octets; 0 gives access to none */
    uint32_t stag;   /* 24 bits of index, 8 bits of key */
    uint32_t pd;     /* protection domain, never 0 */
    uint32_t stream; /* 0: any stream of the PD; else only that one */
    uint32_t rights;
    bool valid;  /* false: known but revoked (invalidated), every access fails as DDP_MEM_STAG */
    bool inv_ok; /* a remote invalidate is allowed */
    /* The stream whose peer has used the STag since it became valid; 0: none, or DDP_MEM_MANY. */
    uint32_t user;
    /* Of a window: its region, without which it is not valid either. */
    struct ddp_mem *parent;
};

struct ddp_mem_table {
    struct ddp_mem **slot; /* open addressing by index; NULL empty, a mark where deleted */
    uint32_t mask;         /* slots - 1, a power of two less one */
    uint32_t used;         /* live and deleted entries */
    uint32_t live;
    uint32_t *recent; /* ring of the last freed indexes, which are not given again */
    uint32_t recent_cap, recent_pos;
    /* The owner's answer whether a stream still lives; NULL: all do. */
    bool (*lives)(const struct ddp_mem_table *t, uint32_t stream);
};

/* slots (a power of two, zeroed) and recent (zeroed) are the caller's memory. */
void ddp_mem_table_init(struct ddp_mem_table *t, struct ddp_mem **slot, uint32_t slots,
                        uint32_t *recent, uint32_t recent_cap);

/* Whether the caller has to move to larger (or clean) slots before the next insert: above half. */
bool ddp_mem_full(const struct ddp_mem_table *t);

/* Re-seats all live entries into new zeroed slots. The old array is the caller's again. */
void ddp_mem_rehash(struct ddp_mem_table *t, struct ddp_mem **slot, uint32_t slots);

/* Enters m under the index of want (any 32 random bits whose index is not 0) and key want & 0xff.
 * False when that index is in use, zero or lately freed: draw again. Sets m->stag. */
bool ddp_mem_insert(struct ddp_mem_table *t, struct ddp_mem *m, uint32_t want);

/* Takes m out at once: no later check can find it. */
void ddp_mem_remove(struct ddp_mem_table *t, struct ddp_mem *m);

/* The region of that STag, valid or not, or NULL. */
struct ddp_mem *ddp_mem_find(const struct ddp_mem_table *t, uint32_t stag);

/* The same whatever the key of the STag. */
struct ddp_mem *ddp_mem_find_index(const struct ddp_mem_table *t, uint32_t stag);

/* Whether the peer of that stream may invalidate the STag: DDP_MEM_STAG unknown or revoked,
 * DDP_MEM_STREAM of another PD or stream, DDP_MEM_RIGHT not allowed, or in use on another live stream (RFC
 * 5040 sec 5.3, 8.1.1). */
enum ddp_mem_fault ddp_mem_may_invalidate(const struct ddp_mem_table *t, const struct ddp_mem *m,
                                          uint32_t pd, uint32_t stream);

/* What somebody wants of the memory: len octets at (stag, to) with all of rights, on behalf of a
 * stream of that PD. */
struct ddp_access {
    uint32_t stag;
    uint64_t to;
    uint32_t len;
    uint32_t rights;
    uint32_t pd, stream;
};

/* On DDP_MEM_OK *out is the memory, and a peer's use of it is noted (ddp_mem.user). Order of checks:
 * STag, PD and stream, right, wrap, bounds. Not to be used for len 0 from the wire, for which nothing is checked (RFC 5041 sec 5.2). */
enum ddp_mem_fault ddp_mem_check(const struct ddp_mem_table *t, const struct ddp_access *want,
                                 struct mspan *out);

/* As the code of a tagged segment (1/1/xx; a missing right is 1/1/00) or of a Read Request
 * (0/1/xx). */
struct verdict ddp_mem_verdict_tagged(enum ddp_mem_fault f);
struct verdict ddp_mem_verdict_read(enum ddp_mem_fault f);

/* Copies src into dst (src holds exactly dst.n octets): rising, and the last octets, up to 8, after
 * all others with release order, since programs spin on them. */
void ddp_mem_place(struct mspan dst, struct cursor src);

#endif
