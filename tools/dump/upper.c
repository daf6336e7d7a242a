/* SPDX-License-Identifier: MIT */
/* What rides on top: told from well-known ports, private data and content; a name and a message type
 * per Send. A guess that does not fit the octets says nothing. */
#include <stdio.h>

#include "dump.h"

enum {
    PORT_RPING = 7174,
    PORT_PERFTEST = 18515,
    PORT_NFS = 20049,
    PORT_NVME = 4420,
    PORT_NVME_DISCOVERY = 8009,
    PORT_ISER = 3260,
    PORT_ISER_OLD = 860,
    PORT_SMB = 445,
    PORT_SMB_DIRECT = 5445,
    RS_CONN_DATA = 40,
    NVME_PD = 32,
    NVME_COMMAND = 64,
    NVME_RESPONSE = 16,
    ISER_HEADER = 28,
    ISCSI_BHS = 48,
    SMBD_HEADER = 24,
};

struct code {
    unsigned value;
    const char *text;
};

static const char *look_up(const struct code *t, size_t n, unsigned value)
{
    for (size_t i = 0; i < n; i++) {
        if (t[i].value == value) {
            return t[i].text;
        }
    }
    return NULL;
}

#define LOOK_UP(table, value) look_up(table, ARRAY_LEN(table), value)

static uint16_t get_le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

const char *upper_text(enum upper u)
{
    static const char *const text[] = {
        [UPPER_UNKNOWN] = "",          [UPPER_RPING] = "rping",       [UPPER_RSOCKETS] = "rsockets",
        [UPPER_RPC] = "RPC-over-RDMA", [UPPER_NVME] = "NVMe-oF",      [UPPER_ISER] = "iSER",
        [UPPER_SMB] = "SMB Direct",    [UPPER_PERFTEST] = "perftest",
    };
    return (size_t)u < ARRAY_LEN(text) ? text[u] : "";
}

static enum upper by_port(uint16_t port)
{
    static const struct {
        uint16_t port;
        enum upper u;
    } t[] = {
        {PORT_RPING, UPPER_RPING},    {PORT_PERFTEST, UPPER_PERFTEST},
        {PORT_NFS, UPPER_RPC},        {PORT_NVME, UPPER_NVME},
        {PORT_ISER, UPPER_ISER},      {PORT_NVME_DISCOVERY, UPPER_NVME},
        {PORT_ISER_OLD, UPPER_ISER},  {PORT_SMB, UPPER_SMB},
        {PORT_SMB_DIRECT, UPPER_SMB},
    };
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        if (t[i].port == port) {
            return t[i].u;
        }
    }
    return UPPER_UNKNOWN;
}

static void guess_by_port(struct conn *c)
{
    if (c->upper == UPPER_UNKNOWN) {
        c->upper = by_port(c->port[1]);
    }
}

void upper_setup(struct conn *c, const struct mpa_frame *f)
{
    guess_by_port(c);
    /* rsockets: version 1, reserved octets zero, then two buffers. */
    if (c->upper == UPPER_UNKNOWN && f->pd_len == RS_CONN_DATA && f->pd[0] == 1 && f->pd[4] == 0 &&
        f->pd[5] == 0 && f->pd[6] == 0) {
        c->upper = UPPER_RSOCKETS;
        c->rs_net = (f->pd[1] & 1) != 0;
    }
    if (c->upper == UPPER_NVME && !f->reply && f->pd_len >= 8) {
        c->nvme_qid = get_le16(f->pd + 2);
        c->nvme_qid_known = true;
    }
}

/* --- rping --- */

static void note_rping(struct msg *m)
{
    if (m->bytes == 16 && m->head_len == 16) {
        snprintf(m->note, sizeof m->note, "rping buffer STag 0x%08x TO 0x%llx size %u",
                 get_be32(m->head + 8), (unsigned long long)get_be64(m->head),
                 get_be32(m->head + 12));
    }
}

/* --- rsockets --- */

/* The words of a sender are in its machine's order, unless both ends are big-endian. */
static void note_rsockets(const struct conn *c, struct msg *m)
{
    static const char *const op[] = {"data",       "data (more)", "write",     "more",
                                     "SGL update", "reserved",    "iomap SGL", "control"};
    static const char *const ctrl[] = {"disconnect", "keepalive", "shutdown"};
    if (m->bytes != 4 || m->head_len < 4) {
        return;
    }
    uint32_t v = c->rs_net ? get_be32(m->head) : get_le32(m->head);
    uint32_t arg = v & 0x1fffffff;
    if (v >> 29 == 7 && arg < ARRAY_LEN(ctrl)) {
        snprintf(m->note, sizeof m->note, "rsockets control: %s", ctrl[arg]);
    } else {
        snprintf(m->note, sizeof m->note, "rsockets %s %u", op[v >> 29], arg);
    }
}

