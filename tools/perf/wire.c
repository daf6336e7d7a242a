/* SPDX-License-Identifier: MIT */
/* See wire.h. */
#include "wire.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#define MAGIC 0x55505246u /* "UPRF" */

static void put_be32(uint8_t *p, uint32_t value)
{
    value = htobe32(value);
    memcpy(p, &value, sizeof value);
}

static void put_be64(uint8_t *p, uint64_t value)
{
    value = htobe64(value);
    memcpy(p, &value, sizeof value);
}

static uint32_t get_be32(const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, sizeof value);
    return be32toh(value);
}

static uint64_t get_be64(const uint8_t *p)
{
    uint64_t value;

    memcpy(&value, p, sizeof value);
    return be64toh(value);
}

static void put_head(enum wire_type type, uint8_t *octets)
{
    put_be32(octets, MAGIC);
    put_be32(octets + 4, WIRE_VERSION << 16 | (uint32_t)type);
}

static bool get_head(const uint8_t *octets, enum wire_type *type)
{
    uint32_t word = get_be32(octets + 4);

    *type = (enum wire_type)(word & 0xffff);
    return get_be32(octets) == MAGIC && word >> 16 == WIRE_VERSION;
}

static void put_text(const char *text, uint8_t *octets)
{
    memset(octets, 0, PERF_TEXT);
    memcpy(octets, text, strnlen(text, PERF_TEXT - 1));
}

/* It goes to a terminal. */
static void get_text(const uint8_t *octets, char *text)
{
    memcpy(text, octets, PERF_TEXT);
    text[PERF_TEXT - 1] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~')
            *c = '.';
    }
}

void wire_put(const struct wire_msg *msg, uint8_t *octets)
{
    put_head(msg->type, octets);
    for (unsigned i = 0; i < WIRE_WORDS; i++)
        put_be64(octets + 8 + 8 * i, msg->word[i]);
    put_text(msg->text, octets + 8 + 8 * WIRE_WORDS);
}

bool wire_get(const uint8_t *octets, uint64_t length, struct wire_msg *msg)
{
    if (length != WIRE_MSG || !get_head(octets, &msg->type))
        return false;
    for (unsigned i = 0; i < WIRE_WORDS; i++)
        msg->word[i] = get_be64(octets + 8 + 8 * i);
    get_text(octets + 8 + 8 * WIRE_WORDS, msg->text);
    return true;
}

void wire_put_greeting(const struct wire_greeting *g, uint8_t *octets)
{
    put_head(g->type, octets);
    put_be64(octets + 8, g->session);
    put_be32(octets + 16, g->link);
    put_be32(octets + 20, g->rkey);
    put_be64(octets + 24, g->addr);
    put_be64(octets + 32, g->length);
}

bool wire_get_greeting(const uint8_t *octets, uint64_t length, struct wire_greeting *g)
{
    if (length != WIRE_GREETING || !get_head(octets, &g->type))
        return false;
    g->session = get_be64(octets + 8);
    g->link = get_be32(octets + 16);
    g->rkey = get_be32(octets + 20);
    g->addr = get_be64(octets + 24);
    g->length = get_be64(octets + 32);
    return true;
}

void wire_put_refusal(const char *text, uint8_t *octets)
{
    put_head(WIRE_REFUSED, octets);
    put_text(text, octets + 8);
}

bool wire_get_refusal(const uint8_t *octets, uint64_t length, char *text)
{
    enum wire_type type;

    if (length != WIRE_REFUSAL || !get_head(octets, &type) || type != WIRE_REFUSED)
        return false;
    get_text(octets + 8, text);
    return true;
}

void wire_from_job(const struct perf_job *job, struct wire_msg *msg)
{
    *msg = (struct wire_msg){.type = WIRE_JOB};
    msg->word[JOB_OP] = job->op;
    msg->word[JOB_FLAGS] = (job->lat ? JOB_LAT : 0u) | (job->bidir ? JOB_BIDIR : 0u) |
                           (job->events ? JOB_EVENTS : 0u) | (job->check ? JOB_CHECK : 0u) |
                           (job->huge ? JOB_HUGE : 0u);
    msg->word[JOB_THREADS] = job->threads;
    msg->word[JOB_QPS] = job->qps;
    msg->word[JOB_TX_DEPTH] = job->tx_depth;
    msg->word[JOB_RX_DEPTH] = job->rx_depth;
    msg->word[JOB_POST_LIST] = job->post_list;
    msg->word[JOB_CQ_MOD] = job->cq_mod;
    msg->word[JOB_INLINE] = job->max_inline;
    msg->word[JOB_OUTS] = job->outs;
    msg->word[JOB_MAX_SIZE] = job->max_size;
}

bool wire_to_job(const struct wire_msg *msg, struct perf_job *job)
{
    const uint64_t *w = msg->word;

    for (unsigned i = 0; i < JOB_MAX_SIZE; i++) {
        if (w[i] > UINT16_MAX)
            return false;
    }
    if (w[JOB_FLAGS] >= JOB_HUGE << 1)
        return false; /* one that this version does not know */
    *job = (struct perf_job){
        .op = (enum perf_op)w[JOB_OP],
        .lat = (w[JOB_FLAGS] & JOB_LAT) != 0,
        .bidir = (w[JOB_FLAGS] & JOB_BIDIR) != 0,
        .events = (w[JOB_FLAGS] & JOB_EVENTS) != 0,
        .check = (w[JOB_FLAGS] & JOB_CHECK) != 0,
        .huge = (w[JOB_FLAGS] & JOB_HUGE) != 0,
        .threads = (uint32_t)w[JOB_THREADS],
        .qps = (uint32_t)w[JOB_QPS],
        .tx_depth = (uint32_t)w[JOB_TX_DEPTH],
        .rx_depth = (uint32_t)w[JOB_RX_DEPTH],
        .post_list = (uint32_t)w[JOB_POST_LIST],
        .cq_mod = (uint32_t)w[JOB_CQ_MOD],
        .max_inline = (uint32_t)w[JOB_INLINE],
        .outs = (uint32_t)w[JOB_OUTS],
        .max_size = w[JOB_MAX_SIZE],
    };
    return true;
}

void wire_from_run(const struct perf_run *run, struct wire_msg *msg)
{
    *msg = (struct wire_msg){.type = WIRE_RUN};
    msg->word[RUN_SIZE] = run->size;
    msg->word[RUN_COUNT] = run->count;
    msg->word[RUN_DURATION] = run->duration_ns;
    msg->word[RUN_WARMUP] = run->warmup;
}

void wire_to_run(const struct wire_msg *msg, struct perf_run *run)
{
    run->size = msg->word[RUN_SIZE];
    run->count = msg->word[RUN_COUNT];
    run->duration_ns = msg->word[RUN_DURATION];
    run->warmup = msg->word[RUN_WARMUP];
}
