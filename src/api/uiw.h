/* SPDX-License-Identifier: MIT */
/* uiw: iWARP (RFC 5040, 5041, 5044, 6581, 7306) in user space, with a verbs-like API.
 *
 * Conventions
 * - Functions that return int give 0 (or a count) on success and a negative errno on failure, in
 *   which case nothing has changed. uiw_error() then has one line that says what and where.
 * - Objects are opaque. What is created from another object keeps it alive: destroying a parent that
 *   has children gives -EBUSY.
 * - Every function is thread safe unless it says otherwise. Destroying an object while another thread
 *   uses it is the program's fault.
 * - After fork() the child must not use what the parent opened.
 * - Protocol faults are not return values: they arrive as completions with a status and as the
 *   connection's UIW_EVENT_DISCONNECTED, with their meaning in words.
 */
#ifndef UIW_H
#define UIW_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uiw_device;
struct uiw_pd;
struct uiw_mr;
struct uiw_mw;
struct uiw_cq;
struct uiw_comp_channel;
struct uiw_srq;
struct uiw_qp;
struct uiw_event_channel;
struct uiw_listener;
struct uiw_conn;

/* The last failure of this thread in one line ("uiw_mr_reg: length 0"); never NULL. Valid until the
 * thread's next call into the library. */
const char *uiw_error(void);

/* "0.1.0" */
const char *uiw_version(void);

/* --- device ------------------------------------------------------------------------------------
 *
 * A device is opened from one string, KIND:NAME[,KEY=VALUE]..., of at most 255 characters. No spaces; keys in
 * any order, each at most once (ip and gw once for each address family); a comma ends a value.
 *
 *   tap:IFNAME,ip=ADDRESS[/LEN]   a TAP interface that exists and is up; gw= mac= vlan=
 *   pcap:IFNAME,ip=ADDRESS[/LEN]  any Ethernet interface that is up, through libpcap, beside the kernel and
 *                                 with a MAC address of its own; gw= mac= vlan=. Reaches what is on the wire of
 *                                 that interface, not this host's own addresses on it
 *   shm:/NAME,ip=ADDRESS[/LEN]    two processes of this host through shared memory; mtu= mac=. They meet
 *                                 at /dev/shm/uiw-NAME, or at the socket whose whole path is given
 *   pair:NAME,ip=ADDRESS[/LEN]    the two ends of a wire inside this process; mtu= mac=
 *   sock:[ADDRESS]                the kernel's TCP: no root, and any interface and route of this host.
 *                                 ADDRESS (also as ip=, but one in all) is where it listens and what it
 *                                 connects from, fe80::1%eth0 for a link-local one; without it, any.
 *                                 mtu=: segments as for a path of that MTU; cc=: one of the kernel's
 *                                 congestion controls by name, as cubic
 *
 * and keys for every kind:
 *   ip=A.B.C.D[/LEN] ip=IPV6[/LEN]  the device's address of either family, or one of each (ip= twice). LEN is
 *                  1..30 (default 24), for IPv6 64..128 (default 64). With IPv6 there is a link-local
 *                  address as well, made of the MAC address. Addresses work at once: nobody is asked
 *                  whether they are in use already (no duplicate address detection)
 *   gw=A.B.C.D gw=IPV6  the way to all other networks. For IPv6 without it, routers that announce themselves
 *   vlan=ID        1..4094: frames go out, and count coming in, with the IEEE 802.1Q tag of that VLAN
 *   capture=FILE   all that is sent and received goes to that pcapng file, for uiw-dump and Wireshark;
 *                  the environment's UIW_PCAP is the same for all devices without that key. Devices of one
 *                  process may share a file; %p in its name is the process id. Frames of a VLAN are in it without
 *                  their tag. It slows everything down, and has the data in clear text
 *   progress=threaded|polled  who turns the protocol loop (default threaded): a thread of the library,
 *                             or only the threads that call uiw_cq_poll(), uiw_progress() and the
 *                             blocking calls
 *   crc=on|off     ask the peer for CRCs (default on). off only where the network below protects the
 *                  data at least as well (RFC 5044 sec 4.4); a peer that asks gets them all the same
 *   markers=off|on ask the peer to send Markers (default off); a peer that asks gets them
 *   rev=2|1        highest MPA revision (default 2, RFC 6581; 1: RFC 5044 frames only)
 *   ext=on|off     RFC 7306, Atomics and Immediate Data (default on). It is not negotiated: the peer has
 *                  to know them too, or ends the stream when the first comes
 *   ird=N ord=N    largest depths, 0..128 (default 32)
 *   spin=US        microseconds that the thread, or a blocking call, spins before it sleeps (default 20);
 *                  with more than 50 it also never rests to gather a peer's small segments
 *   rnr=SECONDS    a Send that meets no receive buffer: 0 ends the stream (RFC 5041 sec 7.1, default);
 *                  else it waits that long, TCP's window holding back the peer
 *   setup=SECONDS  limit of the connection's set-up (default 10)
 * A kind or key that is not known, a key that is not for that kind, and a value that does not fit is each an
 * error that names it and what was expected; uiw-device(7) says the same with examples. Each device of kind sock
 * has a loop, and where it is threaded a thread, of its own; those of the other kinds share one.
 */
