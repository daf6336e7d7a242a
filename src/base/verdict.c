/* SPDX-License-Identifier: MIT */
#include "base/verdict.h"

static const struct {
    uint8_t layer, type, code;
    const char *text;
} words[] = {
    {0, 1, 0x00, "RDMAP remote protection error: invalid STag"},
    {0, 1, 0x01, "RDMAP remote protection error: base or bounds violation"},
    {0, 1, 0x02, "RDMAP remote protection error: access rights violation"},
    {0, 1, 0x03, "RDMAP remote protection error: STag not associated with the stream"},
    {0, 1, 0x04, "RDMAP remote protection error: TO wrap"},
    {0, 1, 0x09, "RDMAP remote protection error: STag cannot be invalidated"},
    {0, 1, 0xff, "RDMAP remote protection error: unspecified"},
    {0, 2, 0x05, "RDMAP remote operation error: invalid RDMAP version"},
    {0, 2, 0x06, "RDMAP remote operation error: unexpected opcode"},
    {0, 2, 0x07, "RDMAP remote operation error: catastrophic, localised to the stream"},
    {0, 2, 0x08, "RDMAP remote operation error: catastrophic, global"},
    {0, 2, 0x09, "RDMAP remote operation error: STag cannot be invalidated"},
    {0, 2, 0xff, "RDMAP remote operation error: unspecified"},
    {1, 1, 0x00, "DDP tagged buffer error: invalid STag"},
    {1, 1, 0x01, "DDP tagged buffer error: base or bounds violation"},
    {1, 1, 0x02, "DDP tagged buffer error: STag not associated with the stream"},
    {1, 1, 0x03, "DDP tagged buffer error: TO wrap"},
    {1, 1, 0x04, "DDP tagged buffer error: invalid DDP version"},
    {1, 2, 0x01, "DDP untagged buffer error: invalid QN"},
    {1, 2, 0x02, "DDP untagged buffer error: invalid MSN, no buffer available"},
    {1, 2, 0x03, "DDP untagged buffer error: invalid MSN, out of range"},
    {1, 2, 0x04, "DDP untagged buffer error: invalid MO"},
    {1, 2, 0x05, "DDP untagged buffer error: message too long for the buffer"},
    {1, 2, 0x06, "DDP untagged buffer error: invalid DDP version"},
    {2, 0, 0x01, "MPA error: TCP connection closed, terminated or lost"},
    {2, 0, 0x02, "MPA error: CRC does not match"},
    {2, 0, 0x03, "MPA error: marker and ULPDU length disagree"},
    {2, 0, 0x04, "MPA error: invalid request or reply frame"},
    {2, 0, 0x05, "MPA error: local catastrophic"},
    {2, 0, 0x06, "MPA error: insufficient IRD"},
    {2, 0, 0x07, "MPA error: no matching RTR"},
};

static const char *layer_text(struct verdict v)
{
    static const char *const by_type[3][3] = {
        {"RDMAP local catastrophic error", "RDMAP remote protection error: unknown code",
         "RDMAP remote operation error: unknown code"},
        {"DDP local catastrophic error", "DDP tagged buffer error: unknown code",
         "DDP untagged buffer error: unknown code"},
        {"MPA error: unknown code", "LLP error: unknown type", "LLP error: unknown type"},
    };
    if (v.layer > 2 || v.type > 2) {
        return "unknown layer or type of error";
    }
    return by_type[v.layer][v.type];
}

const char *verdict_text(struct verdict v)
{
    if (!v.bad) {
        return "no error";
    }
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (words[i].layer == v.layer && words[i].type == v.type && words[i].code == v.code) {
            return words[i].text;
        }
    }
    return layer_text(v);
}
