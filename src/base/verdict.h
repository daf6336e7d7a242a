/* SPDX-License-Identifier: MIT */
/* A protocol fault as a value: the Layer, Error Type and Error Code of RFC 5040 sec 4.8. */
#ifndef UIW_BASE_VERDICT_H
#define UIW_BASE_VERDICT_H

#include "base/base.h"

enum { LAYER_RDMAP = 0, LAYER_DDP = 1, LAYER_LLP = 2 };

enum { RDMAP_LOCAL = 0, RDMAP_PROTECTION = 1, RDMAP_OPERATION = 2 };
enum { DDP_LOCAL = 0, DDP_TAGGED = 1, DDP_UNTAGGED = 2 };
enum { LLP_MPA = 0 };

/* RFC 5040 fig. 9, type 1 (remote protection) */
enum {
    RDMAP_PROT_STAG = 0x00,
    RDMAP_PROT_BOUNDS = 0x01,
    RDMAP_PROT_ACCESS = 0x02,
    RDMAP_PROT_STREAM = 0x03,
    RDMAP_PROT_WRAP = 0x04,
    RDMAP_PROT_INVALIDATE = 0x09,
    RDMAP_PROT_UNSPECIFIED = 0xff,
};

/* RFC 5040 fig. 9, type 2 (remote operation) */
enum {
    RDMAP_OP_VERSION = 0x05,
    RDMAP_OP_OPCODE = 0x06,
    RDMAP_OP_STREAM = 0x07,
    RDMAP_OP_GLOBAL = 0x08,
    RDMAP_OP_INVALIDATE = 0x09,
    RDMAP_OP_UNSPECIFIED = 0xff,
};

/* RFC 5041 sec 7.2 */
enum {
    DDP_TAG_STAG = 0x00,
    DDP_TAG_BOUNDS = 0x01,
    DDP_TAG_STREAM = 0x02,
    DDP_TAG_WRAP = 0x03,
    DDP_TAG_VERSION = 0x04,
};
enum {
    DDP_UNT_QN = 0x01,
    DDP_UNT_NOBUF = 0x02,
    DDP_UNT_MSN = 0x03,
    DDP_UNT_MO = 0x04,
    DDP_UNT_TOOLONG = 0x05,
    DDP_UNT_VERSION = 0x06,
};

/* RFC 5044 sec 8 and RFC 6581 sec 8 */
enum {
    MPA_ERR_LOST = 0x01,
    MPA_ERR_CRC = 0x02,
    MPA_ERR_MARKER = 0x03,
    MPA_ERR_FRAME = 0x04,
    MPA_ERR_LOCAL = 0x05,
    MPA_ERR_IRD = 0x06,
    MPA_ERR_RTR = 0x07,
};

struct verdict {
    bool bad; /* false: all is well and the rest is unused */
    uint8_t layer, type, code;
};

#define VERDICT_OK ((struct verdict){false, 0, 0, 0})

static inline struct verdict verdict_bad(unsigned layer, unsigned type, unsigned code)
{
    return (struct verdict){true, (uint8_t)layer, (uint8_t)type, (uint8_t)code};
}

static inline bool verdict_is(struct verdict v, unsigned layer, unsigned type, unsigned code)
{
    return v.bad && v.layer == layer && v.type == type && v.code == code;
}

/* The meaning in words ("DDP tagged buffer error: base or bounds violation"). Never NULL; the
 * string is static. */
const char *verdict_text(struct verdict v);

#endif