enum uiw_progress { UIW_THREADED, UIW_POLLED };

/* NULL spec: the environment's UIW_DEVICE. -EINVAL (the string), -ENODEV (no such interface), -EPERM,
 * -EBUSY (the interface is in use), -ENETDOWN (it is down), -ENOMEM; sock: -EADDRNOTAVAIL (no address
 * of this host), -EMFILE, and what the kernel says of cc= (-ENOENT: none of that name; -EPERM). */
int uiw_device_open(const char *spec, struct uiw_device **out);

/* -EBUSY while PDs, CQs, channels, listeners or connections are left. What streams that were closed in good order
 * have still to send (see uiw_disconnect()) may be lost: our TCP ends here. */
int uiw_device_close(struct uiw_device *dev);

/* Gives the device up, for a reason that is not one connection's: memory turned bad, say, or the program
 * cannot vouch for its regions any more. The same happens by itself when the link goes for good (a TAP
 * interface is removed). Raises UIW_ASYNC_DEVICE_FATAL with the words in why; every connection ends with
 * UIW_REASON_LOCAL, and its peer is sent the Terminate "catastrophic, global" (RFC 5040 sec 4.8, 0/2/08)
 * as far as the link still carries it, unless it has not sent its first FPDU yet; all QPs go to error, and whoever dials in is reset. From then on
 * uiw_connect() and uiw_listen() give -EIO. Objects are destroyed as ever. The second call does nothing. */
int uiw_device_fail(struct uiw_device *dev, const char *why);

struct uiw_device_attr {
    char spec[256];
    enum uiw_progress progress;
    struct sockaddr_storage addr;  /* the device's address, IPv4 if it has one; port 0 */
    struct sockaddr_storage addr6; /* its IPv6 address; ss_family AF_UNSPEC: none */
    uint32_t mtu;
    uint32_t max_send_wr, max_recv_wr; /* per QP */
    uint32_t max_sge;                  /* of Sends, Writes and receives; a Read or Atomic has 1 */
    uint32_t max_inline;               /* octets */
    uint32_t max_cqe;
    uint32_t max_ird, max_ord;
    uint64_t max_mr_size; /* octets */
    uint64_t max_msg;     /* octets of one message: 2^32 - 1 */
    bool ext;             /* Atomics and Immediate Data are offered (RFC 7306) */
};
int uiw_device_query(const struct uiw_device *dev, struct uiw_device_attr *attr);

/* Turns the loop once and, when there was nothing to do, waits for up to timeout_ms (0: not at all,
 * -1: without limit). Returns whether anything was done. In a threaded device it helps, it is not
 * needed. */
int uiw_progress(struct uiw_device *dev, int timeout_ms);

/* A descriptor for polled devices in a poll loop of the program. Once uiw_progress(dev, 0) has returned 0 it is
 * readable as soon as there is something to do, a timer's work as well; then uiw_progress(dev, 0) is to be called
 * until it returns 0 again. Belongs to the device. Negative errno when descriptors are short. */
int uiw_device_fd(struct uiw_device *dev);

/* --- memory ------------------------------------------------------------------------------------ */

int uiw_pd_create(struct uiw_device *dev, struct uiw_pd **out);
int uiw_pd_destroy(struct uiw_pd *pd); /* -EBUSY while regions, windows, SRQs or QPs are left */