/* --- RPC-over-RDMA (RFC 8166) --- */

static const char *nfs_proc(uint32_t vers, uint32_t proc)
{
    static const char *const v3[] = {
        "NULL",    "GETATTR",     "SETATTR", "LOOKUP", "ACCESS",   "READLINK", "READ",   "WRITE",
        "CREATE",  "MKDIR",       "SYMLINK", "MKNOD",  "REMOVE",   "RMDIR",    "RENAME", "LINK",
        "READDIR", "READDIRPLUS", "FSSTAT",  "FSINFO", "PATHCONF", "COMMIT"};
    if (vers == 3 && proc < ARRAY_LEN(v3)) {
        return v3[proc];
    }
    return vers == 4 ? (proc == 1 ? "COMPOUND" : "NULL") : NULL;
}

/* Steps over a chunk list entry's segments; false when the head ends before. */
static bool skip_words(uint32_t *at, uint32_t have, uint64_t words)
{
    if (words > 64 || *at + words * 4 > have) {
        return false;
    }
    *at += (uint32_t)words * 4;
    return true;
}

/* Offset of the RPC message behind the three chunk lists, 0 when it is not in the head. */
static uint32_t rpc_offset(const struct msg *m)
{
    const uint8_t *p = m->head;
    uint32_t n = m->head_len;
    uint32_t at = 16;
    while (n - at >= 4 && get_be32(p + at) == 1) { /* read list: position, handle, length, offset */
        if (!skip_words(&at, n, 6)) {
            return 0;
        }
    }
    at += 4;
    while (at + 8 <= n && get_be32(p + at) == 1) { /* write list: count, segments */
        if (!skip_words(&at, n, 2 + 4ull * get_be32(p + at + 4))) {
            return 0;
        }
    }
    at += 4;
    if (at + 8 <= n && get_be32(p + at) == 1) { /* reply chunk */
        return skip_words(&at, n, 2 + 4ull * get_be32(p + at + 4)) ? at : 0;
    }
    return at + 4;
}

static void note_call(char *out, size_t room, uint32_t prog, uint32_t vers, uint32_t call)
{
    static const struct code programs[] = {
        {100000, "portmapper"}, {100003, "NFS"},    {100005, "mount"},           {100021, "NLM"},
        {100024, "NSM"},        {100227, "NFSACL"}, {0x40000000, "NFS callback"}};
    const char *name = prog == 100003 ? nfs_proc(vers, call) : NULL;
    const char *program = LOOK_UP(programs, prog);
    if (name != NULL) {
        snprintf(out, room, ", call NFSv%u %s", vers, name);
    } else if (program != NULL) {
        snprintf(out, room, ", call %s v%u procedure %u", program, vers, call);
    } else {
        snprintf(out, room, ", call program %u v%u procedure %u", prog, vers, call);
    }
}

static void note_rpc(struct msg *m)
{
    static const char *const type[] = {"MSG", "NOMSG", "MSGP", "DONE", "ERROR"};
    if (m->head_len < 16 || get_be32(m->head + 4) != 1 || get_be32(m->head + 12) > 4) {
        return;
    }
    uint32_t proc = get_be32(m->head + 12);
    uint32_t at = m->head_len >= 28 && proc == 0 ? rpc_offset(m) : 0;
    int n = snprintf(m->note, sizeof m->note, "RPC-over-RDMA %s xid 0x%08x credits %u", type[proc],
                     get_be32(m->head), get_be32(m->head + 8));
    if (at == 0 || at + 8 > m->head_len || n < 0) {
        return;
    }
    char *out = m->note + n;
    size_t room = sizeof m->note - (size_t)n;
    if (get_be32(m->head + at + 4) == 1) {
        snprintf(out, room, ", reply");
    } else if (at + 24 <= m->head_len && get_be32(m->head + at + 8) == 2) {
        note_call(out, room, get_be32(m->head + at + 12), get_be32(m->head + at + 16),
                  get_be32(m->head + at + 20));
    }
}

/* --- NVMe over Fabrics --- */

