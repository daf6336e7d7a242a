/* SPDX-License-Identifier: MIT */
#include "octets.h"

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

int64_t octets_group(const char *s, uint8_t *out, uint32_t max)
{
    unsigned n, from = 0;
    int end = -1;
    if (sscanf(s, "zero:%u%n", &n, &end) == 1 && end >= 0 && s[end] == 0 && n <= max) {
        memset(out, 0, n);
        return n;
    }
    end = -1;
    bool is = sscanf(s, "pattern:%u%n", &n, &end) == 1;
    if (is && end >= 0 && s[end] == '@') {
        int more = -1;
        is = sscanf(s + end, "@%u%n", &from, &more) == 1;
        end += more;
    }
    if (is && end >= 0 && s[end] == 0 && n <= max) {
        for (unsigned i = 0; i < n; i++) {
            out[i] = octets_pattern((uint64_t)i + from);
        }
        return n;
    }
    return hex_group(s, out, max);
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