enum uiw_access {
    UIW_ACCESS_LOCAL_WRITE = 0x01,
    UIW_ACCESS_REMOTE_READ = 0x02,
    UIW_ACCESS_REMOTE_WRITE = 0x04,  /* needs LOCAL_WRITE */
    UIW_ACCESS_REMOTE_ATOMIC = 0x08, /* needs LOCAL_WRITE; the only right that Atomics ask for */
    UIW_ACCESS_ZERO_BASED = 0x10,    /* offsets begin at 0 instead of the address */
    UIW_ACCESS_NO_REMOTE_INV = 0x20, /* a Send with Invalidate must not revoke it */
    UIW_ACCESS_MW_BIND = 0x40,       /* windows may be bound to it */
};

/* Who may invalidate. An STag is open to all connections of its PD unless it was made for one QP, and a
 * peer may revoke it by a Send with Invalidate. RFC 5040 sec 8.1.1 forbids that for an STag in use on
 * several streams: here that is one that the peer of another living connection has read, written or
 * changed by an Atomic since it became valid; the Send is then a fault (0/1/09). So an STag that is told
 * to one peer can be revoked by that peer however many connections the PD has, as storage protocols and
 * other stacks do. Where not even an unused STag may fall to a peer that guessed it, use uiw_mr_reg_qp(),
 * type 2 windows or NO_REMOTE_INV; regions made by uiw_mr_share() are never revoked by peers. */

/* Registers length octets (1 .. 2^48) at addr for the connections of that PD. Local read is always
 * given. -EINVAL: length 0, unknown or contradicting access. The memory stays the caller's and must
 * stay mapped until uiw_mr_dereg() returns. */
int uiw_mr_reg(struct uiw_pd *pd, void *addr, uint64_t length, unsigned access,
               struct uiw_mr **out);

/* The same, open to that one QP only (RFC 5040 sec 8.1.1, RFC 5042 sec 6.2.3). */
int uiw_mr_reg_qp(struct uiw_qp *qp, void *addr, uint64_t length, unsigned access,
                  struct uiw_mr **out);

/* A second region over the memory of mr, with its own STag, PD and access; each is deregistered by itself.
 * Its peers cannot revoke it. -EINVAL: access, PDs of two devices, or mr is not valid now. */
int uiw_mr_share(struct uiw_mr *mr, struct uiw_pd *pd, unsigned access, struct uiw_mr **out);

/* A region for up to max_length octets that has an STag but is not valid: UIW_WR_REG_MR gives it memory and
 * makes it valid, UIW_WR_LOCAL_INV or a Send with Invalidate takes that back, any number of times. */
int uiw_mr_alloc(struct uiw_pd *pd, uint64_t max_length, struct uiw_mr **out);

enum uiw_rereg { UIW_REREG_TRANSLATION = 0x1, UIW_REREG_PD = 0x2, UIW_REREG_ACCESS = 0x4 };

struct uiw_mr_change {
    unsigned what; /* enum uiw_rereg */
    void *addr;    /* TRANSLATION */
    uint64_t length;
    struct uiw_pd *pd; /* PD */
    unsigned access;   /* ACCESS */
};

/* Changes a region at once, as uiw_mr_dereg() and a new registration would, but keeps the STag; one that
 * had been revoked is valid again. On failure the region is as it was. -EINVAL: the change, a region of
 * uiw_mr_alloc(), a PD of another device or one other than its QP's; -EBUSY: windows are bound to it. */
int uiw_mr_rereg(struct uiw_mr *mr, const struct uiw_mr_change *change);

/* Takes effect at once: when it returns no octet of the memory is read or written any more, whatever
 * the peer sends; work that still names it fails. -EBUSY while windows are bound to it. */
int uiw_mr_dereg(struct uiw_mr *mr);

uint32_t uiw_mr_lkey(const struct uiw_mr *mr); /* for struct uiw_sge */
/* The STag to tell the peer; the same number. Of uiw_mr_alloc(): that of the last posted REG_MR. */
uint32_t uiw_mr_rkey(const struct uiw_mr *mr);
uint64_t uiw_mr_addr(const struct uiw_mr *mr); /* offset of the first octet: address, or 0 */
uint64_t uiw_mr_length(const struct uiw_mr *mr);