static const struct code nvme_fabrics[] = {
    {0x00, "Property Set"},           {0x01, "Connect"},
    {0x04, "Property Get"},           {0x05, "Authentication Send"},
    {0x06, "Authentication Receive"}, {0x08, "Disconnect"}};
static const struct code nvme_admin[] = {{0x02, "Get Log Page"},
                                         {0x06, "Identify"},
                                         {0x08, "Abort"},
                                         {0x09, "Set Features"},
                                         {0x0a, "Get Features"},
                                         {0x0c, "Asynchronous Event Request"},
                                         {0x0d, "Namespace Management"},
                                         {0x15, "Namespace Attachment"},
                                         {0x18, "Keep Alive"},
                                         {0x80, "Format NVM"},
                                         {0x81, "Security Send"},
                                         {0x82, "Security Receive"}};
static const struct code nvme_io[] = {{0x00, "Flush"},
                                      {0x01, "Write"},
                                      {0x02, "Read"},
                                      {0x04, "Write Uncorrectable"},
                                      {0x05, "Compare"},
                                      {0x08, "Write Zeroes"},
                                      {0x09, "Dataset Management"},
                                      {0x0d, "Reservation Register"},
                                      {0x0e, "Reservation Report"},
                                      {0x11, "Reservation Acquire"},
                                      {0x15, "Reservation Release"},
                                      {0x0c, "Verify"}};

static void note_nvme(const struct conn *c, unsigned dir, struct msg *m)
{
    const uint8_t *p = m->head;
    if (dir == 0 && m->bytes >= NVME_COMMAND && m->head_len >= NVME_COMMAND) {
        bool admin = !c->nvme_qid_known || c->nvme_qid == 0;
        const char *name = p[0] == 0x7f ? LOOK_UP(nvme_fabrics, p[4])
                           : admin      ? LOOK_UP(nvme_admin, p[0])
                                        : LOOK_UP(nvme_io, p[0]);
        if (name == NULL && !c->nvme_qid_known) {
            name = LOOK_UP(nvme_io, p[0]);
        }
        snprintf(m->note, sizeof m->note, "NVMe %scommand %s%s (0x%02x) cid %u",
                 p[0] == 0x7f ? "fabrics " : "", name != NULL ? name : "?",
                 m->bytes > NVME_COMMAND ? ", data in capsule" : "", p[0], get_le16(p + 2));
    } else if (dir == 1 && m->bytes == NVME_RESPONSE && m->head_len == NVME_RESPONSE) {
        snprintf(m->note, sizeof m->note, "NVMe response cid %u status 0x%x", get_le16(p + 12),
                 get_le16(p + 14) >> 1);
    }
}

/* --- iSER --- */

static const struct code iscsi_ops[] = {{0x00, "NOP-Out"},
                                        {0x01, "SCSI Command"},
                                        {0x02, "Task Management Request"},
                                        {0x03, "Login Request"},
                                        {0x04, "Text Request"},
                                        {0x05, "Data-Out"},
                                        {0x06, "Logout Request"},
                                        {0x20, "NOP-In"},
                                        {0x21, "SCSI Response"},
                                        {0x22, "Task Management Response"},
                                        {0x23, "Login Response"},
                                        {0x24, "Text Response"},
                                        {0x25, "Data-In"},
                                        {0x26, "Logout Response"},
                                        {0x31, "R2T"},
                                        {0x32, "Asynchronous Message"},
                                        {0x3f, "Reject"}};
static const struct code scsi_ops[] = {
    {0x00, "TEST UNIT READY"}, {0x03, "REQUEST SENSE"},         {0x12, "INQUIRY"},
    {0x1a, "MODE SENSE(6)"},   {0x25, "READ CAPACITY(10)"},     {0x28, "READ(10)"},
    {0x2a, "WRITE(10)"},       {0x35, "SYNCHRONIZE CACHE(10)"}, {0x42, "UNMAP"},
    {0x5a, "MODE SENSE(10)"},  {0x5e, "PERSISTENT RESERVE IN"}, {0x88, "READ(16)"},
    {0x8a, "WRITE(16)"},       {0x93, "WRITE SAME(16)"},        {0x9e, "SERVICE ACTION IN(16)"},
    {0xa0, "REPORT LUNS"},     {0xa3, "MAINTENANCE IN"}};

