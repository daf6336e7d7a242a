/* SPDX-License-Identifier: MIT */
#include "base/random.h"

#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"

void random_bytes(void *dst, size_t n)
{
    if (n > 0 && RAND_bytes(dst, (int)n) != 1) {
        log_line(LOG_ERROR, "random: OpenSSL has no entropy");
        abort();
    }
}

/* Drawn in blocks: one RAND_bytes call costs as much as hundreds of words. */
uint32_t random_u32(void)
{
    static _Thread_local uint32_t pool[64];
    static _Thread_local unsigned left;
    if (left == 0) {
        random_bytes(pool, sizeof pool);
        left = ARRAY_LEN(pool);
    }
    left--;
    uint32_t v = pool[left];
    pool[left] = 0;
    return v;
}

static uint8_t hash_key[16];
static EVP_MAC *siphash;

static void hash_init(void)
{
    random_bytes(hash_key, sizeof hash_key);
    siphash = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
}

uint64_t random_keyed_hash(const void *p, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hash_init);
    uint8_t out[16] = {0};
    size_t len = 0, want = 8;
    EVP_MAC_CTX *ctx = siphash != NULL ? EVP_MAC_CTX_new(siphash) : NULL;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t("size", &want), OSSL_PARAM_construct_end()};
    bool ok = ctx != NULL && EVP_MAC_init(ctx, hash_key, sizeof hash_key, params) == 1 &&
              EVP_MAC_update(ctx, p, n) == 1 && EVP_MAC_final(ctx, out, &len, sizeof out) == 1;
    EVP_MAC_CTX_free(ctx);
    if (!ok) {
        random_bytes(out, 8);
    }
    return get_be64(out);
}
