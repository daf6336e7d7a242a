/* SPDX-License-Identifier: MIT */
/* Vector files. Whatever stands in one, reading ends with lines that can be looked at, or with a fault in
 * words; the octets of each word stay within their room. */
#include "fuzz.h"
#include "octets.h"
#include "script.h"

enum { ROOM = 40 };

static void check_word(const char *word)
{
    uint8_t *out = malloc(ROOM);
    FUZZ_MUST(out != NULL);
    int64_t n = octets_group(word, out, ROOM);
    FUZZ_MUST(n >= -1 && n <= ROOM);
    if (n > 0) {
        char *text = malloc(ROOM);
        FUZZ_MUST(text != NULL);
        octets_show(out, (uint32_t)n, text, ROOM);
        FUZZ_MUST(strlen(text) < ROOM);
        free(text);
    }
    free(out);
}

static void check_line(const struct script_line *l)
{
    unsigned plain = 0;
    FUZZ_MUST(l->cnt <= SCRIPT_ARGS && l->word != NULL && l->line > 0);
    for (unsigned i = 0; i < l->cnt; i++) {
        FUZZ_MUST(l->arg[i].key != NULL && l->arg[i].val != NULL);
        plain += l->arg[i].key[0] == 0;
        check_word(l->arg[i].val);
        FUZZ_MUST(l->arg[i].key[0] == 0 || script_has(l, l->arg[i].key));
    }
    FUZZ_MUST(script_plain(l, plain) == NULL);
    FUZZ_MUST(plain == 0 || script_plain(l, plain - 1) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0; /* no file for fmemopen() */
    }
    FILE *f = fmemopen((void *)(uintptr_t)data, size, "r");
    FUZZ_MUST(f != NULL);
    struct script *s = script_read(f, "rfc5040/name.vec");
    fclose(f);
    FUZZ_MUST(s != NULL);
    FUZZ_MUST(s->id[0] != 0 || s->fault[0] != 0);
    FUZZ_MUST(strcmp(s->rfc, "rfc5040") == 0);
    for (unsigned i = 0; i < s->lines; i++) {
        check_line(&s->line[i]);
    }
    script_free(s);
    return 0;
}