/* A window opens a part of a region to peers, with remote rights of its own, as a request in the order of
 * a send queue. What of it names memory is checked when its turn has come. */
enum uiw_mw_type {
    /* Open to its PD (or to the QP that its region is for). Bound again it moves, bound to length 0 it
     * closes; each time its STag gets a new key that the library draws. Cannot be invalidated. */
    UIW_MW_TYPE_1 = 1,
    /* Open to the QP that bound it; the program chooses the key. Bound again only after
     * UIW_WR_LOCAL_INV, the peer's Send with Invalidate or the end of that QP. */
    UIW_MW_TYPE_2 = 2,
};
int uiw_mw_create(struct uiw_pd *pd, enum uiw_mw_type type, struct uiw_mw **out);

/* Closes it at once. */
int uiw_mw_destroy(struct uiw_mw *mw);

/* The STag of the last posted bind; before the first: not valid. */
uint32_t uiw_mw_rkey(const struct uiw_mw *mw);

/* Arguments of UIW_WR_BIND_MW and UIW_WR_REG_MR. */
struct uiw_bind {
    struct uiw_mw *mw; /* BIND_MW */
    /* BIND_MW: the region, with MW_BIND, and LOCAL_WRITE if access writes; may be NULL when length is
     * 0. REG_MR: the region of uiw_mr_alloc(). */
    struct uiw_mr *mr;
    uint64_t addr; /* BIND_MW: where in the region, in its offsets. REG_MR: an address */
    uint64_t length;
    unsigned access; /* BIND_MW: REMOTE_READ, _WRITE, _ATOMIC, ZERO_BASED, NO_REMOTE_INV */
    uint8_t key;     /* the low 8 bits of the STag; not for type 1 */
};

/* --- completions ------------------------------------------------------------------------------- */

enum uiw_wc_status {
    UIW_WC_SUCCESS,
    UIW_WC_LOC_LEN_ERR,  /* a message longer than its receive buffer */
    UIW_WC_LOC_PROT_ERR, /* an sge outside its region, or its lkey is no longer valid: when its turn
                            * comes, or that of the message or answer to it */
    UIW_WC_LOC_QP_ERR,   /* the request cannot be carried out on this QP */
    UIW_WC_WR_FLUSH_ERR, /* the stream ended first */
    UIW_WC_REM_ACCESS_ERR, /* the peer's Terminate: STag, bounds, rights */
    UIW_WC_REM_OP_ERR,     /* the peer's Terminate: anything else */
    UIW_WC_FATAL_ERR,      /* a protocol fault of the peer met this request */
    UIW_WC_MW_BIND_ERR,    /* a bind, registration or invalidation that cannot be carried out */
};
const char *uiw_wc_status_text(enum uiw_wc_status status);

enum uiw_wc_opcode {
    UIW_WC_SEND,
    UIW_WC_RDMA_WRITE,
    UIW_WC_RDMA_READ,
    UIW_WC_RECV,
    UIW_WC_IMM,
    UIW_WC_ATOMIC_FETCH_ADD, /* masked or not */
    UIW_WC_ATOMIC_CMP_SWAP,
    UIW_WC_BIND_MW,
    UIW_WC_REG_MR,
    UIW_WC_LOCAL_INV,
};

enum uiw_wc_flags { UIW_WC_WITH_INV = 0x1, UIW_WC_SOLICITED = 0x2, UIW_WC_WITH_IMM = 0x4 };

struct uiw_wc {
    uint64_t wr_id;
    enum uiw_wc_status status;
    enum uiw_wc_opcode opcode; /* valid with every status */
    uint32_t byte_len;         /* of a receive, Read or Atomic; success only */
    uint32_t qp_num;
    uint32_t flags;
    uint32_t invalidated; /* with UIW_WC_WITH_INV: the STag that the peer's Send revoked here */
    uint32_t vendor_err;  /* 0, or layer << 16 | type << 8 | code of RFC 5040 sec 4.8 */
    void *qp_user;
    /* With UIW_WC_WITH_IMM: the peer's Immediate Data, 8 octets; the receive's memory is left as it
     * was. */
    uint64_t imm;
};

