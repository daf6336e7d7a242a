/* SPDX-License-Identifier: MIT */
/* verdict.h: values, and a text for every code there can be. */
#include "base/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void values(void **state)
{
    (void)state;
    struct verdict v = verdict_bad(LAYER_DDP, DDP_UNTAGGED, DDP_UNT_TOOLONG);
    assert_true(v.bad);
    assert_true(verdict_is(v, 1, 2, 5));
    assert_false(verdict_is(v, 1, 2, 4));
    assert_false(verdict_is(v, 1, 1, 5));
    assert_false(verdict_is(v, 2, 2, 5));
    assert_false(VERDICT_OK.bad);
    assert_false(verdict_is(VERDICT_OK, 0, 0, 0));
}

static const struct {
    uint8_t layer, type, code;
    const char *part;
} texts[] = {
    {LAYER_RDMAP, RDMAP_LOCAL, 0x77, "RDMAP local catastrophic"},
    {LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_STAG, "protection error: invalid STag"},
    {LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_BOUNDS, "protection error: base or bounds"},
    {LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_ACCESS, "access rights"},
    {LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_STREAM, "not associated"},
    {LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_WRAP, "TO wrap"},
    {LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_INVALIDATE, "cannot be invalidated"},
    {LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_UNSPECIFIED, "unspecified"},
    {LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_VERSION, "operation error: invalid RDMAP version"},
    {LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_OPCODE, "unexpected opcode"},
    {LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_STREAM, "localised to the stream"},
    {LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_GLOBAL, "global"},
    {LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_INVALIDATE, "cannot be invalidated"},
    {LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_UNSPECIFIED, "unspecified"},
    {LAYER_DDP, DDP_LOCAL, 0, "DDP local catastrophic"},
    {LAYER_DDP, DDP_TAGGED, DDP_TAG_STAG, "tagged buffer error: invalid STag"},
    {LAYER_DDP, DDP_TAGGED, DDP_TAG_BOUNDS, "tagged buffer error: base or bounds"},
    {LAYER_DDP, DDP_TAGGED, DDP_TAG_STREAM, "tagged buffer error: STag not associated"},
    {LAYER_DDP, DDP_TAGGED, DDP_TAG_WRAP, "tagged buffer error: TO wrap"},
    {LAYER_DDP, DDP_TAGGED, DDP_TAG_VERSION, "tagged buffer error: invalid DDP version"},
    {LAYER_DDP, DDP_UNTAGGED, DDP_UNT_QN, "untagged buffer error: invalid QN"},
    {LAYER_DDP, DDP_UNTAGGED, DDP_UNT_NOBUF, "no buffer"},
    {LAYER_DDP, DDP_UNTAGGED, DDP_UNT_MSN, "out of range"},
    {LAYER_DDP, DDP_UNTAGGED, DDP_UNT_MO, "invalid MO"},
    {LAYER_DDP, DDP_UNTAGGED, DDP_UNT_TOOLONG, "too long"},
    {LAYER_DDP, DDP_UNTAGGED, DDP_UNT_VERSION, "untagged buffer error: invalid DDP version"},
    {LAYER_LLP, LLP_MPA, MPA_ERR_LOST, "lost"},
    {LAYER_LLP, LLP_MPA, MPA_ERR_CRC, "CRC"},
    {LAYER_LLP, LLP_MPA, MPA_ERR_MARKER, "marker"},
    {LAYER_LLP, LLP_MPA, MPA_ERR_FRAME, "request or reply"},
    {LAYER_LLP, LLP_MPA, MPA_ERR_LOCAL, "local catastrophic"},
    {LAYER_LLP, LLP_MPA, MPA_ERR_IRD, "IRD"},
    {LAYER_LLP, LLP_MPA, MPA_ERR_RTR, "RTR"},
};

static void known_codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct verdict v = verdict_bad(texts[i].layer, texts[i].type, texts[i].code);
        assert_non_null(strstr(verdict_text(v), texts[i].part));
        assert_null(strstr(verdict_text(v), "unknown"));
    }
    assert_string_equal(verdict_text(VERDICT_OK), "no error");
}

static void every_code_has_a_text(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16 * 16 * 256; i++) {
        struct verdict v = verdict_bad(i >> 12, i >> 8 & 15, i & 255);
        const char *text = verdict_text(v);
        assert_non_null(text);
        assert_ptr_equal(text, verdict_text(v));
    }
    assert_non_null(strstr(verdict_text(verdict_bad(0, 2, 0x44)), "unknown code"));
    assert_non_null(strstr(verdict_text(verdict_bad(1, 3, 0)), "unknown"));
    assert_non_null(strstr(verdict_text(verdict_bad(3, 0, 0)), "unknown"));
    assert_non_null(strstr(verdict_text(verdict_bad(2, 1, 2)), "unknown"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(known_codes),
        cmocka_unit_test(every_code_has_a_text),
    };
    return cmocka_run_group_tests_name("base_verdict", tests, NULL, NULL);
}
