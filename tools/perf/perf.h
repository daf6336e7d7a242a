/* SPDX-License-Identifier: MIT */
/* uiw-perf: what a run is. uiw-perf(1) has the options, the figures and the protocol.
 *
 * The client asks the server for a job over a control connection (wire.h), both make the job's data
 * connections, and then do one run after the other, each with one message size. */
#ifndef UIW_TOOLS_PERF_H
#define UIW_TOOLS_PERF_H

#include "../tool.h"

enum {
    PERF_PORT = 7177,
    PERF_CTRL_CQE = 64,
    PERF_BATCH = 64, /* requests posted, and completions taken, at a time */
    PERF_SIZES = 64, /* runs of one client */
    PERF_TURN_MS = 100,
    PERF_TEXT = 120,

    /* What a server grants. */
    PERF_MAX_LINKS = 1024,
    PERF_MAX_THREADS = 64,
    PERF_MAX_DEPTH = 8192,
    PERF_MAX_OUTS = 128,
    PERF_MAX_INLINE = 1024,
    PERF_MAX_QUEUED = 1 << 20, /* requests of all queues together */
    PERF_MAX_SECONDS = 86400,
};

/* What a second client is told. */
#define PERF_BUSY "the server is busy with another client"

#define PERF_MAX_SIZE  (UINT64_C(1) << 30)
#define PERF_MAX_COUNT (UINT64_C(1) << 40)

enum perf_op { PERF_WRITE, PERF_READ, PERF_SEND, PERF_FETCH_ADD, PERF_CMP_SWAP };

struct perf_job {
    enum perf_op op;
    bool lat;              /* latency, not bandwidth */
    bool bidir;            /* the server does the same to the client */
    bool events;           /* sleep on completion channels instead of polling */
    bool check;            /* content */
    bool huge;             /* memory in huge pages */
    uint32_t threads, qps; /* qps for each thread */
    uint32_t tx_depth, rx_depth, post_list, cq_mod, max_inline;
    uint32_t outs; /* Reads and Atomics under way at a time; 0: the device's */
    uint64_t max_size;
};

/* One size. Ends after count messages on each link, or with count 0 after duration_ns. */
struct perf_run {
    uint64_t size, count, duration_ns, warmup;
};

struct perf_options {
    struct perf_job job;
    bool server;
    uint64_t sizes[PERF_SIZES];
    unsigned nsizes;
    uint64_t count; /* 0: not given */
    uint64_t warmup;
    bool warmup_given, all_sizes, atomic_given;
    unsigned duration_s;
    unsigned timeout_s;  /* without any progress */
    uint64_t max_memory; /* server: for a client */
    bool gbits, json;
    const char *json_file, *plot_file;
    const char *device, *crc, *markers, *progress;
    const char *address; /* of the server; the server's own may be NULL */
    uint16_t port;
    struct sockaddr_storage endpoint;
};

/* Fills *o from the command line. TOOL_OK, or has said what is wrong. Exits after --help. */
int perf_parse(int argc, char **argv, struct perf_options *o);

/* The device string with the keys that uiw-perf adds: rnr, so that Sends wait for receives, and those
 * of --timeout, --crc, --markers and --progress. NULL, and has said why, when there is none. To be freed. */
char *perf_device(const struct perf_options *o);

/* "write bandwidth", "fetch-and-add latency" */
const char *perf_op_text(enum perf_op op);
const char *perf_test_text(const struct perf_job *job);

/* What is wrong with a job or run, in a few words that name the field, or NULL. */
const char *perf_job_fault(const struct perf_job *job);
const char *perf_run_fault(const struct perf_job *job, const struct perf_run *run);

/* Octets of either buffer of a link. */
uint64_t perf_area(const struct perf_job *job);
/* What a job needs at one end. */
uint64_t perf_memory(const struct perf_job *job);

static inline uint64_t perf_stride(uint64_t size)
{
    return (size + 63) / 64 * 64;
}

static inline bool perf_is_atomic(const struct perf_job *job)
{
    return job->op == PERF_FETCH_ADD || job->op == PERF_CMP_SWAP;
}

/* Both ends post: a ping comes back as a pong. */
static inline bool perf_ping_pong(const struct perf_job *job)
{
    return job->lat && (job->op == PERF_WRITE || job->op == PERF_SEND);
}

/* A blocking ping of a Write is followed by an empty Send, which wakes the other end. */
static inline bool perf_with_send(const struct perf_job *job)
{
    return job->lat && job->events && job->op == PERF_WRITE;
}

static inline bool perf_receives(const struct perf_job *job)
{
    return job->op == PERF_SEND || perf_with_send(job);
}

int perf_client(struct tool *t, const struct perf_options *o);
int perf_server(struct tool *t, const struct perf_options *o);

#endif