/* Wakes programs that sleep: fd is readable while an event waits. */
int uiw_comp_channel_create(struct uiw_device *dev, struct uiw_comp_channel **out);
int uiw_comp_channel_destroy(struct uiw_comp_channel *ch);  /* -EBUSY while CQs use it */
int uiw_comp_channel_fd(const struct uiw_comp_channel *ch); /* may be set O_NONBLOCK */

/* The next event: the CQ that was armed and has news. Waits in read() on the fd, with no lock held
 * (cancellation point); -EAGAIN when the fd is O_NONBLOCK and nothing is there. In a polled device a
 * blocking call turns the loop. */
int uiw_comp_channel_get(struct uiw_comp_channel *ch, struct uiw_cq **cq, void **cq_user);

/* At least cqe entries. ch may be NULL. -EINVAL: cqe 0 or above max_cqe. */
int uiw_cq_create(struct uiw_device *dev, uint32_t cqe, struct uiw_comp_channel *ch, void *user,
                  struct uiw_cq **out);
int uiw_cq_destroy(struct uiw_cq *cq); /* -EBUSY while QPs use it; its unread events are dropped */

/* Takes up to max completions. When there are none and the loop is free, turns it once. Returns how
 * many; -EOVERFLOW once after completions were lost because the CQ was too small: the QPs that use
 * it are then in error, and UIW_ASYNC_CQ_ERR was raised. */
int uiw_cq_poll(struct uiw_cq *cq, int max, struct uiw_wc *wc);

/* One event on the channel at the next completion (solicited_only: the next solicited or failed
 * one). Completions that are in the CQ already do not count: poll again after arming. */
int uiw_cq_arm(struct uiw_cq *cq, bool solicited_only);

/* --- queue pairs ------------------------------------------------------------------------------- */

struct uiw_srq_attr {
    uint32_t max_wr, max_sge;
    uint32_t limit; /* UIW_ASYNC_SRQ_LIMIT when fewer are left; 0: never */
};
int uiw_srq_create(struct uiw_pd *pd, const struct uiw_srq_attr *attr, struct uiw_srq **out);
int uiw_srq_destroy(struct uiw_srq *srq); /* -EBUSY while QPs use it */
int uiw_srq_arm(struct uiw_srq *srq, uint32_t limit);

struct uiw_qp_attr {
    struct uiw_cq *send_cq, *recv_cq;
    struct uiw_srq *srq;               /* or NULL */
    uint32_t max_send_wr, max_recv_wr; /* at least; what was given is in uiw_qp_query() */
    uint32_t max_send_sge, max_recv_sge;
    uint32_t max_inline;
    bool sig_all; /* every send request makes a completion */
    void *user;
};

/* In state UIW_QP_IDLE. -EINVAL names the limit that was passed. */
int uiw_qp_create(struct uiw_pd *pd, const struct uiw_qp_attr *attr, struct uiw_qp **out);

/* Ends its connection abruptly if there still is one. When it returns nothing refers to the memory of
 * its requests and no completion of it will be added; those in the CQs stay. */
int uiw_qp_destroy(struct uiw_qp *qp);

enum uiw_qp_state { UIW_QP_IDLE, UIW_QP_RTS, UIW_QP_CLOSING, UIW_QP_ERROR };
const char *uiw_qp_state_text(enum uiw_qp_state state);

struct uiw_qp_info {
    enum uiw_qp_state state;
    uint32_t qp_num; /* unique in the process while it lives */
    uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
    uint32_t ird, ord; /* in effect once connected */
    void *user;
};
int uiw_qp_query(const struct uiw_qp *qp, struct uiw_qp_info *info);

/* Into the error state: all posted work is flushed, the stream is reset. */
int uiw_qp_error(struct uiw_qp *qp);

struct uiw_sge {
    uint64_t addr; /* address, or offset in a zero-based region */
    uint32_t length;
    uint32_t lkey;
};

enum uiw_wr_opcode {
    UIW_WR_SEND,
    UIW_WR_SEND_WITH_INV, /* invalidate: the peer's STag */
    UIW_WR_RDMA_WRITE,
    UIW_WR_RDMA_READ,          /* one sge, with local write */
    UIW_WR_RDMA_READ_WITH_INV, /* the sge's lkey is revoked when the Read is done */

