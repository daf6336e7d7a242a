/* SPDX-License-Identifier: MIT */
#include "octets.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t hex_group(const char *s, uint8_t *out, uint32_t max)
{
    size_t digits = strlen(s);
    if (digits % 2 != 0 || digits / 2 > max || strspn(s, "0123456789abcdefABCDEF") != digits) {
        return -1;
    }
    for (size_t i = 0; i < digits; i += 2) {
        const char two[3] = {s[i], s[i + 1], 0};
        out[i / 2] = (uint8_t)strtoul(two, NULL, 16);
    }
    return (int64_t)(digits / 2);
}

const char *octets_number(const char *at, uint64_t *out)
{
    bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    if (hex ? !isxdigit((unsigned char)at[2]) : !isdigit((unsigned char)at[0])) {
        return NULL;
    }
    char *end;
    errno = 0;
    *out = strtoull(at, &end, hex ? 16 : 10);
    return errno == 0 ? end : NULL;
}

bool octets_is_number(const char *text, uint64_t max, uint64_t *out)
{
    const char *end = octets_number(text, out);
    return end != NULL && *end == 0 && *out <= max;
}

/* N behind that word, and @K behind it where it may be; false: it is not that word. */
static bool counted(const char *s, const char *word, uint64_t *n, uint64_t *from)
{
    size_t len = strlen(word);
    const char *end = strncmp(s, word, len) == 0 ? octets_number(s + len, n) : NULL;
    if (end != NULL && *end == '@' && from != NULL) {
        end = octets_number(end + 1, from);
    }
    return end != NULL && *end == 0;
}

int64_t octets_group(const char *s, uint8_t *out, uint32_t max)
{
    uint64_t n = 0, from = 0;
    if (counted(s, "zero:", &n, NULL) && n <= max) {
        memset(out, 0, n);
        return (int64_t)n;
    }
    if (counted(s, "pattern:", &n, &from) && n <= max) {
        for (uint64_t i = 0; i < n; i++) {
            out[i] = octets_pattern(i + from);
        }
        return (int64_t)n;
    }
    return hex_group(s, out, max);
}

bool octets_verdict(const char *text, struct verdict *v)
{
    uint64_t layer, type;
    const char *at = octets_number(text, &layer);
    at = at != NULL && *at == '/' ? octets_number(at + 1, &type) : NULL;
    size_t digits = at != NULL && *at == '/' ? strspn(at + 1, "0123456789abcdefABCDEF") : 0;
    if (digits < 1 || digits > 2 || at[1 + digits] != 0 || layer > 15 || type > 15) {
        return false;
    }
    *v = verdict_bad((unsigned)layer, (unsigned)type, (unsigned)strtoul(at + 1, NULL, 16));
    return true;
}

void octets_show(const uint8_t *p, uint32_t n, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (room - at < 8) {
            strcpy(out + at, "..");
            return;
        }
        at += (size_t)snprintf(out + at, room - at, i % 4 == 0 && i > 0 ? " %02x" : "%02x", p[i]);
    }
}