static void note_iser(struct msg *m)
{
    static const char *const kind[] = {"", "", "Hello", "HelloReply"};
    const uint8_t *p = m->head;
    unsigned type = m->head_len > 0 ? p[0] >> 4 : 0;
    if (type == 2 || type == 3) {
        snprintf(m->note, sizeof m->note, "iSER %s", kind[type]);
    }
    if (type != 1 || m->head_len < ISER_HEADER + ISCSI_BHS) {
        return;
    }
    const uint8_t *bhs = p + ISER_HEADER;
    const char *name = LOOK_UP(iscsi_ops, bhs[0] & 0x3f);
    const char *scsi = (bhs[0] & 0x3f) == 1 ? LOOK_UP(scsi_ops, bhs[32]) : NULL;
    snprintf(m->note, sizeof m->note, "iSER %s%s%s tag 0x%08x%s%s",
             name != NULL ? name : "unknown PDU", scsi != NULL ? " " : "", scsi != NULL ? scsi : "",
             get_be32(bhs + 16), (p[0] & 0x08) != 0 ? ", write STag" : "",
             (p[0] & 0x04) != 0 ? ", read STag" : "");
}

/* --- SMB Direct --- */

static const char *const smb2_ops[] = {
    "NEGOTIATE",     "SESSION_SETUP", "LOGOFF",   "TREE_CONNECT", "TREE_DISCONNECT",
    "CREATE",        "CLOSE",         "FLUSH",    "READ",         "WRITE",
    "LOCK",          "IOCTL",         "CANCEL",   "ECHO",         "QUERY_DIRECTORY",
    "CHANGE_NOTIFY", "QUERY_INFO",    "SET_INFO", "OPLOCK_BREAK"};

static void note_smb(struct msg *m)
{
    static const uint8_t magic[4] = {0xfe, 'S', 'M', 'B'};
    const uint8_t *p = m->head;
    if (m->bytes == 20 && m->head_len == 20 && get_le16(p) == 0x100) {
        snprintf(m->note, sizeof m->note, "SMB Direct Negotiate Request, credits %u",
                 get_le16(p + 6));
    } else if (m->bytes == 32 && m->head_len == 32 && get_le16(p) == 0x100) {
        snprintf(m->note, sizeof m->note, "SMB Direct Negotiate Response, status 0x%08x",
                 get_le32(p + 12));
    } else if (m->head_len >= 20) {
        uint32_t at = get_le32(p + 12);
        bool smb2 = at >= SMBD_HEADER && at <= HEAD_MAX - 16 && m->head_len >= at + 16 &&
                    memcmp(p + at, magic, sizeof magic) == 0;
        unsigned op = smb2 ? get_le16(p + at + 12) : 0;
        snprintf(m->note, sizeof m->note, "SMB Direct Data Transfer of %u octets%s%s",
                 get_le32(p + 16), smb2 ? ": SMB2 " : "",
                 smb2 ? (op < ARRAY_LEN(smb2_ops) ? smb2_ops[op] : "?") : "");
    }
}

/* --- */

/* Ports that say nothing: an RPC call, and SMB2 behind its header, speak for themselves. */
static void guess_by_content(struct conn *c, const struct msg *m)
{
    const uint8_t *p = m->head;
    if (m->head_len >= 28 + 24 && get_be32(p + 4) == 1 && get_be32(p + 12) == 0) {
        uint32_t at = rpc_offset(m);
        if (at != 0 && at + 12 <= m->head_len && get_be32(p + at) == get_be32(p) &&
            get_be32(p + at + 4) == 0 && get_be32(p + at + 8) == 2) {
            c->upper = UPPER_RPC;
        }
    }
    if (m->head_len >= SMBD_HEADER + 4 && get_be32(p + SMBD_HEADER) == 0xfe534d42) {
        c->upper = UPPER_SMB;
    }
}

void upper_message(struct conn *c, unsigned dir, struct msg *m)
{
    if (m->opcode < RDMAP_SEND || m->opcode > RDMAP_SEND_SE_INV) {
        return;
    }
    guess_by_port(c);
    if (c->upper == UPPER_UNKNOWN) {
        guess_by_content(c, m);
    }
    switch (c->upper) {
    case UPPER_RPING: note_rping(m); break;
    case UPPER_RSOCKETS: note_rsockets(c, m); break;
    case UPPER_RPC: note_rpc(m); break;
    case UPPER_NVME: note_nvme(c, dir, m); break;
    case UPPER_ISER: note_iser(m); break;
    case UPPER_SMB: note_smb(m); break;
    case UPPER_PERFTEST: snprintf(m->note, sizeof m->note, "perftest"); break;
    case UPPER_UNKNOWN: break;
    }
}