    /* RFC 7306; -EOPNOTSUPP when the device is open with ext=off. */
    UIW_WR_IMM,                 /* imm alone, which completes a receive of the peer; no sge */
    UIW_WR_RDMA_WRITE_WITH_IMM, /* a Write, then imm when its data is in place: one request here */
    /* One sge of 8 octets, with local write, gets the value that was at remote_addr (aligned to 8), in
     * the order of this machine. */
    UIW_WR_ATOMIC_FETCH_ADD, /* adds atomic.compare_add */
    UIW_WR_ATOMIC_CMP_SWAP,  /* atomic.swap if it was atomic.compare_add */
    /* Fields that end at each set bit of compare_add_mask are added by themselves. */
    UIW_WR_MASKED_ATOMIC_FETCH_ADD,
    /* The bits of swap_mask are swapped if the bits of compare_add_mask are equal. */
    UIW_WR_MASKED_ATOMIC_CMP_SWAP,

    /* Of this end only: take effect in their turn, which with UIW_SEND_FENCE is after all earlier Reads
     * and Atomics. No sge. What cannot be done completes with UIW_WC_MW_BIND_ERR and ends the stream. */
    UIW_WR_BIND_MW, /* bind: mw, not bound if of type 2, to the part of mr */
    UIW_WR_REG_MR,  /* bind: mr, not valid now, to the memory */
    UIW_WR_LOCAL_INV, /* invalidate: the STag of a region, or of a type 2 window of this QP. Windows of a
                         region that was invalidated are dead with it. Invalid already: done */
};

enum uiw_send_flags {
    UIW_SEND_FENCE = 0x1, /* starts when all earlier Reads and Atomics are done */
    UIW_SEND_SIGNALED = 0x2,
    UIW_SEND_SOLICITED = 0x4, /* Sends, Immediate Data */
    UIW_SEND_INLINE = 0x8,    /* the data is copied by the call; lkeys are not looked at */
};

struct uiw_atomic {
    uint64_t compare_add, swap;
    uint64_t compare_add_mask, swap_mask; /* of the masked forms */
};

struct uiw_send_wr {
    uint64_t wr_id;
    struct uiw_send_wr *next;
    struct uiw_sge *sg_list;
    uint32_t num_sge;
    enum uiw_wr_opcode opcode;
    unsigned flags;
    uint64_t remote_addr;
    uint32_t rkey;
    uint32_t invalidate;
    uint64_t imm; /* a number: big-endian on the wire */
    struct uiw_atomic atomic;
    struct uiw_bind bind;
};

struct uiw_recv_wr {
    uint64_t wr_id;
    struct uiw_recv_wr *next;
    struct uiw_sge *sg_list;
    uint32_t num_sge;
};

/* Posts a chain. On failure *bad (if not NULL) is the first request that was not taken; those before
 * it are. -EINVAL: opcode, flags, too many sges, inline data above max_inline, a message above 2^32-1
 * octets, what its opcode asks for; -ENOMEM: the queue is full. A slot is free again when its request
 * is done and, if that made a completion, the program has polled it: a CQ with room for all slots
 * cannot overflow. Before the connection is up requests wait; in the error state they are flushed, and
 * while the QP is closing sends are refused with -ESHUTDOWN (RFC 5040 sec 6.2). The memory named
 * belongs to the request until its completion (for an unsignalled one: until that of a later one). A
 * completion of a Send or Write means that the data is on its way and the memory is free, not that the
 * peer has it. */
int uiw_qp_post_send(struct uiw_qp *qp, struct uiw_send_wr *wr, struct uiw_send_wr **bad);
int uiw_qp_post_recv(struct uiw_qp *qp, struct uiw_recv_wr *wr, struct uiw_recv_wr **bad);
int uiw_srq_post_recv(struct uiw_srq *srq, struct uiw_recv_wr *wr, struct uiw_recv_wr **bad);

/* Posts one UIW_WR_BIND_MW; flags as of any request. */
int uiw_mw_bind(struct uiw_qp *qp, uint64_t wr_id, unsigned flags, const struct uiw_bind *bind);

/* --- connections ------------------------------------------------------------------------------- */

