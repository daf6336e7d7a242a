/* SPDX-License-Identifier: MIT */
/* Sizes and bits of RFC 5044 and RFC 6581. No code. */
#ifndef UIW_MPA_MPA_WIRE_H
#define UIW_MPA_MPA_WIRE_H

enum {
    MPA_REV_1 = 1, /* RFC 5044 */
    MPA_REV_2 = 2, /* RFC 6581 */

    MPA_KEY_LEN = 16,
    MPA_FRAME_HDR = 20,   /* Key, flags, Rev, PD_Length */
    MPA_PD_MAX = 512,     /* RFC 5044 sec 7.1.1 */
    MPA_ENHANCED_LEN = 4, /* RFC 6581 sec 9: the first octets of Private Data when S=1 */
    MPA_FRAME_MAX = MPA_FRAME_HDR + MPA_PD_MAX,

    MPA_FLAG_M = 0x80,
    MPA_FLAG_C = 0x40,
    MPA_FLAG_R = 0x20,
    MPA_FLAG_S = 0x10,

    MPA_IRD_A = 0x8000, /* peer-to-peer */
    MPA_IRD_B = 0x4000, /* zero-length Send as RTR */
    MPA_ORD_C = 0x8000, /* zero-length Write as RTR */
    MPA_ORD_D = 0x4000, /* zero-length Read as RTR */
    MPA_DEPTH_MASK = 0x3fff,
    MPA_DEPTH_UNSET = 0x3fff, /* RFC 6581 sec 9.1: left to the ULP */

    MPA_LEN_FIELD = 2,
    MPA_CRC_LEN = 4,
    MPA_MARKER_LEN = 4,
    MPA_MARKER_GAP = 512,
    MPA_MULPDU_MIN = 128,
    MPA_MULPDU_MAX = 64768,
};

#endif
