/* SPDX-License-Identifier: MIT */
/* Plays a valid session again and again, each time with another bit of what the peer sends turned over:
 * first as it is, so that MPA must find it; then with the CRC made to fit, so that it gets further. The
 * bit must belong to a field that nobody looks at, or the stream must end with an error of the
 * registries. Whatever happens, the tested end must be well afterwards. */
#include <stdlib.h>

#include "base/crc32c.h"
#include "ddp/ddp_hdr.h"
#include "mpa/mpa_wire.h"
#include "play_world.h"

enum { PIECES = 64 };

/* What the session sends in one go: a frame or an FPDU. */
struct piece {
    uint64_t at;
    uint32_t n;
    uint8_t octets[128];
};

static struct {
    struct piece piece[PIECES];
    unsigned pieces;
    bool learning, fix_crc;
    uint64_t bit;
} flip;

static void tap(void *arg, uint64_t at, uint8_t *p, uint32_t n)
{
    (void)arg;
    if (flip.learning) {
        struct piece *k = &flip.piece[flip.pieces++ % PIECES];
        *k = (struct piece){.at = at, .n = min_u32(n, sizeof k->octets)};
        memcpy(k->octets, p, k->n);
        return;
    }
    uint64_t octet = flip.bit / 8;
    if (octet < at || octet - at >= n) {
        return;
    }
    p[octet - at] ^= (uint8_t)(0x80u >> flip.bit % 8);
    if (flip.fix_crc && at > 0) {
        put_le32(p + n - MPA_CRC_LEN, crc32c_final(crc32c_add(CRC32C_INIT, p, n - MPA_CRC_LEN)));
    }
}

/* --- what may come of it --- */

enum outcome {
    SAME = 1,   /* nothing showed */
    MPA = 2,    /* Terminate 2/0/02 or 2/0/03 */
    ERROR = 4,  /* any Terminate of the registries */
    CLOSED = 8, /* TCP ended without one */
    SILENT = 16 /* the tested end waits for more, or does what the changed message says */
};

static unsigned outcome_of(const struct play_out *out)
{
    if (out->term.bad) {
        bool mpa = verdict_is(out->term, LAYER_LLP, LLP_MPA, MPA_ERR_CRC) ||
                   verdict_is(out->term, LAYER_LLP, LLP_MPA, MPA_ERR_MARKER);
        bool listed = strstr(verdict_text(out->term), "unknown") == NULL;
        return mpa ? MPA | ERROR : listed ? ERROR : 0;
    }
    if (out->result == PLAY_PASS) {
        return SAME;
    }
    return out->closed ? CLOSED : SILENT;
}

/* The Request (RFC 5044 sec 7.1.1): key, flags, revision, length. */
static unsigned of_request(uint32_t octet, unsigned mask)
{
    if (octet == 16) {
        /* M changes what comes back; all else is not checked, or is overruled by our own C. */
        return mask == MPA_FLAG_M ? SILENT | CLOSED : SAME;
    }
    /* A longer PD_Length is one that is not there yet. */
    return octet >= 18 ? CLOSED | SILENT : CLOSED;
}

/* An FPDU whose CRC does not fit any more. */
static unsigned of_fpdu(uint32_t octet)
{
    return octet < MPA_LEN_FIELD ? MPA | SILENT : MPA;
}

/* An FPDU whose CRC was made to fit. */
static unsigned of_sealed(const struct piece *k, uint32_t octet, unsigned mask)
{
    const uint8_t *u = k->octets + MPA_LEN_FIELD;
    uint32_t len = get_be16(k->octets);
    bool tagged = (u[0] & 0x80) != 0, invalidates = (u[1] & 0xf) == 4 || (u[1] & 0xf) == 6;
    if (octet < MPA_LEN_FIELD) {
        return ERROR | SILENT | CLOSED;
    }
    uint32_t at = octet - MPA_LEN_FIELD;
    if (at >= len) {
        return SAME; /* pad; the CRC itself was made anew */
    }
    if (at == 0) {
        return (mask & 0x3c) != 0 ? SAME : mask == 0x40 ? SAME | SILENT | ERROR : ERROR;
    }
    if (at == 1) {
        return (mask & 0x30) != 0 ? SAME : (mask & 0xc0) != 0 ? ERROR : ERROR | SILENT | SAME;
    }
    if (!tagged && at >= 2 && at < 6) {
        return invalidates ? ERROR : SAME;
    }
    if (!tagged && at < DDP_UNTAGGED_LEN) {
        return ERROR; /* QN, MSN, MO */
    }
    return ERROR | SILENT | SAME; /* another STag, offset, length; other data */
}

static unsigned allowed(uint64_t bit)
{
    uint64_t octet = bit / 8;
    unsigned mask = 0x80u >> bit % 8;
    const struct piece *k = &flip.piece[0];
    for (unsigned i = 0; i < flip.pieces && i < PIECES; i++) {
        if (octet >= flip.piece[i].at && octet - flip.piece[i].at < flip.piece[i].n) {
            k = &flip.piece[i];
        }
    }
    uint32_t at = (uint32_t)(octet - k->at);
    if (k->at == 0) {
        return of_request(at, mask);
    }
    return flip.fix_crc ? of_sealed(k, at, mask) : of_fpdu(at);
}

/* --- runs --- */

static bool run_bit(struct world *w, const struct script *s)
{
    struct play_out out;
    unsigned want = allowed(flip.bit);
    world_play(w, s, &out);
    unsigned got = outcome_of(&out);
    if ((got & want) != 0) {
        return true;
    }
    printf("octet %llu, bit %llu, CRC %s: outcome %u is none of %u; line %u: %s\n",
           (unsigned long long)(flip.bit / 8), (unsigned long long)(7 - flip.bit % 8),
           flip.fix_crc ? "made to fit" : "left", got, want, out.line, out.why);
    return false;
}

static bool plain_run(struct world *w, const struct script *s)
{
    struct play_out out;
    flip.bit = UINT64_MAX;
    world_play(w, s, &out);
    if (out.result != PLAY_PASS) {
        printf("line %u: %s\n", out.line, out.why);
    }
    w->octets = out.octets;
    return out.result == PLAY_PASS;
}

static unsigned run_all(struct world *w, const struct script *s)
{
    unsigned faults = 0;
    uint64_t bits = w->octets * 8;
    for (int fix = 0; fix < 2; fix++) {
        flip.fix_crc = fix != 0;
        for (flip.bit = 0; flip.bit < bits && faults < 20; flip.bit++) {
            faults += !run_bit(w, s);
        }
    }
    /* After all that the tested end still does what it did at first. */
    return faults + !plain_run(w, s);
}

int main(int argc, char **argv)
{
    struct world w;
    struct script *s = argc > 1 ? script_load(argv[1]) : NULL;
    if (s == NULL || s->fault[0] != 0) {
        printf("usage: run_flip SESSION\n");
        return EXIT_FAILURE;
    }
    world_open(&w, &s, 1, false);
    w.cfg.tap = tap;
    flip.learning = true;
    unsigned faults = !plain_run(&w, s);
    flip.learning = false;
    if (faults == 0) {
        faults = run_all(&w, s);
    }
    faults += world_close(&w);
    script_free(s);
    printf("%llu octets, %u faults\n", (unsigned long long)w.octets, faults);
    return faults > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