/* Depths of a connection: UIW_DEPTH_DEFAULT is the device's. */
enum { UIW_PRIVATE_MAX = 512, UIW_DEPTH_DEFAULT = 0, UIW_DEPTH_NONE = -1 };

enum uiw_event_type {
    UIW_EVENT_CONNECT_REQUEST, /* conn is new: accept, reject or destroy it */
    UIW_EVENT_ESTABLISHED,
    UIW_EVENT_REJECTED,      /* the peer's program said no; its private data is with the event */
    UIW_EVENT_CONNECT_ERROR, /* reason and text say why */
    UIW_EVENT_DISCONNECTED,  /* once per established connection; both queues are flushed before */
};
const char *uiw_event_type_text(enum uiw_event_type type);

enum uiw_reason {
    UIW_REASON_NONE,
    UIW_REASON_REFUSED,     /* nobody listens there */
    UIW_REASON_UNREACHABLE, /* no answer from the address at all */
    UIW_REASON_TIMEOUT,     /* the set-up limit, or TCP gave up */
    UIW_REASON_RESET,       /* TCP reset by the peer */
    UIW_REASON_REJECTED,
    UIW_REASON_BAD_KEY,      /* what answered does not speak MPA */
    UIW_REASON_BAD_REVISION, /* MPA revision refused */
    UIW_REASON_MALFORMED,    /* another fault in the peer's set-up frame */
    UIW_REASON_IRD,          /* RFC 6581 sec 9.1 */
    UIW_REASON_RTR,          /* RFC 6581 sec 9.2 */
    UIW_REASON_CLOSED,       /* closed in good order, by either end */
    UIW_REASON_LOST,         /* the peer's TCP closed in the middle of a message */
    UIW_REASON_PEER_TERMINATE,
    UIW_REASON_FAULT, /* the peer broke the protocol; a Terminate told it */
    UIW_REASON_LOCAL, /* ended by this program, or a local error */
};

struct uiw_event {
    enum uiw_event_type type;
    struct uiw_conn *conn;
    void *user;                    /* of the connection; for CONNECT_REQUEST the listener's */
    struct uiw_listener *listener; /* CONNECT_REQUEST only */
    enum uiw_reason reason;
    int status;                  /* 0, or a negative errno that fits the reason */
    unsigned layer, etype, code; /* PEER_TERMINATE and FAULT: RFC 5040 sec 4.8 */
    char text[160];              /* "peer: DDP tagged buffer error: base or bounds violation" */
    unsigned ird, ord; /* CONNECT_REQUEST, REJECTED: as the peer named its own; ESTABLISHED: ours in
                          effect. 0x3fff: not said */
    uint32_t private_len; /* REQUEST, ESTABLISHED (at the side that connected), REJECTED */
    uint8_t private_data[UIW_PRIVATE_MAX];
};

int uiw_event_channel_create(struct uiw_device *dev, struct uiw_event_channel **out);
int uiw_event_channel_destroy(struct uiw_event_channel *ch); /* -EBUSY while in use */
int uiw_event_channel_fd(const struct uiw_event_channel *ch);

/* The next event, copied out; blocks like uiw_comp_channel_get(). */
int uiw_event_get(struct uiw_event_channel *ch, struct uiw_event *ev);

/* addr: struct sockaddr_in or sockaddr_in6. INADDR_ANY is the device's IPv4 address, :: are all its
 * addresses, those of IPv4 included; peers over IPv4 show as sockaddr_in. ::ffff:a.b.c.d means a.b.c.d.
 * A device is one link, so sin6_scope_id is not looked at, and 0 in what is given back (unless it is of kind
 * sock: then it is the kernel's). Port 0: one is chosen. backlog: connections in set-up or not yet fetched, at least 1, else -EINVAL. -EADDRINUSE,
 * -EADDRNOTAVAIL. */
int uiw_listen(struct uiw_event_channel *ch, const struct sockaddr *addr, int backlog, void *user,
               struct uiw_listener **out);
int uiw_listener_addr(const struct uiw_listener *l, struct sockaddr_storage *out);

/* Connections whose CONNECT_REQUEST was not fetched are reset, their events dropped. */
int uiw_listener_destroy(struct uiw_listener *l);

