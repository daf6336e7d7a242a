/* SPDX-License-Identifier: MIT */
#include "require.h"

#include "base/base.h"

static const struct {
    const char *id, *text;
} table[REQUIRE_COUNT] = {
#define REQUIRE_ROW(name, id, text) [REQUIRE_##name] = {id, text},
    REQUIRE_LIST(REQUIRE_ROW)
#undef REQUIRE_ROW
};

const char *require_id(enum require r)
{
    return (size_t)r < ARRAY_LEN(table) ? table[r].id : "?";
}

const char *require_text(enum require r)
{
    return (size_t)r < ARRAY_LEN(table) ? table[r].text : "?";
}
