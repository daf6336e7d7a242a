/* SPDX-License-Identifier: MIT */
/* What the two ends of uiw-perf say to each other, all of it big-endian (uiw-perf(1), PROTOCOL).
 *
 * Private data of every connection is a greeting. On the control connection Sends of WIRE_MSG octets
 * follow, client and server in turn:
 *
 *   JOB ->         <- GRANTED           then the client makes the data connections
 *   RUN ->         <- READY             the run itself; at its end
 *   DONE ->        <- RESULT            and so on with RUN, until the client closes
 *
 * FAILED may come instead of any, with words. On a data connection an empty Send with Solicited Event
 * is a mark: the first says that the timed part begins, the second that it is over. */
#ifndef UIW_TOOLS_PERF_WIRE_H
#define UIW_TOOLS_PERF_WIRE_H

#include "perf.h"

enum {
    WIRE_VERSION = 3,
    WIRE_WORDS = 16,
    WIRE_MSG = 8 + 8 * WIRE_WORDS + PERF_TEXT,
    WIRE_GREETING = 40,
    WIRE_REFUSAL = 8 + PERF_TEXT, /* private data of a rejecting reply */
};

enum wire_type {
    WIRE_JOB = 1,
    WIRE_GRANTED,
    WIRE_RUN,
    WIRE_READY,
    WIRE_DONE,
    WIRE_RESULT,
    WIRE_FAILED,
    /* Of greetings. */
    WIRE_CONTROL,
    WIRE_DATA,
    WIRE_REFUSED,
};

/* What the words of a message mean. */
enum wire_job {
    JOB_OP,
    JOB_FLAGS,
    JOB_THREADS,
    JOB_QPS,
    JOB_TX_DEPTH,
    JOB_RX_DEPTH,
    JOB_POST_LIST,
    JOB_CQ_MOD,
    JOB_INLINE,
    JOB_OUTS,
    JOB_MAX_SIZE,
};
enum wire_job_flags { JOB_LAT = 1, JOB_BIDIR = 2, JOB_EVENTS = 4, JOB_CHECK = 8, JOB_HUGE = 16 };
enum wire_granted { GRANTED_SESSION, GRANTED_POLLED };
enum wire_run { RUN_SIZE, RUN_COUNT, RUN_DURATION, RUN_WARMUP };
/* Of DONE and RESULT; of the timed part, but RECEIVED counts the warm-up too. */
enum wire_result {
    RESULT_MESSAGES,
    RESULT_NS,
    RESULT_PEAK, /* in 10^6 s: of large messages less than one may arrive in a second */
    RESULT_CPU_NS,
    RESULT_SENT,
    RESULT_RECEIVED,
    RESULT_ERRORS,
};

struct wire_msg {
    enum wire_type type;
    uint64_t word[WIRE_WORDS];
    char text[PERF_TEXT];
};

struct wire_greeting {
    enum wire_type type;
    uint64_t session; /* data: as granted */
    uint32_t link;    /* data: number of the connection */
    uint32_t rkey;    /* data: where the other end may read and write */
    uint64_t addr, length;
};

void wire_put(const struct wire_msg *msg, uint8_t *octets);
bool wire_get(const uint8_t *octets, uint64_t length, struct wire_msg *msg);

void wire_put_greeting(const struct wire_greeting *g, uint8_t *octets);
bool wire_get_greeting(const uint8_t *octets, uint64_t length, struct wire_greeting *g);

/* text holds PERF_TEXT octets. */
void wire_put_refusal(const char *text, uint8_t *octets);
bool wire_get_refusal(const uint8_t *octets, uint64_t length, char *text);

/* A job as words and back; false when a word does not fit its field. */
void wire_from_job(const struct perf_job *job, struct wire_msg *msg);
bool wire_to_job(const struct wire_msg *msg, struct perf_job *job);
void wire_from_run(const struct perf_run *run, struct wire_msg *msg);
void wire_to_run(const struct wire_msg *msg, struct perf_run *run);

#endif