struct uiw_conn_param {
    const void *private_data; /* up to 512 octets (508 when MPA revision 2 is spoken) */
    uint32_t private_len;
    int ird, ord;                 /* 1..max, or UIW_DEPTH_DEFAULT, or UIW_DEPTH_NONE */
    void *user;                   /* of the connection's events */
    const struct sockaddr *local; /* connect only; may be NULL */
    bool p2p;     /* connect only: RFC 6581 peer-to-peer mode, the peer may send first */
    unsigned rtr; /* with p2p: UIW_RTR_* that may be the first message; 0: Write or Read */
};

/* Kinds of the message without payload by which a peer-to-peer Initiator lets the other end send. A Send
 * takes up no receive at a uiw; other peers may want one posted. */
enum { UIW_RTR_SEND = 1, UIW_RTR_WRITE = 2, UIW_RTR_READ = 4 };

/* Begins a connection of an idle QP (addresses as in uiw_listen()); ESTABLISHED, REJECTED or CONNECT_ERROR follows on ch. param may
 * be NULL. -EINVAL: QP not idle or bound already, private data or depth above the limit, rtr; -EAFNOSUPPORT:
 * neither sockaddr_in nor sockaddr_in6, or the device has no address of that kind. */
int uiw_connect(struct uiw_event_channel *ch, struct uiw_qp *qp, const struct sockaddr *addr,
                const struct uiw_conn_param *param, struct uiw_conn **out);

/* Answers a CONNECT_REQUEST; ESTABLISHED follows (on the listener's channel). -EINVAL as above,
 * -ENOTCONN when the peer has gone meanwhile (the CONNECT_ERROR event says why). */
int uiw_accept(struct uiw_conn *conn, struct uiw_qp *qp, const struct uiw_conn_param *param);
/* Says no to a CONNECT_REQUEST: sends the rejecting Reply with that private data (508 octets, or 512 to
 * a peer of MPA revision 1), then closes TCP in good order. No event follows. Errors as uiw_accept(). */
int uiw_reject(struct uiw_conn *conn, const void *private_data, uint32_t private_len);

/* In good order: what is posted goes out, then TCP is closed; DISCONNECTED follows at both ends, when
 * the peer has closed too, or when nothing was acknowledged for a few seconds and the peer is not busy
 * with what it has (a minute in all at most); the device then goes on sending what is left for another
 * minute. Calling it again, or when the stream is down, does no harm. */
int uiw_disconnect(struct uiw_conn *conn);

/* At once, by a TCP reset. */
int uiw_abort(struct uiw_conn *conn);

/* Lets go of it: its unread events are dropped, a live stream is reset (one that is closing goes on
 * closing by itself), its QP goes to error. May be called for any event. */
int uiw_conn_destroy(struct uiw_conn *conn);

struct uiw_conn_info {
    struct sockaddr_storage local, remote;
    unsigned mpa_revision;
    bool crc, tx_markers, rx_markers, enhanced, p2p;
    unsigned rtr; /* p2p: which was sent; at the accepting end: which were agreed to */
    unsigned ird, ord, peer_ird, peer_ord;
    uint32_t emss, mulpdu;
    uint64_t tx_octets, rx_octets; /* of the stream, since the set-up */
};
int uiw_conn_query(const struct uiw_conn *conn, struct uiw_conn_info *info);

/* --- asynchronous events of the device --------------------------------------------------------- */

enum uiw_async_type {
    UIW_ASYNC_QP_FATAL,  /* a protocol fault or local catastrophe ended the QP's stream */
    UIW_ASYNC_QP_ACCESS, /* the peer tried what its STag does not allow */
    UIW_ASYNC_CQ_ERR,    /* completions were lost */
    UIW_ASYNC_SRQ_LIMIT,
    UIW_ASYNC_DEVICE_FATAL, /* nothing goes any more: see uiw_device_fail() */
};

struct uiw_async_event {
    enum uiw_async_type type;
    void *user; /* of the QP, CQ; NULL for an SRQ or device */
    uint32_t qp_num;
    struct uiw_srq *srq;
    char text[160];
};
int uiw_async_fd(struct uiw_device *dev);
int uiw_async_get(struct uiw_device *dev, struct uiw_async_event *ev); /* blocks as the others */

#ifdef __cplusplus
}
#endif

#endif
